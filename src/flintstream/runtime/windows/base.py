"""The part shared by the window operators: calls of the window function, and late records."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, NamedTuple

from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import LATE_RECORDS, FunctionOperator
from flintstream.runtime.results import ResultEmitter
from flintstream.runtime.state.backend import StateMigrationException
from flintstream.runtime.time.timers import TimeView
from flintstream.runtime.windows.functions import WindowContext
from flintstream.runtime.windows.namespaces import NamespacedStateBackend, StateStore
from flintstream.runtime.windows.spec import WindowSpec

ALIGNED_TABLE, GENERAL_TABLE, EVICTED_TABLE = "_panes", "_windows", "_evicted_windows"
"""The tables of the window operators: of aligned windows, and of the general operator without and with an evictor."""
_KINDS = {
    ALIGNED_TABLE: "time windows with their default trigger and without an evictor",
    GENERAL_TABLE: "other windows without an evictor",
    EVICTED_TABLE: "windows with an evictor",
}


class FiredWindow(NamedTuple):
    """A fired window, as shown when its function fails."""

    window: Any
    key: Any

    def __repr__(self) -> str:
        return f"<{self.window!r} of key {self.key!r}>"


class WindowBase(FunctionOperator):
    """Base class of operators of windows of a keyed stream. Before `open` a subclass sets its `_time`."""

    keyed = True
    _time: TimeView

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)

    def open(self) -> None:
        assert self.context.keyed_state is not None
        self._spec: WindowSpec = self.function
        self._state = self.context.keyed_state
        self._event_time: bool = self._spec.assigner.is_event_time()
        self._function_state = NamespacedStateBackend(self._state, "_window:")
        self._window_context = WindowContext(self._time, StateStore(self._function_state), StateStore(self._state))
        self._emitter = ResultEmitter(self.output)
        self._late = self.context.runtime_context.get_metrics_group().counter(LATE_RECORDS)
        super().open()

    def own_table(self, own: str) -> MutableMapping[Any, Any]:
        """Returns the table of that name; refuses a checkpoint with windows of another kind, which would be lost."""
        for table, kind in _KINDS.items():
            if table != own and table in self._state.restored and self._state.table(table):
                raise self.refusal(f"was taken with {kind}, but the program now has {_KINDS[own]}")
        return self._state.engine_table(own)

    def refusal(self, what: str) -> StateMigrationException:
        """Returns the error for a checkpoint whose windows the operator cannot restore."""
        return StateMigrationException(
            f"operator '{self.context.name}': the checkpoint {what}: restore the former windows, or set another uid "
            "to start the operator without state"
        )

    def call(self, window: Any, key: Any, elements: list[Any], timestamp: int | None = None) -> None:
        """Calls the window function for a key and collects its results.

        Results have the timestamp of the record or timer that fired the window or, without `timestamp`, of its end.
        """
        if timestamp is None:
            timestamp = window.max_timestamp()
        context = self._window_context
        context._window = self._function_state.current_key = window
        self._state.current_key = key
        try:
            self._emitter.add(self._spec.function.results(key, context, elements), timestamp)
        except Exception as error:
            raise self.fault(error, FiredWindow(window, key)) from error

    def call_clear(self, window: Any, key: Any) -> None:
        """Lets the window function clear its state of an expired window."""
        self._window_context._window = self._function_state.current_key = window
        self._state.current_key = key
        try:
            self._spec.function.clear(self._window_context)
        except Exception as error:
            raise self.fault(error, FiredWindow(window, key)) from error

    def emit_late(self, batch: Batch, late: list[int]) -> None:
        """Counts late records, or sends them to their side output."""
        if not late:
            return
        if self._spec.late_tag is None:
            self._late.inc(len(late))
            return
        values = [self._spec.function.original(batch.values[index]) for index in late]
        times = None if batch.timestamps is None else [batch.timestamps[index] for index in late]
        self.output.emit_side(self._spec.late_tag, Batch(values, times))
