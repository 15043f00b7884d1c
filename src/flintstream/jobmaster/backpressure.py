"""Back-pressure: how long the vertices of a job were held back for later ones.

While a source has more records than an epoch took, whatever lies between it and a busy vertex could have produced more,
had the busy vertex been faster. So the time in which later vertices worked counts as back-pressure for the vertices
before them. Without such a source, nobody was held back: the vertices waited for records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flintstream.graph.execution_graph import ExecutionGraph

SubtaskKey = tuple[int, int]
"""The vertex and the index of a subtask."""


class BackPressure:
    """Computes the back-pressure in the epochs of a job."""

    def __init__(self, graph: ExecutionGraph) -> None:
        job = graph.job_graph
        before: dict[int, set[int]] = {vertex.id: set() for vertex in job.vertices}
        after: dict[int, set[int]] = {vertex.id: set() for vertex in job.vertices}
        # Vertices are in topological order.
        for vertex in job.vertices:
            for edge in job.in_edges(vertex.id):
                before[vertex.id] |= {edge.source_vertex} | before[edge.source_vertex]
        for vertex_id, earlier in before.items():
            for each in earlier:
                after[each].add(vertex_id)
        self._before = before
        self._steps: dict[int, list[frozenset[int]]] = {
            vertex_id: [
                reached for level in graph.levels if (reached := frozenset(later & {vertex.id for vertex in level}))
            ]
            for vertex_id, later in after.items()
        }
        """For each vertex the later ones that its records reach, level by level: levels run one after the other."""
        self._slots: dict[int, list[int]] = {
            vertex.id: [graph.slot(vertex.id, index) for index in range(vertex.parallelism)] for vertex in job.vertices
        }

    def waits(self, worked: Mapping[SubtaskKey, float], held_back: Collection[int]) -> dict[int, float]:
        """Returns the seconds in which each vertex was held back in an epoch, without those that were not.

        `worked` has the seconds in which each subtask worked, `held_back` the sources with more records than the epoch
        took.
        """
        known: dict[frozenset[int], float] = {}
        found = {}
        for vertex_id, steps in self._steps.items():
            if held_back and (vertex_id in held_back or not self._before[vertex_id].isdisjoint(held_back)):
                for step in steps:
                    if step not in known:
                        known[step] = self._longest(step, worked)
                if seconds := sum(known[step] for step in steps):
                    found[vertex_id] = seconds
        return found

    def _longest(self, vertices: frozenset[int], worked: Mapping[SubtaskKey, float]) -> float:
        """Returns the seconds that the busiest slot worked on vertices of one level, which share its thread."""
        slots: dict[int, float] = {}
        for vertex_id in vertices:
            for index, slot in enumerate(self._slots[vertex_id]):
                slots[slot] = slots.get(slot, 0.0) + worked.get((vertex_id, index), 0.0)
        return max(slots.values())
