"""Dispatcher: owns all jobs of the server. Takes submissions, finds the jobs of other programs in the registry, has a
watcher follow each job, and forgets ended ones when their time is over.

Everything runs on the server's event loop, except what may block: that runs on threads, the store's writes on one of
their own, so that they keep their order.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from flintstream.common.flint_options import JOB_ID
from flintstream.common.job_id import JobID
from flintstream.common.known_keys import check_keys
from flintstream.common.processes import Process
from flintstream.jobmaster.details import JobDetails
from flintstream.jobmaster.registry_files import JobFile, RegistryError, read_files, registry_directories
from flintstream.server.announcement import Announcement
from flintstream.server.archive import Archive
from flintstream.server.driver_client import ask, ask_patiently
from flintstream.server.drivers import JobDirectory
from flintstream.server.job import INITIALIZING, Job, milliseconds
from flintstream.server.jobs import (
    JobRefusedError,
    JobSummary,
    NotPermittedError,
    Operation,
    Submission,
    UnknownJobError,
)
from flintstream.server.settings import ServerSettings
from flintstream.server.store import Store
from flintstream.server.watcher import JobWatcher

__all__ = ["Dispatcher"]

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
SCAN_SECONDS = 1.0
FAST_SCAN_SECONDS = 0.25
"""How often the registry is read while a driver starts."""
HOUSEKEEPING_SECONDS = 10.0
LOOKING_SECONDS = 10.0
"""How long somebody who has asked for a job counts as looking at it."""
OPERATION_SECONDS = 24 * 3600.0
_ENDED_IN_MEMORY = 32
_THREADS = 8
_INTERRUPTED = "the server ended while it waited for this; the job's checkpoints show whether it was done"


class Dispatcher:
    """Implements `server.jobs.Jobs`."""

    def __init__(self, store: Store, settings: ServerSettings) -> None:
        self.store = store
        self.settings = settings
        self.archive = Archive(settings.data / "archive")
        self.announcement: Announcement | None = None
        self.end_server: Callable[[], None] | None = None
        """Ends the server, and leaves the jobs running."""
        self._directory = settings.data / "jobs"
        self._jobs: dict[str, Job] = {}
        self._details: dict[str, JobDetails] = {}
        """The details of running jobs."""
        self._ended: OrderedDict[str, JobDetails] = OrderedDict()
        """Those of ended jobs that were asked for last."""
        self._watchers: dict[str, JobWatcher] = {}
        self._registered: dict[str, list[JobFile]] = {}
        self._looked: dict[str, float] = {}
        self._listed = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, "jobs")
        self._writing = ThreadPoolExecutor(1, "store")
        self._picking_up = asyncio.Lock()

    # --- life ---

    async def start(self) -> None:
        """Takes over what the store and the registry know, and begins to watch."""
        self.store.fail_operations(_INTERRUPTED)
        for job in self.store.jobs():
            self._jobs[job.job_id] = job
        await self.scan()
        await self.pick_up()
        for job in self._jobs.values():
            if not job.ended:
                self._watch(job)
        self._spawn(self._repeat(self._scan_seconds, self.scan), "registry")
        self._spawn(self._repeat(lambda: HOUSEKEEPING_SECONDS, self._keep_house), "housekeeping")

    async def close(self) -> None:
        """Stops watching. Drivers run on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.announcement is not None:
            self.announcement.withdraw()
        self._writing.shutdown()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- what Jobs has ---

    def summaries(self) -> list[JobSummary]:
        self._listed = time.monotonic()
        jobs = sorted(self._jobs.values(), key=lambda job: -job.start_time)
        return [job.summary() for job in jobs]

    def details(self, job_id: str) -> JobDetails:
        job = self._job(job_id)
        self._looked[job_id] = time.monotonic()
        found = self._details.get(job_id) or self._ended.get(job_id) or self.store.details(job_id)
        if not job.ended:
            if found is None:
                found = job.bare()
            return found if found.status == job.status else job.revised(found)
        found = job.revised(found)
        self._ended[job_id] = found
        self._ended.move_to_end(job_id)
        while len(self._ended) > _ENDED_IN_MEMORY:
            self._ended.popitem(last=False)
        return found

    async def ask(self, job_id: str, command: str, **arguments: Any) -> Any:
        self._check_permitted(command)
        return await ask(self._running_file(job_id), command, self.settings.timeout, **arguments)

    async def submit(self, submission: Submission) -> str:
        job_id = self._chosen_id(submission)
        directory = JobDirectory(self._directory, job_id, self.archive.directory)
        check_keys(submission.settings)
        if job_id in self._jobs or directory.path.exists():
            raise JobRefusedError(f"the server has a job {job_id} already")
        taken = await self.blocking(directory.take, submission)
        now = milliseconds()
        job = Job(job_id, _name(submission), INITIALIZING, now, taken, modified=now, timestamps={INITIALIZING: now})
        if not await self._write(self.store.add, replace(job)):
            raise JobRefusedError(f"the server has a job {job_id} already")
        self._jobs[job_id] = job
        self._watch(job)
        return job_id

    async def cancel(self, job_id: str) -> None:
        job = self._job(job_id)
        self._check_permitted("cancel")
        if job.ended:
            raise JobRefusedError(f"the job is {job.status}")
        if job.submission is None:
            file = self._running_file(job_id)
            await ask(file, "cancel", self.settings.timeout, savepoint=False, directory=None, wait=False)
            return
        job.cancel_requested = True
        await self.save(job, event="cancelling was requested")
        self._watchers[job_id].wake()

    def begin(self, job_id: str, kind: str, command: str, trigger_id: str | None, **arguments: Any) -> Operation:
        file = self._running_file(job_id)
        self._check_permitted("cancel" if arguments.get("savepoint") and command == "cancel" else command)
        operation = Operation(trigger_id or secrets.token_hex(16), kind, job_id, False)
        found = self.store.begin(operation)
        if found is not None:
            return found
        self._spawn(self._operate(operation, file, command, arguments), f"{kind} of {job_id}")
        return operation

    def operation(self, job_id: str, kind: str, trigger_id: str) -> Operation:
        self._job(job_id)
        found = self.store.operation(job_id, kind, trigger_id)
        if found is None:
            raise LookupError(f"there is no {kind} with trigger id {trigger_id} of job {job_id}")
        return found

    def log_files(self, job_id: str) -> dict[str, str]:
        return self.directory_of(self._job(job_id)).log_files()

    def events(self, job_id: str) -> list[tuple[int, str]]:
        """Returns what the server did with a job: time in milliseconds, and what."""
        self._job(job_id)
        return self.store.events(job_id)

    # --- for watchers ---

    def directory_of(self, job: Job) -> JobDirectory:
        """Returns the directory of a submitted job."""
        watcher = self._watchers.get(job.job_id)
        return (
            JobDirectory(self._directory, job.job_id, self.archive.directory) if watcher is None else watcher.directory
        )

    def drivers_of(self, job_id: str) -> list[JobFile]:
        """Returns the files of a job in the registry, the newest first."""
        return self._registered.get(job_id, [])

    def is_watched(self, job_id: str) -> bool:
        """Returns whether somebody looks at a job, or at the list."""
        looked = max(self._looked.get(job_id, -LOOKING_SECONDS), self._listed)
        return time.monotonic() - looked < LOOKING_SECONDS

    def publish(self, job: Job, details: JobDetails) -> None:
        """Takes new details of a job for what is asked from now on."""
        self._ended.pop(job.job_id, None)
        if job.ended:
            self._details.pop(job.job_id, None)
        else:
            self._details[job.job_id] = details

    def latest(self, job_id: str) -> JobDetails | None:
        """Returns the last details that a driver has given."""
        return self._details.get(job_id)

    async def save(self, job: Job, details: JobDetails | None = None, event: str | None = None) -> None:
        """Stores a job as it is now."""
        await self._write(self.store.save, replace(job), details, event)

    async def pick_up(self) -> None:
        """Takes over the last details of jobs whose drivers have left them in the archive."""
        async with self._picking_up:
            for path, details in await self.blocking(self.archive.read):
                job = self._jobs.get(details.job_id)
                if job is None:
                    job = Job(details.job_id, details.name, INITIALIZING, details.start_time)
                    job.driver = Process(details.driver_pid, None)
                    await self._write(self.store.add, replace(job))
                    self._jobs[job.job_id] = job
                    if not details.ended:
                        self._watch(job)
                if _is_of_another(job, details):
                    _log.warning("ignored details of job %s by process %d", job.job_id, details.driver_pid)
                elif not job.ended:
                    followed = job.follow(details)
                    await self.save(job, followed, f"the job is {job.status}" if job.ended else None)
                    self.publish(job, followed)
                elif job.status == details.status:  # The server has found out before, but not all of it.
                    await self.save(job, job.follow(details))
                    self._ended.pop(job.job_id, None)
                await self.blocking(path.unlink, True)

    async def blocking(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        """Runs a call that may block, on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    # --- the registry ---

    async def scan(self) -> None:
        """Reads the registry, and begins to follow jobs that are new."""
        found: dict[str, list[JobFile]] = {}
        for file in await self.blocking(_read_registry):
            found.setdefault(file.job_id, []).insert(0, file)
        self._registered = found
        for job_id, files in found.items():
            if files[0].status is None:
                await self._follow(job_id, files[0])

    async def _follow(self, job_id: str, file: JobFile) -> None:
        job = self._jobs.get(job_id)
        started = int(file.started * 1000)
        if job is not None and (not job.ended or job.submission is not None or started <= job.end_time):
            return
        new = Job(job_id, file.name, INITIALIZING, started, modified=started, timestamps={INITIALIZING: started})
        new.driver = Process.of(file.pid)
        if job is not None:
            await self.save(new, event="another driver has begun the job again")
        else:
            await self._write(self.store.add, replace(new))
        self._jobs[job_id] = new
        self._ended.pop(job_id, None)
        self._watch(new)

    def _scan_seconds(self) -> float:
        starting = any(job.status == INITIALIZING for job in self._jobs.values())
        return FAST_SCAN_SECONDS if starting else SCAN_SECONDS

    # --- how ---

    def _job(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJobError(f"Job {job_id} not found")
        return job

    def _running_file(self, job_id: str) -> JobFile:
        job = self._job(job_id)
        if job.ended:
            raise JobRefusedError(f"the job is {job.status}")
        for file in self.drivers_of(job_id):
            if file.status is None and (job.driver is None or job.driver.pid == file.pid):
                return file
        raise JobRefusedError(f"the job is {job.status}: it has no driver that could be asked yet")

    def _check_permitted(self, command: str) -> None:
        if command in ("cancel", "stop") and not self.settings.cancel_enabled:
            raise NotPermittedError("cancelling and stopping of jobs is switched off: web.cancel.enable is false")

    def _chosen_id(self, submission: Submission) -> str:
        given = submission.job_id or submission.settings.get(JOB_ID.key) or str(JobID())
        if not re.fullmatch("[0-9a-f]{32}", given):
            raise ValueError(f"the id of a job must be 32 hexadecimal digits, got {given!r}")
        return given

    async def _operate(self, operation: Operation, file: JobFile, command: str, arguments: dict[str, Any]) -> None:
        try:
            result = await ask_patiently(file, command, OPERATION_SECONDS, **arguments)
            ended = replace(operation, done=True, result=result)
        except JobRefusedError as error:
            ended = replace(operation, done=True, failure=str(error))
        await self._write(self.store.end, ended)

    def _watch(self, job: Job) -> None:
        directory = JobDirectory(self._directory, job.job_id, self.archive.directory)
        watcher = self._watchers[job.job_id] = JobWatcher(job, directory, self)
        self._spawn(watcher.run(), f"job {job.job_id}")

    async def _write(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._writing, call, *arguments)

    def _spawn(self, work: Any, name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, pause: Callable[[], float], step: Callable[[], Any]) -> None:
        while True:
            await asyncio.sleep(pause())
            try:
                await step()
            except Exception:
                _log.exception("%s failed; it is tried again", step.__name__)

    async def _keep_house(self) -> None:
        if self.announcement is not None:
            await self.blocking(self.announcement.renew)
        await self.pick_up()
        horizon = milliseconds() - int(self.settings.expiration * 1000)
        for job_id in await self.blocking(self.store.surplus, self.settings.most_ended, horizon):
            await self._forget(job_id)

    async def _forget(self, job_id: str) -> None:
        job = self._jobs[job_id]
        directory = self.directory_of(job)
        if job.submission is not None and not await self.blocking(directory.is_free):
            return  # Its program has not ended.
        await self._write(self.store.remove, job_id)
        for known in (self._jobs, self._details, self._ended, self._watchers, self._looked):
            known.pop(job_id, None)
        await self.blocking(self.archive.forget, job_id)
        await self.blocking(directory.remove)


def _read_registry() -> list[JobFile]:
    found = []
    for directory in registry_directories():
        try:
            found += [file for _, file in read_files(directory)]
        except (RegistryError, OSError) as error:
            _log.warning("the registry of jobs in %s cannot be read: %s", directory, error)
    return sorted(found, key=lambda file: file.started)


def _is_of_another(job: Job, details: JobDetails) -> bool:
    """Returns whether details in the archive are by a process that is not the job's driver, which runs."""
    driver = job.driver
    return driver is not None and driver.pid != details.driver_pid and driver.runs()


def _name(submission: Submission) -> str:
    file = re.sub("^[0-9a-f-]{36}_", "", Path(submission.program).name)  # Uploaded files begin with a UUID.
    return submission.settings.get("pipeline.name") or submission.module or file
