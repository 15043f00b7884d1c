"""Iterations on the driver: when an iteration has ended, and how much its sources may read while it is full.

A record that is fed back in one epoch is emitted in the next, so between epochs a loop has nothing in flight but its queues.
An iteration has therefore ended when everything that leads into it has ended and its queues are empty: then nothing can ever
be fed back. With a maximum waiting time it ends, as in Flink, after that time without feedback, whatever its input does.
All subtasks end together.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import JobGraph, JobVertex
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.slot.protocol import SourceWork, VertexReport


@dataclass(frozen=True)
class Loop:
    """The surroundings of an iteration, by the vertices of sources and heads."""

    before: frozenset[int]
    """Those that must have finished before it: sources, and earlier iterations, that lead into the loop."""
    nested: frozenset[int]
    """The heads of all iterations whose loops share a way with this one, with its own: their records can come round here."""

    @staticmethod
    def of(job: JobGraph, vertex: JobVertex) -> Loop:
        """Returns the surroundings of the iteration whose head is that vertex."""
        heads = {each.id: job.nodes[each.head_id] for each in job.vertices}
        heads = {id: node for id, node in heads.items() if node.kind == "iteration head"}
        into = {id: _leading_into(job, node.iteration) for id, node in heads.items()}
        nested = {id for id in heads if id in into[vertex.id] and vertex.id in into[id]} | {vertex.id}
        # One that waits by the clock may be fed back to by a timer, long after its queue was empty.
        waiting = {id for id in nested - {vertex.id} if heads[id].max_wait_seconds}
        starts = {each.id for each in job.vertices if job.nodes[each.head_id].kind in ("source", "iteration head")}
        return Loop(frozenset(((into[vertex.id] & starts) - nested) | waiting), frozenset(nested))


def _leading_into(job: JobGraph, iteration: int | None) -> set[int]:
    """Returns the vertices from which records reach a tail of an iteration."""
    tails = [node for node in job.nodes.values() if node.kind == "iteration tail" and node.iteration == iteration]
    pending = [job.vertex_of(node.id).id for node in tails]
    found: set[int] = set()
    while pending:
        vertex_id = pending.pop()
        if vertex_id not in found:
            found.add(vertex_id)
            pending += [edge.source_vertex for edge in job.in_edges(vertex_id)]
    return found


class IterationCoordinator(SourceCoordinator):
    """The driver's side of the head of an iteration."""

    def __init__(self, vertex_id: int, name: str, parallelism: int, max_wait_seconds: float, loop: Loop) -> None:
        super().__init__(vertex_id, name, parallelism)
        self.loop = loop
        self.watched = loop.before | loop.nested
        self.waiting = 0
        """The most records that wait in one subtask."""
        self._max_wait = max_wait_seconds
        self._emitted = 0
        self._active: float | None = None
        """When records were last fed back, or else when the first epoch had ended."""
        self._quiet = False
        self._told = False

    @staticmethod
    def of(graph: ExecutionGraph, vertex: JobVertex) -> IterationCoordinator:
        """Returns the coordinator of an iteration."""
        node = graph.job_graph.nodes[vertex.head_id]
        loop = Loop.of(graph.job_graph, vertex)
        return IterationCoordinator(vertex.id, node.name, vertex.parallelism, node.max_wait_seconds, loop)

    def work(self, limit: int) -> SourceWork:
        due = self._due()
        self._told = self._told or (due is not None and due <= time.monotonic())
        return SourceWork(limit, complete=self._told)

    def next_due(self) -> float | None:
        return None if self._told else self._due()

    def _due(self) -> float | None:
        """Returns when the iteration ends; None while it may be fed back to."""
        if self._active is None or self.waiting:
            return None
        if self._max_wait:
            return self._active + self._max_wait
        return 0.0 if self._quiet else None

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        own = [report for report in reports if report.vertex_id == self.vertex_id]
        emitted = sum(report.records_in for report in own)
        self.waiting = max((report.feedback for report in own), default=0)
        if self._active is None or self.waiting or emitted != self._emitted:
            self._active = time.monotonic()
        self._emitted = emitted
        self._quiet = all(
            report.finished if report.vertex_id in self.loop.before else not report.feedback for report in reports
        )


def admitted(source: SourceCoordinator, sources: Collection[SourceCoordinator], limit: int) -> int:
    """Returns how many records a source may read in an epoch, of at most `limit`.

    While more records wait in a loop than it emits in an epoch, the sources that lead into it read less, the more wait: so
    the queues stay bounded, unless the loop itself multiplies its records. Sources never stop, since what goes round may
    wait for them.
    """
    full = [
        each.waiting
        for each in sources
        if isinstance(each, IterationCoordinator) and source.vertex_id in each.loop.before
    ]
    waiting = max(full, default=0)
    return limit if waiting <= limit else max(1, int(limit * (limit / waiting) ** 2))
