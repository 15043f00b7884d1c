"""The job graph: operators chained into vertices, and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from flintstream.graph.partitioners import ForwardPartitioner, StreamPartitioner
from flintstream.graph.stream_graph import StreamEdge, StreamGraph, StreamGraphConfig, StreamNode
from flintstream.graph.transformations import ChainingStrategy


@dataclass
class JobVertex:
    """A chain of operators that runs as one task per subtask. A chain is a tree and may branch.

    `node_ids` has the head first, then its descendants in topological order; `chained_edges` are the
    edges inside the chain.
    """

    id: int
    name: str
    node_ids: list[int]
    chained_edges: list[StreamEdge]
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str

    @property
    def head_id(self) -> int:
        """Returns the node that receives the vertex's input (or is its source)."""
        return self.node_ids[0]


@dataclass(frozen=True)
class JobEdge:
    """An edge from the operator `source_node` inside one vertex to the head of another."""

    index: int
    source_vertex: int
    source_node: int
    target_vertex: int
    input_index: int
    partitioner: StreamPartitioner = field(compare=False)
    side_tag: str | None = None


@dataclass
class JobGraph:
    """Vertices by id (dense, in topological order), edges by index, and the stream nodes by their id."""

    name: str
    vertices: list[JobVertex]
    edges: list[JobEdge]
    nodes: dict[int, StreamNode]

    def in_edges(self, vertex_id: int) -> list[JobEdge]:
        """Returns the edges into a vertex, by input and then in program order."""
        edges = [edge for edge in self.edges if edge.target_vertex == vertex_id]
        return sorted(edges, key=lambda edge: (edge.input_index, edge.index))

    def out_edges(self, vertex_id: int) -> list[JobEdge]:
        """Returns the edges out of a vertex."""
        return [edge for edge in self.edges if edge.source_vertex == vertex_id]

    def vertex_of(self, node_id: int) -> JobVertex:
        """Returns the vertex of an operator."""
        return next(vertex for vertex in self.vertices if node_id in vertex.node_ids)

    def feeds_back_to(self, vertex: JobVertex) -> tuple[int, ...]:
        """Returns the heads of the iterations whose tails are in a vertex."""
        tails = [node for node in map(self.nodes.__getitem__, vertex.node_ids) if node.kind == "iteration tail"]
        heads = {node.iteration: node.id for node in self.nodes.values() if node.kind == "iteration head"}
        return tuple(sorted({self.vertex_of(heads[node.iteration]).id for node in tails}))


def is_chainable(edge: StreamEdge, graph: StreamGraph) -> bool:
    """Returns whether the two operators of an edge run in one task."""
    source, target = graph.nodes[edge.source_id], graph.nodes[edge.target_id]
    return (
        graph.config.chaining
        and len(target.in_edges) == 1
        and isinstance(edge.partitioner, ForwardPartitioner)
        and source.parallelism == target.parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and source.chaining is not ChainingStrategy.NEVER
        and target.chaining is ChainingStrategy.ALWAYS
        and _max_parallelism_allows(source, target, graph.config)
    )


def _max_parallelism_allows(source: StreamNode, target: StreamNode, config: StreamGraphConfig) -> bool:
    return config.chain_different_max_parallelism or source.max_parallelism == target.max_parallelism


def build_job_graph(graph: StreamGraph) -> JobGraph:
    """Chains operators where possible, and turns the other edges into edges between vertices."""
    chained = {edge.index for edge in graph.edges if is_chainable(edge, graph)}
    vertex_ids: dict[int, int] = {}
    members: list[list[StreamNode]] = []
    # Nodes are in topological order, so the vertex of a node's predecessor exists already.
    for node in graph.nodes.values():
        if node.in_edges and node.in_edges[0].index in chained:
            vertex_ids[node.id] = vertex_ids[node.in_edges[0].source_id]
        else:
            vertex_ids[node.id] = len(members)
            members.append([])
        members[vertex_ids[node.id]].append(node)
    vertices = [_vertex(id, nodes, chained) for id, nodes in enumerate(members)]
    exchanges = [edge for edge in graph.edges if edge.index not in chained]
    edges = [
        JobEdge(
            index,
            vertex_ids[edge.source_id],
            edge.source_id,
            vertex_ids[edge.target_id],
            edge.input_index,
            edge.partitioner,
            edge.side_tag,
        )
        for index, edge in enumerate(exchanges)
    ]
    return JobGraph(graph.job_name, vertices, edges, dict(graph.nodes))


def _vertex(id: int, nodes: list[StreamNode], chained: set[int]) -> JobVertex:
    head = nodes[0]
    return JobVertex(
        id=id,
        name=_chain_name(nodes, chained),
        node_ids=[node.id for node in nodes],
        chained_edges=[edge for node in nodes for edge in node.out_edges if edge.index in chained],
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
        slot_sharing_group=head.slot_sharing_group,
    )


def _chain_name(nodes: list[StreamNode], chained: set[int]) -> str:
    """Returns Flink's name of a chain: `Source: X -> Map -> (Filter, Sink: Print to Std. Out)`."""
    names: dict[int, str] = {}
    for node in reversed(nodes):
        branches = [names[edge.target_id] for edge in node.out_edges if edge.index in chained]
        names[node.id] = _joined(node.name, branches)
    return names[nodes[0].id]


def _joined(name: str, branches: list[str]) -> str:
    if not branches:
        return name
    return f"{name} -> {branches[0]}" if len(branches) == 1 else f"{name} -> ({', '.join(branches)})"
