"""The client of the registry: finds the jobs of this user's programs, and sends requests to their drivers.

It needs no Spark, and may be used by several threads at once.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from flintstream.jobmaster.details import JobDetails, from_json
from flintstream.jobmaster.registry_files import (
    JobFile,
    RegistryError,
    read_file,
    read_files,
    registry_directories,
    remove_stale,
)

__all__ = ["NO_ANSWER", "Job", "ask", "find_jobs"]

NO_ANSWER = "NO ANSWER"
"""The status of a job whose driver runs but does not reply."""
STATUS_SECONDS = 5.0
"""How long a driver may take to report a status."""
PATIENCE_SECONDS = 30.0
"""After this time without an answer, a driver is asked whether it answers anything at all."""
_RECEIVED_BYTES = 1 << 16


@dataclass(frozen=True)
class Job:
    """A job that is running, or has ended while its driver continues."""

    file: JobFile
    status: str

    @property
    def job_id(self) -> str:
        """Returns its id."""
        return self.file.job_id

    @property
    def name(self) -> str:
        """Returns its name."""
        return self.file.name

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

    def details(self, seconds: float | None = None) -> JobDetails:
        """Returns everything that its driver knows about it; `seconds` as in `ask`."""
        return from_json(JobDetails, ask(self.file, "details", seconds))

    def savepoint(self, directory: str | None) -> str:
        """Takes a savepoint; returns its directory."""
        return str(ask(self.file, "savepoint", directory=directory))

    def stop(self, directory: str | None, drain: bool) -> str:
        """Stops the job with a savepoint; returns its directory."""
        return str(ask(self.file, "stop", directory=directory, drain=drain))

    def cancel(self, savepoint: bool = False, directory: str | None = None) -> str | None:
        """Cancels the job; returns the directory of the savepoint, if one was requested."""
        location: str | None = ask(self.file, "cancel", savepoint=savepoint, directory=directory)
        return location

    def checkpoints(self) -> list[dict[str, Any]]:
        """Returns its completed checkpoints, the newest last: `id`, `timestamp`, `size`, `location`."""
        found: list[dict[str, Any]] = ask(self.file, "checkpoints")
        return found


def find_jobs(seconds: float | None = None) -> list[Job]:
    """Returns all jobs in the registry, the oldest first. A driver has `seconds` to report a status, 5 by default."""
    found = []
    for directory in registry_directories():
        for path, file in read_files(directory):
            status = file.status
            if status is None:
                try:
                    status = ask(file, "status", STATUS_SECONDS if seconds is None else seconds)
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


def ask(file: JobFile, command: str, seconds: float | None = None, **arguments: Any) -> Any:
    """Sends a request to the driver of a job, and returns its answer.

    Raises a TimeoutError if there is no complete answer within `seconds`; without `seconds` it may take as long as the
    job, as long as the driver answers other requests. Raises a RegistryError if the driver refuses the request, ends, or
    answers nothing, and an OSError if it cannot be reached.
    """
    request = {"command": command, "job": file.job_id, **arguments}
    deadline = None if seconds is None else time.monotonic() + seconds
    line = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE_SECONDS if seconds is None else seconds)
        connection.connect(file.socket)
        connection.sendall(json.dumps(request).encode() + b"\n")
        while not line.endswith(b"\n"):
            if deadline is not None:
                connection.settimeout(_left(deadline, file, command))
            try:
                received = connection.recv(_RECEIVED_BYTES)
            except TimeoutError:
                if seconds is None:
                    _check_driver(file)
                continue  # With a deadline, the next round raises.
            if not received:
                break
            line += received
    if not line.endswith(b"\n"):
        raise RegistryError(f"the driver of job '{file.name}' (process {file.pid}) ended before it answered")
    answer = json.loads(line)
    if "error" in answer:
        raise RegistryError(answer["error"])
    return answer["result"]


def _left(deadline: float, file: JobFile, command: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"the driver of job '{file.name}' (process {file.pid}) has not answered '{command}' in time")
    return left


def _check_driver(file: JobFile) -> None:
    """Raises if a driver does not even report the status of its job: it is stopped, or native code holds its
    interpreter.
    """
    try:
        ask(file, "status", PATIENCE_SECONDS)
    except TimeoutError:
        raise RegistryError(
            f"the driver of job '{file.name}' (process {file.pid}) does not answer: is the process stopped?"
        ) from None
    except (RegistryError, OSError):
        pass  # The job is ending: its answer is on the way, or the connection is about to close.
