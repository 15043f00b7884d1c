"""CheckpointMetadata: what a checkpoint holds, and where. The file `_metadata` of a checkpoint or savepoint.

The file begins with a mark, the version of its format and a checksum, so that one that was cut off or altered is recognised.
Since format 2 a signature comes next, of zeros if there is none.
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
_VERSION = 2
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
    digest: bytes | None = None
    """The SHA-256 of the bytes, in a file of a signed checkpoint."""

    def check_bytes(self, data: bytes, location: str) -> None:
        """Refuses bytes of a location that are not what was written."""
        digest = None if self.digest is None else hashlib.sha256(data).digest()
        self.check(len(data), zlib.crc32(data), digest, location)

    def check(self, size: int, checksum: int, digest: bytes | None, location: str) -> None:
        """Refuses what is at a location, by its size and sums; `digest` may be missing only if the piece has none."""
        if size != self.size:
            raise CorruptCheckpointError(f"{location} was cut off: {size} of {self.size} bytes are there")
        if checksum != self.checksum:
            raise CorruptCheckpointError(f"{location} was altered: a checksum is wrong")
        if self.digest is not None and digest != self.digest:
            raise CorruptCheckpointError(f"{location} was altered: it is not what was signed")


@dataclass(frozen=True)
class KeyedPart:
    """Keyed state and timers of a subtask, or what has changed in them, by key group."""

    states: dict[str, Any]
    """What is known of each state: StoredKeyedState by name."""
    groups: dict[int, Piece]
    only_changes: bool = False

    def with_pieces(self, change: Callable[[Piece], Piece]) -> KeyedPart:
        """The same, with each piece replaced by another."""
        return replace(self, groups={group: change(piece) for group, piece in self.groups.items()})


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

    def with_pieces(self, change: Callable[[Piece], Piece]) -> DatabasePart:
        """The same, with each piece replaced by another."""
        files = {name: change(piece) for name, piece in self.files.items()}
        return replace(self, files=files, timers={group: change(piece) for group, piece in self.timers.items()})


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

    def with_pieces(self, change: Callable[[Piece], Piece]) -> SubtaskState:
        """The same, with each piece replaced by another."""
        return SubtaskState(
            tuple(part.with_pieces(change) for part in self.keyed), self.operator and change(self.operator)
        )

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

    def to_bytes(self, keys: SigningKeys | None = None) -> bytes:
        """The content of the file, signed if keys are given."""
        content = pickle.dumps(self, 5)
        signature = UNSIGNED if keys is None else keys.sign(_signed(_VERSION, content), content)
        digest = hashlib.sha256(signature + content).digest()
        return b"".join((_HEADER.pack(_MARK, _VERSION, len(content), digest), signature, content))

    @staticmethod
    def from_bytes(data: bytes, location: str, keys: SigningKeys | None = None) -> CheckpointMetadata:
        """What the file at a location contains; with keys, only if it was signed with one of them."""
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
        """Refuses metadata that do not vouch for all their files."""
        for operator in self.operators.values():
            for state in operator.subtasks.values():
                missing = next((piece for piece in state.pieces() if piece.path and piece.digest is None), None)
                if missing is not None:
                    raise CorruptCheckpointError(f"{location} has no digest of its file {missing.path}")


def is_signed(data: bytes) -> bool:
    """Whether the content of a metadata file has a signature, of whomever."""
    return _split(data, METADATA)[1] != UNSIGNED


def _split(data: bytes, location: str) -> tuple[int, bytes, bytes]:
    """Version, signature and content of a file that is whole."""
    if len(data) < _HEADER.size or not data.startswith(_MARK):
        raise CorruptCheckpointError(f"{location} is not the metadata of a checkpoint, or was cut off")
    _, version, size, digest = _HEADER.unpack_from(data)
    if version not in (1, _VERSION):
        raise CorruptCheckpointError(f"{location} has the format {version}; this version reads formats 1 to {_VERSION}")
    start = _HEADER.size + (0 if version == 1 else SIGNATURE_SIZE)
    content = data[start:]
    if len(content) != size:
        raise CorruptCheckpointError(f"{location} was cut off or added to: {len(data)} bytes instead of {start + size}")
    if hashlib.sha256(data[_HEADER.size :]).digest() != digest:
        raise CorruptCheckpointError(f"{location} was altered: its checksum is wrong")
    return version, UNSIGNED if version == 1 else data[_HEADER.size : start], content


def _signed(version: int, content: bytes) -> bytes:
    """What is signed besides the content."""
    return _HEADER.pack(_MARK, version, len(content), b"")


_PARTS = (Piece, KeyedPart, DatabasePart, SubtaskState, OperatorState, CheckpointMetadata, StoredKeyedState)
_CLASSES: dict[tuple[str, str], type] = {
    **{(part.__module__, part.__name__): part for part in _PARTS},
    ("flintstream.runtime.state.snapshot", "StoredKeyedState"): StoredKeyedState,  # where it was once
}


class _Reader(pickle.Unpickler):
    """Reads nothing but the classes of which metadata consist: looking at a checkpoint runs nobody's code."""

    def find_class(self, module: str, name: str) -> Any:
        known = _CLASSES.get((module, name))
        if known is not None:
            return known
        raise CorruptCheckpointError(
            f"the metadata of a checkpoint refer to {module}.{name}, which is not part of them"
        )
