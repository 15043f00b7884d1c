"""Chooses a running job by what a user types: its id, its name, or the beginning of one."""

from __future__ import annotations

from flintstream.jobmaster.registry_client import Job, find_jobs
from flintstream.jobmaster.registry_files import RegistryError

__all__ = ["choose_job"]

_SHOWN = 8


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
