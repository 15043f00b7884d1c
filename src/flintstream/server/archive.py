"""The archive: where drivers leave the last details of their jobs, and note beforehand that a job begins."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from flintstream.jobmaster.details import JobDetails, from_json
from flintstream.jobmaster.notes import BEGUN, ENDING

__all__ = ["Archive"]

_log = logging.getLogger(__name__)


class Archive:
    """The archive of one server. Its methods block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self) -> list[tuple[Path, JobDetails]]:
        """Returns what drivers have left; whoever has stored it removes the file."""
        found = []
        for path in sorted(self.directory.glob("*.json")):
            try:
                found.append((path, from_json(JobDetails, json.loads(path.read_bytes()))))
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, AttributeError, OSError) as error:
                _log.error("%s is not the archive of a job: %s", path, error)
                path.replace(path.with_suffix(".unreadable"))
        return found

    def begun(self, job_id: str) -> dict[str, Any] | None:
        """Returns what a driver noted before a job began; None if it has not begun."""
        return self._note(job_id, BEGUN)

    def ending(self, job_id: str) -> dict[str, Any] | None:
        """Returns what a driver noted when a job had done its work, with its final `status`; None if it has not."""
        return self._note(job_id, ENDING)

    def forget(self, job_id: str) -> None:
        """Removes what is left of a job."""
        for kind in (BEGUN, ENDING):
            (self.directory / f"{job_id}.{kind}").unlink(missing_ok=True)

    def _note(self, job_id: str, kind: str) -> dict[str, Any] | None:
        try:
            noted: dict[str, Any] = json.loads((self.directory / f"{job_id}.{kind}").read_bytes())
        except FileNotFoundError:
            return None
        return noted
