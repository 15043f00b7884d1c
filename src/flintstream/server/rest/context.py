"""RestContext: what the routes share: the jobs, the settings of the server, and look-ups that answer 404."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flintstream.jobmaster.details import CheckpointDetails, JobDetails, SubtaskDetails, VertexDetails
from flintstream.server.jobs import JobRefusedError, Jobs, JobSummary, UnknownJobError
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.views.taskmanagers import Host, hosts

__all__ = ["RestContext", "RestSettings"]


def _no_logs() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class RestSettings:
    """What the REST API needs to know about its server."""

    uploads: Path
    """The directory of uploaded programs."""
    submit: bool = True
    """Whether programs can be uploaded and run: `web.submit.enable`."""
    cancel: bool = True
    """Whether jobs can be cancelled: `web.cancel.enable`."""
    longest_upload: int = 100 << 20
    """The most bytes of an uploaded program."""
    most_uploads: int = 100
    """The most programs that are kept at a time."""
    refresh_interval: int = 3000
    """How often a dashboard should ask, in milliseconds: `web.refresh-interval`."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """The server's settings, without secrets."""
    logs: Callable[[], Mapping[str, str]] = _no_logs
    """The log files of the server: name to path."""
    shut_down: Callable[[], None] | None = None
    """Ends the server."""
    plan_seconds: float = 120.0
    """How long a program may take to show its plan."""
    disposal_seconds: float = 600.0
    """How long the removal of a savepoint may take."""
    host: str = field(default_factory=socket.gethostname)


class RestContext:
    """The jobs and settings that routes answer from."""

    def __init__(self, jobs: Jobs, settings: RestSettings) -> None:
        self.jobs = jobs
        self.settings = settings

    def details(self, job_id: str) -> JobDetails:
        """Returns a job; answers 404 if there is none."""
        try:
            return self.jobs.details(job_id)
        except UnknownJobError as error:
            raise RestError(404, f"Job {job_id} not found.") from error

    def running(self, job_id: str) -> JobDetails:
        """Returns a job that has not ended; answers 409 for one that has."""
        details = self.details(job_id)
        if details.ended:
            raise RestError(409, f"Job {job_id} has ended: it is {details.status}.")
        return details

    def summary(self, job_id: str) -> JobSummary:
        """Returns the line of a job in the list of jobs."""
        for job in self.jobs.summaries():
            if job.job_id == job_id:
                return job
        raise RestError(404, f"Job {job_id} not found.")

    def vertex(self, job_id: str, vertex_id: str) -> tuple[JobDetails, VertexDetails]:
        """Returns a vertex with its job; answers 404 if there is none."""
        details = self.details(job_id)
        for vertex in details.vertices:
            if vertex.vertex_id == vertex_id:
                return details, vertex
        raise RestError(404, f"Job {job_id} has no vertex {vertex_id}.")

    def subtask(self, job_id: str, vertex_id: str, index: int) -> tuple[JobDetails, VertexDetails, SubtaskDetails]:
        """Returns a subtask with its job; answers 404 if there is none."""
        details, vertex = self.vertex(job_id, vertex_id)
        for subtask in vertex.subtasks:
            if subtask.index == index:
                return details, vertex, subtask
        raise RestError(404, f"Vertex '{vertex.name}' has no subtask {index}: its parallelism is {vertex.parallelism}.")

    def attempt(
        self, job_id: str, vertex_id: str, index: int, attempt: int
    ) -> tuple[JobDetails, VertexDetails, SubtaskDetails]:
        """Returns a subtask in its current attempt; earlier ones are not kept."""
        details, vertex, subtask = self.subtask(job_id, vertex_id, index)
        if subtask.attempt != attempt:
            raise RestError(
                404, f"Subtask {index} of '{vertex.name}' is in attempt {subtask.attempt}; only that one is kept."
            )
        return details, vertex, subtask

    def checkpoint(self, job_id: str, checkpoint_id: int) -> tuple[JobDetails, CheckpointDetails]:
        """Returns a checkpoint of the history; answers 404 if there is none."""
        details = self.details(job_id)
        for checkpoint in details.checkpoints.history:
            if checkpoint.checkpoint_id == checkpoint_id:
                return details, checkpoint
        raise RestError(404, f"The history of job {job_id} has no checkpoint {checkpoint_id}.")

    def all_running(self) -> Iterator[JobDetails]:
        """Returns the jobs that have not ended."""
        for job in self.jobs.summaries():
            if job.end_time < 0:
                try:
                    yield self.jobs.details(job.job_id)
                except (UnknownJobError, JobRefusedError):
                    continue  # It has just ended, or its driver has not reported yet.

    def hosts(self) -> dict[str, Host]:
        """Returns the hosts of slots, and that of the server."""
        return hosts(self.all_running(), self.settings.host)

    def host(self, name: str) -> Host:
        """Returns a host; answers 404 if no running job has a slot on it."""
        found = self.hosts().get(name)
        if found is None:
            raise RestError(404, f"No running job has slots on a host {name}.")
        return found

    def driver_logs(self) -> dict[str, str]:
        """Returns the log files of the drivers that the server has started: name to path."""
        return {
            f"{job.job_id}-{name}": path
            for job in self.jobs.summaries()
            if job.submitted
            for name, path in self.jobs.log_files(job.job_id).items()
        }
