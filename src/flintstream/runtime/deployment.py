"""Deployment: the subtasks of each slot, with their operators, inputs and outgoing edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import JobEdge, JobVertex
from flintstream.graph.partitioners import StreamPartitioner
from flintstream.graph.stream_graph import StreamNode

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class OperatorDeployment:
    """An operator of a chain."""

    node_id: int
    operator_id: str
    name: str
    operator: Any
    output_type: TypeInformation | None
    side_output_types: dict[str, TypeInformation | None]
    chained: list[tuple[int, str | None]]
    """The chained operators that follow: node id, and the side output read or None."""
    is_sink: bool = False
    """Whether its input records leave the job."""


@dataclass(frozen=True)
class EdgeDeployment:
    """An edge that leaves the vertex."""

    node_id: int
    side_tag: str | None
    partitioner: StreamPartitioner
    target_vertex: int
    input_index: int
    channel_base: int
    """The channel of source subtask i is this plus i."""
    target_slots: list[int]
    """The slot of each target subtask."""
    target_max_parallelism: int
    targets: list[list[int]]
    """For each source subtask, the target subtasks it sends to."""
    buffer_timeout: int | None = None
    """The buffer timeout of the operator that writes to it, in milliseconds; None if it has none of its own."""


@dataclass(frozen=True)
class VertexDeployment:
    """A vertex: a chain of operators, head first."""

    vertex_id: int
    name: str
    level: int
    parallelism: int
    max_parallelism: int
    operators: list[OperatorDeployment]
    out_edges: list[EdgeDeployment]
    inputs: list[list[list[int]]]
    """For each subtask and each input, the channels it receives from."""
    slots: list[int]
    """The slot of each subtask."""
    iteration_head: bool = False
    """Whether it emits what was fed back, instead of what a source reads."""

    @property
    def is_source(self) -> bool:
        """Returns whether this is a source."""
        return not any(channels for subtask in self.inputs for channels in subtask)


@dataclass(frozen=True)
class JobDeployment:
    """All vertices of a job."""

    vertices: list[VertexDeployment] = field(default_factory=list)

    def hosted_by(self, slot: int) -> list[tuple[VertexDeployment, int]]:
        """Returns the subtasks of a slot: vertex and index."""
        return [
            (vertex, index) for vertex in self.vertices for index, place in enumerate(vertex.slots) if place == slot
        ]

    @staticmethod
    def of(graph: ExecutionGraph) -> JobDeployment:
        """Returns the deployment of an execution graph."""
        bases = _channel_bases(graph)
        return JobDeployment([_vertex(graph, vertex, bases) for vertex in graph.job_graph.vertices])


def _channel_bases(graph: ExecutionGraph) -> dict[int, int]:
    """Assigns a range of channel numbers to each edge, so that a channel number identifies the edge and the source
    subtask.
    """
    bases: dict[int, int] = {}
    base = 0
    for edge in graph.job_graph.edges:
        bases[edge.index] = base
        base += graph.job_graph.vertices[edge.source_vertex].parallelism
    return bases


def _vertex(graph: ExecutionGraph, vertex: JobVertex, bases: dict[int, int]) -> VertexDeployment:
    job = graph.job_graph
    chained: dict[int, list[tuple[int, str | None]]] = {}
    for edge in vertex.chained_edges:
        chained.setdefault(edge.source_id, []).append((edge.target_id, edge.side_tag))
    in_edges = job.in_edges(vertex.id)
    two_inputs = job.nodes[vertex.head_id].two_inputs
    return VertexDeployment(
        vertex_id=vertex.id,
        name=vertex.name,
        level=graph.level(vertex.id),
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        operators=[
            OperatorDeployment(
                node_id=node.id,
                operator_id=node.operator_id,
                name=node.name,
                operator=node.operator,
                output_type=node.output_type,
                side_output_types=node.side_output_types,
                chained=chained.get(node.id, []),
                is_sink=_is_sink(node),
            )
            for node in (job.nodes[node_id] for node_id in vertex.node_ids)
        ],
        out_edges=[_edge(graph, edge, bases) for edge in job.out_edges(vertex.id)],
        inputs=[
            [
                [
                    bases[edge.index] + source
                    for edge in in_edges
                    if edge.input_index == index
                    for source in graph.input_channels(edge, subtask)
                ]
                for index in range(2 if two_inputs else 1)
            ]
            for subtask in range(vertex.parallelism)
        ],
        slots=[graph.slot(vertex.id, subtask) for subtask in range(vertex.parallelism)],
        iteration_head=job.nodes[vertex.head_id].kind == "iteration head",
    )


def _is_sink(node: StreamNode) -> bool:
    declared: bool | None = node.operator.takes_results
    return node.kind == "sink" if declared is None else declared


def _edge(graph: ExecutionGraph, edge: JobEdge, bases: dict[int, int]) -> EdgeDeployment:
    source, target = (graph.job_graph.vertices[v] for v in (edge.source_vertex, edge.target_vertex))
    return EdgeDeployment(
        node_id=edge.source_node,
        side_tag=edge.side_tag,
        partitioner=edge.partitioner,
        target_vertex=target.id,
        input_index=edge.input_index,
        channel_base=bases[edge.index],
        target_slots=[graph.slot(target.id, subtask) for subtask in range(target.parallelism)],
        target_max_parallelism=target.max_parallelism,
        targets=[graph.channels(edge, subtask) for subtask in range(source.parallelism)],
        buffer_timeout=graph.job_graph.nodes[edge.source_node].buffer_timeout,
    )
