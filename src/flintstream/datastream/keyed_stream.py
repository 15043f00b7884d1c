"""KeyedStream: a stream partitioned by key, with keyed state. Imported from `flintstream.datastream`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from flintstream.common.time import Duration, Time
from flintstream.common.type_variables import B, K, K_co, R, T_co, V
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.common.types import Row
from flintstream.datastream.aggregations import Position, aggregation
from flintstream.datastream.basic_functions import Reducer, Selector
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.functions import (
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
)
from flintstream.datastream.queryable_stream import QueryableStateStream, queryable_stream
from flintstream.datastream.settings import checked_function, declared_output_type
from flintstream.datastream.stateful_functions import FilterWithState, FlatMapWithState, MapWithState, StatefulFunction
from flintstream.datastream.window import CountWindow, TimeWindow, WindowAssigner
from flintstream.datastream.window_assigners import count_windows, time_windows
from flintstream.graph.partitioners import KeyGroupPartitioner
from flintstream.graph.transformations import InvalidProgramException
from flintstream.runtime.captured import unwrapped
from flintstream.runtime.operators.base import bound_method
from flintstream.runtime.operators.keyed import ReduceOperator
from flintstream.runtime.operators.process import ProcessOperator

if TYPE_CHECKING:
    from flintstream.datastream.closeable_iterator import CloseableIterator
    from flintstream.datastream.joined_streams import IntervalJoin
    from flintstream.datastream.state import StateDescriptor
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flintstream.datastream.windowed_stream import WindowedStream
    from flintstream.graph.partitioners import StreamPartitioner
    from flintstream.graph.transformations import PartitionTransformation


class KeyedStream(DataStream[T_co], Generic[T_co, K_co]):
    """A stream partitioned by key, created by `key_by`; functions on it have state and timers per key.

    Example::

        clicks.key_by(lambda click: click.user).sum("amount")
    """

    _keyed = True

    class AccumulateType(Enum):
        """The kinds of rolling aggregates."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        transformation: PartitionTransformation,
        origin_stream: DataStream[T_co],
    ) -> None:
        super().__init__(env, transformation)
        self._partitioner = transformation.partitioner
        self._origin_stream = origin_stream

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction[K_co, T_co, R], output_type: OutputType = None
    ) -> DataStream[R]:
        """Maps each record to any number of results, with keyed state, timers and side outputs.

        Example::

            keyed.process(Match())
        """
        if not isinstance(func, KeyedProcessFunction):
            raise TypeError(f"process: a keyed stream needs a KeyedProcessFunction, got {func!r}")
        declared = declared_output_type("process", output_type)
        return self._transform("KeyedProcess", ProcessOperator(func, True), declared)

    def reduce(self, func: Reducer[T_co]) -> DataStream[T_co]:
        """Combines each record with the previous result of its key, and emits the new result: `keyed.reduce(max)`.

        In batch mode only the last result of each key is emitted.
        """
        function = checked_function("reduce", func, ReduceFunction)
        return self._transform("Keyed Reduce", ReduceOperator(function), self._transformation.output_type)

    def map_with_state(
        self,
        func: StatefulFunction[T_co, R],
        output_type: OutputType = None,
        state_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Maps each record and the state of its key to one result and the new state.

        The function receives the record and the state (None at first), and returns the result and the new state (None
        clears it)::

            keyed.map_with_state(lambda value, count: ((value, (count or 0) + 1), (count or 0) + 1))
        """
        function = MapWithState("map_with_state", _stateful("map_with_state", func), state_type)
        return self.map(function, output_type)

    def flat_map_with_state(
        self,
        func: StatefulFunction[T_co, Iterable[R] | None],
        output_type: OutputType = None,
        state_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Maps each record and the state of its key to any number of results and the new state.

        Example::

            keyed.flat_map_with_state(lambda value, last: ([] if value == last else [value], value))
        """
        function = FlatMapWithState("flat_map_with_state", _stateful("flat_map_with_state", func), state_type)
        return self.flat_map(function, output_type)

    def filter_with_state(
        self, func: StatefulFunction[T_co, object], state_type: TypeInformation | None = None
    ) -> DataStream[T_co]:
        """Keeps the records for which the function returns true, with state per key.

        Example::

            keyed.filter_with_state(lambda value, seen: (seen is None, True))  # the first of each key
        """
        return self.filter(FilterWithState("filter_with_state", _stateful("filter_with_state", func), state_type))

    def sum(self, position_to_sum: Position = 0) -> DataStream[T_co]:
        """Emits the running sum of a field, by position or name: `keyed.sum(1)`.

        The other fields are those of the first record of the key; on plain values the field is the value
        itself.
        """
        return self._aggregate("sum", position_to_sum)

    def min(self, position_to_min: Position = 0) -> DataStream[T_co]:
        """Emits the minimum so far of a field; the other fields are those of the key's first record.

        Example::

            keyed.min(1)
        """
        return self._aggregate("min", position_to_min)

    def max(self, position_to_max: Position = 0) -> DataStream[T_co]:
        """Emits the maximum so far of a field; the other fields are those of the key's first record.

        Example::

            keyed.max(1)
        """
        return self._aggregate("max", position_to_max)

    def min_by(self, position_to_min_by: Position = 0) -> DataStream[T_co]:
        """Emits the record with the smallest value so far of a field; of equal ones, the first.

        Example::

            keyed.min_by("price")
        """
        return self._aggregate("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: Position = 0) -> DataStream[T_co]:
        """Emits the record with the largest value so far of a field; of equal ones, the first.

        Example::

            keyed.max_by("price")
        """
        return self._aggregate("max_by", position_to_max_by)

    def key_by(self, key_selector: Selector[T_co, K], key_type: TypeInformation | None = None) -> KeyedStream[T_co, K]:
        """Partitions the same records by another key: `keyed.key_by(lambda click: click.page)`."""
        return self._origin_stream.key_by(key_selector, key_type)

    def window(self, window_assigner: WindowAssigner[Any, V]) -> WindowedStream[T_co, K_co, V]:
        """Groups the records of each key into windows: `keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))`."""
        from flintstream.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def time_window(
        self, size: Time | Duration, slide: Time | Duration | None = None
    ) -> WindowedStream[T_co, K_co, TimeWindow]:
        """Groups the records of each key into tumbling windows, or sliding ones if `slide` is given, by the
        environment's time characteristic: event time by default.

        Example::

            keyed.time_window(Time.hours(1), Time.minutes(5))
        """
        return self.window(time_windows(self._env, size, slide))

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T_co, K_co, CountWindow]:
        """Groups every `size` records of a key into a window; with `slide`, a window starts every `slide` records.

        Example::

            keyed.count_window(100)
        """
        return self.window(count_windows(size, slide))

    def interval_join(self, other_stream: KeyedStream[B, K_co]) -> IntervalJoin[T_co, B]:
        """Joins this keyed stream with another: pairs records with equal keys and nearby timestamps.

        Example::

            orders.interval_join(payments).between(Time.minutes(0), Time.minutes(15)).process(Paid())
        """
        from flintstream.datastream.joined_streams import IntervalJoin

        return IntervalJoin(self, other_stream)

    def _aggregate(self, name: str, position: Position) -> DataStream[T_co]:
        function = aggregation(name, position, self._transformation.output_type)
        return self._transform("Keyed Aggregation", ReduceOperator(function), self._transformation.output_type)

    @overload  # type: ignore[override]
    def execute_and_collect(self, job_execution_name: str | None = None) -> CloseableIterator[Row]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Row]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Row]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[Row] | list[Row]:
        """`DataStream.execute_and_collect`, but as in PyFlink each result is a Row of the key and the record.

        Example::

            keyed.execute_and_collect(limit=1)  # [Row(f0='user', f1=('user', 1))]
        """
        assert isinstance(self._partitioner, KeyGroupPartitioner)
        any_type = Types.PICKLED_BYTE_ARRAY()
        types = [self._partitioner.key_type or any_type, self._transformation.output_type or any_type]
        pairs = self._origin_stream.map(_WithKey(self._partitioner.key_selector), Types.ROW(types))
        return pairs.name("Keys and Records").execute_and_collect(job_execution_name, limit)  # type: ignore[arg-type]

    def as_queryable_state(
        self, queryable_state_name: str, state_descriptor: StateDescriptor | None = None
    ) -> QueryableStateStream:
        """Writes the stream into a state that can be queried from outside the job, if `queryable-state.enable` is set.

        Without a descriptor, or with that of a value, it holds the last record of each key. A list, reducing or aggregating
        state adds each record; a map state puts records that are pairs or dicts::

            keyed.as_queryable_state("last click of each user")
            keyed.as_queryable_state("largest", ReducingStateDescriptor("largest", max, Types.LONG()))
        """
        declared = self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()
        return queryable_stream(self, queryable_state_name, state_descriptor, declared)

    # --- what keys forbid ---

    def shuffle(self) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("shuffle")

    def rebalance(self) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("rebalance")

    def rescale(self) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("rescale")

    def forward(self) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("forward")

    def global_(self) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("global_")

    def broadcast(self, *args: Any) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("broadcast")

    def partition_custom(self, partitioner: Any, key_selector: Any) -> NoReturn:
        """Refused: the partitioning is determined by the keys."""
        self._refuse_partitioning("partition_custom")

    def cache(self) -> NoReturn:
        """Refused: cache the stream before `key_by`."""
        raise InvalidProgramException("cache() is not possible on a keyed stream: cache the stream before key_by()")

    def _partition(self, partitioner: StreamPartitioner) -> NoReturn:
        self._refuse_partitioning(partitioner.ship_strategy.lower())

    def _refuse_partitioning(self, method: str) -> NoReturn:
        raise InvalidProgramException(
            f"{method}() is not possible on a keyed stream, whose partitioning is determined by its keys: "
            f"call it before key_by()"
        )


class _WithKey(MapFunction):
    """Returns a record preceded by its key."""

    def __init__(self, key_selector: Any) -> None:
        self._key_selector = key_selector

    def open(self, runtime_context: Any) -> None:
        selector = unwrapped(self._key_selector)
        if isinstance(selector, KeySelector):
            selector.open(runtime_context)
        self._key_of = bound_method(selector, "get_key")

    def map(self, value: Any) -> Any:
        return self._key_of(value), value

    def close(self) -> None:
        selector = unwrapped(self._key_selector)
        if isinstance(selector, KeySelector):
            selector.close()


def _stateful(operator: str, func: StatefulFunction[T_co, R]) -> StatefulFunction[T_co, R]:
    if not callable(func):
        raise TypeError(f"{operator}: expected a function of a record and a state, got {func!r}")
    return func
