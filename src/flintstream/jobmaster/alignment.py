"""Watermark alignment on the driver: keeps the sources of a group close to the slowest of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.runtime.operators.source import SourceHead

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import WatermarkAlignment
    from flintstream.graph.execution_graph import ExecutionGraph
    from flintstream.runtime.slot.protocol import VertexReport


class AlignmentGroups:
    """Computes after each epoch how far each source may be read in the next one.

    The limit of a source is the minimum watermark of its group plus the drift that its strategy allows. Sources without
    a watermark, and idle ones, do not count.
    """

    def __init__(self, alignments: Mapping[int, WatermarkAlignment]) -> None:
        self._alignments = dict(alignments)
        """The alignment settings by source vertex."""
        self._limits: dict[int, int] = {}
        self._someone_may_go_on = False

    @staticmethod
    def of(graph: ExecutionGraph) -> AlignmentGroups:
        """Returns the groups of the sources of a job."""
        job = graph.job_graph
        heads = {vertex.id: job.nodes[vertex.head_id].operator for vertex in job.vertices}
        found = {vertex_id: head.alignment for vertex_id, head in heads.items() if isinstance(head, SourceHead)}
        return AlignmentGroups({vertex_id: each for vertex_id, each in found.items() if each is not None})

    def __bool__(self) -> bool:
        """Returns whether any source is aligned."""
        return bool(self._alignments)

    def limit(self, vertex_id: int) -> int | None:
        """Returns the greatest watermark up to which the splits of a source are read; None if it is not aligned, or if
        no watermark is known yet.
        """
        return self._limits.get(vertex_id)

    def next_due(self) -> float | None:
        """Returns now if splits that were paused may continue."""
        return 0.0 if self._someone_may_go_on else None

    def epoch_done(self, reports: Iterable[VertexReport]) -> None:
        """Records the progress of the sources."""
        if not self._alignments:
            return
        aligned = [report for report in reports if report.vertex_id in self._alignments and report.progress is not None]
        marks: dict[str, list[int | None]] = {}
        for report in aligned:
            if report.progress is not None and not report.finished:
                marks.setdefault(self._alignments[report.vertex_id].group, []).append(report.progress.watermark)
        for vertex_id, alignment in self._alignments.items():
            members = marks.get(alignment.group, [])
            known = [mark for mark in members if mark is not None]
            # A source on its own has nothing to wait for.
            waits = known and len(members) > 1
            self._limits[vertex_id] = min(known) + alignment.max_drift if waits else MAX_WATERMARK
        self._someone_may_go_on = any(
            report.progress.waiting is not None and report.progress.waiting <= self._limits[report.vertex_id]
            for report in aligned
            if report.progress is not None
        )
