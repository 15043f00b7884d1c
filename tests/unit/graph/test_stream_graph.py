"""Transformations to stream graph: edges, defaults, precedence, errors."""

from __future__ import annotations

import pytest

from flintstream.graph import (
    BroadcastPartitioner,
    ForwardPartitioner,
    InvalidProgramException,
    KeyGroupPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    SideOutputTransformation,
    StreamGraph,
    StreamGraphGenerator,
    UnionTransformation,
)

from .programs import by, co_op, key_by, op, sink, source, stream_graph


def strategies(graph: StreamGraph) -> list[tuple[str, str, str]]:
    return [(graph.nodes[e.source_id].name, graph.nodes[e.target_id].name, str(e.partitioner)) for e in graph.edges]


def test_an_empty_program_is_an_error() -> None:
    with pytest.raises(InvalidProgramException, match="no operators"):
        StreamGraphGenerator([]).generate()


def test_the_default_partitioner_is_forward_where_parallelism_is_equal_else_rebalance() -> None:
    graph = stream_graph(sink(op(source(parallelism=1)), parallelism=2), parallelism=2)
    assert strategies(graph) == [
        ("Source: Numbers", "Map", "REBALANCE"),
        ("Map", "Sink: Print to Std. Out", "FORWARD"),
    ]


def test_all_recorded_transformations_and_what_they_read_are_in_once_inputs_first() -> None:
    numbers = source()
    mapped = op(numbers)
    end = sink(mapped)
    graph = stream_graph(end, mapped, end)
    assert list(graph.nodes) == [numbers.id, mapped.id, end.id]
    assert [node.kind for node in graph.nodes.values()] == ["source", "operator", "sink"]
    assert graph.nodes[numbers.id].source == "description of Numbers"
    assert graph.is_bounded


def test_a_union_gives_an_edge_from_each_stream_with_its_own_partitioner() -> None:
    left, right = source("L"), source("R")
    graph = stream_graph(op(UnionTransformation([by(left, ShufflePartitioner()), right])))
    assert strategies(graph) == [("Source: L", "Map", "SHUFFLE"), ("Source: R", "Map", "FORWARD")]
    assert {edge.input_index for edge in graph.edges} == {0}


def test_a_partitioner_after_a_union_applies_to_all_and_the_last_partitioner_counts() -> None:
    union = UnionTransformation([by(source("L"), ShufflePartitioner()), source("R")])
    graph = stream_graph(op(by(by(union, BroadcastPartitioner()), RescalePartitioner())))
    assert [str(edge.partitioner) for edge in graph.edges] == ["RESCALE", "RESCALE"]


def test_a_stream_united_with_itself_arrives_twice() -> None:
    numbers = source()
    graph = stream_graph(op(UnionTransformation([numbers, numbers])))
    assert len(graph.edges) == 2 and graph.edges[0] != graph.edges[1]


def test_two_inputs_are_told_apart() -> None:
    left, right = source("L"), source("R")
    graph = stream_graph(co_op(key_by(left), by(right, BroadcastPartitioner())))
    assert [(e.source_id, e.input_index) for e in graph.edges] == [(left.id, 0), (right.id, 1)]
    assert isinstance(graph.edges[0].partitioner, KeyGroupPartitioner)
    assert graph.nodes[graph.edges[0].target_id].two_inputs


def test_a_side_output_is_a_property_of_the_edge() -> None:
    process = op(source(), "Process")
    side = by(SideOutputTransformation(process, "late", "INT"), RebalancePartitioner())
    graph = stream_graph(sink(side), sink(process))
    assert [(e.side_tag, str(e.partitioner)) for e in graph.edges[1:]] == [
        ("late", "REBALANCE"),
        (None, "FORWARD"),
    ]
    assert graph.nodes[process.id].side_output_types == {"late": "INT"}


def test_a_side_output_with_two_types_is_an_error() -> None:
    process = op(source(), "Process")
    sides = [SideOutputTransformation(process, "late", type) for type in ("INT", "STRING")]
    with pytest.raises(InvalidProgramException, match=r"'late'.*'Process'.*INT.*STRING"):
        stream_graph(*map(sink, sides))


def test_forward_between_different_parallelisms_names_both() -> None:
    with pytest.raises(InvalidProgramException) as error:
        stream_graph(op(by(source(parallelism=1), ForwardPartitioner()), "Count", parallelism=4))
    for word in ("'Source: Numbers'", "parallelism 1", "'Count'", "parallelism 4"):
        assert word in str(error.value)


def test_parallelism_own_over_environment() -> None:
    graph = stream_graph(op(source(parallelism=3)), parallelism=5)
    assert [node.parallelism for node in graph.nodes.values()] == [3, 5]


def test_max_parallelism_own_over_environment_over_128() -> None:
    numbers = source(max_parallelism=16)
    nodes = stream_graph(op(numbers)).nodes.values()
    assert [(n.max_parallelism, n.max_parallelism_set) for n in nodes] == [(16, True), (128, False)]
    nodes = stream_graph(op(numbers), max_parallelism=64).nodes.values()
    assert [(n.max_parallelism, n.max_parallelism_set) for n in nodes] == [(16, True), (64, True)]


def test_max_parallelism_grows_with_the_parallelism_where_none_is_set() -> None:
    graph = stream_graph(op(op(source(parallelism=85), "Map", parallelism=86), "Filter", parallelism=200))
    assert [n.max_parallelism for n in graph.nodes.values()] == [128, 256, 512]


def test_parallelism_above_max_parallelism_is_an_error() -> None:
    with pytest.raises(InvalidProgramException, match=r"parallelism 129 of operator 'Map'.*128"):
        stream_graph(op(source(), parallelism=129, max_parallelism=128))


@pytest.mark.parametrize("value", [0, -1, 1.5, "2"])
def test_parallelism_must_be_a_positive_integer(value: object) -> None:
    for setting in ("parallelism", "max_parallelism"):
        with pytest.raises(InvalidProgramException, match="'Map' must be an integer"):
            op(source(), **{setting: value})


def test_max_parallelism_has_an_upper_bound() -> None:
    with pytest.raises(InvalidProgramException, match="32768, got 32769"):
        op(source(), max_parallelism=32769)


def test_a_non_parallel_operator_has_parallelism_one_whatever_the_environment_says() -> None:
    window_all = op(source(), "Window all")
    window_all.force_non_parallel()
    node = stream_graph(window_all, parallelism=4).nodes[window_all.id]
    assert (node.parallelism, node.max_parallelism) == (1, 1)
    window_all.parallelism = 1
    for setting in ("parallelism", "max_parallelism"):
        with pytest.raises(InvalidProgramException, match="'Window all' is fixed to 1"):
            setattr(window_all, setting, 2)


def test_slot_sharing_groups_are_inherited_where_all_inputs_agree() -> None:
    a, a2, b = (source(n, slot_sharing_group=g) for n, g in (("A", "a"), ("A2", "a"), ("B", "b")))
    same, mixed, own = co_op(a, a2), co_op(a, b), op(a, slot_sharing_group="own")
    graph = stream_graph(same, mixed, own, op(source()))
    groups = [graph.nodes[t.id].slot_sharing_group for t in (same, mixed, own)]
    assert groups == ["a", "default", "own"]
    assert list(graph.nodes.values())[-1].slot_sharing_group == "default"


def test_names_and_descriptions() -> None:
    graph = stream_graph(sink(op(source(), description="adds one"), "Sink: mine"))
    assert [node.name for node in graph.nodes.values()] == ["Source: Numbers", "Map", "Sink: mine"]
    assert [node.description for node in graph.nodes.values()] == [
        "Source: Numbers",
        "adds one",
        "Sink: mine",
    ]


def test_only_an_operator_that_sets_a_buffer_timeout_has_one_of_its_own() -> None:
    graph = stream_graph(op(source(buffer_timeout=0)))
    assert [node.buffer_timeout for node in graph.nodes.values()] == [0, None]


def test_long_programs_do_not_exhaust_the_stack() -> None:
    stream = source()
    for _ in range(3000):
        stream = op(UnionTransformation([stream]))
    assert len(stream_graph(stream).nodes) == 3001
