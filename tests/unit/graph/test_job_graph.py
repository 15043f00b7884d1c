"""Chaining: what is chained, each rule that breaks a chain, names of chains."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flintstream.graph import (
    BroadcastPartitioner,
    ChainingStrategy,
    ForwardPartitioner,
    GlobalPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    SideOutputTransformation,
    UnionTransformation,
)

from .programs import by, chains, co_op, job_graph, key_by, op, sink, source, stream_graph, word_count


def test_the_word_count_example_has_three_vertices() -> None:
    graph = job_graph(word_count())
    assert [(v.name, v.parallelism) for v in graph.vertices] == [
        ("Source: Text", 1),
        ("Flat Map", 2),
        ("Reduce -> Sink: Print to Std. Out", 2),
    ]
    edges = [(e.index, e.source_vertex, e.target_vertex, str(e.partitioner)) for e in graph.edges]
    assert edges == [(0, 0, 1, "REBALANCE"), (1, 1, 2, "HASH")]


def test_a_straight_program_is_one_chain_also_through_an_explicit_forward() -> None:
    assert chains(sink(op(by(source(), ForwardPartitioner())), "Out")) == ["Source: Numbers -> Map -> Sink: Out"]


def test_a_chain_is_a_tree_named_as_in_flink() -> None:
    mapped = op(source("X"))
    assert chains(op(mapped, "Filter"), sink(mapped)) == ["Source: X -> Map -> (Filter, Sink: Print to Std. Out)"]


def test_node_ids_are_in_topological_order_head_first_with_the_edges_inside() -> None:
    numbers = source()
    mapped = op(numbers)
    filtered = op(mapped, "Filter")
    end = sink(mapped)
    (vertex,) = job_graph(end, filtered).vertices
    assert vertex.head_id == numbers.id
    assert vertex.node_ids == [numbers.id, mapped.id, filtered.id, end.id]
    inside = [(edge.source_id, edge.target_id) for edge in vertex.chained_edges]
    assert inside == [(numbers.id, mapped.id), (mapped.id, filtered.id), (mapped.id, end.id)]


def test_side_outputs_can_be_chained() -> None:
    process = op(source(), "Process")
    side = op(SideOutputTransformation(process, "late"), "Late")
    (vertex,) = job_graph(side, sink(process)).vertices
    assert [edge.side_tag for edge in vertex.chained_edges] == [None, "late", None]


@pytest.mark.parametrize(
    "partitioner",
    [
        RebalancePartitioner(),
        RescalePartitioner(),
        ShufflePartitioner(),
        BroadcastPartitioner(),
        GlobalPartitioner(),
    ],
    ids=str,
)
def test_any_partitioner_but_forward_breaks_a_chain(partitioner: Any) -> None:
    assert chains(op(by(source(), partitioner))) == ["Source: Numbers", "Map"]


def test_key_by_breaks_a_chain_also_at_parallelism_one() -> None:
    assert chains(op(key_by(source()))) == ["Source: Numbers", "Map"]


def test_different_parallelism_breaks_a_chain() -> None:
    assert chains(op(source(parallelism=1), parallelism=2)) == ["Source: Numbers", "Map"]


def test_different_slot_sharing_groups_break_a_chain() -> None:
    assert chains(op(op(source()), "Other", slot_sharing_group="x")) == ["Source: Numbers -> Map", "Other"]


def test_more_than_one_input_edge_breaks_a_chain() -> None:
    left, right = source("L"), source("R")
    assert chains(co_op(left, right)) == ["Source: L", "Source: R", "Co-Map"]
    assert chains(op(UnionTransformation([left, right]))) == ["Source: L", "Source: R", "Map"]
    assert chains(op(UnionTransformation([left, left]))) == ["Source: L", "Map"]


def test_disable_chaining_breaks_on_both_sides() -> None:
    middle = op(op(source(), "A"), "B", chaining=ChainingStrategy.NEVER)
    assert chains(op(middle, "C")) == ["Source: Numbers -> A", "B", "C"]


def test_start_new_chain_breaks_before_only() -> None:
    middle = op(op(source(), "A"), "B", chaining=ChainingStrategy.HEAD)
    assert chains(op(middle, "C")) == ["Source: Numbers -> A", "B -> C"]


def test_chaining_disabled_for_all() -> None:
    assert chains(sink(op(source())), chaining=False) == ["Source: Numbers", "Map", "Sink: Print to Std. Out"]


def test_different_max_parallelism_breaks_a_chain_only_when_configured() -> None:
    end = op(source(max_parallelism=16), max_parallelism=32)
    assert chains(end) == ["Source: Numbers -> Map"]
    assert chains(end, chain_different_max_parallelism=False) == ["Source: Numbers", "Map"]


def test_edges_know_the_operator_inside_the_chain_and_the_side_output() -> None:
    process = op(source(), "Process")
    end = op(process, "After")
    late = op(by(SideOutputTransformation(process, "late"), ShufflePartitioner()), "Late")
    graph = job_graph(end, late)
    assert [v.name for v in graph.vertices] == ["Source: Numbers -> Process -> After", "Late"]
    (edge,) = graph.edges
    assert (edge.source_vertex, edge.source_node, edge.side_tag) == (0, process.id, "late")
    assert graph.vertex_of(end.id).id == 0
    assert graph.in_edges(1) == graph.out_edges(0) == [edge]


def test_in_edges_are_ordered_by_input() -> None:
    left, right = source("L"), source("R")
    graph = job_graph(co_op(key_by(right), UnionTransformation([left, right])))
    assert [(e.input_index, e.source_vertex) for e in graph.in_edges(2)] == [(0, 1), (1, 0), (1, 1)]


def test_vertices_are_in_topological_order() -> None:
    a = op(key_by(source("A")), "A2")
    b = source("B")
    join = co_op(a, b)
    graph = job_graph(sink(b), sink(by(join, ShufflePartitioner())))
    assert [v.id for v in graph.vertices] == list(range(len(graph.vertices)))
    assert all(edge.source_vertex < edge.target_vertex for edge in graph.edges)


def test_job_and_stream_graphs_can_be_pickled() -> None:
    end = word_count()
    graph = job_graph(end)
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert pickle.loads(pickle.dumps(stream_graph(end))) == stream_graph(end)


def test_long_chains_do_not_exhaust_the_stack() -> None:
    stream = source()
    for _ in range(3000):
        stream = op(stream)
    assert chains(stream)[0].count(" -> ") == 3000
