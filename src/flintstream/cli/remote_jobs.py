"""The jobs of a job server, for the commands with ``-m``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from flintstream.cli.server_client import ServerClient, ServerError, path_of
from flintstream.common.job_status import ENDED

__all__ = ["RemoteJob", "find_remote_jobs"]

OPERATION_SECONDS = 24 * 3600.0
"""How long a savepoint may take; the server gives up before if the driver does not answer."""
CANCEL_SECONDS = 600.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class RemoteJob:
    """A job of a server."""

    server: ServerClient
    job_id: str
    name: str
    status: str
    started: float
    """In seconds since 1970."""
    seconds: float
    """How long it has run."""
    tasks: int

    @property
    def ended(self) -> bool:
        """Returns whether it has ended."""
        return self.status in ENDED

    def __str__(self) -> str:
        return f"'{self.name}' ({self.job_id})"

    def savepoint(self, directory: str | None) -> str:
        """Takes a savepoint; returns its directory."""
        return self._savepoint("savepoints", {"target-directory": directory, "cancel-job": False})

    def stop(self, directory: str | None, drain: bool) -> str:
        """Stops the job with a savepoint; returns its directory."""
        return self._savepoint("stop", {"targetDirectory": directory, "drain": drain})

    def cancel(self, savepoint: bool = False, directory: str | None = None) -> str | None:
        """Cancels the job; returns the directory of the savepoint, if one was requested."""
        if savepoint:
            return self._savepoint("savepoints", {"target-directory": directory, "cancel-job": True})
        self.server.request("PATCH", path_of(self.job_id) + "?mode=cancel")
        deadline = time.monotonic() + CANCEL_SECONDS
        while (status := self.server.get(path_of(self.job_id, "status"))["status"]) not in ENDED:
            if time.monotonic() > deadline:
                raise ServerError(f"job {self} is still {status} after {CANCEL_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
        if status != "CANCELED":
            raise ServerError(f"job {self} is {status}")
        return None

    def checkpoints(self) -> list[dict[str, Any]]:
        """Returns its completed checkpoints, the newest last: `id`, `timestamp`, `size`, `location`."""
        history = self.server.get(path_of(self.job_id, "checkpoints"))["history"]
        return [
            {
                "id": each["id"],
                "timestamp": each["trigger_timestamp"],
                "size": each["state_size"],
                "location": each.get("external_path"),
            }
            for each in reversed(history)
            if each["status"] == "COMPLETED" and not each.get("discarded") and not each["is_savepoint"]
        ]

    def _savepoint(self, how: str, body: dict[str, Any]) -> str:
        begun = self.server.post(path_of(self.job_id, how), body)
        outcome = self.server.follow(path_of(self.job_id, "savepoints", begun["request-id"]), OPERATION_SECONDS)
        return str(outcome["location"])


def find_remote_jobs(server: ServerClient) -> list[RemoteJob]:
    """Returns all jobs of a server, the oldest first."""
    found = [
        RemoteJob(
            server,
            each["jid"],
            each["name"],
            each["state"],
            each["start-time"] / 1000,
            each["duration"] / 1000,
            each["tasks"]["total"],
        )
        for each in server.get("/jobs/overview")["jobs"]
    ]
    return sorted(found, key=lambda job: job.started)


def dispose_savepoint(server: ServerClient, location: str) -> None:
    """Removes a savepoint."""
    begun = server.post("/savepoint-disposal", {"savepoint-path": location})
    server.follow(f"/savepoint-disposal/{begun['request-id']}", OPERATION_SECONDS)
