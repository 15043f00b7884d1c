"""Chooses a running job by what a user types: its id, its name, or the beginning of one."""

from __future__ import annotations

from collections.abc import Sequence

from flintstream.cli.remote_jobs import RemoteJob, find_remote_jobs
from flintstream.cli.server_client import choose_server
from flintstream.jobmaster.registry_client import Job, find_jobs
from flintstream.jobmaster.registry_files import RegistryError

__all__ = ["choose_job"]

_SHOWN = 8


def choose_job(text: str, server: str | None = None) -> Job | RemoteJob:
    """Returns the running job with an id or a name, or the only one with that prefix; of a job server if one is named."""
    jobs: Sequence[Job | RemoteJob] = find_jobs() if server is None else find_remote_jobs(choose_server(server))
    running = [job for job in jobs if not job.ended]
    for matches in (
        [job for job in running if text in (job.job_id, job.name)],
        [job for job in running if job.job_id.startswith(text.lower()) or job.name.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise RegistryError(f"{text!r} is ambiguous; it matches these jobs: {_enumerate(matches)}.")
    over = [job for job in jobs if job.ended and text in (job.job_id, job.name)]
    if over:
        last = over[-1]
        failure = last.file.failure if isinstance(last, Job) else None
        raise RegistryError(f"job {last} is {last.status}" + (f": {failure}" if failure else "."))
    there_are = f"there are: {_enumerate(running)}" if running else "no jobs are running"
    raise RegistryError(f"no running job has an id or a name that begins with {text!r}; {there_are}.")


def _enumerate(jobs: Sequence[Job | RemoteJob]) -> str:
    more = ", …" if len(jobs) > _SHOWN else ""
    return ", ".join(map(str, jobs[:_SHOWN])) + more
