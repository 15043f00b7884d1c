"""Snapshots as pieces of a checkpoint: written by a slot, and read again by another one."""

from __future__ import annotations

import pickle
import uuid
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flintstream.runtime.checkpoint.metadata import (
    CorruptCheckpointError,
    DatabasePart,
    KeyedPart,
    OperatorState,
    Piece,
    SubtaskState,
)
from flintstream.runtime.checkpoint.storage import Storage
from flintstream.runtime.state.snapshot import OperatorSnapshot, StoredOperatorState

DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024


@dataclass(frozen=True)
class CheckpointTarget:
    """Where a slot puts the files of a checkpoint."""

    storage: Storage | None
    """Of the job, or of the savepoint; None to hand everything to the driver."""
    own: str = ""
    """The directory of what belongs to this checkpoint alone."""
    shared: str = ""
    """The directory of what later checkpoints go on from."""
    inline_size: int = 20 * 1024
    """Pieces up to this size are handed to the driver, which puts them into the metadata."""
    max_state_size: int = DEFAULT_MAX_STATE_SIZE
    """Without a storage: the most bytes of one operator in one subtask."""


class PieceWriter:
    """Writes the snapshots of one operator in one subtask, into one file if they are not small."""

    def __init__(self, target: CheckpointTarget, operator: str, subtask: int) -> None:
        self._target = target
        self._operator = operator
        self._subtask = subtask
        self.files: list[str] = []
        """What was written, so that it can be removed again."""

    def write(self, snapshot: OperatorSnapshot, incremental: bool) -> SubtaskState:
        """Writes a snapshot, and says where it is. `incremental` is whether later checkpoints may go on from it."""
        directory = self._target.shared if incremental else self._target.own
        keyed: tuple[KeyedPart, ...] = ()
        # Also that nothing is left is a change: timers, for one, are written whole each time.
        if snapshot.keyed or snapshot.groups or snapshot.only_changes:
            groups = self._pieces(snapshot.groups, directory)
            keyed = (KeyedPart(snapshot.keyed, groups, snapshot.only_changes),)
        operator = None
        if snapshot.operator:
            operator = self._pieces({0: pickle.dumps(snapshot.operator, 5)}, self._target.own)[0]
        return SubtaskState(keyed, operator)

    def _pieces(self, parts: Mapping[int, bytes], directory: str) -> dict[int, Piece]:
        target = self._target
        size = sum(map(len, parts.values()))
        if target.storage is None and size > target.max_state_size:
            raise ValueError(
                f"operator '{self._operator}', subtask {self._subtask}: its state has {size} bytes, and the driver's memory "
                f"takes at most {target.max_state_size}: keep checkpoints in a directory (execution.checkpointing.dir), "
                "or give JobManagerCheckpointStorage a larger max_state_size"
            )
        checksums = {number: zlib.crc32(data) for number, data in parts.items()}
        if target.storage is None or size <= target.inline_size:
            return {number: Piece(len(data), checksums[number], data) for number, data in parts.items()}
        path = f"{directory}/{uuid.uuid4().hex}".lstrip("/")
        self.files.append(path)
        target.storage.write(path, b"".join(parts.values()))
        pieces, start = {}, 0
        for number, data in parts.items():
            pieces[number] = Piece(len(data), checksums[number], None, path, start)
            start += len(data)
        return pieces


def read_piece(piece: Piece, storage: Storage | None) -> bytes:
    """The bytes of a piece, checked."""
    if piece.data is not None:
        data, location = piece.data, "the metadata"
    else:
        assert storage is not None and piece.path is not None
        location = storage.locate(piece.path)
        try:
            data = storage.read(piece.path, piece.start, piece.size)
        except FileNotFoundError as error:
            raise CorruptCheckpointError(f"{location}, a file of the checkpoint, is missing") from error
    if len(data) != piece.size:
        raise CorruptCheckpointError(f"{location} was cut off: {len(data)} of {piece.size} bytes are there")
    if zlib.crc32(data) != piece.checksum:
        raise CorruptCheckpointError(f"{location} was altered: a checksum is wrong")
    return data


@dataclass(frozen=True)
class RestoredOperators:
    """What slots restore: the operators of a checkpoint by their id, and where its files are."""

    checkpoint_id: int
    storage: Storage | None
    operators: dict[str, OperatorState] = field(default_factory=dict)

    def chains(self, operator_id: str, key_groups: Collection[int]) -> list[list[OperatorSnapshot]]:
        """The snapshots that the subtasks of an operator have left; of their keyed state only the given key groups."""
        operator = self.operators.get(operator_id)
        if operator is None:
            return []
        return [self._chain(operator.subtasks[index], key_groups) for index in sorted(operator.subtasks)]

    def _chain(self, state: SubtaskState, key_groups: Collection[int]) -> list[OperatorSnapshot]:
        stored: dict[str, StoredOperatorState] = {}
        if state.operator is not None:
            stored = pickle.loads(read_piece(state.operator, self.storage))
        chain = []
        for part in state.keyed:
            assert not isinstance(part, DatabasePart)
            groups = {
                group: read_piece(piece, self.storage) for group, piece in part.groups.items() if group in key_groups
            }
            chain.append(OperatorSnapshot(part.states, groups, stored, 0 if part.only_changes else None))
        return chain or [OperatorSnapshot(operator=stored)]
