"""Pieces of checkpoints: where they are put, and that they are read as they were written."""

from __future__ import annotations

import queue
from dataclasses import replace
from typing import Any

import pytest

from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.metadata import CorruptCheckpointError, OperatorState, Piece
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter, RestoredOperators, read_piece
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, StoredOperatorState
from flintstream.runtime.checkpoint.storage import LocalStorage
from flintstream.runtime.checkpoint.uploads import SlotSnapshot, SnapshotDone, SnapshotFailed, Uploads
from flintstream.runtime.state.backend import StoredKeyedState

KEYED = {"count": StoredKeyedState("value", {}, False)}
OPERATOR = {"positions": StoredOperatorState("split", {}, [b"one", b"two"])}
SMALL = OperatorSnapshot(KEYED, {3: b"three", 7: b"seven!"}, OPERATOR)
LARGE = OperatorSnapshot(KEYED, {3: b"3" * 600, 7: b"7" * 600}, OPERATOR)


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path))


def target(storage: Any, **settings: Any) -> CheckpointTarget:
    return CheckpointTarget(storage, "chk-1", "shared", **{"inline_size": 1000, **settings})


def test_small_pieces_go_into_the_metadata(storage):
    writer = PieceWriter(target(storage), "Count", 0)
    state = writer.write(SMALL, SharedFiles())
    assert all(piece.data is not None for piece in state.pieces())
    assert writer.files == []
    assert storage.names() == []


def test_large_pieces_go_into_one_file(storage):
    writer = PieceWriter(target(storage), "Count", 0)
    (part,) = writer.write(LARGE, SharedFiles()).keyed
    (path,) = writer.files
    assert [f"shared/{name}" for name in storage.names("shared")] == [path]
    assert storage.names() == ["shared"]
    assert [(piece.path, piece.start, piece.size) for piece in part.groups.values()] == [
        (path, 0, 600),
        (path, 600, 600),
    ]
    assert [read_piece(piece, storage) for piece in part.groups.values()] == [b"3" * 600, b"7" * 600]


def test_whether_pieces_are_small_is_told_by_all_of_them_together(storage):
    writer = PieceWriter(target(storage, inline_size=1199), "Count", 0)
    writer.write(LARGE, SharedFiles())
    assert len(writer.files) == 1
    writer = PieceWriter(target(storage, inline_size=1200), "Count", 0)
    writer.write(LARGE, SharedFiles())
    assert writer.files == []


def test_what_no_later_checkpoint_needs_goes_into_the_directory_of_its_own(storage):
    writer = PieceWriter(target(storage, inline_size=0), "Count", 0)
    state = writer.write(LARGE, SharedFiles())
    assert state.operator.path.startswith("chk-1/")
    writer = PieceWriter(target(storage, inline_size=0), "Count", 0)
    writer.write(LARGE, None)
    assert [path.split("/")[0] for path in writer.files] == ["chk-1", "chk-1"]


def test_a_savepoint_has_its_files_beside_its_metadata(storage):
    writer = PieceWriter(CheckpointTarget(storage, inline_size=0), "Count", 0)
    writer.write(LARGE, None)
    assert sorted(writer.files) == storage.names()


def test_an_operator_without_state_leaves_nothing(storage):
    state = PieceWriter(target(storage), "Map", 0).write(OperatorSnapshot(), SharedFiles())
    assert state.pieces() == [] and state.keyed == ()


def test_the_memory_of_the_driver_takes_only_so_much():
    at_most = CheckpointTarget(None, max_state_size=1199)
    with pytest.raises(
        ValueError,
        match=r"operator 'Count', subtask 2: its state of 1200 bytes.*memory, 1199.*execution\.checkpointing\.dir.*"
        r"max_state_size",
    ):
        PieceWriter(at_most, "Count", 2).write(LARGE, SharedFiles())
    state = PieceWriter(replace(at_most, max_state_size=1200), "Count", 2).write(LARGE, SharedFiles())
    assert all(piece.data is not None for piece in state.pieces())


@pytest.mark.parametrize("place", [0, 599, 600, 1199])
def test_an_altered_file_is_told_by_name(storage, place):
    writer = PieceWriter(target(storage), "Count", 0)
    (part,) = writer.write(LARGE, SharedFiles()).keyed
    (path,) = writer.files
    content = bytearray(storage.read(path))
    content[place] ^= 1
    storage.write(path, bytes(content))
    whole, harmed = (part.groups[7], part.groups[3]) if place < 600 else (part.groups[3], part.groups[7])
    assert len(read_piece(whole, storage)) == 600
    with pytest.raises(CorruptCheckpointError, match=rf"{storage.root}/{path} was altered"):
        read_piece(harmed, storage)


def test_a_missing_file_is_told_by_name(storage):
    with pytest.raises(
        CorruptCheckpointError, match=rf"{storage.root}/shared/gone, a file of the checkpoint, is missing"
    ):
        read_piece(Piece(1, 0, None, "shared/gone"), storage)


def test_only_the_key_groups_of_a_subtask_are_read(storage):
    state = PieceWriter(target(storage), "Count", 0).write(LARGE, SharedFiles())
    operators = {"a": OperatorState("Count", None, 1, 128, {0: state})}
    restored = RestoredOperators(1, storage, operators)
    ((snapshot,),) = restored.chains("a", range(5))
    assert snapshot.groups == {3: b"3" * 600}
    assert snapshot.operator == OPERATOR
    assert restored.chains("another", range(5)) == []


# --- stored while the slot goes on ---


def uploaded(snapshot: SlotSnapshot) -> Any:
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()
    Uploads(4, told.put).add(snapshot)
    return told.get(timeout=60)


def test_a_slot_tells_where_its_snapshots_are(storage):
    later = replace(LARGE, base=6)
    done = uploaded(SlotSnapshot(7, target(storage), True, [("a", "Count", 0, SMALL), ("b", "Sum", 1, later)]))
    assert isinstance(done, SnapshotDone)
    assert (done.slot, done.checkpoint_id) == (4, 7)
    assert {place: stored.base for place, stored in done.states.items()} == {("a", 0): None, ("b", 1): 6}
    assert done.states["b", 1].state.keyed[0].only_changes


def test_a_slot_that_cannot_store_removes_what_it_has_written(storage, monkeypatch):
    write = LocalStorage.write
    calls = []

    def fail_later(self: LocalStorage, path: str, data: bytes) -> None:
        calls.append(path)
        if len(calls) == 3:
            raise OSError("the disk is full")
        write(self, path, data)

    monkeypatch.setattr(LocalStorage, "write", fail_later)
    snapshots = [(name, name, 0, LARGE) for name in ("a", "b", "c", "d")]
    failed = uploaded(SlotSnapshot(7, target(storage), True, snapshots))
    assert isinstance(failed, SnapshotFailed)
    assert (failed.slot, failed.checkpoint_id) == (4, 7)
    assert "the disk is full" in failed.fault.summary
    assert len(calls) == 3
    assert storage.names("shared") == []


def test_snapshots_are_stored_in_order(storage):
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()
    uploads = Uploads(0, told.put)
    for number in range(20):
        uploads.add(SlotSnapshot(number, target(storage), True, [("a", "Count", 0, LARGE)]))
    assert [told.get(timeout=60).checkpoint_id for _ in range(20)] == list(range(20))


@pytest.mark.parametrize("inline_size", [0, 10_000])
def test_compressed_pieces_are_smaller_and_read_as_they_were_written(storage, inline_size):
    writer = PieceWriter(target(storage, compressed=True, inline_size=inline_size), "Count", 0)
    state = writer.write(LARGE, SharedFiles())
    (part,) = state.keyed
    assert sum(piece.size for piece in part.groups.values()) < 100
    assert [read_piece(piece, storage) for piece in part.groups.values()] == [b"3" * 600, b"7" * 600]
    restored = RestoredOperators(1, storage, {"count": OperatorState("Count", None, 1, 128, {0: state})})
    ((snapshot,),) = restored.chains("count", range(128))
    assert (snapshot.groups, snapshot.operator) == (LARGE.groups, LARGE.operator)
    damaged = replace(part.groups[3], checksum=1)
    with pytest.raises(CorruptCheckpointError, match="a checksum is wrong"):
        read_piece(damaged, storage)
