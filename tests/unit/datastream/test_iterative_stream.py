"""Iterations: what the API records, and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.datastream import (
    ConnectedIterativeStreams,
    IterativeStream,
    KeyedCoProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flintstream.datastream.functions import CoMapFunction
from flintstream.graph import InvalidProgramException, KeyGroupPartitioner, build_job_graph, to_dot, to_text
from flintstream.graph.guarantees import guarantees


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([1, 2, 3], Types.LONG()).map(lambda x: x, Types.LONG())


def same(value: Any) -> Any:
    return value


def nodes(env: StreamExecutionEnvironment, kind: str) -> list[Any]:
    return [node for node in env.generate_stream_graph().nodes.values() if node.kind == kind]


def test_a_head_and_a_tail_keep_the_graph_without_cycles(env):
    loop = numbers(env).iterate()
    assert isinstance(loop, IterativeStream)
    body = loop.map(same, Types.LONG()).name("body")
    feedback = body.filter(lambda x: x > 1)
    assert loop.close_with(feedback) is feedback
    body.print()
    graph = env.generate_stream_graph()
    (head,) = nodes(env, "iteration head")
    (tail,) = nodes(env, "iteration tail")
    assert head.name.startswith("IterationSource-") and tail.name == head.name.replace("Source", "Sink")
    assert (head.in_edges, tail.out_edges) == ([], [])
    (inner,) = (node for node in graph.nodes.values() if node.name == "body")
    assert {graph.nodes[edge.source_id].name for edge in inner.in_edges} == {"Map", head.name}
    assert head.parallelism == tail.parallelism == 2
    assert head.slot_sharing_group == tail.slot_sharing_group == "default"
    assert graph.is_bounded and [node.name for node in graph.sources] == ["Source: Collection Source"]
    assert [each.sink for each in guarantees(graph, True)] == ["'Sink: Print to Std. Out'"]


def test_the_ids_of_a_program_stay_when_it_is_planned_again(env):
    loop = numbers(env).iterate()
    loop.close_with(loop.map(same, Types.LONG()))
    assert env.get_execution_plan() == env.get_execution_plan()
    first, second = (env.generate_stream_graph().nodes.values() for _ in range(2))
    assert [node.operator_id for node in first] == [node.operator_id for node in second]


def test_plans_show_the_way_back(env):
    loop = numbers(env).iterate().name("refine")
    loop.close_with(loop.map(same, Types.LONG()).rebalance())
    plan = {node["type"]: node for node in json.loads(env.get_execution_plan())["nodes"]}
    assert plan["IterationSource-refine"]["pact"] == "Data Source"
    assert plan["IterationSink-refine"]["pact"] == "Data Sink"
    assert plan["IterationSink-refine"]["predecessors"][0]["ship_strategy"] == "REBALANCE"
    job = build_job_graph(env.generate_stream_graph())
    head, tail = (
        next(v.id for v in job.vertices if v.name == f"Iteration{kind}-refine") for kind in ("Source", "Sink")
    )
    assert f"IterationSink-refine (parallelism 2) ↺ feedback to [{head}]" in to_text(job)
    assert f"n{tail} -> n{head} [label=feedback, style=dashed, constraint=false];" in to_dot(job)


def test_a_tail_is_chained_where_nothing_is_exchanged(env):
    loop = numbers(env).iterate()
    loop.close_with(loop.map(same, Types.LONG()).name("body"))
    names = [vertex.name for vertex in env.get_job_graph().vertices]
    assert any(name.startswith("body -> IterationSink-") for name in names)


def test_both_ways_keep_their_partitioning(env):
    loop = numbers(env).key_by(same).iterate()
    body = loop.map(same, Types.LONG())
    loop.close_with(body.shuffle())
    loop.close_with(body.global_())
    (head,) = nodes(env, "iteration head")
    assert [str(tail.in_edges[0].partitioner) for tail in nodes(env, "iteration tail")] == ["SHUFFLE", "GLOBAL"]
    graph = env.generate_stream_graph()
    inner = graph.nodes[graph.nodes[head.id].out_edges[0].target_id]
    assert {str(edge.partitioner) for edge in inner.in_edges} == {"HASH", "FORWARD"}


def test_keys_in_a_loop_are_those_of_input_and_feedback(env):
    loop = numbers(env).iterate()
    loop.close_with(loop.key_by(same).reduce(max))
    (head,) = nodes(env, "iteration head")
    assert isinstance(head.out_edges[0].partitioner, KeyGroupPartitioner)


def test_the_head_has_the_parallelism_of_its_input_unless_set(env):
    loop = env.from_collection([1, 2, 3], Types.LONG()).iterate()
    loop.close_with(loop.map(same, Types.LONG()))
    with pytest.raises(InvalidProgramException, match="'Map' has parallelism 2, 'IterationSource-.*' has 1"):
        env.generate_stream_graph()
    loop.set_parallelism(2)
    assert nodes(env, "iteration head")[0].parallelism == 2


def test_the_settings_of_an_iteration(env):
    env.get_config().disable_auto_generated_uids()
    stream = env.from_collection([1], Types.LONG()).uid("source").map(same, Types.LONG()).uid("map")
    loop = stream.iterate().uid("loop").set_max_parallelism(64).slot_sharing_group("heavy").set_description("refines")
    loop.close_with(loop.map(same, Types.LONG()).uid("body"))
    (head,), (tail,) = nodes(env, "iteration head"), nodes(env, "iteration tail")
    assert (head.uid, tail.uid) == ("loop", "loop-feedback-0")
    assert {node.slot_sharing_group for node in (head, tail)} == {"heavy"}
    assert {node.max_parallelism for node in (head, tail)} == {64}
    assert head.description == "refines"
    for refused in (loop.disable_chaining, loop.start_new_chain, loop.force_non_parallel):
        with pytest.raises(InvalidProgramException, match="does not apply to an iteration"):
            refused()


def test_head_and_tail_are_in_the_slots_of_the_feedback(env):
    loop = numbers(env).iterate()
    loop.close_with(loop.map(same, Types.LONG()).slot_sharing_group("heavy"))
    (head,), (tail,) = nodes(env, "iteration head"), nodes(env, "iteration tail")
    assert head.slot_sharing_group == tail.slot_sharing_group == "heavy"


def test_an_iteration_must_be_closed(env):
    numbers(env).iterate().map(same)
    with pytest.raises(InvalidProgramException, match="'IterationSource-.*' has no feedback. Call close_with"):
        env.generate_stream_graph()


def test_an_iteration_that_nobody_reads_is_none(env):
    stream = numbers(env)
    stream.iterate()
    stream.print()
    assert nodes(env, "iteration head") == []


def test_feedback_must_originate_from_the_iteration(env):
    stream = numbers(env)
    loop = stream.iterate()
    with pytest.raises(InvalidProgramException, match="'Map' does not"):
        loop.close_with(stream)
    other = stream.iterate()
    with pytest.raises(InvalidProgramException, match="originates from it"):
        loop.close_with(other.map(same))
    connected = loop.with_feedback_type(Types.LONG())
    with pytest.raises(InvalidProgramException, match="originates from it"):
        connected.close_with(stream)


def test_what_is_fed_back_must_be_a_stream_of_the_type_and_environment(env):
    loop = numbers(env).iterate()
    with pytest.raises(TypeError, match="close_with: expected a DataStream, got 5"):
        loop.close_with(5)
    with pytest.raises(InvalidProgramException, match="the iteration has records of type .*the feedback stream has"):
        loop.close_with(loop.map(str, Types.STRING()))
    loop.close_with(loop.map(same))  # Of no declared type: it is converted.
    with pytest.raises(InvalidProgramException, match="different environments"):
        loop.close_with(StreamExecutionEnvironment.get_execution_environment().from_collection([1]))


@pytest.mark.parametrize("value", [-1, 0.5, True, "5"])
def test_the_waiting_time_is_milliseconds(env, value):
    with pytest.raises(ValueError, match="iterate: max_wait_time must be milliseconds, at least 0"):
        numbers(env).iterate(value)
    with pytest.raises(ValueError, match="with_feedback_type: max_wait_time"):
        numbers(env).iterate().with_feedback_type(Types.LONG(), value)


def test_the_waiting_time_reaches_the_head(env):
    stream = numbers(env)
    loop = stream.iterate(1500)
    loop.close_with(loop.map(same))
    for waits in ({}, {"max_wait_time": 250}):
        connected = stream.iterate(1500).with_feedback_type(Types.LONG(), **waits)
        connected.close_with(connected.map(Both(), Types.LONG()))
    assert [head.max_wait_seconds for head in nodes(env, "iteration head")] == [1.5, 1.5, 0.25]


def test_feedback_of_another_type_is_the_second_input(env):
    loop = numbers(env).iterate().with_feedback_type(Types.STRING())
    assert isinstance(loop, ConnectedIterativeStreams)
    with pytest.raises(InvalidProgramException, match="type String, but the feedback stream has Long"):
        loop.close_with(loop.map(Both(), Types.LONG()))
    again = loop.map(Both(), Types.STRING()).name("both")
    assert loop.close_with(again) is again
    (head,) = nodes(env, "iteration head")
    graph = env.generate_stream_graph()
    assert "both" in [graph.nodes[edge.target_id].name for edge in head.out_edges]
    assert {edge.input_index for edge in head.out_edges} == {1}
    with pytest.raises(InvalidProgramException, match="key_by: the partitioning of an iteration cannot be changed"):
        loop.key_by(same, same)


def test_connected_iterations_have_no_keyed_state(env):
    class Function(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Any:
            yield value

        def process_element2(self, value: Any, ctx: Any) -> Any:
            yield value

    loop = numbers(env).key_by(same).iterate().with_feedback_type(Types.LONG())
    with pytest.raises(TypeError, match="not keyed"):
        loop.process(Function())


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC])
def test_batch_mode_has_no_iterations(env, cluster, mode):
    loop = numbers(env).iterate()
    loop.close_with(loop.map(same))
    env.set_runtime_mode(mode)
    with pytest.raises(
        InvalidProgramException, match=f"not supported in BATCH mode, which the runtime mode {mode.name}"
    ):
        env.execute()
    assert not cluster.submitted
