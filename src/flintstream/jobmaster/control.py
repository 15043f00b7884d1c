"""JobControl: what other threads tell the thread of a job, and what it waits for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flintstream.runtime.faults import Fault, engine_fault

CAUSE_SECONDS = 2.0
_LOOK_SECONDS = 10.0
_Result = TypeVar("_Result")


class JobFailed(Exception):
    """The attempt has failed, for a reason that can be told."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.headline)
        self.fault = fault


def failed(summary: str) -> JobFailed:
    """The attempt has failed for a reason of the driver's own."""
    return JobFailed(Fault(None, None, None, summary, summary))


class JobCancelled(Exception):
    """The job is to end now."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled")


def promise() -> Future[Any]:
    """A future that nobody but the job completes: whoever waits for it may stop waiting, and cannot cancel it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True)
class SavepointRequest:
    """Somebody wants a savepoint; the future gives its directory."""

    directory: str
    stop: bool = False
    """Whether the job ends with it, as if its sources had."""
    drain: bool = False
    """Whether everything that waits for time is let out before: the last watermark comes, and the end of the input."""
    result: Future[str] = field(default_factory=promise)
    begun: threading.Event = field(default_factory=threading.Event, compare=False)
    """Whether it is being taken, and has a deadline by itself."""


class JobStopped(Exception):
    """The job stops with a savepoint that is complete, as it was told to. What the savepoint contains is to be committed."""

    def __init__(self, request: SavepointRequest, location: str, checkpoint_id: int, epoch: int = 0) -> None:
        super().__init__(location)
        self.request = request
        self.location = location
        self.checkpoint_id = checkpoint_id
        self.epoch = epoch
        """The last epoch that the savepoint contains."""


class StopUndecided(JobFailed):
    """The job was to stop with a savepoint that is complete, and the storage has failed while that was noted.

    The next attempt knows whether it was.
    """

    def __init__(self, stopped: JobStopped, error: BaseException) -> None:
        super().__init__(engine_fault(error))
        self.stopped = stopped


class JobControl:
    """Wakes the job's thread, and tells it to end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._data_ready = False
        self._woken = False
        self._cancelled = False
        self._fault: Fault | None = None
        self._requests: deque[SavepointRequest] = deque()

    # --- from other threads ---

    def data_ready(self) -> None:
        """A source has records."""
        with self._changed:
            self._data_ready = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Something other than data wants the job's thread."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """The job is to end."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def fail(self, fault: Fault) -> None:
        """The attempt has failed. Who can name an operator knows best why."""
        with self._changed:
            if self._fault is None or (self._fault.operator is None and fault.operator is not None):
                self._fault = fault
            self._changed.notify_all()

    def request(self, request: SavepointRequest) -> None:
        """Asks for a savepoint between two epochs."""
        with self._changed:
            self._requests.append(request)
            self._woken = True
            self._changed.notify_all()

    def withdraw(self, request: SavepointRequest) -> bool:
        """Takes a request back; false if the job's thread has it already."""
        with self._changed:
            if request not in self._requests:
                return False
            self._requests.remove(request)
            return True

    # --- for the job's thread ---

    @property
    def cancelled(self) -> bool:
        """Whether the job is to end."""
        return self._cancelled

    def begin_attempt(self) -> None:
        """Forgets why the attempt before has failed."""
        with self._changed:
            self._fault = None
            self._data_ready = False

    def begin_epoch(self) -> None:
        """What is ready now, the epoch that begins will see."""
        with self._changed:
            self._data_ready = False

    def next_request(self) -> SavepointRequest | None:
        """The next savepoint that somebody wants."""
        with self._changed:
            return self._requests.popleft() if self._requests else None

    def refuse_requests(self, why: str) -> None:
        """Nobody will take the savepoints that are still wanted."""
        while (request := self.next_request()) is not None:
            request.result.set_exception(RuntimeError(why))

    def check(self) -> None:
        """Raises if the job is to end, or the attempt has failed; what fails while a job ends is no failure any more."""
        if self._cancelled:
            raise JobCancelled
        if self._fault is not None:
            raise JobFailed(self._fault)

    def wait(self, due: Callable[[], float | None], not_before: float, tended: Callable[[], float | None]) -> bool:
        """Sleeps until there is something to do: true for an epoch, false for anything else.

        An epoch is due with data or at the time `due` says, and never before `not_before`; `tended` is the time of what
        else has to be looked at. All by the monotonic clock. `due` is asked again at times: it may stand for a point in
        processing time, and that clock may be set.
        """
        while True:
            epoch_due, other_due = due(), tended()
            with self._changed:
                self.check()
                if self._woken:
                    self._woken = False
                    return False
                now = time.monotonic()
                epoch_due = 0.0 if self._data_ready else epoch_due
                waits = [other_due - now] if other_due is not None else []
                if epoch_due is not None:
                    waits.append(max(epoch_due, not_before) - now)
                    if waits[-1] <= 0:
                        return True
                if waits and min(waits) <= 0:
                    return False
                self._changed.wait(min([_LOOK_SECONDS, *waits]))

    def pause(self, seconds: float) -> None:
        """Sleeps, unless the job is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._cancelled, seconds)
        if self._cancelled:
            raise JobCancelled

    def wait_for_wake(self, seconds: float) -> None:
        """Sleeps until woken."""
        with self._changed:
            self.check()
            if not self._woken:
                self._changed.wait(seconds)
            self._woken = False
            self.check()

    def within(self, seconds: float, what: str, call: Callable[[], _Result]) -> _Result:
        """Calls something that may hang, such as a storage, and waits for it; not if the job is to end, nor for ever."""
        done: Future[_Result] = Future()

        def run() -> None:
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)
            with self._changed:
                self._changed.notify_all()

        threading.Thread(target=run, name=what, daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: done.done() or self._cancelled, seconds)
            if not done.done():
                self.check()
                raise TimeoutError(f"{what} has taken longer than {seconds:g} s")
        return done.result()

    def raise_cause(self, error: Exception) -> None:
        """Something has failed: what a slot has to say about it counts more, and comes a moment later."""
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not None or self._cancelled, CAUSE_SECONDS)
            self.check()
        raise error
