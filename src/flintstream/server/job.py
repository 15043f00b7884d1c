"""Job: what the server knows about one job, and how its details are made where no driver gives any."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flintstream.common.job_status import ENDED
from flintstream.common.processes import Process
from flintstream.jobmaster.details import CheckpointsDetails, ExceptionDetails, JobDetails, from_json
from flintstream.server.jobs import JobSummary, Submission

__all__ = ["INITIALIZING", "RESTARTING", "Job", "milliseconds"]

INITIALIZING, RESTARTING, CANCELLING = "INITIALIZING", "RESTARTING", "CANCELLING"
FAILED, CANCELED = "FAILED", "CANCELED"
_EXECUTION_STATES = (
    "created",
    "scheduled",
    "deploying",
    "initializing",
    "running",
    "finished",
    "canceling",
    "canceled",
    "failed",
    "reconciling",
)
_MOST_DEATHS = 16


def milliseconds() -> int:
    """Returns the time since 1970."""
    return int(time.time() * 1000)


@dataclass
class Job:
    """A job that the server has started, or that a program of its user runs. Belongs to the event loop's thread."""

    job_id: str
    name: str
    status: str
    start_time: int
    submission: Submission | None = None
    """What was submitted; None for a job of another program."""
    job_type: str = "STREAMING"
    end_time: int = -1
    modified: int = 0
    """When the status last changed."""
    tasks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_EXECUTION_STATES, 0))
    timestamps: dict[str, int] = field(default_factory=dict)
    driver: Process | None = None
    """The driver's process, running or gone; None before the first and while a restart is waited for."""
    started: bool = False
    """Whether a driver was ever started for it."""
    begun: dict[str, Any] | None = None
    """What its driver noted before the job began (`jobmaster.notes`); None if it has not begun."""
    failures: list[float] = field(default_factory=list)
    """When (seconds since 1970) drivers died, so that the job had to be restarted."""
    deaths: list[ExceptionDetails] = field(default_factory=list)
    """What became of drivers that are gone, the newest first."""
    restart_at: float | None = None
    """When (seconds since 1970) the next driver is started."""
    cancel_requested: bool = False

    @property
    def ended(self) -> bool:
        """Returns whether it has ended for good."""
        return self.status in ENDED

    def set_status(self, status: str) -> bool:
        """Sets the status; returns whether it has changed."""
        if status == self.status:
            return False
        self.status = status
        self.modified = milliseconds()
        self.timestamps[status] = self.modified
        if status in ENDED and self.end_time < 0:
            self.end_time = self.modified
        return True

    def died(self, what: str, output: str = "") -> None:
        """Notes the death of a driver."""
        told = ExceptionDetails(
            milliseconds(), what, f"{what}\n{output}" if output else what, attempt=len(self.failures)
        )
        self.deaths = [told, *self.deaths][:_MOST_DEATHS]

    def summary(self) -> JobSummary:
        """Returns its line in the list of jobs."""
        return JobSummary(
            self.job_id,
            self.name,
            self.status,
            self.job_type,
            self.start_time,
            self.end_time,
            self.modified,
            self.tasks,
            self.submission is not None,
        )

    def follow(self, details: JobDetails) -> JobDetails:
        """Takes over what a driver reports; returns it with what only the server knows: earlier drivers."""
        self.name, self.job_type = details.name, details.job_type
        if not self.failures:
            self.start_time = details.start_time
        status = details.status
        if self.cancel_requested and status not in ENDED:
            status = CANCELLING
        if details.status in ENDED:
            self.end_time = details.end_time
        self.set_status(status)
        tasks = dict.fromkeys(_EXECUTION_STATES, 0)
        for vertex in details.vertices:
            for subtask in vertex.subtasks:
                state = subtask.status.lower()
                tasks[state] = tasks.get(state, 0) + 1
        self.tasks = tasks
        return self._completed(details)

    def _completed(self, details: JobDetails) -> JobDetails:
        return replace(
            details,
            status=self.status,
            start_time=self.start_time,
            end_time=self.end_time,
            timestamps={**self.timestamps, **details.timestamps},
            restarts=details.restarts + len(self.failures),
            exceptions=sorted([*details.exceptions, *self.deaths], key=lambda each: -each.timestamp),
        )

    def revised(self, details: JobDetails | None) -> JobDetails:
        """Returns the last details of a job without a driver, brought up to what the server knows."""
        if details is None:
            details = self.bare()
        known = {(each.timestamp, each.exception) for each in details.exceptions}
        new = [each for each in self.deaths if (each.timestamp, each.exception) not in known]
        return replace(
            details,
            status=self.status,
            end_time=self.end_time,
            timestamps={**details.timestamps, **self.timestamps},
            exceptions=sorted([*details.exceptions, *new], key=lambda each: -each.timestamp),
        )

    def bare(self) -> JobDetails:
        """Returns details of a job of which only the server knows."""
        settings = {} if self.submission is None else dict(self.submission.settings)
        return JobDetails(
            job_id=self.job_id,
            name=self.name,
            status=self.status,
            job_type=self.job_type,
            start_time=self.start_time,
            end_time=self.end_time,
            now=milliseconds(),
            timestamps=dict(self.timestamps),
            parallelism=0,
            restarts=len(self.failures),
            driver_pid=-1 if self.driver is None else self.driver.pid,
            driver_host="",
            program="" if self.submission is None else " ".join([self.submission.program, *self.submission.arguments]),
            configuration=settings,
            parameters={},
            restart_strategy="",
            object_reuse=False,
            vertices=[],
            slots=[],
            checkpoints=CheckpointsDetails(enabled=False),
            exceptions=list(self.deaths),
            guarantees=[],
        )

    def to_json(self) -> dict[str, Any]:
        """Returns its fields as values that JSON has."""
        values = asdict(self)
        values["driver"] = None if self.driver is None else list(self.driver)
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Job:
        """Returns a job from the values of `to_json`."""
        given = dict(values)
        driver, submission = given.get("driver"), given.get("submission")
        given["driver"] = None if driver is None else Process(*driver)
        if submission is not None:
            given["submission"] = Submission(**{**submission, "arguments": tuple(submission["arguments"])})
        given["deaths"] = [from_json(ExceptionDetails, each) for each in given.get("deaths", ())]
        return Job(**given)
