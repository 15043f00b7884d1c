"""Joins of two streams: by window (join, co_group), or by the time between two records (interval_join).

Imported from `flintstream.datastream`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from flintstream.common.arguments import millis
from flintstream.common.output_tag import OutputTag
from flintstream.common.time import Duration, Time
from flintstream.common.type_variables import A_co, B, B_co, K, R
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Selector
from flintstream.datastream.connected_streams import ConnectedStreams
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.functions import (
    CoGroupFunction,
    FlatJoinFunction,
    Function,
    JoinFunction,
    KeySelector,
    ProcessJoinFunction,
)
from flintstream.datastream.keyed_stream import KeyedStream
from flintstream.datastream.settings import checked_function, declared_output_type
from flintstream.datastream.window import Evictor, Trigger, WindowAssigner
from flintstream.datastream.windowed_stream import WindowedStream
from flintstream.graph.partitioners import KeyGroupPartitioner
from flintstream.graph.transformations import InvalidProgramException, PartitionTransformation, PhysicalTransformation
from flintstream.runtime.operators.base import bound_method
from flintstream.runtime.operators.interval_join import IntervalJoinOperator
from flintstream.runtime.windows.co_group import CoGroup, FlatJoin, Join, Tagged, TagOperator, tag_first, tag_second
from flintstream.runtime.windows.contents import ListContents
from flintstream.runtime.windows.functions import PassOn

if TYPE_CHECKING:
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment

Length = Duration | Time | int
_W = TypeVar("_W", bound="_JoinWindows")
_Self = TypeVar("_Self", bound="_JoinWindows")


# --- by window ---


class JoinedStreams(Generic[A_co, B_co]):
    """Two streams whose records are joined by key and window: `orders.join(prices)`.

    Example::

        orders.join(prices).where(lambda order: order.item).equal_to(lambda price: price.item) \\
            .window(TumblingEventTimeWindows.of(Time.minutes(1))) \\
            .apply(lambda order, price: order.count * price.amount)
    """

    def __init__(self, stream1: DataStream[A_co], stream2: DataStream[B_co]) -> None:
        self._streams = _two_streams("join", stream1, stream2)

    def where(
        self, key_selector: Selector[A_co, K], key_type: TypeInformation | None = None
    ) -> Where[JoinedWindows[A_co, B_co], B_co, K]:
        """Sets the key of the first stream: `.where(lambda order: order.item)`."""
        return Where(self._streams, key_selector, key_type, JoinedWindows)


class CoGroupedStreams(Generic[A_co, B_co]):
    """Two streams whose records are grouped by key and window: `orders.co_group(payments)`.

    Example::

        orders.co_group(payments).where(lambda order: order.number).equal_to(lambda payment: payment.order) \\
            .window(TumblingEventTimeWindows.of(Time.minutes(1))) \\
            .apply(Unpaid())
    """

    def __init__(self, stream1: DataStream[A_co], stream2: DataStream[B_co]) -> None:
        self._streams = _two_streams("co_group", stream1, stream2)

    def where(
        self, key_selector: Selector[A_co, K], key_type: TypeInformation | None = None
    ) -> Where[CoGroupedWindows[A_co, B_co], B_co, K]:
        """Sets the key of the first stream: `.where(lambda order: order.number)`."""
        return Where(self._streams, key_selector, key_type, CoGroupedWindows)


class Where(Generic[_W, B, K]):
    """Two streams with the key of the first; `equal_to` sets the key of the second."""

    def __init__(
        self,
        streams: tuple[DataStream, DataStream[B]],
        key_selector: Selector[Any, K],
        key_type: TypeInformation | None,
        windows: type[_W],
    ) -> None:
        self._streams = streams
        self._selector = checked_function("where", key_selector, KeySelector)
        self._key_type = _checked_key_type("where", key_type)
        self._windows = windows

    def equal_to(self, key_selector: Selector[B, K], key_type: TypeInformation | None = None) -> EqualTo[_W]:
        """Sets the key of the second stream: `.equal_to(lambda payment: payment.order)`."""
        selector = checked_function("equal_to", key_selector, KeySelector)
        declared = _checked_key_type("equal_to", key_type)
        _same_key_types("equal_to", self._key_type, declared)
        return EqualTo(self._streams, (self._selector, selector), self._key_type or declared, self._windows)


class EqualTo(Generic[_W]):
    """Two streams with both keys; `window` sets the windows."""

    def __init__(
        self,
        streams: tuple[DataStream, DataStream],
        selectors: tuple[Any, Any],
        key_type: TypeInformation | None,
        windows: type[_W],
    ) -> None:
        self._streams = streams
        self._selectors = selectors
        self._key_type = key_type
        self._windows = windows

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> _W:
        """Sets the windows: `.window(TumblingEventTimeWindows.of(Time.minutes(1)))`.

        Assigners, triggers and evictors receive tagged records: `(0, record)` from the first stream, `(1, record)` from
        the second.
        """
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(f"window: expected a WindowAssigner, got {window_assigner!r}")
        first, second = self._streams
        tagged = _tagged(first, tag_first).union(_tagged(second, tag_second))
        keyed = tagged.key_by(_TaggedKey(*self._selectors), self._key_type)
        return self._windows(_TaggedWindows(keyed, window_assigner))


class _JoinWindows:
    """The part shared by join and co_group windows."""

    def __init__(self, windows: _TaggedWindows) -> None:
        self._windows = windows

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the streams belong to."""
        return self._windows.get_execution_environment()

    def trigger(self: _Self, trigger: Trigger[Any, Any]) -> _Self:
        """Sets when a window fires, instead of the assigner's default trigger: `.trigger(CountTrigger.of(10))`."""
        self._windows.trigger(trigger)
        return self

    def evictor(self: _Self, evictor: Evictor[Any, Any]) -> _Self:
        """Sets which records are evicted from a window that fires: `.evictor(CountEvictor.of(10))` keeps the last ten
        of both streams.
        """
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self: _Self, time_ms: int | Time | Duration) -> _Self:
        """Sets for how long after its end a window accepts late records; it fires again with all its pairs for each."""
        self._windows.allowed_lateness(time_ms)
        return self

    def side_output_late_data(self: _Self, output_tag: OutputTag) -> _Self:
        """Sends late records of either stream to a side output; by default they are dropped and counted."""
        self._windows.side_output_late_data(output_tag)
        return self


class JoinedWindows(_JoinWindows, Generic[A_co, B_co]):
    """The windows of two joined streams; `apply` sets the join function."""

    def apply(
        self,
        function: Callable[[A_co, B_co], R] | JoinFunction[A_co, B_co, R] | FlatJoinFunction[A_co, B_co, R],
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Calls a function with each pair of records of the same key and window: `.apply(lambda left, right: (left,
        right))`.

        A JoinFunction or a plain function returns one result per pair, a FlatJoinFunction any number.
        """
        if isinstance(function, FlatJoinFunction):
            return self._windows.join(function, FlatJoin(function, function.join), output_type)
        checked = _checked("apply", function, JoinFunction, FlatJoinFunction)
        if inspect.isgeneratorfunction(checked):
            raise TypeError(
                f"apply: a plain function returns one result per pair, but {function!r} is a generator: use a "
                "FlatJoinFunction for any number of results"
            )
        return self._windows.join(function, Join(checked, _call_of(checked, JoinFunction, "join")), output_type)


class CoGroupedWindows(_JoinWindows, Generic[A_co, B_co]):
    """The windows of two co-grouped streams; `apply` sets the function."""

    def apply(
        self,
        function: Callable[[list[A_co], list[B_co]], Iterable[R] | None] | CoGroupFunction[A_co, B_co, R],
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Calls a function with all records of one key and window, as one group per stream.

        Either group may be empty. A plain function of two lists is accepted too: `.apply(lambda left, right: [...])`.
        """
        checked = _checked("apply", function, CoGroupFunction)
        call = _call_of(checked, CoGroupFunction, "co_group")
        return self._windows.join(function, CoGroup(checked, call), output_type)


class _TaggedWindows(WindowedStream):
    """Windows of tagged records."""

    def join(self, function: Any, results: PassOn, output_type: OutputType) -> DataStream:
        """Applies the window function that `results` configures."""
        self._results = results
        return self._windows("apply", ListContents(), function, declared_output_type("apply", output_type), None)

    def _result_function(self, method: str, function: Any) -> PassOn:
        return self._results


class _TaggedKey(KeySelector):
    """Extracts the key of a tagged record, with the selector of its stream."""

    def __init__(self, first: Any, second: Any) -> None:
        self._selectors = (first, second)

    def open(self, runtime_context: Any) -> None:
        self._select = tuple(bound_method(selector, "get_key") for selector in self._selectors)
        for selector in self._selectors:
            if isinstance(selector, Function):
                selector.open(runtime_context)

    def get_key(self, value: Tagged) -> Any:
        return self._select[value[0]](value[1])

    def close(self) -> None:
        for selector in self._selectors:
            if isinstance(selector, Function):
                selector.close()


# --- by the time between two records ---


class IntervalJoin(Generic[A_co, B_co]):
    """Two keyed streams whose records are joined by key and time: `orders.interval_join(payments)`.

    Example::

        orders.key_by(lambda order: order.number) \\
            .interval_join(payments.key_by(lambda payment: payment.order)) \\
            .between(Duration.of_minutes(0), Duration.of_minutes(15)) \\
            .process(Paid())
    """

    def __init__(self, left: KeyedStream[A_co, Any], right: KeyedStream[B_co, Any]) -> None:
        for stream in (left, right):
            if not isinstance(stream, KeyedStream):
                raise TypeError(
                    f"interval_join: expected a KeyedStream, got {stream!r}: call key_by() on both streams first"
                )
        left._same_environment("interval_join", right)
        _same_key_types("interval_join", _key_type_of(left), _key_type_of(right))
        self._left = left
        self._right = right

    def in_event_time(self) -> IntervalJoin[A_co, B_co]:
        """Uses event time, which is the default."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Refused: interval joins support event time only, as in Flink."""
        raise InvalidProgramException(
            "in_processing_time: interval joins support event time only: assign timestamps to both streams"
        )

    def between(self, lower_bound: Length, upper_bound: Length) -> IntervalJoined[A_co, B_co]:
        """Sets how far the right record's timestamp may be from the left one's; both bounds are inclusive and may be
        negative.

        Pairs satisfy `left + lower_bound <= right <= left + upper_bound`::

            joined.between(Time.seconds(-5), Time.seconds(5))
        """
        lower, upper = millis("between", "lower_bound", lower_bound), millis("between", "upper_bound", upper_bound)
        if lower > upper:
            raise ValueError(
                f"between: lower_bound must not be greater than upper_bound, got {lower_bound!r} and {upper_bound!r}"
            )
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined(Generic[A_co, B_co]):
    """An interval join with its bounds; `process` sets the function."""

    def __init__(
        self, left: KeyedStream[A_co, Any], right: KeyedStream[B_co, Any], lower_bound: int, upper_bound: int
    ) -> None:
        self._streams = ConnectedStreams(left, right)
        self._lower = lower_bound
        self._upper = upper_bound
        self._lower_exclusive = False
        self._upper_exclusive = False
        self._left_tag: OutputTag | None = None
        self._right_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalJoined[A_co, B_co]:
        """Excludes right records exactly at the lower bound."""
        self._lower_exclusive = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[A_co, B_co]:
        """Excludes right records exactly at the upper bound."""
        self._upper_exclusive = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag[Any]) -> IntervalJoined[A_co, B_co]:
        """Sends left records behind the watermark to a side output; by default they are dropped and counted."""
        self._left_tag = _checked_tag("side_output_left_late_data", output_tag)
        return self

    def side_output_right_late_data(self, output_tag: OutputTag[Any]) -> IntervalJoined[A_co, B_co]:
        """Sends right records behind the watermark to a side output; by default they are dropped and counted."""
        self._right_tag = _checked_tag("side_output_right_late_data", output_tag)
        return self

    def process(
        self, process_join_function: ProcessJoinFunction[A_co, B_co, R], output_type: OutputType = None
    ) -> DataStream[R]:
        """Calls a function with each pair: `.process(Paid(), Types.STRING())`."""
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise TypeError(f"process: an interval join needs a ProcessJoinFunction, got {process_join_function!r}")
        declared = declared_output_type("process", output_type)
        operator = IntervalJoinOperator(
            process_join_function,
            self._lower + self._lower_exclusive,
            self._upper - self._upper_exclusive,
            None if self._left_tag is None else self._left_tag.tag_id,
            None if self._right_tag is None else self._right_tag.tag_id,
        )
        return self._streams._transform("Interval Join", operator, declared)


# --- checks ---


def _two_streams(method: str, first: DataStream, second: Any) -> tuple[DataStream, DataStream]:
    if not isinstance(second, DataStream):
        raise TypeError(f"{method}: expected a DataStream, got {second!r}")
    first._same_environment(method, second)
    return first, second


def _tagged(stream: DataStream, tag: Callable[[Any], Tagged]) -> DataStream:
    """Returns the stream with tagged records. Existing keys are discarded: the join sets its own."""
    source = stream._origin_stream if isinstance(stream, KeyedStream) else stream
    tagged = source._transform("Map", TagOperator(tag), None)
    if isinstance(source._transformation, PhysicalTransformation):
        # Same parallelism, so that it is chained to its input.
        tagged._transformation.parallelism = source._transformation.parallelism
    return tagged


def _checked(method: str, function: Any, *kinds: type[Any]) -> Any:
    """Returns a function object of one of the kinds, or any callable."""
    for kind in kinds:
        if isinstance(function, type) and issubclass(function, kind):
            raise TypeError(f"{method}: pass an instance, {function.__name__}(), not the class {function.__name__}")
    if isinstance(function, kinds[0]):
        return function
    if isinstance(function, Function) or not callable(function):
        names = " or a ".join([kind.__name__ for kind in kinds] + ["plain function of two arguments"])
        raise TypeError(f"{method}: expected a {names}, got {function!r}")
    return checked_function(method, function, kinds[0])


def _call_of(function: Any, kind: type[Any], method: str) -> Callable[[Any, Any], Any]:
    return getattr(function, method) if isinstance(function, kind) else function  # type: ignore[no-any-return]


def _checked_key_type(method: str, key_type: Any) -> TypeInformation | None:
    if key_type is not None and not isinstance(key_type, TypeInformation):
        raise TypeError(f"{method}: key_type must be one of Types, such as Types.STRING(), got {key_type!r}")
    return key_type


def _same_key_types(method: str, first: TypeInformation | None, second: TypeInformation | None) -> None:
    if first is not None and second is not None and first != second:
        raise InvalidProgramException(
            f"{method}: the keys of both streams must have the same type, got {first} and {second}"
        )


def _key_type_of(stream: KeyedStream) -> TypeInformation | None:
    transformation = stream._transformation
    assert isinstance(transformation, PartitionTransformation)
    partitioner = transformation.partitioner
    return partitioner.key_type if isinstance(partitioner, KeyGroupPartitioner) else None


def _checked_tag(method: str, output_tag: Any) -> OutputTag:
    if not isinstance(output_tag, OutputTag):
        raise TypeError(f"{method}: expected an OutputTag, got {output_tag!r}")
    return output_tag
