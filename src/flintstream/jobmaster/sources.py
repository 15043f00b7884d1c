"""Source coordinators: assign the splits of sources to subtasks, and keep their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.jobmaster.enumeration import Enumeration
from flintstream.runtime.slot.protocol import SourceWork, VertexReport
from flintstream.runtime.source import Split, SplitSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SourceCoordinator:
    """The driver's side of one source vertex. This base is for sources without splits: functions in slots."""

    def __init__(self, vertex_id: int, name: str, parallelism: int) -> None:
        self.vertex_id = vertex_id
        self.name = name
        self.parallelism = parallelism
        self.watched: frozenset[int] = frozenset([vertex_id])
        """The vertices whose reports `epoch_done` needs."""

    def start(self) -> None:
        """Called once before the first epoch."""

    def work(self, limit: int) -> SourceWork:
        """Returns the work of the subtasks in the next epoch."""
        return SourceWork(limit)

    def reader(self) -> DataFrame | None:
        """Returns the rows for level 0 in the next epoch, for sources that Spark reads."""
        return None

    def next_due(self) -> float | None:
        """Returns when (by the monotonic clock) this source needs an epoch; None if it does not."""
        return None

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        """Updates positions after an epoch, from the reports of the vertices `watched`."""

    # --- checkpoints ---

    def position(self) -> Any:
        """Returns the position of the source between two epochs; None if its subtasks store it."""
        return None

    def resume(self, position: Any) -> None:
        """Restores a position; called before `start`."""

    @property
    def waits_for_checkpoint(self) -> bool:
        """Returns whether the source has no more records until a checkpoint is complete."""
        return False

    def checkpoint_complete(self, position: Any) -> None:
        """Called when a checkpoint with this position is complete."""

    def close(self) -> None:
        """Called once at the end."""


class SplitCoordinator(SourceCoordinator):
    """Assigns the splits that an enumerator discovers, and keeps the positions of unfinished ones.

    Discovered splits arrive together with the enumerator's state after the discovery, between two epochs: a checkpoint
    contains a split and the state that includes it, or neither. So finished splits can be forgotten.
    """

    def __init__(
        self,
        vertex_id: int,
        name: str,
        parallelism: int,
        source: SplitSource,
        on_data: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(vertex_id, name, parallelism)
        self._splits: dict[str, Split] = {}
        """The discovered splits that are not finished."""
        self._readers: list[set[str]] = [set() for _ in range(parallelism)]
        self._unassigned: list[Split] = []
        self.positions: dict[str, Any] = {}
        """The positions of assigned splits."""
        self._state: bytes | None = None
        """The enumerator's pickled state after the discovery of these splits."""
        self._complete = False
        self._bounded = source.bounded
        self._enumeration = Enumeration(name, source, parallelism, on_data)

    def start(self) -> None:
        self._enumeration.start(self._state, self._complete)
        self._take_found()

    def position(self) -> dict[str, Any]:
        left = {split_id: (split, self.positions.get(split_id)) for split_id, split in self._splits.items()}
        return {"left": left, "enumerator": self._state, "complete": self._complete}

    def resume(self, position: dict[str, Any]) -> None:
        if "known" in position:  # The format from before enumerators: the names of all splits.
            self._state, self._complete = dumps(position["known"]), self._bounded
        else:
            self._state, self._complete = position["enumerator"], position["complete"]
        self._splits = {split_id: split for split_id, (split, _) in position["left"].items()}
        self._unassigned = list(self._splits.values())
        self.positions = {split_id: place for split_id, (_, place) in position["left"].items()}

    def work(self, limit: int) -> SourceWork:
        self._take_found()
        assigned: dict[int, list[tuple[Split, Any]]] = {}
        for split in self._unassigned:
            subtask = self._enumeration.assign(split, [len(splits) for splits in self._readers])
            self._readers[subtask].add(split.split_id)
            assigned.setdefault(subtask, []).append((split, self.positions.get(split.split_id)))
        self._unassigned = []
        return SourceWork(limit, assigned, self._complete)

    def next_due(self) -> float | None:
        was_complete = self._complete
        self._take_found()
        return 0.0 if self._unassigned or self._complete > was_complete else None

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        self.positions = {split_id: position for report in reports for split_id, position in report.positions.items()}
        for report in reports:
            finished = self._readers[report.subtask] - report.positions.keys()
            self._readers[report.subtask] -= finished
            for split_id in finished:
                del self._splits[split_id]

    def checkpoint_complete(self, position: dict[str, Any]) -> None:
        self._enumeration.checkpoint_complete(position["enumerator"])

    def close(self) -> None:
        self._enumeration.close()

    def _take_found(self) -> None:
        for found in self._enumeration.found():
            for split in found.splits:
                if split.split_id not in self._splits:
                    self._splits[split.split_id] = split
                    self._unassigned.append(split)
            self._state, self._complete = found.state, found.complete
