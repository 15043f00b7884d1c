"""JSON in Flink's shape, DOT and text."""

from __future__ import annotations

import json

import pytest

from flintstream.graph import ShufflePartitioner, SideOutputTransformation, to_dot, to_json, to_text

from .programs import by, co_op, execution_graph, job_graph, op, sink, source, stream_graph, word_count


def test_the_plan_of_a_stream_graph_is_the_one_pyflink_2_3_prints() -> None:
    numbers = source("Collection Source", parallelism=1)
    mapped = op(numbers, description="adds one")
    printed = sink(mapped)
    other = op(mapped, "Filter")
    plan = json.loads(to_json(stream_graph(printed, other, parallelism=2)))

    def predecessors(id: int, strategy: str) -> list[dict[str, object]]:
        return [{"id": id, "ship_strategy": strategy, "side": "second"}]

    assert plan == {
        "nodes": [
            {
                "id": numbers.id,
                "type": "Source: Collection Source",
                "pact": "Data Source",
                "contents": "Source: Collection Source",
                "parallelism": 1,
            },
            {
                "id": mapped.id,
                "type": "Map",
                "pact": "Operator",
                "contents": "adds one",
                "parallelism": 2,
                "predecessors": predecessors(numbers.id, "REBALANCE"),
            },
            {
                "id": other.id,
                "type": "Filter",
                "pact": "Operator",
                "contents": "Filter",
                "parallelism": 2,
                "predecessors": predecessors(mapped.id, "FORWARD"),
            },
            {
                "id": printed.id,
                "type": "Sink: Print to Std. Out",
                "pact": "Data Sink",
                "contents": "Sink: Print to Std. Out",
                "parallelism": 2,
                "predecessors": predecessors(mapped.id, "FORWARD"),
            },
        ]
    }


def test_json_of_the_job_graph() -> None:
    nodes = json.loads(to_json(job_graph(word_count(), job_name="Count")))["nodes"]
    assert [node["description"] for node in nodes][2] == "Reduce -> Sink: Print to Std. Out"
    assert nodes[2]["inputs"] == [{"num": 0, "id": 1, "ship_strategy": "HASH"}]
    assert [operator["name"] for operator in nodes[2]["operators"]] == ["Reduce", "Sink: Print to Std. Out"]


def test_json_of_the_execution_graph() -> None:
    plan = json.loads(to_json(execution_graph(word_count(), job_name="Count")))
    assert (plan["name"], plan["levels"], plan["slots"]) == ("Count", 3, 2)
    assert plan["nodes"][1]["subtasks"] == [{"index": 0, "slot": 0}, {"index": 1, "slot": 1}]
    assert [node["level"] for node in plan["nodes"]] == [0, 1, 2]


def test_text_of_the_execution_graph() -> None:
    assert to_text(execution_graph(word_count(), job_name="Count")) == (
        "Execution graph of 'Count': 3 vertices, 5 subtasks, 3 levels, 2 slots\n"
        "[0] Source: Text (parallelism 1, level 0, slot 0)\n"
        "└─ REBALANCE → [1] Flat Map (parallelism 2, level 1, slots 0-1)\n"
        "   └─ HASH → [2] Reduce -> Sink: Print to Std. Out (parallelism 2, level 2, slots 0-1)\n"
        "\n"
        "Levels\n"
        "  0: [0]\n"
        "  1: [1]\n"
        "  2: [2]\n"
        "Slot sharing groups\n"
        "  default: slots 0-1: [0] [1] [2]\n"
    )


def test_text_draws_branches_side_outputs_and_inputs_and_each_vertex_once() -> None:
    process = op(source("A"), "Process")
    late = by(SideOutputTransformation(process, "late"), ShufflePartitioner())
    graph = job_graph(co_op(by(process, ShufflePartitioner()), late, "Join"), op(late, "Late"), job_name="J")
    assert to_text(graph) == (
        "Job graph of 'J': 3 vertices, 3 subtasks\n"
        "[0] Source: A -> Process (parallelism 1)\n"
        "├─ SHUFFLE, input 1 → [1] Join (parallelism 1)\n"
        "├─ SHUFFLE, side output 'late', input 2 → [1] (see above)\n"
        "└─ SHUFFLE, side output 'late' → [2] Late (parallelism 1)\n"
    )


def test_text_of_the_stream_graph() -> None:
    lines = to_text(stream_graph(word_count(), job_name="Count")).splitlines()
    assert lines[0] == "Stream graph of 'Count': 4 operators"
    assert lines[4].startswith("      └─ FORWARD → [")


def test_dot_of_the_execution_graph() -> None:
    dot = to_dot(execution_graph(word_count(), job_name="Count"))
    assert dot.startswith("digraph \"Execution graph of 'Count'")
    assert '  n1 [label="Flat Map\\nparallelism 2\\nlevel 1, slots 0-1"];' in dot
    assert '  n1 -> n2 [label="HASH"];' in dot
    assert "  { rank=same; n2; }" in dot and dot.endswith("}\n")


@pytest.mark.parametrize("make", [stream_graph, job_graph, execution_graph])
def test_dot_escapes_what_users_write(make: object) -> None:
    dot = to_dot(make(op(source(), 'say "hi" \\ bye', parallelism=2), job_name='"J"'))  # type: ignore[operator]
    assert 'say \\"hi\\" \\\\ bye\\nparallelism 2' in dot
    assert '\\"J\\"' in dot.splitlines()[0]
