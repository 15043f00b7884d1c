"""CheckpointMetadata: what a checkpoint holds, and where. The file `_metadata` of a checkpoint or savepoint.

The file begins with a mark, the version of its format and a checksum, so that one that was cut off or altered is recognised.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from dataclasses import dataclass, field
from typing import Any

from flintstream.runtime.faults import PermanentError

METADATA = "_metadata"
_MARK = b"FLNTCKPT"
_VERSION = 1
_HEADER = struct.Struct(">8sIQ32s")
"""Mark, version, size of what follows, and its checksum."""


class CorruptCheckpointError(PermanentError, ValueError):
    """A file of a checkpoint is not what was written; the message names it."""


@dataclass(frozen=True)
class Piece:
    """Some bytes of a checkpoint: in the metadata itself, or in a file."""

    size: int
    checksum: int
    """The CRC-32 of the bytes."""
    data: bytes | None = None
    path: str | None = None
    """The file, relative to the directory of the job, or of the savepoint."""
    start: int = 0
    """Where in the file the bytes begin."""

    def check(self, size: int, checksum: int, location: str) -> None:
        """Refuses bytes of a location that are not what was written."""
        if size != self.size:
            raise CorruptCheckpointError(f"{location} was cut off: {size} of {self.size} bytes are there")
        if checksum != self.checksum:
            raise CorruptCheckpointError(f"{location} was altered: a checksum is wrong")


@dataclass(frozen=True)
class KeyedPart:
    """Keyed state and timers of a subtask, or what has changed in them, by key group."""

    states: dict[str, Any]
    """What is known of each state: StoredKeyedState by name."""
    groups: dict[int, Piece]
    only_changes: bool = False


@dataclass(frozen=True)
class DatabasePart:
    """Keyed state of a subtask as the files of a RocksDB, with timers and the engine's own by key group."""

    states: dict[str, Any]
    files: dict[str, Piece]
    """By their name in the database's directory."""
    identities: dict[str, str]
    """Of the files that never change: equal in two checkpoints only if it is the same file."""
    numbers: dict[str, int]
    """The number by which the stored keys of a state are known."""
    key_groups: tuple[int, int]
    """The first group, and the one behind the last."""
    timers: dict[int, Piece]


@dataclass(frozen=True)
class SubtaskState:
    """The state of an operator in one subtask."""

    keyed: tuple[KeyedPart | DatabasePart, ...] = ()
    """A full part, and behind it the changes since."""
    operator: Piece | None = None
    """State that belongs to no key: StoredOperatorState by name."""

    @property
    def size(self) -> int:
        """All bytes that belong to it."""
        return sum(piece.size for piece in self.pieces())

    def pieces(self) -> list[Piece]:
        """All pieces of it."""
        found = [] if self.operator is None else [self.operator]
        for part in self.keyed:
            if isinstance(part, DatabasePart):
                found += [*part.files.values(), *part.timers.values()]
            else:
                found += part.groups.values()
        return found

    def files(self) -> set[str]:
        """The files that its pieces are in."""
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
    """Where the driver's side of a source stands."""

    @property
    def empty(self) -> bool:
        """Whether nothing would be lost without it."""
        return self.source is None and not any(state.pieces() for state in self.subtasks.values())


@dataclass(frozen=True)
class CheckpointMetadata:
    """A checkpoint or savepoint as a whole."""

    checkpoint_id: int
    timestamp: int
    job_id: str
    job_name: str
    savepoint: bool = False
    operators: dict[str, OperatorState] = field(default_factory=dict)
    """By operator id."""

    def files(self) -> set[str]:
        """The files that belong to it, besides its own."""
        states = (state for operator in self.operators.values() for state in operator.subtasks.values())
        return set[str]().union(*(state.files() for state in states))

    def file_sizes(self) -> dict[str, int]:
        """The files that belong to it, besides its own, and how many bytes each has."""
        sizes: dict[str, int] = {}
        for operator in self.operators.values():
            for state in operator.subtasks.values():
                for piece in state.pieces():
                    if piece.path is not None:
                        sizes[piece.path] = max(sizes.get(piece.path, 0), piece.start + piece.size)
        return sizes

    @property
    def size(self) -> int:
        """The bytes of all state in it."""
        return sum(state.size for operator in self.operators.values() for state in operator.subtasks.values())

    def to_bytes(self) -> bytes:
        """The content of the file."""
        content = pickle.dumps(self, 5)
        return _HEADER.pack(_MARK, _VERSION, len(content), hashlib.sha256(content).digest()) + content

    @staticmethod
    def from_bytes(data: bytes, location: str) -> CheckpointMetadata:
        """What the file at a location contains."""
        if len(data) < _HEADER.size or not data.startswith(_MARK):
            raise CorruptCheckpointError(f"{location} is not the metadata of a checkpoint, or was cut off")
        _, version, size, digest = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise CorruptCheckpointError(f"{location} has the format {version}; this version reads format {_VERSION}")
        content = data[_HEADER.size :]
        if len(content) != size:
            raise CorruptCheckpointError(f"{location} was cut off or added to: {len(content)} bytes instead of {size}")
        if hashlib.sha256(content).digest() != digest:
            raise CorruptCheckpointError(f"{location} was altered: its checksum is wrong")
        metadata: CheckpointMetadata = _Reader(io.BytesIO(content)).load()
        return metadata


_PARTS = (Piece, KeyedPart, DatabasePart, SubtaskState, OperatorState, CheckpointMetadata)
_CLASSES = {
    ("flintstream.runtime.state.snapshot", "StoredKeyedState"),
    *((part.__module__, part.__name__) for part in _PARTS),
}


class _Reader(pickle.Unpickler):
    """Reads nothing but the classes of which metadata consist: looking at a checkpoint runs nobody's code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _CLASSES:
            return super().find_class(module, name)
        raise CorruptCheckpointError(
            f"the metadata of a checkpoint refer to {module}.{name}, which is not part of them"
        )
