"""A coordinator whose slots are played by the test, and whose clock stands still."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from flintstream.runtime.checkpoint import coordinator as module
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator, OperatorInfo, Outcome, Pending
from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.lease import LEASE
from flintstream.runtime.checkpoint.metadata import METADATA, DatabaseHandle, Piece, SubtaskState
from flintstream.runtime.checkpoint.pieces import PieceWriter
from flintstream.runtime.checkpoint.settings import CheckpointSettings
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, StoredOperatorState
from flintstream.runtime.checkpoint.uploads import SnapshotDone, SnapshotFailed, StoredSubtask
from flintstream.runtime.checkpoint.writer import StorageWriter
from flintstream.runtime.faults import engine_fault
from flintstream.runtime.state.backend import StoredKeyedState

JOB = "f" * 32
COUNT = "a" * 32
SOURCE = "b" * 32
OPERATORS = {COUNT: OperatorInfo("Count", "count", 2, 128), SOURCE: OperatorInfo("Source", None, 1, 128)}
SLOTS = 2
START = 1_000_000.0


class Clock:
    """Stands still until it is moved."""

    def __init__(self, monkeypatch: Any) -> None:
        self.now = START
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now))


class FakeJob:
    """The job's thread and its slots. State is in files, as `inline_size` is 0 unless set."""

    def __init__(self, job_id: str = JOB, **settings: Any) -> None:
        self.wakes = 0
        self.epoch = 0
        self.base: int | None = None
        """The last checkpoint of which the slots know."""
        self.safe: dict[int, dict[str, Piece]] = {slot: {} for slot in range(SLOTS)}
        """Of slots with databases: the files of that checkpoint, by their identity."""
        self.settings = CheckpointSettings(**{"interval": 10.0, "inline_size": 0, **settings})
        self._writers: set[StorageWriter] = set()
        self.coordinator = CheckpointCoordinator(self.settings, job_id, "my job", OPERATORS, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def begin(self, savepoint: str | None = None) -> Pending:
        """An epoch has run, and a checkpoint begins."""
        self.epoch += 1
        pending = self.coordinator.begin(self.epoch, SLOTS, savepoint)
        self.coordinator.supply_sources(pending, {SOURCE: b"position %d" % self.epoch})
        self._writers.add(pending.writer)
        return pending

    def store(self, pending: Pending, slot: int, base: int | None = None) -> SnapshotDone:
        """What a slot stores: all its state, or what has changed since the checkpoint `base`."""
        snapshot = OperatorSnapshot(
            {"count": StoredKeyedState("value", {}, False)},
            {slot: os.urandom(8)},
            {"positions": StoredOperatorState("split", {}, [os.urandom(8)])},
            base=base,
        )
        shared = None if pending.savepoint is not None else SharedFiles()
        state = PieceWriter(pending.target, "Count", slot).write(snapshot, shared)
        return SnapshotDone(slot, pending.checkpoint_id, {(COUNT, slot): StoredSubtask(state, base)})

    def store_database(self, pending: Pending, slot: int, reused: Iterable[str]) -> SnapshotDone:
        """What a slot with a database stores: a new file, and the files that are safe already and of use still."""
        safe = self.safe[slot]
        files = {name: safe[name] for name in reused if name in safe}
        content, name = os.urandom(8), f"{slot}-{pending.checkpoint_id}.sst"
        files[name] = Piece(len(content), zlib.crc32(content), None, f"shared/{uuid4().hex}")
        assert pending.target.storage is not None
        pending.target.storage.write(str(files[name].path), content)
        handle = DatabaseHandle(
            states={}, files=files, identities={each: each for each in files}, numbers={}, key_groups=(0, 1), timers={}
        )
        return SnapshotDone(slot, pending.checkpoint_id, {(COUNT, slot): StoredSubtask(SubtaskState((handle,)), None)})

    def answer(self, pending: Pending, *slots: int, base: int | None = None) -> None:
        """Slots store their part and say so; all of them unless told otherwise."""
        for slot in slots or range(SLOTS):
            self.coordinator.acknowledge(self.store(pending, slot, base))

    def decline(self, pending: Pending, slot: int, why: str = "no room") -> None:
        """A slot could not store its snapshot."""
        self.coordinator.decline(SnapshotFailed(slot, pending.checkpoint_id, engine_fault(OSError(why))))

    def settle(self) -> None:
        """Waits for what the coordinator does on threads of its own."""
        for _ in range(3):
            assert StorageWriter.wait_idle({self.coordinator._writer, *self._writers}, 60)

    def outcomes(self) -> list[Outcome]:
        """What became of checkpoints; the slots are told."""
        self.settle()
        found = self.coordinator.outcomes()
        for outcome in found:
            self.coordinator.count(outcome)
            if outcome.completed and outcome.pending.savepoint is None:
                self.base = outcome.pending.checkpoint_id
                self._remember_files(self.base)
        self.settle()
        return found

    def _remember_files(self, checkpoint_id: int) -> None:
        metadata = self.coordinator.store.find(checkpoint_id)
        states = {} if metadata is None else metadata.operators[COUNT].subtasks
        for slot, state in states.items():
            self.safe[slot] = {
                name: piece
                for handle in state.keyed
                if isinstance(handle, DatabaseHandle)
                for name, piece in handle.files.items()
            }

    def checkpoint(self, base: int | None = None) -> Pending:
        """A whole checkpoint, from its begin until the slots know."""
        pending = self.begin()
        self.answer(pending, base=base)
        (outcome,) = self.outcomes()
        assert outcome.error is None
        return pending

    # --- what is on the disk ---

    def files(self) -> set[str]:
        """All files in the job's directory, but for the log of its lease."""
        storage = self.coordinator.storage
        assert storage is not None
        return {
            os.path.relpath(os.path.join(place, name), storage.root)
            for place, _, names in os.walk(storage.root)
            for name in names
            if os.path.basename(place) != LEASE
        }

    def expected_files(self) -> set[str]:
        """The files of the checkpoints that are kept."""
        kept = self.coordinator.store.checkpoints
        return {path for each in kept for path in (*each.files(), f"chk-{each.checkpoint_id}/{METADATA}")}

    def kept(self) -> list[int]:
        """The numbers of the checkpoints that are kept."""
        return [each.checkpoint_id for each in self.coordinator.store.checkpoints]
