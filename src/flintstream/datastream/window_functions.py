"""Window functions: called with the contents of a window.

All are imported from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic

from flintstream.common.type_variables import IN, KEY, OUT, W_co, W_contra
from flintstream.datastream.basic_functions import Function
from flintstream.datastream.state import KeyedStateStore


class WindowFunction(Function, Generic[IN, OUT, KEY, W_contra]):
    """Called with a key, its window and the window's records.

    Example::

        class Count(WindowFunction):
            def apply(self, key, window, inputs):
                yield key, window.start, len(list(inputs))
    """

    @abstractmethod
    def apply(self, key: KEY, window: W_contra, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Returns the results of a window that fires."""


class AllWindowFunction(Function, Generic[IN, OUT, W_contra]):
    """Called with a window over all records of a stream, and these records.

    Example::

        class Total(AllWindowFunction):
            def apply(self, window, inputs):
                yield sum(inputs)
    """

    @abstractmethod
    def apply(self, window: W_contra, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Returns the results of a window that fires."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W_contra]):
    """A `WindowFunction` with a context for the window, the time and state.

    Example::

        class Report(ProcessWindowFunction):
            def process(self, key, context, elements):
                yield key, context.window().end, len(list(elements))
    """

    class Context(ABC, Generic[W_co]):
        """What a window function can access about the window that fires."""

        @abstractmethod
        def window(self) -> W_co:
            """Returns the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the slot's clock, in milliseconds since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the current watermark of the operator."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns state scoped to this key and window; clear it in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns state scoped to this key, shared by its windows."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Returns the results of a window that fires."""

    def clear(self, context: ProcessWindowFunction.Context[W_contra]) -> None:
        """Called when the window is deleted: clear the state of `context.window_state()`."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W_contra]):
    """An `AllWindowFunction` with a context for the window and state."""

    class Context(ABC, Generic[W_co]):
        """What a window function can access about the window that fires."""

        @abstractmethod
        def window(self) -> W_co:
            """Returns the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Returns state scoped to this window; clear it in `clear`."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Returns state shared by all windows."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W_contra], elements: Iterable[IN]) -> Iterable[OUT]:
        """Returns the results of a window that fires."""

    def clear(self, context: ProcessAllWindowFunction.Context[W_contra]) -> None:
        """Called when the window is deleted: clear the state of `context.window_state()`."""
