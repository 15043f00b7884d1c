"""What is called with the contents of a window that fires: nothing, or one of the four kinds of window functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintstream.runtime.time.timers import TimeView
    from flintstream.runtime.windows.namespaces import StateStore


class WindowContext:
    """The context of a process window function: the window at hand, the time, and state."""

    __slots__ = ("_global", "_time", "_window", "_windowed")

    def __init__(self, time: TimeView, windowed: StateStore, of_key: StateStore) -> None:
        self._time = time
        self._windowed = windowed
        self._global = of_key
        self._window: Any = None

    def window(self) -> Any:
        """The window."""
        return self._window

    def current_processing_time(self) -> int:
        """The clock of the slot, in milliseconds since 1970."""
        return self._time.current_processing_time()

    def current_watermark(self) -> int:
        """The watermark that the operator has reached."""
        return self._time.watermark

    def window_state(self) -> StateStore:
        """State of this key and this window only; drop it in `clear`."""
        return self._windowed

    def global_state(self) -> StateStore:
        """State of this key, across its windows."""
        return self._global


class PassOn:
    """No function: the result is what the records were reduced or aggregated to."""

    function: Any = None
    """The user's function."""
    reducers: tuple[Any, ...] = ()
    """The user's functions that are called before it, where records are reduced only when a window fires."""
    clears = False
    """Whether the function has something to do when a window is dropped."""

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        """The results of a window."""
        return elements

    def original(self, record: Any) -> Any:
        """A record as it was before it came here, for the side output of late records."""
        return record

    def clear(self, context: WindowContext) -> None:
        """Nothing to drop."""


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
