"""Prints the three graphs as JSON, as Graphviz DOT and as text for a terminal."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import JobEdge, JobGraph, JobVertex
from flintstream.graph.partitioners import (
    ForwardPartitioner,
    KeyGroupPartitioner,
    RebalancePartitioner,
    StreamPartitioner,
)
from flintstream.graph.stream_graph import StreamGraph

AnyGraph = StreamGraph | JobGraph | ExecutionGraph

# The names of the operators that PyFlink adds around keys.
_KEYS, _VALUES = "_stream_key_by_map_operator", "_keyed_stream_values_operator"
_PACTS = {
    "source": "Data Source",
    "operator": "Operator",
    "sink": "Data Sink",
    "iteration head": "Data Source",
    "iteration tail": "Data Sink",
}


def to_json(graph: AnyGraph) -> str:
    """Returns JSON in Flink's format: `getExecutionPlan` for a stream graph, the REST API's plan for the others."""
    if isinstance(graph, StreamGraph):
        # As in Flink: sinks last, otherwise in program order.
        nodes = sorted(_stream_plan(graph), key=lambda node: (node["pact"] == _PACTS["sink"], node["id"]))
        plan: dict[str, Any] = {"nodes": nodes}
    elif isinstance(graph, JobGraph):
        plan = {"name": graph.name, "nodes": [_vertex_json(graph, vertex) for vertex in graph.vertices]}
    else:
        plan = _execution_graph_json(graph)
    return json.dumps(plan, indent=2, ensure_ascii=False)


def to_dot(graph: AnyGraph) -> str:
    """Returns a Graphviz digraph, left to right."""
    drawing = _draw(graph)
    lines = [f"digraph {_quoted(drawing.title)} {{", "  rankdir=LR;", "  node [shape=box];"]
    for box in drawing.boxes:
        label = "\n".join(part for part in (box.name, f"parallelism {box.parallelism}", box.place) if part)
        lines.append(f"  n{box.id} [label={_quoted(label)}];")
    lines += [f"  n{arrow.source} -> n{arrow.target} [label={_quoted(arrow.label)}];" for arrow in drawing.arrows]
    for box in drawing.boxes:
        lines += [f"  n{box.id} -> n{head} [label=feedback, style=dashed, constraint=false];" for head in box.feedback]
    lines += [f"  {{ rank=same; {' '.join(f'n{id};' for id in rank)} }}" for rank in drawing.ranks]
    return "\n".join([*lines, "}"]) + "\n"


def to_text(graph: AnyGraph) -> str:
    """Returns a tree from the sources down; a node with several inputs is drawn once and then referred to."""
    drawing = _draw(graph)
    return "\n".join([drawing.title, *_tree(drawing), *drawing.footer]) + "\n"


# JSON


def _stream_plan(graph: StreamGraph) -> Iterable[dict[str, Any]]:
    """Returns the operators as PyFlink's plans show them, including those that extract and strip keys, which here are
    part of their neighbours.
    """
    plan: dict[int, dict[str, Any]] = {}

    def operator(id: int, name: str, parallelism: int) -> dict[str, Any]:
        return plan.setdefault(id, _plan_node(id, name, "operator", name, parallelism))

    for node in graph.nodes.values():
        shown = plan[node.id] = _plan_node(node.id, node.name, node.kind, node.description, node.parallelism)
        for edge in node.in_edges:
            if edge.partition_id is None or not isinstance(edge.partitioner, KeyGroupPartitioner):
                _add_predecessor(shown, edge.source_id, str(edge.partitioner))
                continue
            source = graph.nodes[edge.source_id]
            keys = operator(edge.partition_id, _KEYS, source.parallelism)
            _add_predecessor(keys, source.id, _unpartitioned(source.parallelism, keys["parallelism"]))
            if edge.values_id is None:
                _add_predecessor(shown, edge.partition_id, str(edge.partitioner))
                continue
            values = operator(edge.values_id, _VALUES, graph.config.parallelism)
            _add_predecessor(values, edge.partition_id, str(edge.partitioner))
            _add_predecessor(shown, edge.values_id, _unpartitioned(values["parallelism"], node.parallelism))
    return plan.values()


def _plan_node(id: int, name: str, kind: str, contents: str, parallelism: int) -> dict[str, Any]:
    return {"id": id, "type": name, "pact": _PACTS[kind], "contents": contents, "parallelism": parallelism}


def _add_predecessor(node: dict[str, Any], id: int, ship_strategy: str) -> None:
    # Flink prints "second" for every input.
    predecessor = {"id": id, "ship_strategy": ship_strategy, "side": "second"}
    if predecessor not in node.setdefault("predecessors", []) or node["type"] not in (_KEYS, _VALUES):
        node["predecessors"].append(predecessor)


def _unpartitioned(from_parallelism: int, to_parallelism: int) -> str:
    return str(ForwardPartitioner() if from_parallelism == to_parallelism else RebalancePartitioner())


def _vertex_json(graph: JobGraph, vertex: JobVertex) -> dict[str, Any]:
    result: dict[str, Any] = {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "slot_sharing_group": vertex.slot_sharing_group,
        "description": vertex.name,
        "operators": [
            {"id": node.operator_id, "name": node.name, "uid": node.uid}
            for node in (graph.nodes[id] for id in vertex.node_ids)
        ],
    }
    edges = graph.in_edges(vertex.id)
    if edges:
        result["inputs"] = [
            {"num": num, "id": edge.source_vertex, "ship_strategy": str(edge.partitioner)}
            | ({} if edge.side_tag is None else {"side_output": edge.side_tag})
            for num, edge in enumerate(edges)
        ]
    heads = graph.feeds_back_to(vertex)
    return result | ({"feedback_to": list(heads)} if heads else {})


def _execution_graph_json(graph: ExecutionGraph) -> dict[str, Any]:
    job = graph.job_graph
    nodes = [
        _vertex_json(job, vertex)
        | {
            "level": graph.level(vertex.id),
            "subtasks": [
                {"index": subtask.index, "slot": subtask.slot}
                for subtask in graph.subtasks
                if subtask.vertex_id == vertex.id
            ],
        }
        for vertex in job.vertices
    ]
    return {"name": job.name, "levels": len(graph.levels), "slots": graph.slots_count, "nodes": nodes}


# DOT and text share one description of boxes and arrows.


@dataclass(frozen=True)
class _Box:
    id: int
    name: str
    parallelism: int
    place: str = ""
    feedback: tuple[int, ...] = ()
    """The heads of the iterations to which it feeds back."""


@dataclass(frozen=True)
class _Arrow:
    source: int
    target: int
    label: str


@dataclass(frozen=True)
class _Drawing:
    title: str
    boxes: list[_Box]
    arrows: list[_Arrow]
    ranks: list[list[int]]
    footer: list[str]


def _draw(graph: AnyGraph) -> _Drawing:
    if isinstance(graph, StreamGraph):
        return _draw_stream_graph(graph)
    if isinstance(graph, JobGraph):
        return _draw_job_graph(graph)
    return _draw_execution_graph(graph)


def _draw_stream_graph(graph: StreamGraph) -> _Drawing:
    title = f"Stream graph of '{graph.job_name}': {_count(len(graph.nodes), 'operator')}"
    heads = {node.iteration: node.id for node in graph.nodes.values() if node.kind == "iteration head"}
    boxes = [
        _Box(
            node.id,
            node.name,
            node.parallelism,
            feedback=(heads[node.iteration],) if node.kind == "iteration tail" else (),
        )
        for node in graph.nodes.values()
    ]
    arrows = [
        _Arrow(
            edge.source_id,
            edge.target_id,
            _edge_label(edge.partitioner, edge.side_tag, graph.nodes[edge.target_id].two_inputs, edge.input_index),
        )
        for edge in graph.edges
    ]
    return _Drawing(title, boxes, arrows, [], [])


def _draw_job_graph(graph: JobGraph) -> _Drawing:
    subtasks = sum(vertex.parallelism for vertex in graph.vertices)
    title = f"Job graph of '{graph.name}': {_vertices(len(graph.vertices))}, {_count(subtasks, 'subtask')}"
    boxes = [
        _Box(vertex.id, vertex.name, vertex.parallelism, feedback=graph.feeds_back_to(vertex))
        for vertex in graph.vertices
    ]
    return _Drawing(title, boxes, [_job_arrow(graph, edge) for edge in graph.edges], [], [])


def _draw_execution_graph(graph: ExecutionGraph) -> _Drawing:
    job = graph.job_graph
    title = (
        f"Execution graph of '{job.name}': {_vertices(len(job.vertices))}, "
        f"{_count(len(graph.subtasks), 'subtask')}, {_count(len(graph.levels), 'level')}, "
        f"{_count(graph.slots_count, 'slot')}"
    )
    boxes = [
        _Box(
            vertex.id,
            vertex.name,
            vertex.parallelism,
            f"level {graph.level(vertex.id)}, "
            + _slots(graph.slot(vertex.id, 0), graph.slot(vertex.id, vertex.parallelism - 1)),
            job.feeds_back_to(vertex),
        )
        for vertex in job.vertices
    ]
    ranks = [[vertex.id for vertex in level] for level in graph.levels]
    footer = ["", "Levels"]
    footer += [f"  {level}: {' '.join(f'[{id}]' for id in ids)}" for level, ids in enumerate(ranks)]
    footer += ["Slot sharing groups"]
    for group, slots in graph.slot_sharing_groups.items():
        ids = [vertex.id for vertex in job.vertices if vertex.slot_sharing_group == group]
        footer.append(f"  {group}: {_slots(slots[0], slots[-1])}: {' '.join(f'[{id}]' for id in ids)}")
    return _Drawing(title, boxes, [_job_arrow(job, edge) for edge in job.edges], ranks, footer)


def _job_arrow(graph: JobGraph, edge: JobEdge) -> _Arrow:
    two_inputs = graph.nodes[graph.vertices[edge.target_vertex].head_id].two_inputs
    label = _edge_label(edge.partitioner, edge.side_tag, two_inputs, edge.input_index)
    return _Arrow(edge.source_vertex, edge.target_vertex, label)


def _edge_label(partitioner: StreamPartitioner, side_tag: str | None, two_inputs: bool, input_index: int) -> str:
    side = "" if side_tag is None else f", side output '{side_tag}'"
    which = f", input {input_index + 1}" if two_inputs else ""
    return f"{partitioner}{side}{which}"


def _tree(drawing: _Drawing) -> list[str]:
    """Returns the lines of the tree, depth first, without recursion, since a program may be long."""
    boxes = {box.id: box for box in drawing.boxes}
    arrows: defaultdict[int, list[_Arrow]] = defaultdict(list)
    for arrow in drawing.arrows:
        arrows[arrow.source].append(arrow)
    targets = {arrow.target for arrow in drawing.arrows}
    lines: list[str] = []
    drawn: set[int] = set()
    pending = [(box.id, "", "") for box in reversed(drawing.boxes) if box.id not in targets]
    while pending:
        id, first, rest = pending.pop()
        if id in drawn:
            lines.append(f"{first}[{id}] (see above)")
            continue
        drawn.add(id)
        lines.append(first + _line(boxes[id]))
        for position, arrow in enumerate(reversed(arrows[id])):
            branch, below = ("└─ ", "   ") if position == 0 else ("├─ ", "│  ")
            pending.append((arrow.target, f"{rest}{branch}{arrow.label} → ", rest + below))
    return lines


def _line(box: _Box) -> str:
    place = f", {box.place}" if box.place else ""
    feedback = "".join(f" ↺ feedback to [{head}]" for head in box.feedback)
    return f"[{box.id}] {box.name} (parallelism {box.parallelism}{place}){feedback}"


def _slots(first: int, last: int) -> str:
    return f"slot {first}" if first == last else f"slots {first}-{last}"


def _vertices(number: int) -> str:
    return "1 vertex" if number == 1 else f"{number} vertices"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
