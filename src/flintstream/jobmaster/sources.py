"""Source coordinators: which splits each source has, who reads them, and how far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flintstream.runtime.faults import user_fault
from flintstream.runtime.slot.protocol import SourceWork, VertexReport
from flintstream.runtime.source import Split, SplitSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SourceCoordinator:
    """The driver's side of one source vertex. This base serves sources that need no help: functions in slots."""

    def __init__(self, vertex_id: int, name: str, parallelism: int) -> None:
        self.vertex_id = vertex_id
        self.name = name
        self.parallelism = parallelism

    def start(self) -> None:
        """Called once before the first epoch."""

    def work(self, limit: int) -> SourceWork:
        """What the subtasks have to do in the next epoch."""
        return SourceWork(limit)

    def reader(self) -> DataFrame | None:
        """Rows for level 0 in the next epoch, for sources that Spark reads."""
        return None

    def next_due(self) -> float | None:
        """When (by the monotonic clock) this source wants an epoch; None for not by itself."""
        return None

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        """Takes in what the subtasks have read."""

    # --- checkpoints ---

    def position(self) -> Any:
        """Where the source stands, between two epochs; None if its subtasks know."""
        return None

    def resume(self, position: Any) -> None:
        """Goes on from a position; called before `start`."""

    @property
    def waits_for_checkpoint(self) -> bool:
        """Whether nothing more comes before a checkpoint has stored what was read."""
        return False

    def checkpoint_complete(self, position: Any) -> None:
        """A checkpoint with this position is safe."""

    def close(self) -> None:
        """Called once at the end."""


class SplitCoordinator(SourceCoordinator):
    """Finds the splits of a source, deals them out, and keeps their positions."""

    def __init__(self, vertex_id: int, name: str, parallelism: int, source: SplitSource) -> None:
        super().__init__(vertex_id, name, parallelism)
        self._source = source
        self._known: dict[str, Split | None] = {}
        """All that were ever found; None for those that an earlier run has read to their end."""
        self._readers: list[set[str]] = [set() for _ in range(parallelism)]
        self._unassigned: list[Split] = []
        self.positions: dict[str, Any] = {}
        """Where each unfinished split stands."""
        self._next_discovery: float | None = None
        self._complete = False
        self._resumed = False

    def start(self) -> None:
        if self._resumed and self._source.bounded:
            # All there is was found by the run before; looking again would find it once more.
            self._complete = True
        else:
            self._discover()

    def position(self) -> dict[str, Any]:
        unread = {split.split_id for split in self._unassigned}
        left = {
            split_id: (split, self.positions.get(split_id))
            for split_id, split in self._known.items()
            if split_id in self.positions or split_id in unread
        }
        return {"left": left, "known": list(self._known)}

    def resume(self, position: dict[str, Any]) -> None:
        self._resumed = True
        left = position["left"]
        self._known = {split_id: left[split_id][0] if split_id in left else None for split_id in position["known"]}
        self._unassigned = [split for split, _ in left.values()]
        self.positions = {split_id: place for split_id, (_, place) in left.items() if place is not None}

    def work(self, limit: int) -> SourceWork:
        if self._next_discovery is not None and time.monotonic() >= self._next_discovery:
            self._discover()
        dealt: dict[int, list[tuple[Split, Any]]] = {}
        for split in self._unassigned:
            subtask = min(range(self.parallelism), key=lambda index: (len(self._readers[index]), index))
            self._readers[subtask].add(split.split_id)
            dealt.setdefault(subtask, []).append((split, self.positions.get(split.split_id)))
        self._unassigned = []
        return SourceWork(limit, dealt, self._complete)

    def next_due(self) -> float | None:
        if self._unassigned:
            return 0.0
        if self._next_discovery is not None and time.monotonic() >= self._next_discovery:
            # Looking is cheap, an epoch is not: run one only if there is something new.
            self._discover()
            if self._unassigned:
                return 0.0
        return self._next_discovery

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        self.positions = {split_id: position for report in reports for split_id, position in report.positions.items()}
        for report in reports:
            self._readers[report.subtask] &= report.positions.keys()

    def _discover(self) -> None:
        try:
            found = list(self._source.discover(self.parallelism, frozenset(self._known)))
        except Exception as error:
            raise user_fault(error, self.name) from error
        for split in found:
            if split.split_id in self._known:
                continue
            self._known[split.split_id] = split
            self._unassigned.append(split)
        if self._source.bounded or self._source.discovery_interval is None:
            self._complete = self._source.bounded
            self._next_discovery = None
        else:
            self._next_discovery = time.monotonic() + self._source.discovery_interval
