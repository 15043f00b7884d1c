"""The notes by which a driver tells the job server that started it that a job begins, and how it ends.

Without the first, nothing of the job has run, and a driver that was killed can be replaced without loss or duplicates.
With it, the server knows whether and how the job may be restarted, even if it never reached the driver. With the second,
all is committed, and the job's checkpoints may be gone: it is not restarted.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintstream.common.environment_variables import ARCHIVE_DIRECTORY
from flintstream.runtime.permissions import Permissions

if TYPE_CHECKING:
    from flintstream.jobmaster.settings import JobSettings

__all__ = ["BEGUN", "ENDING", "note_begin", "note_end"]

BEGUN, ENDING = "begun", "ending"
"""The suffixes of the notes about a job, whose names begin with its id."""
_PREFIXES = ("restart-strategy",)


def note_begin(job_id: str, settings: JobSettings) -> None:
    """Notes that a job begins, if a server has started this driver. The note is on disk afterwards."""
    _note(
        job_id,
        BEGUN,
        {
            "name": settings.job_name,
            "pid": os.getpid(),
            "checkpointing": settings.checkpoints.enabled,
            "directory": settings.checkpoints.directory,
            "restart": {key: text for key, text in settings.configuration.items() if key.startswith(_PREFIXES)},
        },
    )


def note_end(job_id: str, status: str) -> None:
    """Notes that a job has done its work, before its checkpoints are removed."""
    _note(job_id, ENDING, {"pid": os.getpid(), "status": status})


def _note(job_id: str, kind: str, noted: dict[str, Any]) -> None:
    archive = os.environ.get(ARCHIVE_DIRECTORY)
    if not archive:
        return
    path = Path(archive) / f"{job_id}.{kind}"
    hidden = path.with_suffix(f".{secrets.token_hex(4)}")
    with Permissions.OWNER.create_file(str(hidden)) as file:
        file.write(json.dumps(noted).encode())
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)
