"""JobControl: signals from other threads to a job's thread, and what it waits for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from flintstream.runtime.faults import Fault, engine_fault

CAUSE_SECONDS = 2.0
_LOOK_SECONDS = 10.0
_Result = TypeVar("_Result")


class JobFailed(Exception):
    """The attempt has failed, for a known reason."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.headline)
        self.fault = fault


def failed(summary: str) -> JobFailed:
    """Returns the failure of an attempt for a reason on the driver."""
    return JobFailed(Fault(None, None, None, summary, summary))


class JobCancelled(Exception):
    """The job is to be cancelled."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled")


def promise() -> Future[Any]:
    """Returns a future that only the job completes: waiters may stop waiting, but cannot cancel it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True)
class CheckpointRequest:
    """A request for a checkpoint at once; the future returns its number."""

    result: Future[int] = field(default_factory=promise)
    begun: threading.Event = field(default_factory=threading.Event, compare=False)
    """Whether it is being taken, and so has its own timeout."""
    kind: ClassVar[str] = "checkpoint"


@dataclass(frozen=True)
class SavepointRequest:
    """A request for a savepoint; the future returns its directory."""

    kind: ClassVar[str] = "savepoint"
    directory: str
    stop: bool = False
    """Whether the job stops with it."""
    drain: bool = False
    """Whether to drain first: the last watermark and the end of the input fire all windows and timers."""
    result: Future[str] = field(default_factory=promise)
    begun: threading.Event = field(default_factory=threading.Event, compare=False)
    """Whether it is being taken, and so has its own timeout."""


Request = SavepointRequest | CheckpointRequest


class JobStopped(Exception):
    """The job stops with a completed savepoint, as requested. The records in the savepoint are to be committed."""

    def __init__(self, request: SavepointRequest, location: str, checkpoint_id: int, epoch: int = 0) -> None:
        super().__init__(location)
        self.request = request
        self.location = location
        self.checkpoint_id = checkpoint_id
        self.epoch = epoch
        """The last epoch that the savepoint contains."""


class StopUndecided(JobFailed):
    """The job was to stop with a completed savepoint, but the storage failed while the stop was being recorded.

    The next attempt determines whether it was recorded.
    """

    def __init__(self, stopped: JobStopped, error: BaseException) -> None:
        super().__init__(engine_fault(error))
        self.stopped = stopped


class JobControl:
    """Wakes the job's thread, and asks it to end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._data_ready = False
        self._hurried = False
        self._woken = False
        self._cancelled = False
        self._fault: Fault | None = None
        self._requests: deque[Request] = deque()

    # --- from other threads ---

    def data_ready(self) -> None:
        """Signals that a source has records."""
        with self._changed:
            self._data_ready = True
            self._changed.notify_all()

    def hurry(self) -> None:
        """Signals that the epoch of a pipelined job need not last longer: its sources have ended."""
        with self._changed:
            self._data_ready = self._hurried = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Wakes the job's thread for something other than data."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Cancels the job."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def fail(self, fault: Fault) -> None:
        """Fails the attempt. A fault that names an operator takes precedence."""
        with self._changed:
            if self._fault is None or (self._fault.operator is None and fault.operator is not None):
                self._fault = fault
            self._changed.notify_all()

    def request(self, request: Request) -> None:
        """Requests a savepoint or a checkpoint between two epochs."""
        with self._changed:
            self._requests.append(request)
            self._woken = True
            self._changed.notify_all()

    def withdraw(self, request: Request) -> bool:
        """Withdraws a request; returns False if the job's thread has taken it already."""
        with self._changed:
            if request not in self._requests:
                return False
            self._requests.remove(request)
            return True

    # --- for the job's thread ---

    @property
    def cancelled(self) -> bool:
        """Returns whether the job is cancelled."""
        return self._cancelled

    def begin_attempt(self) -> None:
        """Clears the failure of the previous attempt."""
        with self._changed:
            self._fault = None
            self._data_ready = self._hurried = False

    def begin_epoch(self) -> None:
        """Starts an epoch, which will process the data that is ready now; or the barrier that ends a pipelined one."""
        with self._changed:
            self._data_ready = self._hurried = False

    @property
    def has_data(self) -> bool:
        """Returns whether something has happened since the last `begin_epoch`."""
        return self._data_ready

    def put_back(self, request: Request) -> None:
        """Puts the next request back, which cannot be served before the job's thread is woken again."""
        with self._changed:
            self._requests.appendleft(request)

    def next_request(self) -> Request | None:
        """Returns the next request."""
        with self._changed:
            return self._requests.popleft() if self._requests else None

    def refuse_requests(self, why: str) -> None:
        """Fails the pending requests."""
        while (request := self.next_request()) is not None:
            request.result.set_exception(RuntimeError(why))

    def check(self) -> None:
        """Raises if the job is cancelled or the attempt has failed; a failure during cancellation does not count."""
        if self._cancelled:
            raise JobCancelled
        if self._fault is not None:
            raise JobFailed(self._fault)

    def wait(self, due: Callable[[], float | None], not_before: float, tended: Callable[[], float | None]) -> bool:
        """Waits until there is something to do; returns True for an epoch, False for anything else.

        An epoch is due when there is data, or at the time that `due` returns, and never before `not_before`; `tended`
        is the time of other work. All times are of the monotonic clock. `due` is evaluated repeatedly, since it may
        depend on processing time, whose clock may be adjusted.
        """
        while True:
            epoch_due, other_due = due(), tended()
            with self._changed:
                self.check()
                if self._woken:
                    self._woken = False
                    return False
                if self._hurried:
                    return True
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
        """Sleeps, unless the job is cancelled."""
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
        """Runs a call that may hang, such as one to a storage, with a timeout; also ends if the job is cancelled."""
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
                raise TimeoutError(f"{what} took longer than {seconds:g} s")
        return done.result()

    def raise_cause(self, error: Exception) -> None:
        """Raises the cause of a failure: a slot's own report takes precedence, and arrives a moment later."""
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not None or self._cancelled, CAUSE_SECONDS)
            self.check()
        raise error
