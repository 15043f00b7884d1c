"""Jobs: what the REST API and the page ask of the server, independent of where the answers come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flintstream.jobmaster.details import JobDetails

__all__ = [
    "JobRefusedError",
    "JobSummary",
    "Jobs",
    "NotPermittedError",
    "Operation",
    "Submission",
    "UnknownJobError",
]


class UnknownJobError(LookupError):
    """The server knows no job with that id."""


class JobRefusedError(RuntimeError):
    """A driver refused a request, has ended, or does not answer; the message says why."""


class NotPermittedError(JobRefusedError):
    """The server's settings do not permit the request; the message names the option."""


@dataclass(frozen=True)
class JobSummary:
    """A line in the list of jobs. Times are milliseconds since 1970; -1 stands for "not yet"."""

    job_id: str
    name: str
    status: str
    job_type: str
    start_time: int
    end_time: int
    last_modification: int
    """When the status last changed."""
    tasks: Mapping[str, int]
    """The number of subtasks by execution state, in lower case."""
    submitted: bool
    """Whether the server started its driver; otherwise a program of this user did."""


@dataclass(frozen=True)
class Submission:
    """A program to run as a job."""

    program: str
    """The path of a script, a zip archive or a wheel."""
    module: str | None = None
    """The module to run, for archives and wheels."""
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Configuration, as by `-D`."""
    job_id: str | None = None
    pyflink: bool = False


@dataclass(frozen=True)
class Operation:
    """An asynchronous request, such as a savepoint, known by its trigger id."""

    trigger_id: str
    kind: str
    job_id: str
    done: bool
    result: Any = None
    failure: str | None = None


class Jobs(Protocol):
    """The jobs that a server knows: those it has started, and those that other programs of its user run."""

    def summaries(self) -> list[JobSummary]:
        """Returns all jobs, the newest first. Answers from memory, without asking drivers."""
        ...

    def details(self, job_id: str) -> JobDetails:
        """Returns the latest details of a job; those of a running one are at most some seconds old."""
        ...

    async def ask(self, job_id: str, command: str, **arguments: Any) -> Any:
        """Sends a request to the driver of a running job, and returns its answer; see `jobmaster.registry`."""
        ...

    async def submit(self, submission: Submission) -> str:
        """Stores a submission durably, starts its driver, and returns the id of the job."""
        ...

    async def cancel(self, job_id: str) -> None:
        """Cancels a job, also one whose driver is starting or waits for a restart."""
        ...

    def begin(self, job_id: str, kind: str, command: str, trigger_id: str | None, **arguments: Any) -> Operation:
        """Starts an asynchronous request to a driver. A `trigger_id` that is known already starts nothing."""
        ...

    def operation(self, job_id: str, kind: str, trigger_id: str) -> Operation:
        """Returns an asynchronous request; raises a LookupError if it is not known."""
        ...

    def log_files(self, job_id: str) -> dict[str, str]:
        """Returns the log files of a job's driver: name to path. Empty for a job that the server has not started."""
        ...
