"""Levels, slots, subtasks and channels."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.graph import (
    BroadcastPartitioner,
    ExecutionGraph,
    ForwardPartitioner,
    RescalePartitioner,
    StreamPartitioner,
)

from .programs import by, co_op, execution_graph, key_by, op, sink, source, word_count


def two_vertices(sources: int, targets: int, partitioner: StreamPartitioner) -> ExecutionGraph:
    return execution_graph(op(by(source(parallelism=sources), partitioner), parallelism=targets), chaining=False)


def wiring(graph: ExecutionGraph) -> list[list[int]]:
    (edge,) = graph.job_graph.edges
    return [graph.channels(edge, subtask) for subtask in range(graph.job_graph.vertices[0].parallelism)]


def test_the_word_count_example_has_five_subtasks_in_two_slots() -> None:
    graph = execution_graph(word_count())
    assert len(graph.subtasks) == 5
    assert graph.slots_count == 2
    assert [[vertex.id for vertex in level] for level in graph.levels] == [[0], [1], [2]]
    assert [(s.vertex_id, s.index, s.slot, s.level) for s in graph.subtasks] == [
        (0, 0, 0, 0),
        (1, 0, 0, 1),
        (1, 1, 1, 1),
        (2, 0, 0, 2),
        (2, 1, 1, 2),
    ]
    assert [s.vertex_id for s in graph.slot_subtasks(1)] == [1, 2]


def test_a_level_is_the_longest_path_from_a_source() -> None:
    deep = op(key_by(op(key_by(source("A")), "B")), "C")
    join = co_op(key_by(source("D")), deep, "Join")
    graph = execution_graph(sink(join))
    names = [[vertex.name for vertex in level] for level in graph.levels]
    assert names == [["Source: A", "Source: D"], ["B"], ["C"], ["Join -> Sink: Print to Std. Out"]]
    assert [graph.level(vertex.id) for level in graph.levels for vertex in level] == [0, 0, 1, 2, 3]


def test_each_slot_sharing_group_has_slots_of_its_own_in_order_of_appearance() -> None:
    numbers = source(parallelism=2, slot_sharing_group="z")
    middle = op(numbers, "M", parallelism=3, slot_sharing_group="a")
    graph = execution_graph(op(middle, "N", parallelism=1, slot_sharing_group="z"))
    assert graph.slot_sharing_groups == {"z": range(2), "a": range(2, 5)}
    assert graph.slots_count == 5
    assert [graph.slot(1, subtask) for subtask in range(3)] == [2, 3, 4]
    assert graph.slot(2, 0) == 0
    with pytest.raises(IndexError, match="'N' has 1 subtasks and no subtask 1"):
        graph.slot(2, 1)


def test_forward_connects_the_same_index() -> None:
    assert wiring(two_vertices(3, 3, ForwardPartitioner())) == [[0], [1], [2]]


def test_all_to_all_connects_everything() -> None:
    graph = two_vertices(2, 3, BroadcastPartitioner())
    assert wiring(graph) == [[0, 1, 2], [0, 1, 2]]
    assert graph.input_channels(graph.job_graph.edges[0], 2) == [0, 1]


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        (2, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [0], [1], [1]]),
        (2, 3, [[0, 1], [2]]),
        (3, 2, [[0], [1], [1]]),
        (1, 3, [[0, 1, 2]]),
        (3, 1, [[0], [0], [0]]),
        (2, 5, [[0, 1, 2], [3, 4]]),
        (2, 2, [[0], [1]]),
    ],
)
def test_rescale_connects_as_flink_does(sources: int, targets: int, expected: list[list[int]]) -> None:
    assert wiring(two_vertices(sources, targets, RescalePartitioner())) == expected


@given(st.integers(1, 40), st.integers(1, 40))
def test_rescale_leaves_nobody_out_and_both_views_agree(sources: int, targets: int) -> None:
    graph = two_vertices(sources, targets, RescalePartitioner())
    (edge,) = graph.job_graph.edges
    forth = {(s, t) for s in range(sources) for t in graph.channels(edge, s)}
    back = {(s, t) for t in range(targets) for s in graph.input_channels(edge, t)}
    assert forth == back
    assert {s for s, _ in forth} == set(range(sources)) and {t for _, t in forth} == set(range(targets))
    assert len(forth) == max(sources, targets)


def test_an_execution_graph_can_be_pickled() -> None:
    graph = execution_graph(word_count())
    assert pickle.loads(pickle.dumps(graph)).subtasks == graph.subtasks
