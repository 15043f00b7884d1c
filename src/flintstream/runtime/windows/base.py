"""What the window operators share: the parts that a program has given, calls of its function, and late records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.results import ResultEmitter
from flintstream.runtime.time.timers import TimeView
from flintstream.runtime.windows.contents import MISSING, ListContents, WindowContents
from flintstream.runtime.windows.functions import PassOn, WindowContext
from flintstream.runtime.windows.namespaces import NamespacedStateBackend, StateStore

LATE_RECORDS = "numLateRecordsDropped"


@dataclass
class WindowParts:
    """What a program says about its windows."""

    assigner: Any
    trigger: Any
    contents: WindowContents
    function: PassOn
    evictor: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    """The id of the side output for records that come too late; None to drop them."""

    def for_evictor(self) -> WindowParts:
        """The parts with all records kept, for an evictor to choose from: what reduces them does so when a window fires."""
        if not self.contents.incremental:
            return self
        return replace(self, contents=ListContents(), function=ReduceThen(self.contents, self.function))

    def open(self, runtime_context: Any) -> None:
        """Opens the user's functions."""
        for function in self._functions():
            opener = getattr(function, "open", None)
            if opener is not None:
                opener(runtime_context)

    def close(self) -> None:
        """Closes the user's functions."""
        for function in self._functions():
            closer = getattr(function, "close", None)
            if closer is not None:
                closer()

    def _functions(self) -> list[Any]:
        of_results = [*getattr(self.function, "functions", ()), self.function.function]
        functions = [self.assigner, *self.contents.functions, *of_results]
        return [function for function in functions if function is not None]


class ReduceThen(PassOn):
    """Reduces or aggregates all records when the window fires, then calls the function."""

    def __init__(self, contents: WindowContents, function: PassOn) -> None:
        self._contents = contents
        self._then = function
        self.function = function.function
        self.clears = function.clears

    @property
    def functions(self) -> tuple[Any, ...]:
        """The user's functions that reduce."""
        return self._contents.functions

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        if not elements:
            return ()
        reduced = MISSING
        for element in elements:
            reduced = self._contents.add(reduced, element)
        return self._then.results(key, context, self._contents.elements(reduced))

    def clear(self, context: WindowContext) -> None:
        self._then.clear(context)


class FiredWindow(NamedTuple):
    """A window as it is shown when its function fails."""

    window: Any
    key: Any

    def __repr__(self) -> str:
        return f"<{self.window!r} of key {self.key!r}>"


class WindowBase(FunctionOperator):
    """An operator of windows of a keyed stream. Before `open` a subclass sets its `_time`."""

    keyed = True
    _time: TimeView

    def __init__(self, parts: WindowParts) -> None:
        super().__init__(parts)

    def open(self) -> None:
        assert self.context.keyed_state is not None
        self._parts: WindowParts = self.function
        self._state = self.context.keyed_state
        self._event_time: bool = self._parts.assigner.is_event_time()
        self._function_state = NamespacedStateBackend(self._state, "_window:")
        self._window_context = WindowContext(self._time, StateStore(self._function_state), StateStore(self._state))
        self._emitter = ResultEmitter(self.output)
        self._late = self.context.runtime_context.get_metrics_group().counter(LATE_RECORDS)
        super().open()

    def call(self, window: Any, key: Any, elements: list[Any], timestamp: int | None = None) -> None:
        """Calls the window function for a key and gathers its results.

        They carry the time of what made the window fire: a record, a timer, or, without `timestamp`, its own end.
        """
        if timestamp is None:
            timestamp = window.max_timestamp()
        context = self._window_context
        context._window = self._function_state.current_key = window
        self._state.current_key = key
        try:
            self._emitter.add(self._parts.function.results(key, context, elements), timestamp)
        except Exception as error:
            raise self.fault(error, FiredWindow(window, key)) from error

    def call_clear(self, window: Any, key: Any) -> None:
        """Lets the window function drop what it has stored for a window that is over."""
        self._window_context._window = self._function_state.current_key = window
        self._state.current_key = key
        try:
            self._parts.function.clear(self._window_context)
        except Exception as error:
            raise self.fault(error, FiredWindow(window, key)) from error

    def give_late(self, batch: Batch, late: list[int]) -> None:
        """Counts records that came too late, or passes them to the side output for them."""
        if not late:
            return
        if self._parts.late_tag is None:
            self._late.inc(len(late))
            return
        values = [self._parts.function.original(batch.values[index]) for index in late]
        times = None if batch.timestamps is None else [batch.timestamps[index] for index in late]
        self.output.emit_side(self._parts.late_tag, Batch(values, times))
