"""Streams cut into windows. The classes are here; windows are not part of this version.

Imported from `flintstream.datastream`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from flintstream.common.output_tag import OutputTag
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.data_stream import WINDOWS_ARE_LATER, DataStream, OutputType
from flintstream.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from flintstream.datastream.window import Trigger, WindowAssigner

if TYPE_CHECKING:
    from flintstream.datastream.keyed_stream import KeyedStream
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment

Reducer = Callable[[Any, Any], Any] | ReduceFunction
_KeyedWindowFunction = WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any]
_WholeWindowFunction = AllWindowFunction[Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any]


class _Windows:
    """What windows with and without keys share."""

    def __init__(self, stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        method = "window" if isinstance(self, WindowedStream) else "window_all"
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"{method}: expected a WindowAssigner, got {window_assigner!r}")
        raise NotImplementedError(f"{method}: {WINDOWS_ARE_LATER}")

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def get_input_type(self) -> TypeInformation:
        """The type of the records that go into windows."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def trigger(self, trigger: Trigger[Any, Any]) -> NoReturn:
        """When a window's result is emitted."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def allowed_lateness(self, time_ms: int) -> NoReturn:
        """How long after its end a window still takes records."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def side_output_late_data(self, output_tag: OutputTag) -> NoReturn:
        """Where records go that come too late."""
        raise NotImplementedError(WINDOWS_ARE_LATER)


class WindowedStream(_Windows):
    """Windows of each key. Not part of this version."""

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(keyed_stream, window_assigner)

    def reduce(
        self,
        reduce_function: Reducer,
        window_function: _KeyedWindowFunction | None = None,
        output_type: OutputType = None,
    ) -> DataStream:
        """Reduces the records of each window to one."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: _KeyedWindowFunction | None = None,
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
    ) -> DataStream:
        """Aggregates the records of each window."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def apply(self, window_function: WindowFunction[Any, Any, Any, Any], output_type: OutputType = None) -> DataStream:
        """Calls a function with all records of each window."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def process(
        self,
        process_window_function: ProcessWindowFunction[Any, Any, Any, Any],
        output_type: OutputType = None,
    ) -> DataStream:
        """Calls a function with all records of each window, and a context."""
        raise NotImplementedError(WINDOWS_ARE_LATER)


class AllWindowedStream(_Windows):
    """Windows over all records of a stream. Not part of this version."""

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(data_stream, window_assigner)

    def reduce(
        self,
        reduce_function: Reducer,
        window_function: _WholeWindowFunction | None = None,
        output_type: OutputType = None,
    ) -> DataStream:
        """Reduces the records of each window to one."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: _WholeWindowFunction | None = None,
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
    ) -> DataStream:
        """Aggregates the records of each window."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def apply(self, window_function: AllWindowFunction[Any, Any, Any], output_type: OutputType = None) -> DataStream:
        """Calls a function with all records of each window."""
        raise NotImplementedError(WINDOWS_ARE_LATER)

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[Any, Any, Any],
        output_type: OutputType = None,
    ) -> DataStream:
        """Calls a function with all records of each window, and a context."""
        raise NotImplementedError(WINDOWS_ARE_LATER)
