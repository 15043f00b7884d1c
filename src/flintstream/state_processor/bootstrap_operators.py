"""The operators that make state: they run in a StateTask, whose snapshot is stored."""

from __future__ import annotations

from typing import Any

from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.process import ProcessContext, ProcessOperator
from flintstream.runtime.time.timers import TimerService


class _BootstrapContext(ProcessContext):
    __slots__ = ()

    def current_processing_time(self) -> int:
        return self._time.current_processing_time()


class BootstrapOperator(ProcessOperator):
    """Calls a bootstrap function for each record. Timers are stored, and never fire here."""

    def _make_context(self) -> ProcessContext:
        return _BootstrapContext(self._time, self._state)

    def _fire_processing_time(self, timers: TimerService) -> None:
        """Does nothing: a timer that is due fires in the job that restores it."""


class _BroadcastContext(_BootstrapContext):
    __slots__ = ("get_broadcast_state",)

    def __init__(self, time: Any, state: Any, get_broadcast_state: Any) -> None:
        super().__init__(time, state)
        self.get_broadcast_state = get_broadcast_state


class BroadcastBootstrapOperator(BootstrapOperator):
    """Calls a BroadcastStateBootstrapFunction for each record."""

    def _make_context(self) -> ProcessContext:
        return _BroadcastContext(self._time, self._state, self.context.operator_state.get_broadcast_state)


class CarryingOperator(Operator):
    """Stores the keyed state and timers that it has restored, unchanged."""

    keyed = True

    def open(self) -> None:
        assert self.context.keyed_state is not None
        self._timers = TimerService(self.context.name, self.context.services.clock, self.context.keyed_state)
        self._timers.restore(self.context.restored_timers)

    def timers_to_store(self) -> TimerService:
        return self._timers
