"""The functions called with the contents of a window that fires: none, or one of the four kinds of window functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintstream.runtime.time.timers import TimeView
    from flintstream.runtime.windows.namespaces import StateStore


class WindowContext:
    """The context of a process window function: the current window, the time, and state."""

    __slots__ = ("_global", "_time", "_window", "_windowed")

    def __init__(self, time: TimeView, windowed: StateStore, of_key: StateStore) -> None:
        self._time = time
        self._windowed = windowed
        self._global = of_key
        self._window: Any = None

    def window(self) -> Any:
        """Returns the window."""
        return self._window

    def current_processing_time(self) -> int:
        """Returns the slot's clock, in milliseconds since 1970."""
        return self._time.current_processing_time()

    def current_watermark(self) -> int:
        """Returns the current watermark of the operator."""
        return self._time.watermark

    def window_state(self) -> StateStore:
        """Returns state scoped to this key and window; clear it in `clear`."""
        return self._windowed

    def global_state(self) -> StateStore:
        """Returns state scoped to this key, shared by its windows."""
        return self._global


class PassOn:
    """Passes on the reduced or aggregated value, without a window function."""

    function: Any = None
    """The user's function."""
    reducers: tuple[Any, ...] = ()
    """The user's functions called before it, if records are reduced only when a window fires."""
    clears = False
    """Whether the function has a `clear` for dropped windows."""

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        """Returns the results of a window."""
        return elements

    def original(self, record: Any) -> Any:
        """Returns a record as it arrived, for the side output of late records."""
        return record

    def clear(self, context: WindowContext) -> None:
        """Does nothing."""


class Apply(PassOn):
    """`WindowFunction.apply(key, window, inputs)`, or `AllWindowFunction.apply(window, inputs)`."""

    def __init__(self, function: Any, with_key: bool) -> None:
        self.function = function
        self._with_key = with_key

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        if self._with_key:
            return self.function.apply(key, context._window, elements) or ()
        return self.function.apply(context._window, elements) or ()


class Process(PassOn):
    """`ProcessWindowFunction.process(key, context, elements)`, or without the key for all records."""

    def __init__(self, function: Any, with_key: bool, clears: bool = True) -> None:
        self.function = function
        self._with_key = with_key
        self.clears = clears

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        if self._with_key:
            return self.function.process(key, context, elements) or ()
        return self.function.process(context, elements) or ()

    def clear(self, context: WindowContext) -> None:
        self.function.clear(context)
