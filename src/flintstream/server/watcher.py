"""JobWatcher: follows one job from its submission, or its discovery, to its end.

It starts the driver of a submitted job, asks it for details, passes a request to cancel on, and decides what happens
when the driver is gone: the job has ended, is started again, or has failed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from flintstream.common.job_status import ENDED
from flintstream.common.processes import Process
from flintstream.jobmaster.details import JobDetails, from_json
from flintstream.jobmaster.registry_files import JobFile
from flintstream.server.driver_client import NoAnswerError, ask
from flintstream.server.drivers import DriverRunsError, JobDirectory, describe_exit, terminate
from flintstream.server.job import CANCELED, CANCELLING, FAILED, INITIALIZING, RESTARTING, Job
from flintstream.server.jobs import JobRefusedError
from flintstream.server.restarts import Refusal, restart_delay

if TYPE_CHECKING:
    from flintstream.server.dispatcher import Dispatcher

__all__ = ["JobWatcher"]

_log = logging.getLogger(__name__)
TICK_SECONDS = 0.25
POLL_SECONDS = 1.0
"""How often a driver is asked for details while somebody looks."""
SLOW_POLL_SECONDS = 5.0
ANSWER_SECONDS = 5.0
SAVE_SECONDS = 10.0
"""How often the details of a running job are stored."""
CANCEL_AGAIN_SECONDS = 5.0
TERMINATION_SECONDS = 10.0
"""How long a driver without a job may take to end after SIGTERM."""
CANCELLATION_SECONDS = 300.0
"""How long a driver may take to cancel its job; then it is killed."""


class JobWatcher:
    """Follows a job. `run` ends when the job has."""

    def __init__(self, job: Job, directory: JobDirectory, dispatcher: Dispatcher) -> None:
        self.job = job
        self.directory = directory
        self._dispatcher = dispatcher
        self._woken = asyncio.Event()
        self._next_poll = 0.0
        self._polling: asyncio.Task[None] | None = None
        self._saved = 0.0
        self._cancel_since: float | None = None
        self._cancel_sent = 0.0

    def wake(self) -> None:
        """Has it look at once."""
        self._woken.set()

    async def run(self) -> None:
        """Follows the job until it has ended."""
        try:
            while not self.job.ended:
                try:
                    await self._step()
                except Exception:
                    _log.exception("following job %s failed; it is tried again", self.job.job_id)
                await self._pause(TICK_SECONDS)
        finally:
            if self._polling is not None:
                self._polling.cancel()

    async def _step(self) -> None:
        job = self.job
        if job.submission is not None and job.driver is None:
            await self._without_driver()
            return
        file = self._file()
        gone = job.driver is None or not job.driver.runs()
        if gone or (file is not None and file.status is not None):
            await self._dispatcher.scan()
            await self._dispatcher.pick_up()
            if job.ended:
                return
            if file is not None and file.status in ENDED:
                # A driver of another version, which archives nothing.
                await self._end(file.status, file.failure)
            elif gone:
                await self._after_death()
            return
        if job.cancel_requested:
            await self._cancel(file)
        if file is not None:
            self._poll(file)
        await self._dispatcher.blocking(self.directory.bound_output)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        self._woken.clear()

    def _file(self) -> JobFile | None:
        driver = self.job.driver
        files = self._dispatcher.drivers_of(self.job.job_id)
        return next((file for file in files if driver is not None and file.pid == driver.pid), None)

    # --- the driver's process ---

    async def _without_driver(self) -> None:
        """Starts the driver, at the first time or once its restart is due."""
        job = self.job
        if job.cancel_requested:
            await self._end(CANCELED)
            return
        if job.restart_at is not None and time.time() < job.restart_at:
            return
        if await self._adopt():
            return
        assert job.submission is not None
        recover = bool(job.failures)
        try:
            job.driver = await self._dispatcher.blocking(self.directory.start, job.submission, recover)
        except DriverRunsError:
            return  # It is looked for again.
        except OSError as error:
            job.died(f"the driver could not be started: {error}")
            await self._end(FAILED)
            return
        job.started, job.restart_at = True, None
        job.set_status(INITIALIZING)
        await self._dispatcher.save(job, event=f"started a driver, process {job.driver.pid}")

    async def _adopt(self) -> bool:
        """Takes over a driver that runs already; returns whether there is one."""
        job = self.job
        for file in self._dispatcher.drivers_of(job.job_id):
            if file.status is None and Process.of(file.pid).runs():
                found = await self._dispatcher.blocking(self.directory.find)
                job.driver = found if found is not None and found.pid == file.pid else Process.of(file.pid)
                break
        else:
            if await self._dispatcher.blocking(self.directory.is_free):
                return False
            job.driver = await self._dispatcher.blocking(self.directory.find)
            if job.driver is None:
                return not await self._dispatcher.blocking(self.directory.is_free)
        job.started, job.restart_at = True, None
        await self._dispatcher.save(job, event=f"took over the driver, process {job.driver.pid}")
        return True

    async def _after_death(self) -> None:
        job = self.job
        driver = job.driver
        code = None if driver is None else await self._dispatcher.blocking(self.directory.exit_code, driver)
        pid = "unknown" if driver is None else driver.pid
        if job.submission is None:
            job.died(f"the driver, process {pid}, is gone, and has left no last details of the job")
            await self._end(FAILED)
            return
        if not await self._dispatcher.blocking(self.directory.is_free):
            await self._find_holder()
            return
        ending = await self._dispatcher.blocking(self._dispatcher.archive.ending, job.job_id)
        if ending is not None:
            why = None
            if ending["status"] == FAILED:
                why = f"the job failed, and its driver, process {pid}, {describe_exit(code)} before it could tell why"
            await self._end(ending["status"], why)
            return
        if job.cancel_requested:
            await self._end(CANCELED)
            return
        job.begun = await self._dispatcher.blocking(self._dispatcher.archive.begun, job.job_id) or job.begun
        output = await self._dispatcher.blocking(self.directory.tail)
        if job.begun is None and code is not None and code >= 0:
            what = "the program ended without executing a job"
            job.died(
                what if code == 0 else f"the program failed before it executed a job: {_last_line(output)}", output
            )
            await self._end(FAILED)
            return
        job.failures = [*job.failures, time.time()]
        job.died(f"the driver, process {pid}, {describe_exit(code)}", output)
        delay = restart_delay(job.begun, job.failures)
        if isinstance(delay, Refusal):
            job.died(f"the driver, process {pid}, {describe_exit(code)}, and is not started again: {delay}", output)
            job.deaths = [job.deaths[0], *job.deaths[2:]]
            job.failures = job.failures[:-1]
            await self._end(FAILED)
            return
        job.driver, job.restart_at = None, time.time() + delay
        job.set_status(RESTARTING)
        await self._dispatcher.save(job, self._revise(), f"{job.deaths[0].exception}; restarting in {delay:.1f} s")

    async def _find_holder(self) -> None:
        """Takes over another process that holds the lock of a driver that is gone. There may be none: a killed process
        is a zombie while its last threads end and hold its files, and its death must not be overlooked."""
        holder = await self._dispatcher.blocking(self.directory.find)
        if holder is None or self.job.driver is None or holder.pid == self.job.driver.pid:
            self._note_silence("the driver is gone, but something holds its lock still")
            return
        self.job.driver = holder
        await self._dispatcher.save(self.job, event=f"took over the driver, process {holder.pid}")

    async def _end(self, status: str, failure: str | None = None) -> None:
        job = self.job
        if failure is not None:
            job.died(failure)
        job.set_status(status)
        details = self._revise()
        why = f": {job.deaths[0].exception}" if job.deaths and status == FAILED else ""
        await self._dispatcher.save(job, details, f"the job is {status}{why}")
        self._dispatcher.publish(job, details)

    def _revise(self) -> JobDetails:
        return self.job.revised(self._dispatcher.latest(self.job.job_id))

    # --- requests ---

    async def _cancel(self, file: JobFile | None) -> None:
        """Has the driver cancel its job; one that has not begun one, or does not do it, is ended."""
        job, now = self.job, time.monotonic()
        assert job.driver is not None
        if self._cancel_since is None:
            self._cancel_since = now
        if job.set_status(CANCELLING):
            await self._dispatcher.save(job)
        waited = now - self._cancel_since
        if file is None:
            terminate(job.driver, hard=waited > TERMINATION_SECONDS)
        elif waited > CANCELLATION_SECONDS:
            terminate(job.driver, hard=True)
        elif now - self._cancel_sent > CANCEL_AGAIN_SECONDS:
            self._cancel_sent = now
            try:
                await ask(file, "cancel", ANSWER_SECONDS, savepoint=False, directory=None, wait=False)
            except JobRefusedError:
                pass  # It has ended, or takes longer than an answer may: it is asked again.

    def _poll(self, file: JobFile) -> None:
        """Asks for details, without holding up anything else."""
        now = time.monotonic()
        if now < self._next_poll or (self._polling is not None and not self._polling.done()):
            return
        watched = self._dispatcher.is_watched(self.job.job_id) or self.job.status != "RUNNING"
        self._next_poll = now + (POLL_SECONDS if watched else SLOW_POLL_SECONDS)
        self._polling = asyncio.get_running_loop().create_task(self._take_details(file))

    async def _take_details(self, file: JobFile) -> None:
        try:
            details = await self._ask_details(file)
        except NoAnswerError as error:
            self._note_silence(str(error))
            return
        except JobRefusedError:
            return  # It is ending: its file in the registry, its archive or its process tell more.
        if details.ended or self.job.ended:
            return  # The archive has the last word.
        before = self.job.status
        followed = self.job.follow(details)
        self._dispatcher.publish(self.job, followed)
        now = time.monotonic()
        if before != self.job.status or now - self._saved > SAVE_SECONDS:
            self._saved = now
            event = f"the job is {self.job.status}" if before != self.job.status else None
            await self._dispatcher.save(self.job, followed, event)

    async def _ask_details(self, file: JobFile) -> JobDetails:
        try:
            answer = await ask(file, "details", ANSWER_SECONDS)
        except JobRefusedError as error:
            if "unknown request" not in str(error):
                raise
            status = await ask(file, "status", ANSWER_SECONDS)
            return replace(self.job.bare(), name=file.name, status=status, parallelism=file.parallelism)
        return await self._dispatcher.blocking(from_json, JobDetails, answer)

    def _note_silence(self, what: str) -> None:
        details = self._dispatcher.latest(self.job.job_id) or self.job.bare()
        self._dispatcher.publish(self.job, replace(details, phase=what))


def _last_line(output: str) -> str:
    return output.rpartition("\n")[2][:1000]
