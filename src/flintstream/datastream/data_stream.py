"""DataStream: a stream of records and its transformations.

Nothing runs here: each call records a transformation in the environment, and `env.execute()` runs them as a job.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from flintstream.common.execution_config import ExecutionConfig
from flintstream.common.output_tag import OutputTag
from flintstream.common.time import Duration, Time
from flintstream.common.type_variables import B, K, R, T, T_co, V
from flintstream.common.typeinfo import TupleTypeInfo, TypeInformation, Types
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.datastream.basic_functions import FlatMapper, Mapper, Selector
from flintstream.datastream.closeable_iterator import CloseableIterator
from flintstream.datastream.connectors.base import Sink
from flintstream.datastream.data_stream_sink import DataStreamSink, TwoStageSink
from flintstream.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    SinkFunction,
    TwoPhaseCommitSinkFunction,
)
from flintstream.datastream.settings import (
    OperatorSettings,
    check_watermark_strategy,
    checked_function,
    declared_output_type,
)
from flintstream.datastream.slot_sharing_group import SlotSharingGroup
from flintstream.datastream.state import MapStateDescriptor
from flintstream.datastream.window import CountWindow, TimeWindow, WindowAssigner
from flintstream.datastream.window_assigners import count_windows, time_windows
from flintstream.graph.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    StreamPartitioner,
)
from flintstream.graph.transformations import (
    FeedbackTransformation,
    InvalidProgramException,
    OneInputTransformation,
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    SinkTransformation,
    Transformation,
    UnionTransformation,
)
from flintstream.runtime.captured import capture
from flintstream.runtime.operators.keyed import element_operator
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.operators.sinks import CollectOperator, FunctionSinkOperator, PrintOperator
from flintstream.runtime.operators.stateless import PureMapOperator
from flintstream.runtime.operators.watermarks import TimestampsAndWatermarksOperator
from flintstream.runtime.stacks import call_site

if TYPE_CHECKING:
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment

S = TypeVar("S", bound="DataStream")
OutputType = TypeInformation | list[TypeInformation] | None


class DataStream(Generic[T_co]):
    """A stream of records, created by an environment or by a method of another stream.

    Example::

        env.from_collection([1, 2, 3], Types.INT()).map(lambda x: x * 2, Types.INT()).print()
        env.execute()
    """

    _keyed = False
    """Whether the functions of this stream's operators may use keyed state."""

    def __init__(self, env: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    # --- settings ---

    def get_name(self) -> str:
        """Returns the name of the operator that produces this stream, e.g. "Map" for `stream.map(f).get_name()`."""
        self._settings("get_name")
        return self._transformation.name

    def name(self: S, name: str) -> S:
        """Sets the name of the operator: `stream.map(parse).name("parse lines")`."""
        self._settings("name").name(name)
        return self

    def uid(self: S, uid: str) -> S:
        """Sets a stable id, by which the operator's state is matched on restore.

        Example::

            stream.map(Count()).uid("count")
        """
        self._settings("uid").uid(uid)
        return self

    def set_uid_hash(self: S, uid_hash: str) -> S:
        """Sets the operator id itself: 32 hexadecimal digits, as shown in logs and checkpoints."""
        self._settings("set_uid_hash").uid_hash(uid_hash)
        return self

    def set_parallelism(self: S, parallelism: int) -> S:
        """Sets the number of subtasks of the operator; -1 for the environment's default.

        Example::

            stream.map(f).set_parallelism(4)
        """
        self._settings("set_parallelism").parallelism(parallelism)
        return self

    def set_max_parallelism(self: S, max_parallelism: int) -> S:
        """Sets the number of key groups, which is the upper bound for rescaling.

        Example::

            stream.map(f).set_max_parallelism(256)
        """
        self._settings("set_max_parallelism").max_parallelism(max_parallelism)
        return self

    def force_non_parallel(self: S) -> S:
        """Fixes the operator's parallelism at one subtask."""
        self._settings("force_non_parallel").force_non_parallel()
        return self

    def set_buffer_timeout(self: S, timeout_millis: int) -> S:
        """Sets how long what this operator writes to other tasks may wait in a block that is not full, in milliseconds, in a
        pipelined job: 0 sends it at once, -1 stands for the environment's timeout, as in Flink.

        Example::

            orders.filter(is_urgent).set_buffer_timeout(1).key_by(lambda order: order.customer)
        """
        self._settings("set_buffer_timeout").buffer_timeout(timeout_millis)
        return self

    def start_new_chain(self: S) -> S:
        """Starts a new chain with this operator: it is not chained to its predecessor, but successors may be chained to
        it.
        """
        self._settings("start_new_chain").start_new_chain()
        return self

    def disable_chaining(self: S) -> S:
        """Runs the operator in a task of its own."""
        self._settings("disable_chaining").disable_chaining()
        return self

    def slot_sharing_group(self: S, slot_sharing_group: str | SlotSharingGroup) -> S:
        """Sets the slot sharing group of the operator's subtasks.

        Example::

            stream.map(f).slot_sharing_group("heavy")
        """
        self._settings("slot_sharing_group").slot_sharing_group(slot_sharing_group)
        return self

    def set_description(self: S, description: str) -> S:
        """Sets a description for plans, longer than the name: `stream.map(f).set_description("euro to dollar")`."""
        self._settings("set_description").description(description)
        return self

    def get_type(self) -> TypeInformation:
        """Returns the declared type of the records; `Types.PICKLED_BYTE_ARRAY()` if none is declared."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Returns the settings of the environment: `stream.get_execution_config().get_parallelism()`."""
        return self._env.get_config()

    # --- record by record ---

    def map(self, func: Mapper[T_co, R], output_type: OutputType = None) -> DataStream[R]:
        """Maps each record to one result: `stream.map(lambda x: x * 2, output_type=Types.LONG())`.

        Declare the type where records leave for another system or are printed; without it they may be any Python
        object.
        """
        function = checked_function("map", func, MapFunction)
        declared = declared_output_type("map", output_type)
        return self._transform("Map", element_operator("map", function, self._keyed), declared)

    def flat_map(self, func: FlatMapper[T_co, R], output_type: OutputType = None) -> DataStream[R]:
        """Maps each record to any number of results.

        Example::

            stream.flat_map(lambda line: line.split(), Types.STRING())
        """
        function = checked_function("flat_map", func, FlatMapFunction)
        declared = declared_output_type("flat_map", output_type)
        return self._transform("Flat Map", element_operator("flat_map", function, self._keyed), declared)

    def filter(self, func: Callable[[T_co], bool] | FilterFunction[T_co]) -> DataStream[T_co]:
        """Keeps the records for which the function returns true: `stream.filter(lambda x: x > 0)`."""
        function = checked_function("filter", func, FilterFunction)
        return self._transform(
            "Filter", element_operator("filter", function, self._keyed), self._transformation.output_type
        )

    def process(self, func: ProcessFunction[T_co, R], output_type: OutputType = None) -> DataStream[R]:
        """Maps each record to any number of results, with access to time and side outputs.

        Example::

            stream.process(Split(), Types.LONG())
        """
        if isinstance(func, KeyedProcessFunction):
            raise TypeError(
                f"process: {type(func).__name__} is a KeyedProcessFunction, but this stream is not keyed: call "
                "key_by() first, or use a ProcessFunction"
            )
        if not isinstance(func, ProcessFunction):
            raise TypeError(f"process: expected a ProcessFunction, got {func!r}")
        declared = declared_output_type("process", output_type)
        return self._transform("Process", ProcessOperator(func, False), declared)

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Selects fields of tuples, in the given order: `stream.project(2, 0)`."""
        declared = self._transformation.output_type
        if not isinstance(declared, TupleTypeInfo):
            raise InvalidProgramException(
                "project: only a stream declared as tuples has fields to select, this one is declared as "
                f"{self.get_type()}"
            )
        types = declared.get_field_types()
        if not field_indexes:
            raise InvalidProgramException("project: give at least one field index")
        for index in field_indexes:
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(types):
                raise InvalidProgramException(
                    f"project: field index must be an integer from 0 to {len(types) - 1}, got {index!r}"
                )
        select = itemgetter(*field_indexes) if len(field_indexes) > 1 else _OneField(field_indexes[0])
        return self._transform(
            "Projection", PureMapOperator(select), TupleTypeInfo([types[index] for index in field_indexes])
        )

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T_co]:
        """Assigns timestamps to records and generates watermarks.

        Example::

            stream.assign_timestamps_and_watermarks(
                WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByTime()))
        """
        check_watermark_strategy("assign_timestamps_and_watermarks", watermark_strategy)
        if watermark_strategy.alignment is not None:
            warnings.warn(
                "assign_timestamps_and_watermarks: with_watermark_alignment() has an effect only on the strategy of a "
                "source, given to from_source()",
                stacklevel=2,
            )
        operator = TimestampsAndWatermarksOperator(watermark_strategy)
        return self._transform("Timestamps/Watermarks", operator, self._transformation.output_type)

    # --- several streams ---

    def union(self, *streams: DataStream[T_co]) -> DataStream[T_co]:
        """Merges this stream with others of the same type: `left.union(right, third)`."""
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise TypeError(f"union: expected a DataStream, got {stream!r}")
            self._same_environment("union", stream)
            if stream.get_type() != self.get_type():
                raise InvalidProgramException(
                    f"union: the streams must have one type, got {self.get_type()} and {stream.get_type()}: "
                    "map one of them with the other's output_type"
                )
        inputs = [self._transformation, *(stream._transformation for stream in streams)]
        return DataStream(self._env, UnionTransformation(inputs))

    @overload
    def connect(self, ds: DataStream[B]) -> ConnectedStreams[T_co, B]: ...
    @overload
    def connect(self, ds: BroadcastStream[B]) -> BroadcastConnectedStream[T_co, B]: ...
    def connect(
        self, ds: DataStream[B] | BroadcastStream[B]
    ) -> ConnectedStreams[T_co, B] | BroadcastConnectedStream[T_co, B]:
        """Connects this stream with another, of any type, for functions with two inputs: `orders.connect(payments)`."""
        if isinstance(ds, BroadcastStream):
            self._same_environment("connect", ds.input_stream)
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if not isinstance(ds, DataStream):
            raise TypeError(f"connect: expected a DataStream or a BroadcastStream, got {ds!r}")
        self._same_environment("connect", ds)
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream[B]) -> JoinedStreams[T_co, B]:
        """Joins this stream with another by key and window: `orders.join(prices).where(...)`."""
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream[B]) -> CoGroupedStreams[T_co, B]:
        """Groups the records of this stream and another by key and window: `orders.co_group(payments).where(...)`."""
        return CoGroupedStreams(self, other_stream)

    def get_side_output(self, output_tag: OutputTag[T]) -> DataStream[T]:
        """Returns the stream of a side output of this operator: `main.get_side_output(OutputTag("late"))`."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"get_side_output: expected an OutputTag, got {output_tag!r}")
        self._settings("get_side_output")
        side = SideOutputTransformation(self._transformation, output_tag.tag_id, output_tag.type_info)
        return DataStream(self._env, side)

    # --- partitioning ---

    def key_by(self, key_selector: Selector[T_co, K], key_type: TypeInformation | None = None) -> KeyedStream[T_co, K]:
        """Partitions the stream by key: records with equal keys go to the same subtask, and functions have keyed state.

        Example::

            stream.key_by(lambda order: order.user, key_type=Types.STRING())
        """
        selector = checked_function("key_by", key_selector, KeySelector)
        if key_type is not None and not isinstance(key_type, TypeInformation):
            raise TypeError(f"key_by: key_type must be one of Types, such as Types.STRING(), got {key_type!r}")
        partitioner = KeyGroupPartitioner(capture(selector), key_type, call_site())
        partitioned = PartitionTransformation(self._transformation, partitioner)
        return KeyedStream(self._env, partitioned, self)

    def shuffle(self) -> DataStream[T_co]:
        """Distributes records to random subtasks: `stream.shuffle().map(f)`."""
        return self._partition(ShufflePartitioner())

    def rebalance(self) -> DataStream[T_co]:
        """Distributes records round-robin over all subtasks: `stream.rebalance().map(f)`."""
        return self._partition(RebalancePartitioner())

    def rescale(self) -> DataStream[T_co]:
        """Distributes records round-robin over a subset of nearby subtasks: `stream.rescale().map(f)`."""
        return self._partition(RescalePartitioner())

    def forward(self) -> DataStream[T_co]:
        """Keeps records in the subtask of the same index, which requires equal parallelism.

        Example::

            stream.forward().map(f)
        """
        return self._partition(ForwardPartitioner())

    def global_(self) -> DataStream[T_co]:
        """Sends all records to the first subtask: `stream.global_().map(f)`."""
        return self._partition(GlobalPartitioner())

    @overload
    def broadcast(self) -> DataStream[T_co]: ...
    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T_co]: ...
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T_co] | BroadcastStream[T_co]:
        """Sends every record to every subtask; with descriptors, for use with broadcast state.

        Example::

            rules.broadcast(descriptor)
        """
        everywhere = DataStream._partition(self, BroadcastPartitioner())
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return everywhere
        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        checked = [each for each in descriptors if isinstance(each, MapStateDescriptor)]
        if len(checked) != len(descriptors):
            raise TypeError(f"broadcast: expected MapStateDescriptors, got {descriptors!r}")
        return BroadcastStream(everywhere, checked)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Selector[T_co, object],
    ) -> DataStream[T_co]:
        """Distributes records by key with a user-defined partitioner.

        Example::

            stream.partition_custom(lambda key, subtasks: key % subtasks, lambda record: record.user_id)
        """
        chosen = checked_function("partition_custom", partitioner, Partitioner)
        selector = checked_function("partition_custom", key_selector, KeySelector)
        return self._partition(CustomPartitioner(capture(chosen), capture(selector)))

    # --- sinks ---

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints each record to the driver's standard output: `stream.print("results")`.

        A line is `results:2> (a,1)`: the identifier, then the number of the subtask if there are several.
        """
        if sink_identifier is not None and not isinstance(sink_identifier, str):
            raise TypeError(f"print: sink_identifier must be a string, got {sink_identifier!r}")
        operator = PrintOperator(sink_identifier, self._transformation.output_type)
        return self._sink("Print to Std. Out", operator)

    def add_sink(
        self, sink_func: SinkFunction[T_co] | TwoPhaseCommitSinkFunction[T_co, Any] | Callable[[T_co], object]
    ) -> DataStreamSink:
        """Passes each record to a sink function written in Python: `stream.add_sink(Append())`."""
        if isinstance(sink_func, SinkFunction):
            create_operator = getattr(sink_func, "create_operator", None)
            if create_operator is not None:
                return self._sink("Unnamed", create_operator(self._transformation.output_type))
            if type(sink_func).invoke is SinkFunction.invoke:
                raise TypeError(f"add_sink: {type(sink_func).__name__} does not define invoke(self, value, context)")
            return self._sink("Unnamed", FunctionSinkOperator(sink_func))
        return self._sink("Unnamed", FunctionSinkOperator(checked_function("add_sink", sink_func, SinkFunction)))

    def sink_to(self, sink: Sink[T_co]) -> DataStreamSink:
        """Writes records to a connector's sink: `stream.sink_to(KafkaSink.builder()...build())`."""
        if not isinstance(sink, Sink):
            raise TypeError(f"sink_to: expected a Sink of flintstream.datastream.connectors, got {sink!r}")
        operator, second = sink.create_operator(self._transformation.output_type), sink.create_second_stage()
        if second is None:
            return self._sink("Writer", operator)
        writer = OneInputTransformation(self._transformation, "Sink: Writer", operator)
        last = SinkTransformation(PartitionTransformation(writer, second.partitioner), second.name, second.operator)
        self._env._record(last)
        return TwoStageSink(self._env, writer, last)

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None) -> CloseableIterator[T_co]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T_co] | list[T_co]:
        """Runs the job and returns the records of this stream: an iterator, or a list of at most `limit` records.

        Example::

            with stream.execute_and_collect() as results:
                print(list(results))
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ValueError(f"execute_and_collect: limit must be an integer of at least 1, got {limit!r}")
        collector_id = uuid.uuid4().hex
        sink = self._sink("Data stream collect sink", CollectOperator(collector_id))
        if isinstance(self._transformation, PhysicalTransformation):
            # The collector takes its input's parallelism, so that both are chained and nothing is exchanged.
            sink._transformation.parallelism = self._transformation.parallelism
        client = self._env.execute_async(job_execution_name or "DataStream Collect")
        results: CloseableIterator[T_co] = CloseableIterator(client, collector_id)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    # --- windows ---

    def window_all(self, window_assigner: WindowAssigner[Any, V]) -> AllWindowedStream[T_co, V]:
        """Groups all records of the stream into windows, in one subtask.

        Example::

            stream.window_all(TumblingEventTimeWindows.of(Time.minutes(1)))
        """
        return AllWindowedStream(self, window_assigner)

    def time_window_all(
        self, size: Time | Duration, slide: Time | Duration | None = None
    ) -> AllWindowedStream[T_co, TimeWindow]:
        """`KeyedStream.time_window` over all records: `stream.time_window_all(Time.minutes(1))`."""
        return self.window_all(time_windows(self._env, size, slide))

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T_co, CountWindow]:
        """`KeyedStream.count_window` over all records: `stream.count_window_all(100)`."""
        return self.window_all(count_windows(size, slide))

    def cache(self) -> CachedDataStream[T_co]:
        """Returns this stream, whose records are stored by the first job in batch mode that needs them, and read from there
        by later jobs of this environment: `cleaned = stream.map(clean).cache()`.
        """
        return CachedDataStream.of(self)

    def iterate(self, max_wait_time: int = 0) -> IterativeStream[T_co]:
        """Starts an iteration: the stream given to `close_with` of the returned one comes back to it.

        It ends when its input has ended and nothing is on its way round, or after `max_wait_time` milliseconds, if not
        0, without feedback::

            loop = numbers.iterate()
            loop.close_with(loop.map(lambda x: x // 2, Types.LONG()).filter(lambda x: x >= 10))
        """
        return IterativeStream(self, max_wait_time)

    # --- recording ---

    def _transform(self, name: str, operator: Any, output_type: TypeInformation | None) -> DataStream:
        recorded = OneInputTransformation(self._transformation, name, operator, output_type)
        self._env._record(recorded)
        return DataStream(self._env, recorded)

    def _sink(self, name: str, operator: Any) -> DataStreamSink:
        recorded = SinkTransformation(self._transformation, name, operator)
        self._env._record(recorded)
        return DataStreamSink(self._env, recorded)

    def _partition(self, partitioner: StreamPartitioner) -> DataStream[T_co]:
        return DataStream(self._env, PartitionTransformation(self._transformation, partitioner))

    def _settings(self, method: str) -> OperatorSettings:
        """Returns the settings of the operator that produces this stream; raises for a partitioning or union."""
        if not isinstance(self._transformation, PhysicalTransformation):
            raise InvalidProgramException(
                f"{method}() applies to operators, but this stream is a {_virtual_name(self._transformation)}: call "
                "it on the operator before or after it"
            )
        return OperatorSettings(self._env, self._transformation)

    def _same_environment(self, operator: str, other: DataStream) -> None:
        if other._env is not self._env:
            raise InvalidProgramException(f"{operator}: the streams belong to different environments")


class _OneField:
    """Selects one field as a tuple of one."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __call__(self, value: Any) -> tuple[Any]:
        return (value[self._index],)


def _virtual_name(transformation: Transformation) -> str:
    if isinstance(transformation, PartitionTransformation):
        return f"partitioning ({transformation.partitioner.ship_strategy.lower()})"
    if isinstance(transformation, FeedbackTransformation):
        return "stream of an iteration"
    return "union" if isinstance(transformation, UnionTransformation) else "side output"


# Imported last because they need the classes above: PyFlink has all streams in this one module.
from flintstream.datastream.cached_data_stream import CachedDataStream  # noqa: E402
from flintstream.datastream.connected_streams import (  # noqa: E402
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from flintstream.datastream.iterative_stream import ConnectedIterativeStreams, IterativeStream  # noqa: E402
from flintstream.datastream.joined_streams import (  # noqa: E402
    CoGroupedStreams,
    IntervalJoin,
    IntervalJoined,
    JoinedStreams,
)
from flintstream.datastream.keyed_stream import KeyedStream  # noqa: E402
from flintstream.datastream.windowed_stream import AllWindowedStream, WindowedStream  # noqa: E402

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedIterativeStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "IterativeStream",
    "JoinedStreams",
    "KeyedStream",
    "WindowedStream",
]
