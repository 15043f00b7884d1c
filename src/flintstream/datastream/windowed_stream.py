"""Windowed streams. Imported from `flintstream.datastream`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from flintstream.common.arguments import millis
from flintstream.common.output_tag import OutputTag
from flintstream.common.time import Duration, Time
from flintstream.common.type_variables import ACC, A, K, K_co, R, T_co, V, W_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.aggregations import Position, aggregation, is_mergeable
from flintstream.datastream.basic_functions import Reducer
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    NullByteKeySelector,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from flintstream.datastream.settings import checked_function, declared_output_type
from flintstream.datastream.triggers import EventTimeTrigger, ProcessingTimeTrigger
from flintstream.datastream.window import Evictor, MergingWindowAssigner, Trigger, WindowAssigner
from flintstream.datastream.window_assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.datastream.window_types import TimeWindow
from flintstream.runtime.windows.aligned import AlignedWindowOperator
from flintstream.runtime.windows.base import WindowBase
from flintstream.runtime.windows.contents import (
    AggregatedContents,
    FoldedContents,
    ListContents,
    ReducedContents,
    WindowContents,
)
from flintstream.runtime.windows.functions import Apply, PassOn, Process
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.runtime.windows.spec import WindowSpec

if TYPE_CHECKING:
    from flintstream.datastream.keyed_stream import KeyedStream
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment

OfWindow = (
    WindowFunction[A, R, K, V]
    | ProcessWindowFunction[A, R, K, V]
    | AllWindowFunction[A, R, V]
    | ProcessAllWindowFunction[A, R, V]
)
"""A function of records A of a window V, with its key K or without, that gives R."""
_Self = TypeVar("_Self", bound="_Windows")


class _Windows(Generic[T_co, K_co, W_co]):
    """The part shared by keyed and non-keyed windows."""

    _with_keys = True
    _method = "window"
    _apply_kind: type[Any] = WindowFunction
    _process_kind: type[Any] = ProcessWindowFunction

    def __init__(self, stream: KeyedStream[T_co, K_co], window_assigner: WindowAssigner[Any, W_co]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"{self._method}: expected a WindowAssigner, got {window_assigner!r}")
        self._keyed_stream = stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._lateness = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Returns the type of the input records."""
        return self._keyed_stream.get_type()

    def trigger(self: _Self, trigger: Trigger[Any, Any]) -> _Self:
        """Sets when a window fires, instead of the assigner's default trigger: `windows.trigger(CountTrigger.of(10))`."""
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger: expected a Trigger, got {trigger!r}")
        self._check_merging(trigger)
        self._trigger = trigger
        return self

    def evictor(self: _Self, evictor: Evictor[Any, Any]) -> _Self:
        """Sets which records are evicted from a window that fires: `windows.evictor(CountEvictor.of(10))`.

        Windows with an evictor keep all their records, even with a reduce or aggregate function.
        """
        if not isinstance(evictor, Evictor):
            raise TypeError(f"evictor: expected an Evictor, got {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self: _Self, time_ms: int | Time | Duration) -> _Self:
        """Sets for how long after its end (milliseconds of event time) a window accepts late records; it fires again
        for each.
        """
        lateness = millis("allowed_lateness", "time_ms", time_ms)
        if lateness < 0:
            raise ValueError(f"allowed_lateness: the time must not be negative, got {time_ms!r}")
        self._lateness = lateness
        return self

    def side_output_late_data(self: _Self, output_tag: OutputTag[Any]) -> _Self:
        """Sends records that are too late for all their windows to a side output; by default they are dropped and
        counted.
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"side_output_late_data: expected an OutputTag, got {output_tag!r}")
        self._late_tag = output_tag
        return self

    # --- functions ---

    @overload
    def reduce(
        self,
        reduce_function: Reducer[T_co],
        window_function: None = None,
        output_type: OutputType = None,
        mergeable: bool = False,
    ) -> DataStream[T_co]: ...
    @overload
    def reduce(
        self,
        reduce_function: Reducer[T_co],
        window_function: OfWindow[T_co, R, K_co, W_co],
        output_type: OutputType = None,
        mergeable: bool = False,
    ) -> DataStream[R]: ...
    def reduce(
        self,
        reduce_function: Reducer[T_co],
        window_function: OfWindow[T_co, R, K_co, W_co] | None = None,
        output_type: OutputType = None,
        mergeable: bool = False,
    ) -> DataStream[T_co] | DataStream[R]:
        """Reduces the records of each window to one, incrementally.

        A window function, if given, receives the one record: `windows.reduce(max, Report())`. `mergeable=True` declares
        that the result does not depend on how records are grouped and ordered, as with `max`: sliding windows then
        share panes, and the function runs once per record instead of once per record and window.
        """
        function = checked_function("reduce", reduce_function, ReduceFunction)
        declared = declared_output_type("reduce", output_type)
        if window_function is None and declared is None:
            declared = self._keyed_stream._transformation.output_type
        contents = ReducedContents(function)
        return self._windows("reduce", contents, window_function, declared, reduce_function, mergeable)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, A],
        window_function: None = None,
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
        mergeable: bool = False,
    ) -> DataStream[A]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, A],
        window_function: OfWindow[A, R, K_co, W_co],
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
        mergeable: bool = False,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, A],
        window_function: OfWindow[A, R, K_co, W_co] | None = None,
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
        mergeable: bool = False,
    ) -> DataStream[A] | DataStream[R]:
        """Aggregates the records of each window incrementally; only the accumulator is kept.

        A window function, if given, receives the one result: `windows.aggregate(Average(), Report())`. `mergeable=True`
        declares that `merge` gives the same as adding all records to one accumulator, in any order: sliding windows
        then share panes, and `add` runs once per record instead of once per record and window.
        """
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError(f"aggregate: expected an AggregateFunction, got {aggregate_function!r}")
        declared_output_type("aggregate", accumulator_type)
        declared = declared_output_type("aggregate", output_type)
        contents = AggregatedContents(aggregate_function)
        return self._windows("aggregate", contents, window_function, declared, aggregate_function, mergeable)

    @overload
    def fold(
        self,
        initial_value: A,
        fold_function: Callable[[A, T_co], A],
        window_function: None = None,
        output_type: OutputType = None,
    ) -> DataStream[A]: ...
    @overload
    def fold(
        self,
        initial_value: A,
        fold_function: Callable[[A, T_co], A],
        window_function: OfWindow[A, R, K_co, W_co],
        output_type: OutputType = None,
    ) -> DataStream[R]: ...
    def fold(
        self,
        initial_value: A,
        fold_function: Callable[[A, T_co], A],
        window_function: OfWindow[A, R, K_co, W_co] | None = None,
        output_type: OutputType = None,
    ) -> DataStream[A] | DataStream[R]:
        """Folds the records of each window into an initial value: `windows.fold(0, lambda total, value: total +
        value)`.

        Not supported for merging windows: use `aggregate` for those.
        """
        if not callable(fold_function):
            raise TypeError(f"fold: expected a function of the value so far and a record, got {fold_function!r}")
        if isinstance(self._assigner, MergingWindowAssigner):
            raise TypeError(
                f"fold: the windows of {self._assigner!r} merge, which fold() does not support: use aggregate()"
            )
        declared = declared_output_type("fold", output_type)
        contents = FoldedContents(initial_value, fold_function)
        return self._windows("fold", contents, window_function, declared, fold_function)

    def sum(self, position_to_sum: Position = 0) -> DataStream[T_co]:
        """Sums a field, by position or name; the other fields are those of the window's first record.

        Example::

            windows.sum(1)
        """
        return self._aggregation("sum", position_to_sum)

    def min(self, position_to_min: Position = 0) -> DataStream[T_co]:
        """Emits the minimum of a field; the other fields are those of the window's first record: `windows.min(1)`."""
        return self._aggregation("min", position_to_min)

    def max(self, position_to_max: Position = 0) -> DataStream[T_co]:
        """Emits the maximum of a field; the other fields are those of the window's first record: `windows.max(1)`."""
        return self._aggregation("max", position_to_max)

    def min_by(self, position_to_min_by: Position = 0) -> DataStream[T_co]:
        """Emits the record with the smallest value of a field; of equal ones, the first: `windows.min_by("price")`."""
        return self._aggregation("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: Position = 0) -> DataStream[T_co]:
        """Emits the record with the largest value of a field; of equal ones, the first: `windows.max_by("price")`."""
        return self._aggregation("max_by", position_to_max_by)

    def _aggregation(self, name: str, position: Position) -> DataStream[T_co]:
        declared = self._keyed_stream._transformation.output_type
        return self.reduce(aggregation(name, position, declared), mergeable=is_mergeable(name, declared))

    def apply(
        self,
        window_function: WindowFunction[T_co, R, K_co, W_co] | AllWindowFunction[T_co, R, W_co],
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Calls a function with all records of each window: `windows.apply(Count())`."""
        if not isinstance(window_function, self._apply_kind):
            raise TypeError(f"apply: expected {_named(self._apply_kind)}, got {window_function!r}")
        declared = declared_output_type("apply", output_type)
        return self._windows("apply", ListContents(), window_function, declared, None)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T_co, R, K_co, W_co] | ProcessAllWindowFunction[T_co, R, W_co],
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Calls a function with all records of each window, and a context: `windows.process(Report())`."""
        if not isinstance(process_window_function, self._process_kind):
            raise TypeError(f"process: expected {_named(self._process_kind)}, got {process_window_function!r}")
        declared = declared_output_type("process", output_type)
        return self._windows("process", ListContents(), process_window_function, declared, None)

    # --- recording ---

    def _windows(
        self,
        method: str,
        contents: WindowContents,
        window_function: Any,
        declared: TypeInformation | None,
        reducer: Any,
        mergeable: bool = False,
    ) -> DataStream:
        spec = self._spec(method, contents, window_function, mergeable)
        operator = window_operator(spec, self.get_execution_environment()._state_in_memory)
        stream = self._keyed_stream._transform(type(self._assigner).__name__, operator, declared)
        names = [type(function).__name__ for function in (reducer, window_function) if function is not None]
        kind = "Window" if self._with_keys else "AllWindow"
        described = f"{kind}({self._assigner!r}, {type(spec.trigger).__name__}, {', '.join(names)})"
        return self._finish(stream.set_description(described))

    def _spec(self, method: str, contents: WindowContents, window_function: Any, mergeable: bool) -> WindowSpec:
        if not isinstance(mergeable, bool):
            raise TypeError(f"{method}: mergeable must be True or False, got {mergeable!r}")
        trigger = self._trigger
        if trigger is None:
            trigger = self._assigner.get_default_trigger(self.get_execution_environment())
            self._check_merging(trigger)
        return WindowSpec(
            self._assigner,
            trigger,
            contents,
            self._result_function(method, window_function),
            self._evictor,
            self._lateness,
            None if self._late_tag is None else self._late_tag.tag_id,
            mergeable,
        )

    def _check_merging(self, trigger: Trigger[Any, Any]) -> None:
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(
                f"trigger: the windows of {self._assigner!r} merge, which {trigger!r} does not support (can_merge() "
                "is False)"
            )

    def _finish(self, stream: DataStream) -> DataStream:
        return stream

    def _result_function(self, method: str, function: Any) -> PassOn:
        if function is None:
            return PassOn()
        if isinstance(function, self._process_kind):
            return Process(function, self._with_keys, type(function).clear is not self._process_kind.clear)
        if isinstance(function, self._apply_kind):
            return Apply(function, self._with_keys)
        kinds = f"{_named(self._apply_kind)} or {_named(self._process_kind)}"
        raise TypeError(f"{method}: window_function must be {kinds}, got {function!r}")


class WindowedStream(_Windows[T_co, K_co, W_co]):
    """Windows per key: `keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))`."""

    def __init__(self, keyed_stream: KeyedStream[T_co, K_co], window_assigner: WindowAssigner[Any, W_co]) -> None:
        super().__init__(keyed_stream, window_assigner)


class AllWindowedStream(_Windows[T_co, int, W_co]):
    """Windows over all records of a stream, in one subtask: `stream.window_all(...)`."""

    _with_keys = False
    _method = "window_all"
    _apply_kind = AllWindowFunction
    _process_kind = ProcessAllWindowFunction

    def __init__(self, data_stream: DataStream[T_co], window_assigner: WindowAssigner[Any, W_co]) -> None:
        super().__init__(data_stream.key_by(NullByteKeySelector()), window_assigner)

    def _finish(self, stream: DataStream) -> DataStream:
        return stream.force_non_parallel()


def _named(kind: type[Any]) -> str:
    name = kind.__name__
    return f"{'an' if name.startswith('A') else 'a'} {name}"


# Exact classes only: a subclass may behave differently.
_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)


def window_operator(spec: WindowSpec, in_memory: bool = True) -> WindowBase:
    """Returns the operator for the windows of a program.

    The fast operator holds its windows in memory; with a backend for state larger than memory, the general one is used.
    """
    if spec.evictor is not None:
        return WindowOperator(spec.for_evictor())
    assigner = spec.assigner
    at_the_end = EventTimeTrigger if assigner.is_event_time() else ProcessingTimeTrigger
    if type(spec.trigger) is not at_the_end or not in_memory:
        return WindowOperator(spec, TimeWindow if isinstance(assigner, _TUMBLING + _SLIDING) else None)
    if type(assigner) in _TUMBLING:
        return AlignedWindowOperator(spec, TimeWindow, assigner._size, assigner._size, assigner._offset)
    if type(assigner) in _SLIDING:
        return AlignedWindowOperator(spec, TimeWindow, assigner._size, assigner._slide, assigner._offset)
    return WindowOperator(spec)
