"""CheckpointMetadata: the contents of a checkpoint and the location of its files; stored as `_metadata`.

The file starts with a magic number, the format version and a checksum, which detects truncation and alteration. Since
format 2 a signature follows, all zeros if there is none. Since format 3 timers are stored as changes too.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flintstream.runtime.checkpoint.signing import SIGNATURE_SIZE, UNSIGNED, SignatureError, SigningKeys
from flintstream.runtime.faults import PermanentError
from flintstream.runtime.state.backend import StoredKeyedState

METADATA = "_metadata"
_MARK = b"FLNTCKPT"
_VERSION = 3
_HEADER = struct.Struct(">8sIQ32s")
"""Magic number, version, size of the rest, and its checksum."""


class CorruptCheckpointError(PermanentError, ValueError):
    """A file of a checkpoint is damaged; the message names it."""


@dataclass(frozen=True)
class Piece:
    """A range of bytes of a checkpoint: inline in the metadata, or in a file."""

    size: int
    checksum: int
    """The CRC-32 of the bytes."""
    data: bytes | None = None
    path: str | None = None
    """The file, relative to the directory of the job or of the savepoint."""
    start: int = 0
    """The offset of the bytes in the file."""
    digest: bytes | None = None
    """The SHA-256 of the bytes, in a file of a signed checkpoint."""

    def check_bytes(self, data: bytes, location: str) -> None:
        """Raises if the bytes read from a location are damaged."""
        digest = None if self.digest is None else hashlib.sha256(data).digest()
        self.check(len(data), zlib.crc32(data), digest, location)

    def check(self, size: int, checksum: int, digest: bytes | None, location: str) -> None:
        """Raises if the size or a checksum of a location does not match; `digest` may be missing only if the piece has
        none.
        """
        if size != self.size:
            raise CorruptCheckpointError(f"{location} was truncated: it has {size} of {self.size} bytes")
        if checksum != self.checksum:
            raise CorruptCheckpointError(f"{location} was altered: a checksum is wrong")
        if self.digest is not None and digest != self.digest:
            raise CorruptCheckpointError(f"{location} was altered: it is not what was signed")


@dataclass(frozen=True)
class KeyedHandle:
    """Keyed state and timers of a subtask by key group, full or as a delta."""

    states: dict[str, Any]
    """The declaration of each state: StoredKeyedState by name."""
    groups: dict[int, Piece]
    only_changes: bool = False
    fired: tuple[int, int] | None = None
    """With only the changes of timers: up to which event time and processing time all earlier timers have fired. None
    with all timers.
    """

    def with_pieces(self, change: Callable[[Piece], Piece]) -> KeyedHandle:
        """Returns a copy with each piece replaced."""
        return replace(self, groups={group: change(piece) for group, piece in self.groups.items()})


@dataclass(frozen=True)
class DatabaseHandle:
    """Keyed state of a subtask as the files of a RocksDB database. Its timers are in a KeyedHandle each, with no states."""

    states: dict[str, Any]
    files: dict[str, Piece]
    """By their name in the database's directory."""
    identities: dict[str, str]
    """The identities of immutable files: equal in two checkpoints only for the same file."""
    numbers: dict[str, int]
    """The number of each state in stored keys."""
    key_groups: tuple[int, int]
    """The first key group, and the end of the range (exclusive)."""
    timers: dict[int, Piece]
    """All timers by key group, in checkpoints up to format 2."""

    def with_pieces(self, change: Callable[[Piece], Piece]) -> DatabaseHandle:
        """Returns a copy with each piece replaced."""
        files = {name: change(piece) for name, piece in self.files.items()}
        return replace(self, files=files, timers={group: change(piece) for group, piece in self.timers.items()})


@dataclass(frozen=True)
class SubtaskState:
    """The state of an operator in one subtask."""

    keyed: tuple[KeyedHandle | DatabaseHandle, ...] = ()
    """A full snapshot, followed by deltas; and perhaps a database."""
    operator: Piece | None = None
    """Operator state: StoredOperatorState by name."""

    @property
    def size(self) -> int:
        """Returns its total size in bytes."""
        return sum(piece.size for piece in self.pieces())

    def pieces(self) -> list[Piece]:
        """Returns all its pieces."""
        found = [] if self.operator is None else [self.operator]
        for handle in self.keyed:
            if isinstance(handle, DatabaseHandle):
                found += [*handle.files.values(), *handle.timers.values()]
            else:
                found += handle.groups.values()
        return found

    def with_pieces(self, change: Callable[[Piece], Piece]) -> SubtaskState:
        """Returns a copy with each piece replaced."""
        return SubtaskState(
            tuple(handle.with_pieces(change) for handle in self.keyed), self.operator and change(self.operator)
        )

    def based_on(self, base: SubtaskState) -> SubtaskState:
        """Returns the whole state, given that of the checkpoint on which this delta is based.

        A database is whole in itself.
        """
        before = tuple(handle for handle in base.keyed if isinstance(handle, KeyedHandle))
        return SubtaskState(before + self.keyed, self.operator)

    def files(self) -> set[str]:
        """Returns the files that its pieces are in."""
        return {piece.path for piece in self.pieces() if piece.path is not None}


@dataclass(frozen=True)
class OperatorState:
    """The state of an operator in all its subtasks."""

    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int
    subtasks: dict[int, SubtaskState] = field(default_factory=dict)
    source: bytes | None = None
    """The position of a source's enumerator on the driver."""

    @property
    def empty(self) -> bool:
        """Returns whether nothing would be lost without it."""
        return self.source is None and not any(state.pieces() for state in self.subtasks.values())


@dataclass(frozen=True)
class CheckpointMetadata:
    """A checkpoint or savepoint."""

    checkpoint_id: int
    timestamp: int
    job_id: str
    job_name: str
    savepoint: bool = False
    operators: dict[str, OperatorState] = field(default_factory=dict)
    """By operator id."""

    def files(self) -> set[str]:
        """Returns the files that belong to it, besides `_metadata`."""
        states = (state for operator in self.operators.values() for state in operator.subtasks.values())
        return set[str]().union(*(state.files() for state in states))

    def file_sizes(self) -> dict[str, int]:
        """Returns the files that belong to it, besides `_metadata`, with their sizes."""
        sizes: dict[str, int] = {}
        for operator in self.operators.values():
            for state in operator.subtasks.values():
                for piece in state.pieces():
                    if piece.path is not None:
                        sizes[piece.path] = max(sizes.get(piece.path, 0), piece.start + piece.size)
        return sizes

    @property
    def size(self) -> int:
        """Returns the total size of its state."""
        return sum(state.size for operator in self.operators.values() for state in operator.subtasks.values())

    def to_bytes(self, keys: SigningKeys | None = None) -> bytes:
        """Returns the content of the file, signed if keys are given."""
        content = pickle.dumps(self, 5)
        signature = UNSIGNED if keys is None else keys.sign(_signed(_VERSION, content), content)
        digest = hashlib.sha256(signature + content).digest()
        return b"".join((_HEADER.pack(_MARK, _VERSION, len(content), digest), signature, content))

    @staticmethod
    def from_bytes(data: bytes, location: str, keys: SigningKeys | None = None) -> CheckpointMetadata:
        """Parses the content of a file; with keys, only if it was signed with one of them."""
        version, signature, content = _split(data, location)
        if keys is not None:
            try:
                keys.verify(signature, _signed(version, content), content)
            except SignatureError as error:
                raise CorruptCheckpointError(f"{location} {error}") from None
        metadata: CheckpointMetadata = _Reader(io.BytesIO(content)).load()
        if keys is not None:
            metadata.check_digests(location)
        return metadata

    def check_digests(self, location: str) -> None:
        """Raises unless the metadata have a digest of every file."""
        for operator in self.operators.values():
            for state in operator.subtasks.values():
                missing = next((piece for piece in state.pieces() if piece.path and piece.digest is None), None)
                if missing is not None:
                    raise CorruptCheckpointError(f"{location} has no digest of its file {missing.path}")


def is_signed(data: bytes) -> bool:
    """Returns whether the content of a metadata file has a signature, valid or not."""
    return _split(data, METADATA)[1] != UNSIGNED


def _split(data: bytes, location: str) -> tuple[int, bytes, bytes]:
    """Returns version, signature and content of an intact file."""
    if len(data) < _HEADER.size or not data.startswith(_MARK):
        raise CorruptCheckpointError(f"{location} is not the metadata of a checkpoint, or was truncated")
    _, version, size, digest = _HEADER.unpack_from(data)
    if not 1 <= version <= _VERSION:
        raise CorruptCheckpointError(f"{location} has format {version}; this version reads formats 1 to {_VERSION}")
    start = _HEADER.size + (0 if version == 1 else SIGNATURE_SIZE)
    content = data[start:]
    if len(content) != size:
        raise CorruptCheckpointError(
            f"{location} was truncated or extended: {len(data)} bytes instead of {start + size}"
        )
    if hashlib.sha256(data[_HEADER.size :]).digest() != digest:
        raise CorruptCheckpointError(f"{location} was altered: its checksum is wrong")
    return version, UNSIGNED if version == 1 else data[_HEADER.size : start], content


def _signed(version: int, content: bytes) -> bytes:
    """Returns the signed bytes: the content and its header."""
    return _HEADER.pack(_MARK, version, len(content), b"")


_STORED = (Piece, KeyedHandle, DatabaseHandle, SubtaskState, OperatorState, CheckpointMetadata, StoredKeyedState)
_CLASSES: dict[tuple[str, str], type] = {
    **{(stored.__module__, stored.__name__): stored for stored in _STORED},
    # Former names, which stored checkpoints have.
    ("flintstream.runtime.state.snapshot", "StoredKeyedState"): StoredKeyedState,
    (__name__, "KeyedPart"): KeyedHandle,
    (__name__, "DatabasePart"): DatabaseHandle,
}


class _Reader(pickle.Unpickler):
    """Unpickles only the classes that metadata consist of, so that inspecting a checkpoint runs no foreign code."""

    def find_class(self, module: str, name: str) -> Any:
        known = _CLASSES.get((module, name))
        if known is not None:
            return known
        raise CorruptCheckpointError(
            f"the metadata of a checkpoint refer to {module}.{name}, which is not allowed there"
        )
