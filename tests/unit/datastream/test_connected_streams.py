"""Two streams for one function, and streams with a broadcast one."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.common import Types
from flintstream.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedStream,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import MapStateDescriptor
from flintstream.graph import InvalidProgramException
from flintstream.runtime.operators.keyed import RichOperator
from flintstream.runtime.operators.process import CoProcessOperator


class Both(CoMapFunction, CoFlatMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    map2 = map1

    def flat_map1(self, value: Any) -> Any:
        return [value]

    flat_map2 = flat_map1


class Plain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class WithKeys(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    process_element2 = process_element1


class Rules(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    process_broadcast_element = process_element


class KeyedRules(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    process_broadcast_element = process_element


@pytest.fixture
def connected(env: StreamExecutionEnvironment) -> ConnectedStreams:
    return env.from_collection([1], Types.INT()).connect(env.from_collection(["a"], Types.STRING()))


def test_map_and_flat_map(connected: ConnectedStreams) -> None:
    mapped: Any = connected.map(Both(), Types.STRING())
    operator = mapped._transformation.operator
    assert isinstance(operator, RichOperator)
    assert (mapped.get_name(), mapped.get_type()) == ("Co-Map", Types.STRING())
    assert (operator.kind, operator.methods, operator.keyed) == ("map", ("map1", "map2"), False)
    flat: Any = connected.flat_map(Both())
    operator = flat._transformation.operator
    assert flat.get_name() == "Co-Flat Map"
    assert (operator.kind, operator.methods) == ("flat_map", ("flat_map1", "flat_map2"))


def test_two_inputs_in_order(env: StreamExecutionEnvironment, connected: ConnectedStreams) -> None:
    connected.process(Plain())
    graph = env.generate_stream_graph()
    assert [edge.input_index for edge in graph.edges] == [0, 1]
    assert [node.name for node in graph.nodes.values()][-1] == "Co-Process"


def test_keys(connected: ConnectedStreams) -> None:
    keyed = connected.key_by(lambda x: x, lambda x: x, Types.INT())
    assert isinstance(keyed.stream1, KeyedStream)
    operator: Any = keyed.process(WithKeys())._transformation
    assert isinstance(operator.operator, CoProcessOperator)
    assert operator.operator.keyed
    assert keyed.process(Plain()).get_name() == "Co-Keyed-Process"
    rich: Any = keyed.map(Both())._transformation
    assert rich.operator.keyed


def test_keys_again_replace_the_keys(connected: ConnectedStreams) -> None:
    first = connected.key_by(lambda x: x, lambda x: x)
    again = first.key_by(lambda x: -x, lambda x: x)
    assert again.stream1._transformation.inputs == first.stream1._transformation.inputs


def test_one_side_with_keys_is_not_keyed(env: StreamExecutionEnvironment) -> None:
    left = env.from_collection([1]).key_by(lambda x: x)
    operator: Any = left.connect(env.from_collection([2])).process(Plain())._transformation
    assert not operator.operator.keyed


@pytest.mark.parametrize("method", ["map", "flat_map", "process"])
def test_what_is_no_function_for_two(connected: ConnectedStreams, method: str) -> None:
    with pytest.raises(TypeError, match=rf"{method}: connected streams need a Co"):
        getattr(connected, method)(lambda value: value)


def test_a_keyed_function_needs_keys(connected: ConnectedStreams) -> None:
    with pytest.raises(TypeError, match="WithKeys is a KeyedCoProcessFunction, but the streams are not keyed"):
        connected.process(WithKeys())


def test_connect_refuses(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1])
    with pytest.raises(TypeError, match="connect: expected a DataStream or a BroadcastStream, got 5"):
        stream.connect(5)  # type: ignore[call-overload]
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(InvalidProgramException, match="different environments"):
        stream.connect(other)


def test_broadcast_functions_fit_their_streams(env: StreamExecutionEnvironment) -> None:
    rules = env.from_collection([1]).broadcast(MapStateDescriptor("rules", Types.INT(), Types.INT()))
    events = env.from_collection([2])
    assert events.connect(rules).process(Rules()).get_name() == "Co-Process-Broadcast"
    assert events.key_by(lambda x: x).connect(rules).process(KeyedRules()).get_name() == "Keyed-Co-Process-Broadcast"
    with pytest.raises(TypeError, match=r"a stream without keys .* needs a BroadcastProcessFunction"):
        events.connect(rules).process(KeyedRules())
    with pytest.raises(TypeError, match=r"a keyed stream .* needs a KeyedBroadcastProcessFunction"):
        events.key_by(lambda x: x).connect(rules).process(Rules())
