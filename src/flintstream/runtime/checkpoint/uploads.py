"""Uploads: stores the snapshots of a slot in the background, and reports them to the driver."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.metadata import DatabaseHandle, SubtaskState
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot
from flintstream.runtime.faults import Fault, engine_fault

THREAD = "uploads"


@dataclass(frozen=True)
class SlotSnapshot:
    """The snapshots of all operators of a slot for a checkpoint."""

    checkpoint_id: int
    target: CheckpointTarget
    incremental: bool
    snapshots: list[tuple[str, str, int, OperatorSnapshot]]
    """Operator id, operator name and subtask, and the snapshot."""
    tasks: dict[tuple[int, int], float] = field(default_factory=dict)
    """The seconds in which each task took its snapshot, by vertex and subtask."""


class StoredSubtask(NamedTuple):
    """The stored state of an operator in a subtask for a checkpoint."""

    state: SubtaskState
    base: int | None
    """The checkpoint on which this delta is based; None if it is self-contained."""
    reused: int = 0
    """The bytes of it that were stored for an earlier checkpoint."""
    seconds: float = 0.0
    """How long storing it took."""

    @property
    def new_bytes(self) -> int:
        """Returns the bytes stored for this checkpoint."""
        return self.state.size - self.reused


@dataclass(frozen=True)
class SnapshotDone:
    """Slot to driver: its snapshot of a checkpoint is stored."""

    slot: int
    checkpoint_id: int
    states: dict[tuple[str, int], StoredSubtask]
    """By operator id and subtask."""
    tasks: dict[tuple[int, int], float] = field(default_factory=dict)
    """The seconds in which each task of the slot took its snapshot, by vertex and subtask."""


@dataclass(frozen=True)
class SnapshotFailed:
    """Slot to driver: its snapshot of a checkpoint could not be stored."""

    slot: int
    checkpoint_id: int
    fault: Fault


class Uploads:
    """A thread that stores snapshots one after the other, and reports each result."""

    def __init__(self, slot: int, tell: Callable[[Any], None]) -> None:
        self._slot = slot
        self._tell = tell
        self._waiting: queue.SimpleQueue[SlotSnapshot] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._shared = SharedFiles()
        self.since: float | None = None
        """When storing the current snapshot began, by the monotonic clock."""

    def add(self, snapshot: SlotSnapshot) -> None:
        """Queues a snapshot."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
            self._thread.start()
        self._waiting.put(snapshot)

    def completed(self, checkpoint_id: int) -> None:
        """Marks a checkpoint as complete: later ones may refer to its files."""
        self._shared.completed(checkpoint_id)

    def _work(self) -> None:
        while True:
            snapshot = self._waiting.get()
            self.since = time.monotonic()
            done = self._store(snapshot)
            self.since = None
            try:
                self._tell(done)
            except OSError:
                return  # The driver has closed the connection: this process is about to end.

    def _store(self, snapshot: SlotSnapshot) -> SnapshotDone | SnapshotFailed:
        states: dict[tuple[str, int], StoredSubtask] = {}
        written: list[str] = []
        try:
            for operator_id, name, subtask, taken in snapshot.snapshots:
                started = time.perf_counter()
                writer = PieceWriter(snapshot.target, name, subtask)
                try:
                    state = writer.write(taken, self._shared if snapshot.incremental else None)
                finally:
                    written += writer.files
                for handle in state.keyed:
                    if isinstance(handle, DatabaseHandle):
                        self._shared.add(snapshot.checkpoint_id, handle)
                states[operator_id, subtask] = StoredSubtask(
                    state, taken.base, writer.reused, time.perf_counter() - started
                )
        except Exception as error:
            _remove(snapshot.target, written)
            return SnapshotFailed(self._slot, snapshot.checkpoint_id, engine_fault(error))
        finally:
            for _, _, _, taken in snapshot.snapshots:
                if taken.database is not None:
                    shutil.rmtree(taken.database.directory, ignore_errors=True)
        return SnapshotDone(self._slot, snapshot.checkpoint_id, states, snapshot.tasks)


def _remove(target: CheckpointTarget, paths: list[str]) -> None:
    for path in paths:
        try:
            assert target.storage is not None
            target.storage.remove(path)
        except Exception:
            return  # The storage itself fails: remaining files are removed with the job.
