"""SlotCalls: calls from the job's thread to the slots of an attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from flintstream.jobmaster.control import JobControl, JobFailed
from flintstream.jobmaster.watchdog import Watchdog
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.messages import Close, Deploy, Message, PassBarrier, Result, TakeSnapshot
from flintstream.spark.slots import SlotError, SlotPool

_WORK: dict[type[Message[Any]], str] = {TakeSnapshot: "taking a snapshot", PassBarrier: "the barrier of an epoch"}


class CallFailed(JobFailed):
    """A slot has answered a call with a fault."""


class SlotCalls:
    """Waits for replies under the watchdog; a failed call raises the cause of the attempt's failure."""

    def __init__(self, pool: SlotPool, watchdog: Watchdog, control: JobControl) -> None:
        self._pool = pool
        self._watchdog = watchdog
        self._control = control

    @property
    def access(self) -> SlotAccess:
        """Returns how Spark tasks connect to the slots."""
        return self._pool.access

    def waiting(self, work: str) -> AbstractContextManager[None]:
        """Marks that the job's thread waits for slots, or for Spark tasks that feed them."""
        return self._watchdog.waiting(work)

    def call(self, slot: int, message: Message[Result]) -> Result:
        """Calls one slot, and returns its reply."""
        with self._calling(type(message)):
            return self._pool.call(slot, message)

    def call_all(self, message: Message[Result]) -> list[Result]:
        """Says the same to all slots at once, and gives their replies in the order of the slots."""
        with self._calling(type(message)):
            return self._pool.call_all(message)

    def deploy(self, message: Callable[[int], Deploy]) -> None:
        """Gives each slot its operators."""
        with self._calling(Deploy):
            self._pool.call_each(Deploy, message)

    @contextmanager
    def _calling(self, kind: type[Message[Any]]) -> Iterator[None]:
        work = _WORK.get(kind, f"the call '{kind.name}'")
        delays = kind not in (Deploy, Close)
        try:
            with self._watchdog.waiting(work, delays_checkpoints=delays, is_barrier=kind is PassBarrier):
                yield
        except SlotError as error:
            if error.fault is not None:
                raise CallFailed(error.fault) from error
            # A slot that has died is reported a moment after the first call that fails.
            self._control.raise_cause(error)
