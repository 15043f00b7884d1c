"""Writes snapshots as pieces of a checkpoint, and reads them on restore."""

from __future__ import annotations

import hashlib
import os
import pickle
import uuid
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flintstream.runtime.checkpoint.databases import SharedFiles, fetch_database, file_sums
from flintstream.runtime.checkpoint.metadata import (
    CorruptCheckpointError,
    DatabaseHandle,
    KeyedHandle,
    OperatorState,
    Piece,
    SubtaskState,
)
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, StoredOperatorState
from flintstream.runtime.checkpoint.storage import Storage
from flintstream.runtime.time.changes import ChangedTimers

if TYPE_CHECKING:
    from flintstream.runtime.state.rocksdb.checkpoint import RocksDBCheckpoint

DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024
_COMPRESSED = b"\0flint-zlib\0"
"""The beginning of a compressed piece; others are pickles or files of databases."""


@dataclass(frozen=True)
class CheckpointTarget:
    """Where a slot writes the files of a checkpoint."""

    storage: Storage | None
    """The storage of the job or of the savepoint; None to send everything to the driver."""
    own: str = ""
    """The directory of files exclusive to this checkpoint."""
    shared: str = ""
    """The directory of files shared with later checkpoints."""
    inline_size: int = 20 * 1024
    """Pieces up to this size are sent to the driver, which stores them inline in the metadata."""
    max_state_size: int = DEFAULT_MAX_STATE_SIZE
    """Without a storage: the maximum size of one operator in one subtask."""
    signed: bool = False
    """Whether the metadata need a digest of every file."""
    compressed: bool = False
    """Whether pieces are compressed; files of databases are so already."""


class PieceWriter:
    """Writes the snapshots of one operator in one subtask, into one file unless they are small."""

    def __init__(self, target: CheckpointTarget, operator: str, subtask: int) -> None:
        self._target = target
        self._operator = operator
        self._subtask = subtask
        self.files: list[str] = []
        """The files written, so that they can be removed again."""
        self.reused = 0
        """The bytes of files of earlier checkpoints that it refers to."""

    def write(self, snapshot: OperatorSnapshot, shared: SharedFiles | None) -> SubtaskState:
        """Writes a snapshot and returns its location. `shared` is set if later checkpoints may be based on it."""
        directory = self._target.own if shared is None else self._target.shared
        keyed: tuple[KeyedHandle | DatabaseHandle, ...] = ()
        states = snapshot.keyed if snapshot.database is None else {}
        # An empty delta is a change too: timers may have fired.
        if states or snapshot.groups or snapshot.only_changes:
            groups = self._pieces(snapshot.groups, directory)
            keyed = (KeyedHandle(states, groups, snapshot.only_changes, snapshot.fired),)
        if snapshot.database is not None:
            keyed += (self._database(snapshot.database, directory, shared),)
        operator = None
        if snapshot.operator:
            operator = self._pieces({0: pickle.dumps(snapshot.operator, 5)}, self._target.own)[0]
        return SubtaskState(keyed, operator)

    def copy(self, state: SubtaskState, storage: Storage | None) -> SubtaskState:
        """Copies the state of a subtask, without databases, from another checkpoint; verified. Returns its new location."""
        pieces = list(dict.fromkeys(state.pieces()))
        contents = {number: read_piece(piece, storage) for number, piece in enumerate(pieces)}
        copied = self._pieces(contents, self._target.own)
        return state.with_pieces({piece: copied[number] for number, piece in enumerate(pieces)}.__getitem__)

    def _pieces(self, contents: Mapping[int, bytes], directory: str) -> dict[int, Piece]:
        target = self._target
        if target.compressed:
            contents = {number: _COMPRESSED + zlib.compress(data, 1) for number, data in contents.items()}
        size = sum(map(len, contents.values()))
        self._check_size(size)
        checksums = {number: zlib.crc32(data) for number, data in contents.items()}
        if target.storage is None or size <= target.inline_size:
            return {number: Piece(len(data), checksums[number], data) for number, data in contents.items()}
        path = self._new_file(directory)
        target.storage.write(path, b"".join(contents.values()))
        pieces, start = {}, 0
        for number, data in contents.items():
            digest = hashlib.sha256(data).digest() if target.signed else None
            pieces[number] = Piece(len(data), checksums[number], None, path, start, digest)
            start += len(data)
        return pieces

    def _check_size(self, size: int) -> None:
        target = self._target
        if target.storage is None and size > target.max_state_size:
            raise ValueError(
                f"operator '{self._operator}', subtask {self._subtask}: its state of {size} bytes exceeds the limit "
                f"for the driver's memory, {target.max_state_size}: store checkpoints in a directory "
                "(execution.checkpointing.dir), or increase max_state_size of JobManagerCheckpointStorage"
            )

    def _database(self, database: RocksDBCheckpoint, directory: str, shared: SharedFiles | None) -> DatabaseHandle:
        self._check_size(sum(file.size for file in database.files))
        files = {}
        for file in database.files:
            known = None if shared is None else shared.find(file.identity)
            place = directory if file.identity is not None else self._target.own
            files[file.name] = known or self._file(os.path.join(database.directory, file.name), file.size, place)
            self.reused += 0 if known is None else known.size
        identities = {file.name: file.identity for file in database.files if file.identity is not None}
        groups = (database.key_groups.start, database.key_groups.stop)
        return DatabaseHandle(database.states, files, identities, dict(database.numbers), groups, {})

    def _file(self, local: str, size: int, directory: str) -> Piece:
        target = self._target
        if target.storage is None or size <= target.inline_size:
            with open(local, "rb") as file:
                data = file.read()
            return Piece(len(data), zlib.crc32(data), data)
        path = self._new_file(directory)
        target.storage.upload(path, local)
        checksum, digest = file_sums(local, target.signed)
        return Piece(size, checksum, None, path, digest=digest)

    def _new_file(self, directory: str) -> str:
        path = f"{directory}/{uuid.uuid4().hex}".lstrip("/")
        self.files.append(path)
        return path


def read_piece(piece: Piece, storage: Storage | None) -> bytes:
    """Returns the content of a piece, verified and decompressed."""
    data = read_stored(piece, storage)
    return zlib.decompress(memoryview(data)[len(_COMPRESSED) :]) if data.startswith(_COMPRESSED) else data


def read_stored(piece: Piece, storage: Storage | None) -> bytes:
    """Returns the bytes of a piece as they are stored, verified."""
    if piece.data is not None:
        data, location = piece.data, "the metadata"
    else:
        assert storage is not None and piece.path is not None
        location = storage.locate(piece.path)
        try:
            data = storage.read(piece.path, piece.start, piece.size)
        except FileNotFoundError as error:
            raise CorruptCheckpointError(f"{location}, a file of the checkpoint, is missing") from error
    piece.check_bytes(data, location)
    return data


def _fired_before(handle: KeyedHandle | DatabaseHandle) -> tuple[int, int] | None:
    """Returns up to which times the timers of earlier handles have fired; None if the handle has all timers."""
    if isinstance(handle, KeyedHandle):
        return handle.fired
    return None if handle.timers else ChangedTimers().fired


@dataclass(frozen=True)
class RestoredOperators:
    """The state that slots restore: the operators of a checkpoint by id, and the location of its files."""

    checkpoint_id: int
    storage: Storage | None
    operators: dict[str, OperatorState] = field(default_factory=dict)
    savepoint: bool = False
    location: str | None = None
    """Its directory, if it has one."""

    def chains(
        self, operator_id: str, key_groups: Collection[int], directory: str = ""
    ) -> list[list[OperatorSnapshot]]:
        """Returns the snapshots of the subtasks of an operator; keyed state only for the given key groups.

        Databases are downloaded to a local directory.
        """
        operator = self.operators.get(operator_id)
        if operator is None:
            return []
        return [self._chain(operator.subtasks[index], key_groups, directory) for index in sorted(operator.subtasks)]

    def _chain(self, state: SubtaskState, key_groups: Collection[int], directory: str) -> list[OperatorSnapshot]:
        stored: dict[str, StoredOperatorState] = {}
        if state.operator is not None:
            stored = pickle.loads(read_piece(state.operator, self.storage))
        chain = []
        for handle in state.keyed:
            if isinstance(handle, DatabaseHandle):
                timers = self._groups(handle.timers, key_groups)
                own = any(group in key_groups for group in range(*handle.key_groups))
                database = fetch_database(handle, self.storage, directory) if own else None
                chain.append(OperatorSnapshot({}, timers, stored, database, fired=_fired_before(handle)))
            else:
                groups = self._groups(handle.groups, key_groups)
                base = 0 if handle.only_changes else None
                chain.append(OperatorSnapshot(handle.states, groups, stored, base=base, fired=handle.fired))
        return chain or [OperatorSnapshot(operator=stored)]

    def _groups(self, pieces: Mapping[int, Piece], key_groups: Collection[int]) -> dict[int, bytes]:
        return {group: read_piece(piece, self.storage) for group, piece in pieces.items() if group in key_groups}
