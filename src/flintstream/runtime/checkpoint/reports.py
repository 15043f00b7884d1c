"""A slot's reports to the driver about its snapshots of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flintstream.runtime.checkpoint.metadata import SubtaskState
from flintstream.runtime.faults import Fault


class StoredSubtask(NamedTuple):
    """The stored state of an operator in a subtask for a checkpoint."""

    state: SubtaskState
    base: int | None
    """The checkpoint on which this delta is based; None if it is self-contained."""


@dataclass(frozen=True)
class SnapshotDone:
    """Slot to driver: its snapshot of a checkpoint is stored."""

    slot: int
    checkpoint_id: int
    states: dict[tuple[str, int], StoredSubtask]
    """By operator id and subtask."""


@dataclass(frozen=True)
class SnapshotFailed:
    """Slot to driver: its snapshot of a checkpoint could not be stored."""

    slot: int
    checkpoint_id: int
    fault: Fault
