"""The execution graph: the subtasks of each vertex, the level of each vertex, the slot of each subtask."""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.graph.job_graph import JobEdge, JobGraph, JobVertex


@dataclass(frozen=True)
class Subtask:
    """One parallel instance of a vertex, and where it runs."""

    vertex_id: int
    index: int
    slot: int
    level: int


class ExecutionGraph:
    """Levels, slots, subtasks and channels of a job graph.

    A vertex's level is the longest path to it from a source. Vertices of one slot sharing group share
    slots: subtask i of each runs in slot `offset of the group + i`.
    """

    def __init__(self, job_graph: JobGraph) -> None:
        self.job_graph = job_graph
        self._level_of = _levels(job_graph)
        self._group_sizes = _group_sizes(job_graph)
        self._group_offsets: dict[str, int] = {}
        offset = 0
        for group, size in self._group_sizes.items():
            self._group_offsets[group] = offset
            offset += size
        self.slots_count: int = offset
        """The number of slots of the job."""
        self.levels: list[list[JobVertex]] = [[] for _ in range(max(self._level_of, default=-1) + 1)]
        """The vertices of each level, level 0 first."""
        for vertex in job_graph.vertices:
            self.levels[self._level_of[vertex.id]].append(vertex)
        self.subtasks: list[Subtask] = [
            Subtask(vertex.id, index, self.slot(vertex.id, index), self.level(vertex.id))
            for vertex in job_graph.vertices
            for index in range(vertex.parallelism)
        ]
        """All subtasks, by vertex and index."""

    @property
    def slot_sharing_groups(self) -> dict[str, range]:
        """Returns the slots of each slot sharing group, in order of first appearance."""
        return {
            group: range(self._group_offsets[group], self._group_offsets[group] + size)
            for group, size in self._group_sizes.items()
        }

    def level(self, vertex_id: int) -> int:
        """Returns the level of a vertex."""
        return self._level_of[vertex_id]

    def slot(self, vertex_id: int, subtask: int) -> int:
        """Returns the slot of a subtask."""
        vertex = self.job_graph.vertices[vertex_id]
        if not 0 <= subtask < vertex.parallelism:
            raise IndexError(f"'{vertex.name}' has {vertex.parallelism} subtasks and no subtask {subtask}.")
        return self._group_offsets[vertex.slot_sharing_group] + subtask

    def slot_subtasks(self, slot: int) -> list[Subtask]:
        """Returns the subtasks of a slot, upstream ones first."""
        return [subtask for subtask in self.subtasks if subtask.slot == slot]

    def channels(self, edge: JobEdge, source_subtask: int) -> list[int]:
        """Returns the target subtasks to which a source subtask sends over an edge."""
        sources, targets = self._parallelisms(edge)
        if edge.partitioner.is_pointwise:
            return _pointwise_targets(source_subtask, sources, targets)
        return list(range(targets))

    def input_channels(self, edge: JobEdge, target_subtask: int) -> list[int]:
        """Returns the source subtasks from which a target subtask receives over an edge."""
        sources, targets = self._parallelisms(edge)
        if edge.partitioner.is_pointwise:
            return _pointwise_sources(target_subtask, sources, targets)
        return list(range(sources))

    def _parallelisms(self, edge: JobEdge) -> tuple[int, int]:
        vertices = self.job_graph.vertices
        return vertices[edge.source_vertex].parallelism, vertices[edge.target_vertex].parallelism


def _levels(job_graph: JobGraph) -> list[int]:
    """Returns the level of each vertex; vertex ids are in topological order."""
    levels = [0] * len(job_graph.vertices)
    for edge in sorted(job_graph.edges, key=lambda edge: edge.source_vertex):
        levels[edge.target_vertex] = max(levels[edge.target_vertex], levels[edge.source_vertex] + 1)
    return levels


def _group_sizes(job_graph: JobGraph) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for vertex in job_graph.vertices:
        sizes[vertex.slot_sharing_group] = max(sizes.get(vertex.slot_sharing_group, 0), vertex.parallelism)
    return sizes


# Flink's pointwise distribution pattern (VertexInputInfoComputationUtils): contiguous ranges whose sizes differ by at
# most one. With equal parallelism it is the identity, so a forward edge needs no special case.


def _pointwise_targets(source: int, sources: int, targets: int) -> list[int]:
    if sources < targets:
        return list(range(_ceil_div(source * targets, sources), _ceil_div((source + 1) * targets, sources)))
    return [target for target in range(targets) if source in _sources_of(target, sources, targets)]


def _pointwise_sources(target: int, sources: int, targets: int) -> list[int]:
    if sources < targets:
        return [target * sources // targets]
    return list(_sources_of(target, sources, targets))


def _sources_of(target: int, sources: int, targets: int) -> range:
    return range(target * sources // targets, (target + 1) * sources // targets)


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
