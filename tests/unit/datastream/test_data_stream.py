"""What the methods of a stream record, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import (
    DataStream,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.base import Sink
from flintstream.datastream.functions import KeyedProcessFunction, KeySelector, Partitioner
from flintstream.datastream.state import MapStateDescriptor
from flintstream.graph import ChainingStrategy, InvalidProgramException
from flintstream.runtime.captured import unwrapped
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.operators.sinks import CollectOperator, FunctionSinkOperator, PrintOperator
from flintstream.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from flintstream.runtime.operators.watermarks import TimestampsAndWatermarksOperator

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PICKLED = Types.PICKLED_BYTE_ARRAY()


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


class Pass(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class KeyedPass(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class NullSink(Sink):
    def create_operator(self, input_type: Any) -> Any:
        return ("operator", input_type)


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2, 3], Types.INT())


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1)], PAIR)


def operator(stream: Any) -> Any:
    return stream._transformation.operator


def ships(env: StreamExecutionEnvironment) -> list[str]:
    return [edge.partitioner.ship_strategy for edge in env.generate_stream_graph().edges]


def test_map_flat_map_and_filter(numbers: DataStream) -> None:
    mapped = numbers.map(lambda x: x + 1, Types.LONG())
    assert (mapped.get_name(), mapped.get_type()) == ("Map", Types.LONG())
    assert isinstance(operator(mapped), MapOperator)
    flat = numbers.flat_map(lambda x: [x])
    assert (flat.get_name(), flat.get_type()) == ("Flat Map", PICKLED)
    assert isinstance(operator(flat), FlatMapOperator)
    kept = numbers.filter(lambda x: x > 1)
    assert (kept.get_name(), kept.get_type()) == ("Filter", Types.INT())
    assert isinstance(operator(kept), FilterOperator)


def test_a_list_of_types_means_a_row(numbers: DataStream) -> None:
    assert numbers.map(lambda x: (x,), [Types.INT()]).get_type() == Types.ROW([Types.INT()])


@pytest.mark.parametrize("output_type", [int, "INT", [int], Types.INT])
def test_an_output_type_that_is_none(numbers: DataStream, output_type: Any) -> None:
    with pytest.raises(TypeError, match=r"map: output_type must be one of Types"):
        numbers.map(lambda x: x, output_type)


def test_function_objects_are_kept(numbers: DataStream) -> None:
    function = Double()
    assert unwrapped(operator(numbers.map(function)).function) is function


def test_a_callable_with_a_method_of_that_name_is_called(numbers: DataStream) -> None:
    class Odd:
        def __call__(self, value: int) -> str:
            return "called"

        def map(self, value: int) -> str:
            return "mapped"

    bound = operator(numbers.map(Odd())).bound("map")
    assert bound(1) == "called"
    assert operator(numbers.map(str)).bound("map")(5) == "5"


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "key_by"])
@pytest.mark.parametrize("func", [5, "x", None, 0])
def test_what_is_no_function(numbers: DataStream, method: str, func: Any) -> None:
    with pytest.raises(TypeError, match=rf"{method}: expected a \w+ or a callable, got"):
        getattr(numbers, method)(func)


def test_a_class_in_place_of_an_instance(numbers: DataStream) -> None:
    with pytest.raises(TypeError, match=r"map: pass an instance, Double\(\), not the class"):
        numbers.map(Double)


def test_process(numbers: DataStream) -> None:
    stream = numbers.process(Pass(), Types.INT())
    assert stream.get_name() == "Process"
    assert isinstance(operator(stream), ProcessOperator)
    assert not operator(stream).keyed


def test_process_refuses_other_functions(numbers: DataStream) -> None:
    with pytest.raises(TypeError, match="KeyedPass is a KeyedProcessFunction, but this stream is not keyed"):
        numbers.process(KeyedPass())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="process: expected a ProcessFunction"):
        numbers.process(lambda value, ctx: [value])  # type: ignore[arg-type]


def test_project(pairs: DataStream) -> None:
    swapped = pairs.project(1, 0)
    assert swapped.get_name() == "Projection"
    assert swapped.get_type() == Types.TUPLE([Types.INT(), Types.STRING()])
    assert operator(swapped).bound("map")(("a", 1)) == (1, "a")
    assert operator(pairs.project(1)).bound("map")(("a", 1)) == (1,)


@pytest.mark.parametrize("indexes", [(), (2,), (-1,), ("f0",), (True,)])
def test_project_refuses(pairs: DataStream, indexes: Any) -> None:
    with pytest.raises(InvalidProgramException, match="project:"):
        pairs.project(*indexes)


def test_project_needs_tuples(numbers: DataStream) -> None:
    with pytest.raises(InvalidProgramException, match="project: only a stream declared as tuples"):
        numbers.project(0)


def test_timestamps(numbers: DataStream) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    stream = numbers.assign_timestamps_and_watermarks(strategy)
    assert (stream.get_name(), stream.get_type()) == ("Timestamps/Watermarks", Types.INT())
    assert isinstance(operator(stream), TimestampsAndWatermarksOperator)
    with pytest.raises(TypeError, match="assign_timestamps_and_watermarks: expected a WatermarkStrategy"):
        numbers.assign_timestamps_and_watermarks(None)  # type: ignore[arg-type]


def test_partitioning(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 9)
    for stream in (
        numbers.shuffle(),
        numbers.rebalance(),
        numbers.rescale(),
        numbers.forward(),
        numbers.global_(),
        numbers.broadcast(),
        numbers.partition_custom(lambda key, n: key % n, lambda value: value),
        numbers.key_by(lambda value: value),
        numbers,
        numbers.shuffle().rebalance(),
    ):
        stream.map(lambda value: value)
    assert ships(env) == [
        "SHUFFLE",
        "REBALANCE",
        "RESCALE",
        "FORWARD",
        "GLOBAL",
        "BROADCAST",
        "CUSTOM",
        "HASH",
        "FORWARD",
        "REBALANCE",
    ]


def test_partition_custom_takes_objects(numbers: DataStream) -> None:
    class Where(Partitioner):
        def partition(self, key: Any, num_partitions: int) -> int:
            return 0

    class Key(KeySelector):
        def get_key(self, value: Any) -> Any:
            return value

    where, key = Where(), Key()
    partitioner: Any = numbers.partition_custom(where, key)._transformation
    assert unwrapped(partitioner.partitioner.partitioner) is where
    assert unwrapped(partitioner.partitioner.key_selector) is key
    with pytest.raises(TypeError, match="partition_custom: expected a Partitioner or a callable, got 1"):
        numbers.partition_custom(1, key)  # type: ignore[arg-type]


def test_key_type(numbers: DataStream) -> None:
    keyed: Any = numbers.key_by(lambda x: x, key_type=Types.INT())._transformation
    assert keyed.partitioner.key_type == Types.INT()
    with pytest.raises(TypeError, match="key_by: key_type must be one of Types"):
        numbers.key_by(lambda x: x, key_type=int)  # type: ignore[arg-type]


def test_settings(numbers: DataStream) -> None:
    group = SlotSharingGroup.builder("heavy").build()
    stream = (
        numbers.map(lambda x: x)
        .name("my map")
        .uid("my-uid")
        .set_description("maps")
        .set_parallelism(3)
        .set_max_parallelism(64)
        .set_buffer_timeout(5)
        .slot_sharing_group(group)
        .start_new_chain()
        .set_uid_hash("0123456789abcdef0123456789abcdef")
    )
    recorded = stream._transformation
    assert stream.get_name() == "my map"
    assert (recorded.uid, recorded.description, recorded.parallelism) == ("my-uid", "maps", 3)
    assert (recorded.max_parallelism, recorded.buffer_timeout) == (64, 5)
    assert (recorded.slot_sharing_group, recorded.chaining) == ("heavy", ChainingStrategy.HEAD)
    assert stream.disable_chaining()._transformation.chaining is ChainingStrategy.NEVER
    assert stream.set_parallelism(-1)._transformation.parallelism is None
    assert stream.set_buffer_timeout(-1)._transformation.buffer_timeout is None
    assert stream.force_non_parallel()._transformation.parallelism == 1


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_parallelism", 0),
        ("set_parallelism", -2),
        ("set_parallelism", "2"),
        ("set_max_parallelism", 0),
        ("set_max_parallelism", 40_000),
        ("set_buffer_timeout", -2),
        ("set_uid_hash", "abc"),
        ("name", ""),
        ("uid", None),
        ("set_description", 5),
        ("slot_sharing_group", 5),
    ],
)
def test_settings_refuse(numbers: DataStream, method: str, value: Any) -> None:
    stream = numbers.map(lambda x: x).name("my map")
    with pytest.raises(InvalidProgramException, match="my map"):
        getattr(stream, method)(value)


def test_a_collection_is_not_parallel(numbers: DataStream) -> None:
    with pytest.raises(InvalidProgramException, match="fixed to 1 because it is not parallel"):
        numbers.set_parallelism(2)
    with pytest.raises(InvalidProgramException, match="at least 1, got -1"):
        numbers.set_parallelism(-1)


def test_what_is_no_operator_has_no_settings(numbers: DataStream) -> None:
    with pytest.raises(InvalidProgramException, match=r"name\(\) applies to operators.*partitioning \(rebalance\)"):
        numbers.rebalance().name("x")
    with pytest.raises(InvalidProgramException, match="is a union"):
        numbers.union(numbers).set_parallelism(2)
    with pytest.raises(InvalidProgramException, match="is a side output"):
        numbers.process(Pass()).get_side_output(OutputTag("t")).uid("x")


def test_union(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    both = numbers.union(numbers.map(lambda x: x, Types.INT()), env.from_collection([4], Types.INT()))
    assert both.get_type() == Types.INT()
    both.map(lambda x: x)
    assert len(env.generate_stream_graph().edges) == 4


def test_union_refuses(env: StreamExecutionEnvironment, numbers: DataStream, pairs: DataStream) -> None:
    with pytest.raises(InvalidProgramException, match=r"union: the streams must have one type, got .* and "):
        numbers.union(pairs)
    with pytest.raises(TypeError, match="union: expected a DataStream, got 5"):
        numbers.union(5)  # type: ignore[arg-type]
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1], Types.INT())
    with pytest.raises(InvalidProgramException, match="union: the streams belong to different environments"):
        numbers.union(other)


def test_side_outputs(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
    main = numbers.process(Pass())
    side = main.get_side_output(OutputTag("late", Types.INT()))
    assert side.get_type() == Types.INT()
    side.print()
    graph = env.generate_stream_graph()
    assert [edge.side_tag for edge in graph.edges] == [None, "late"]
    with pytest.raises(TypeError, match="get_side_output: expected an OutputTag, got 'late'"):
        main.get_side_output("late")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramException, match=r"get_side_output\(\) applies to operators"):
        numbers.rebalance().get_side_output(OutputTag("late"))


def test_broadcast_with_descriptors(numbers: DataStream) -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())
    more = MapStateDescriptor("more", Types.STRING(), Types.INT())
    assert numbers.broadcast(rules, more).broadcast_state_descriptors == [rules, more]
    with pytest.raises(TypeError, match="broadcast: expected MapStateDescriptors"):
        numbers.broadcast(5)  # type: ignore[call-overload]


def test_print(numbers: DataStream) -> None:
    sink = numbers.print("label")
    assert sink._transformation.name == "Print to Std. Out"
    assert isinstance(operator(sink), PrintOperator)
    assert sink.name("mine").set_parallelism(1)._transformation.name == "mine"
    with pytest.raises(TypeError, match="print: sink_identifier must be a string"):
        numbers.print(5)  # type: ignore[arg-type]


def test_sink_settings(numbers: DataStream) -> None:
    sink = numbers.print().uid("out").set_description("shown").disable_chaining().slot_sharing_group("sinks")
    recorded = sink._transformation
    assert (recorded.uid, recorded.description, recorded.slot_sharing_group) == ("out", "shown", "sinks")
    assert recorded.chaining is ChainingStrategy.NEVER
    assert sink.set_uid_hash("f" * 32)._transformation.uid_hash == "f" * 32


def test_add_sink(numbers: DataStream) -> None:
    class Append(SinkFunction):
        def invoke(self, value: Any, context: Any) -> None:
            pass

    class Nothing(SinkFunction):
        pass

    assert isinstance(operator(numbers.add_sink(Append())), FunctionSinkOperator)
    assert isinstance(operator(numbers.add_sink(print)), FunctionSinkOperator)
    with pytest.raises(TypeError, match=r"add_sink: Nothing does not define invoke"):
        numbers.add_sink(Nothing())
    with pytest.raises(TypeError, match="add_sink: expected a SinkFunction or a callable, got 5"):
        numbers.add_sink(5)  # type: ignore[arg-type]


def test_sink_to(numbers: DataStream) -> None:
    assert operator(numbers.sink_to(NullSink())) == ("operator", Types.INT())
    with pytest.raises(TypeError, match="sink_to: expected a Sink of"):
        numbers.sink_to(5)  # type: ignore[arg-type]


def test_the_plan(env: StreamExecutionEnvironment, pairs: DataStream) -> None:
    pairs.map(lambda t: t, PAIR).set_parallelism(3).key_by(lambda t: t[0]).sum(1).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [(node["type"], node["parallelism"]) for node in nodes] == [
        ("Source: Collection Source", 1),
        ("Map", 3),
        ("_stream_key_by_map_operator", 3),
        ("Keyed Aggregation", 2),
        ("Sink: Print to Std. Out", 2),
    ]
    assert [[p["ship_strategy"] for p in node.get("predecessors", [])] for node in nodes] == [
        [],
        ["REBALANCE"],
        ["FORWARD"],
        ["HASH"],
        ["FORWARD"],
    ]


def test_collecting_is_chained_to_what_is_collected(cluster: Any, numbers: DataStream) -> None:
    numbers.map(lambda x: x).set_parallelism(5).execute_and_collect()
    graph, _ = cluster.submitted[0]
    sink = next(node for node in graph.nodes.values() if isinstance(node.operator, CollectOperator))
    assert (sink.name, sink.parallelism) == ("Sink: Data stream collect sink", 5)
