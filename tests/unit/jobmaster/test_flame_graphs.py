"""Flame graphs: samples of all slots, merged, and kept for some seconds."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.jobmaster.flame_graphs import FlameGraphs, tree
from flintstream.jobmaster.settings import JobSettings
from flintstream.runtime.slot.protocol import StackSample

from ..graph.programs import execution_graph, sink, source

GRAPH = execution_graph(sink(source()))
VERTEX = GRAPH.job_graph.nodes[GRAPH.job_graph.vertices[0].head_id].operator_id


class Pool:
    """Slots that have been seen at something."""

    def __init__(self, *answers: list[StackSample] | None) -> None:
        self.answers = dict(enumerate(answers))
        self.asked = 0

    def ask(self, message: Any, seconds: float) -> dict[int, list[StackSample] | None]:
        self.asked += 1
        return self.answers


def graphs(pool: Any, seconds: float = 3600.0) -> FlameGraphs:
    return FlameGraphs(GRAPH, lambda: pool, seconds)


def test_samples_are_merged_into_a_tree():
    found = tree(
        [
            StackSample(0, 0, True, ("a", "b"), 2),
            StackSample(0, 1, True, ("a", "c"), 3),
            StackSample(0, 1, True, ("a",), 1),
        ]
    )
    assert found == {
        "name": "root",
        "value": 6,
        "children": [
            {
                "name": "a",
                "value": 6,
                "children": [
                    {"name": "c", "value": 3, "children": []},
                    {"name": "b", "value": 2, "children": []},
                ],
            }
        ],
    }


@pytest.mark.parametrize(
    ("kind", "subtask", "value"),
    [("full", None, 7), ("on_cpu", None, 2), ("off_cpu", None, 5), ("full", 0, 7)],
)
def test_kinds_and_subtasks_are_chosen_from_the_same_samples(kind, subtask, value):
    pool = Pool([StackSample(0, 0, True, ("work",), 2)], [StackSample(0, 0, False, ("wait",), 5)])
    flame = graphs(pool)
    for _ in range(2):
        found = flame.get(VERTEX, subtask, kind)
        assert found["data"]["value"] == value and found["endTimestamp"] > 0
    assert pool.asked == 1


def test_slots_are_sampled_again_after_a_while_and_in_another_attempt():
    pool = Pool([])
    flame = graphs(pool, seconds=0.0)
    flame.get(VERTEX)
    flame.get(VERTEX)
    assert pool.asked == 2
    pools = [Pool([]), Pool([])]
    flame = FlameGraphs(GRAPH, lambda: pools[0], 3600.0)
    flame.get(VERTEX)
    pools.pop(0)
    flame.get(VERTEX)
    assert pools[0].asked == 1


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("0" * 32,), f"the job has no vertex '{'0' * 32}'"),
        ((VERTEX, 5), "has 1 subtasks and no subtask 5"),
        ((VERTEX, None, "sideways"), "must be one of full, on_cpu, off_cpu, got 'sideways'"),
    ],
)
def test_what_is_not_there_is_refused(asked, why):
    with pytest.raises(ValueError, match=why):
        graphs(Pool([])).get(*asked)


def test_a_job_without_slots_has_none():
    with pytest.raises(RuntimeError, match="the job is not running"):
        graphs(None).get(VERTEX)


def test_a_slot_that_does_not_answer_is_named():
    with pytest.raises(RuntimeError, match=r"slots \[1\] have not sampled"):
        graphs(Pool([], None)).get(VERTEX)


def test_the_interval_is_checked():
    with pytest.raises(ValueError, match="rest.flamegraph.refresh-interval must be at least 1 s, got '1 ms'"):
        JobSettings("my job", {"rest.flamegraph.refresh-interval": "1 ms"}).check()
    assert JobSettings("my job", {"rest.flamegraph.refresh-interval": "1 min"}).flame_graph_seconds == 60
