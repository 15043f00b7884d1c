"""What a slot tells the driver about its part of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flintstream.runtime.checkpoint.metadata import SubtaskState
from flintstream.runtime.faults import Fault


class StoredSubtask(NamedTuple):
    """The state of an operator in a subtask as it was stored for a checkpoint."""

    state: SubtaskState
    base: int | None
    """The checkpoint whose state it goes on from; None if it stands by itself."""


@dataclass(frozen=True)
class SnapshotDone:
    """Slot to driver: its part of a checkpoint is stored."""

    slot: int
    checkpoint_id: int
    states: dict[tuple[str, int], StoredSubtask]
    """By operator id and subtask."""


@dataclass(frozen=True)
class SnapshotFailed:
    """Slot to driver: its part of a checkpoint could not be stored."""

    slot: int
    checkpoint_id: int
    fault: Fault
