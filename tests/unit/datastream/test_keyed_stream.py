"""Streams with keys."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.common import Types
from flintstream.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from flintstream.graph import InvalidProgramException, KeyGroupPartitioner
from flintstream.runtime.operators.keyed import ReduceOperator, RichOperator
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Everything(MapFunction, FlatMapFunction, FilterFunction, ReduceFunction):
    def map(self, value: Any) -> Any:
        return value

    def flat_map(self, value: Any) -> Any:
        return [value]

    def filter(self, value: Any) -> bool:
        return True

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Unkeyed(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream:
    return env.from_collection([("a", 1)], PAIR).key_by(lambda pair: pair[0], key_type=Types.STRING())


def test_function_objects_get_the_key(keyed: KeyedStream) -> None:
    for method, kind in (("map", "map"), ("flat_map", "flat_map"), ("filter", "filter")):
        operator = getattr(keyed, method)(Everything())._transformation.operator
        assert isinstance(operator, RichOperator)
        assert (operator.kind, operator.methods, operator.keyed) == (kind, (method,), True)


def test_plain_functions_do_not_need_it(keyed: KeyedStream) -> None:
    expected = {"map": MapOperator, "flat_map": FlatMapOperator, "filter": FilterOperator}
    for method, kind in expected.items():
        stream = getattr(keyed, method)(lambda value: [value])
        assert isinstance(stream._transformation.operator, kind)


def test_types_go_on(keyed: KeyedStream) -> None:
    assert keyed.get_type() == PAIR
    assert keyed.filter(Everything()).get_type() == PAIR
    assert keyed.reduce(lambda a, b: a).get_type() == PAIR
    assert keyed.sum(1).get_type() == PAIR


def test_process(keyed: KeyedStream) -> None:
    operator: Any = keyed.process(Keyed())._transformation
    assert isinstance(operator.operator, ProcessOperator)
    assert operator.operator.keyed
    with pytest.raises(TypeError, match="process: a keyed stream needs a KeyedProcessFunction"):
        keyed.process(Unkeyed())  # type: ignore[arg-type]


def test_reduce(keyed: KeyedStream) -> None:
    stream = keyed.reduce(Everything())
    assert stream.get_name() == "Keyed Reduce"
    assert isinstance(stream._transformation.operator, ReduceOperator)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="reduce: expected a ReduceFunction or a callable, got 1"):
        keyed.reduce(1)  # type: ignore[arg-type]


def test_other_keys_start_from_the_stream_before(keyed: KeyedStream) -> None:
    again: Any = keyed.key_by(lambda pair: pair[1])
    assert isinstance(again._transformation.partitioner, KeyGroupPartitioner)
    assert again._transformation.inputs == keyed._transformation.inputs


@pytest.mark.parametrize("method", ["shuffle", "rebalance", "rescale", "forward", "global_", "broadcast", "cache"])
def test_the_keys_decide_the_partitioning(keyed: KeyedStream, method: str) -> None:
    with pytest.raises(InvalidProgramException, match=rf"{method}\(\) is not possible on a keyed stream"):
        getattr(keyed, method)()


def test_no_custom_partitioning(keyed: KeyedStream) -> None:
    with pytest.raises(InvalidProgramException, match="partition_custom"):
        keyed.partition_custom(lambda key, n: 0, lambda value: value)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("get_name", ()),
        ("name", ("n",)),
        ("uid", ("u",)),
        ("set_uid_hash", ("f" * 32,)),
        ("set_parallelism", (2,)),
        ("set_max_parallelism", (2,)),
        ("force_non_parallel", ()),
        ("set_buffer_timeout", (1,)),
        ("start_new_chain", ()),
        ("disable_chaining", ()),
        ("slot_sharing_group", ("g",)),
        ("set_description", ("d",)),
    ],
)
def test_a_keyed_stream_is_no_operator(keyed: KeyedStream, method: str, arguments: Any) -> None:
    with pytest.raises(InvalidProgramException, match=rf"{method}\(\) applies to operators"):
        getattr(keyed, method)(*arguments)


def test_sinks_and_unions_of_keyed_streams(env: StreamExecutionEnvironment, keyed: KeyedStream) -> None:
    keyed.print("k")
    keyed.union(env.from_collection([("b", 2)], PAIR)).map(lambda value: value)
    ships = [edge.partitioner.ship_strategy for edge in env.generate_stream_graph().edges]
    assert ships == ["HASH", "HASH", "REBALANCE"]


def test_windows_are_checked(keyed: KeyedStream) -> None:
    with pytest.raises(ValueError, match="window_size must be at least 1"):
        keyed.count_window(0)
    with pytest.raises(TypeError, match="window: expected a WindowAssigner, got 5"):
        keyed.window(5)  # type: ignore[arg-type]
