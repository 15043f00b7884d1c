"""SlotCalls: how the job's thread calls the slots of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from flintstream.jobmaster.control import JobControl, JobFailed
from flintstream.jobmaster.watchdog import Watchdog
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.spark.slots import SlotError, SlotPool


class CallFailed(JobFailed):
    """A slot has answered a call with a fault."""


class SlotCalls:
    """Waits for the replies while the watchdog looks after the slots; a call that fails raises why the attempt has."""

    def __init__(self, pool: SlotPool, watchdog: Watchdog, control: JobControl) -> None:
        self._pool = pool
        self._watchdog = watchdog
        self._control = control

    @property
    def access(self) -> SlotAccess:
        """How Spark tasks reach the slots."""
        return self._pool.access

    def waiting(self, work: str) -> AbstractContextManager[None]:
        """While the job's thread waits for slots, or for what they feed."""
        return self._watchdog.waiting(work)

    def call_all(
        self, name: str, arguments: Callable[[int], dict[str, Any]] | None = None, work: str | None = None
    ) -> list[Any]:
        """Calls all slots at once, and gives their replies in the order of the slots."""
        try:
            with self._watchdog.waiting(work or f"the call '{name}'", name not in ("deploy", "close")):
                return self._pool.call_all(name, arguments)
        except SlotError as error:
            raise self._cause_of(error) from error

    def call(self, slot: int, name: str, **arguments: Any) -> Any:
        """Calls one slot, and gives its reply."""
        try:
            with self._watchdog.waiting(f"the call '{name}'"):
                return self._pool.call(slot, name, **arguments)
        except SlotError as error:
            raise self._cause_of(error) from error

    def _cause_of(self, error: SlotError) -> Exception:
        """Why a slot has not answered; one that has died is reported a moment after the first call that fails."""
        if error.fault is not None:
            return CallFailed(error.fault)
        self._control.raise_cause(error)
        return error
