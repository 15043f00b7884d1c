"""The files of the registry: which jobs there are, and where to reach their drivers. See `registry`."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

DIRECTORY_VARIABLE = "FLINT_JOBS_DIR"
SUFFIX = ".json"


class RegistryError(RuntimeError):
    """The registry cannot be used, or a job refused a request; the message says why."""


@dataclass(frozen=True)
class JobFile:
    """A job, as described by its file in the registry."""

    job_id: str
    name: str
    pid: int
    host: str
    started: float
    """In seconds since 1970."""
    socket: str
    """The socket of its driver."""
    program: str = ""
    """The script with its arguments; empty for an interactive one."""
    parallelism: int = 0
    status: str | None = None
    """The final status of a job that has ended; a running one is queried."""
    ended: float | None = None
    failure: str | None = None
    """Why it has failed, in one line, if it has."""

    @property
    def alive(self) -> bool:
        """Returns whether the driver may still be alive: a process of this user has its pid."""
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False
        return True


def registry_directories() -> list[Path]:
    """Returns the directories where drivers of this user may have registered; the first one is used by this process."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given:
        return [Path(given).expanduser().resolve()]
    places = [Path(tempfile.gettempdir()) / f"flint-jobs-{os.getuid()}"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        places.insert(0, Path(runtime) / "flint-jobs")
    return places


def check_private(directory: Path) -> None:
    """Refuses a directory that others could write to, since its contents are trusted."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RegistryError(
            f"{directory} must be a directory that belongs to this user and that nobody else may enter (mode 0700); "
            f"{DIRECTORY_VARIABLE} names another one"
        )


def read_files(directory: Path) -> list[tuple[Path, JobFile]]:
    """Returns the jobs of this machine in a directory, the oldest first. Files of dead drivers are removed."""
    if not directory.exists():
        return []
    check_private(directory)
    found = []
    for path in directory.glob(f"*{SUFFIX}"):
        job = read_file(path)
        if job is None or job.host != socket.gethostname():
            continue
        if job.alive:
            found.append((path, job))
        else:
            remove_stale(path, job)
    return sorted(found, key=lambda entry: entry[1].started)


def read_file(path: Path) -> JobFile | None:
    """Returns a job; None if the file does not exist or is not ours."""
    try:
        return JobFile(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def remove_stale(path: Path, job: JobFile) -> None:
    """Removes the files of a dead driver."""
    path.unlink(missing_ok=True)
    listened = Path(job.socket)
    listened.unlink(missing_ok=True)
    if listened.parent != path.parent:
        remove_if_empty(listened.parent)


def remove_if_empty(directory: Path) -> None:
    """Removes a directory, unless there is something in it."""
    try:
        directory.rmdir()
    except OSError:
        pass  # Not empty, or removed already.
