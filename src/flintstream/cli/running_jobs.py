"""The jobs of this user's programs: found in the registry, queried over their drivers' sockets."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from flintstream.jobmaster.registry import (
    JobFile,
    RegistryError,
    read_file,
    read_files,
    registry_directories,
    remove_stale,
)

__all__ = ["Job", "choose_job", "find_jobs"]

NO_ANSWER = "NO ANSWER"
"""The status shown for a job whose driver runs but does not reply."""
_STATUS_SECONDS = 5.0
_PATIENCE_SECONDS = 30.0
_RECEIVED_BYTES = 1 << 16
_SHOWN = 8


@dataclass(frozen=True)
class Job:
    """A job that is running, or has ended while its driver continues."""

    file: JobFile
    status: str

    @property
    def ended(self) -> bool:
        """Returns whether it has ended."""
        return self.file.ended is not None

    @property
    def seconds(self) -> float:
        """Returns how long it has run."""
        return (time.time() if self.file.ended is None else self.file.ended) - self.file.started

    def __str__(self) -> str:
        return f"'{self.file.name}' ({self.file.job_id})"

    def savepoint(self, directory: str | None) -> str:
        """Takes a savepoint; returns its directory."""
        return str(_ask(self.file, "savepoint", directory=directory))

    def stop(self, directory: str | None, drain: bool) -> str:
        """Stops the job with a savepoint; returns its directory."""
        return str(_ask(self.file, "stop", directory=directory, drain=drain))

    def cancel(self, savepoint: bool = False, directory: str | None = None) -> str | None:
        """Cancels the job; returns the directory of the savepoint, if one was requested."""
        location: str | None = _ask(self.file, "cancel", savepoint=savepoint, directory=directory)
        return location

    def checkpoints(self) -> list[dict[str, Any]]:
        """Returns its completed checkpoints, the newest last: `id`, `timestamp`, `size`, `location`."""
        found: list[dict[str, Any]] = _ask(self.file, "checkpoints")
        return found


def find_jobs() -> list[Job]:
    """Returns all jobs in the registry, the oldest first."""
    found = []
    for directory in registry_directories():
        for path, file in read_files(directory):
            status = file.status
            if status is None:
                try:
                    status = _ask(file, "status", _STATUS_SECONDS)
                except TimeoutError:
                    status = NO_ANSWER
                except (RegistryError, OSError):
                    # It has just ended, or its driver is gone and its pid was reused.
                    latest = read_file(path)
                    if latest is None or latest.status is None:
                        remove_stale(path, file)
                        continue
                    file, status = latest, latest.status
            found.append(Job(file, str(status)))
    return found


def choose_job(text: str) -> Job:
    """Returns the running job with an id or a name, or the only one with that prefix."""
    jobs = find_jobs()
    running = [job for job in jobs if not job.ended]
    for matches in (
        [job for job in running if text in (job.file.job_id, job.file.name)],
        [job for job in running if job.file.job_id.startswith(text.lower()) or job.file.name.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise RegistryError(f"{text!r} is ambiguous; it matches these jobs: {_enumerate(matches)}.")
    over = [job for job in jobs if job.ended and text in (job.file.job_id, job.file.name)]
    if over:
        last = over[-1]
        raise RegistryError(f"job {last} is {last.status}" + (f": {last.file.failure}" if last.file.failure else "."))
    there_are = f"there are: {_enumerate(running)}" if running else "no jobs are running"
    raise RegistryError(f"no running job has an id or a name that begins with {text!r}; {there_are}.")


def _enumerate(jobs: list[Job]) -> str:
    more = ", …" if len(jobs) > _SHOWN else ""
    return ", ".join(map(str, jobs[:_SHOWN])) + more


def _ask(file: JobFile, command: str, seconds: float | None = None, **arguments: Any) -> Any:
    """Sends a request. Without `seconds` the answer may take as long as the job, as long as the driver answers other
    requests.
    """
    request = {"command": command, "job": file.job_id, **arguments}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE_SECONDS if seconds is None else seconds)
        connection.connect(file.socket)
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            try:
                received = connection.recv(_RECEIVED_BYTES)
            except TimeoutError:
                if seconds is not None:
                    raise
                _check_driver(file)
            else:
                if not received:
                    break
                line += received
    if not line:
        raise RegistryError(f"the driver of job '{file.name}' (process {file.pid}) ended before it answered")
    answer = json.loads(line)
    if "error" in answer:
        raise RegistryError(answer["error"])
    return answer["result"]


def _check_driver(file: JobFile) -> None:
    """Raises if a driver does not even report the status of its job: it is stopped, or native code holds its
    interpreter.
    """
    try:
        _ask(file, "status", _PATIENCE_SECONDS)
    except TimeoutError:
        raise RegistryError(
            f"the driver of job '{file.name}' (process {file.pid}) does not answer: is the process stopped?"
        ) from None
    except (RegistryError, OSError):
        pass  # The job is ending: its answer is on the way, or the connection is about to close.
