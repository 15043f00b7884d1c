"""Reports the contents of a directory of checkpoints and savepoints, and which of their files are missing or damaged.

Metadata and the structure of state are read without the classes of the program, and none of its code runs.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from flintstream.runtime.checkpoint.metadata import (
    METADATA,
    CheckpointMetadata,
    CorruptCheckpointError,
    DatabaseHandle,
    KeyedHandle,
    OperatorState,
    Piece,
    is_signed,
)
from flintstream.runtime.checkpoint.pieces import read_piece, read_stored
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.storage import Storage, storage_at
from flintstream.runtime.checkpoint.store import SHARED, TASK_OWNED, checkpoint_directory, read_checkpoint

__all__ = ["CheckpointReport", "OperatorReport", "StateReport", "inspect_directory", "sign_checkpoint", "state_sizes"]

COMPLETE, DAMAGED, INCOMPLETE, UNSIGNED = "complete", "damaged", "incomplete", "unsigned"
_CHECKPOINT = re.compile(r"chk-(\d+)")


@dataclass
class StateReport:
    """A state of an operator, over all subtasks."""

    name: str
    kind: str
    size: int | None = 0
    """The size of its values in bytes; None if it cannot be separated from other states."""


@dataclass
class OperatorReport:
    """An operator in a checkpoint."""

    id: str
    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int
    size: int
    """Its total size."""
    states: list[StateReport] = field(default_factory=list)


@dataclass
class CheckpointReport:
    """A checkpoint or savepoint, as far as it is readable."""

    location: str
    status: str = COMPLETE
    """`complete`, `damaged`, `incomplete` (in progress, or aborted), or `unsigned`: intact, but keys were given."""
    kind: str | None = None
    id: int | None = None
    timestamp: int | None = None
    """When it was taken, in milliseconds since 1970."""
    signature: str | None = None
    """`none`, `unverified` if no key was given, `valid` or `invalid`."""
    job_id: str | None = None
    job_name: str | None = None
    size: int | None = None
    files: int | None = None
    """Their number, without the metadata."""
    problems: list[str] = field(default_factory=list)
    operators: list[OperatorReport] = field(default_factory=list)


def inspect_directory(location: str, keys: SigningKeys | None = None) -> list[CheckpointReport]:
    """Returns the checkpoints and savepoints at a location: a single one, those of a job, or all below a directory of
    many jobs.

    With keys, a checkpoint without a signature is `unsigned`, and one signed with none of the keys counts as damaged.
    """
    location = location.rstrip("/").removesuffix(f"/{METADATA}")
    storage = storage_at(location)
    if storage.exists(METADATA) or _CHECKPOINT.fullmatch(location.rpartition("/")[2]):
        return [_report(storage, storage_at(location.rpartition("/")[0]), set(), keys)]
    found = list(_below(storage, keys))
    for name in storage.names():
        if not _CHECKPOINT.fullmatch(name) and name not in (SHARED, TASK_OWNED):
            found += _below(storage.at(name), keys)
    return found


def _below(storage: Storage, keys: SigningKeys | None) -> Iterator[CheckpointReport]:
    """Returns the checkpoints of one job, in order, and the savepoints beside them."""
    names = storage.names()
    numbers = sorted(int(match[1]) for match in map(_CHECKPOINT.fullmatch, names) if match)
    others = [name for name in names if not _CHECKPOINT.fullmatch(name) and storage.exists(f"{name}/{METADATA}")]
    sound: set[Piece] = set()
    for name in [*map(checkpoint_directory, numbers), *others]:
        yield _report(storage.at(name), storage, sound, keys)


def _report(storage: Storage, parent: Storage, sound: set[Piece], keys: SigningKeys | None) -> CheckpointReport:
    """Returns the report of one checkpoint. `sound` has pieces of the same job that were verified already."""
    report = CheckpointReport(storage.root)
    try:
        data = storage.read(METADATA)
        metadata = CheckpointMetadata.from_bytes(data, storage.locate(METADATA))
    except FileNotFoundError:
        report.status = INCOMPLETE
        report.problems.append(
            f"{storage.locate(METADATA)} is missing: the checkpoint is in progress or was never completed"
        )
        return report
    except (CorruptCheckpointError, pickle.UnpicklingError) as error:
        report.status = DAMAGED
        report.problems.append(str(error))
        return report
    report.kind = "savepoint" if metadata.savepoint else "checkpoint"
    report.id = metadata.checkpoint_id
    report.timestamp = metadata.timestamp
    report.job_id, report.job_name = metadata.job_id, metadata.job_name
    report.files = len(metadata.files())
    contents = _Contents(storage if metadata.savepoint else parent, sound)
    report.operators = [_operator(*operator, contents) for operator in metadata.operators.items()]
    report.size = sum(operator.size for operator in report.operators)
    report.problems = contents.problems
    intact = not report.problems
    _check_signature(report, data, storage.locate(METADATA), keys)
    if report.problems:
        report.status = UNSIGNED if intact and report.signature == "none" else DAMAGED
    return report


def _check_signature(report: CheckpointReport, data: bytes, location: str, keys: SigningKeys | None) -> None:
    report.signature = "unverified" if is_signed(data) else "none"
    if keys is None:
        return
    try:
        CheckpointMetadata.from_bytes(data, location, keys)
    except CorruptCheckpointError as error:
        report.signature = "invalid" if is_signed(data) else "none"
        report.problems.append(str(error))
    else:
        report.signature = "valid"


def sign_checkpoint(location: str, keys: SigningKeys) -> str:
    """Verifies every file of a checkpoint or savepoint and signs it; returns its own location, even if its job's was
    given.
    """
    metadata, storage = read_checkpoint(location)

    def vouch(piece: Piece) -> Piece:
        if piece.path is None:
            return piece
        return replace(piece, digest=hashlib.sha256(read_stored(piece, storage)).digest())

    operators = {
        operator_id: replace(
            operator, subtasks={index: state.with_pieces(vouch) for index, state in operator.subtasks.items()}
        )
        for operator_id, operator in metadata.operators.items()
    }
    own = METADATA if metadata.savepoint else f"{checkpoint_directory(metadata.checkpoint_id)}/{METADATA}"
    storage.write(own, replace(metadata, operators=operators).to_bytes(keys))
    return storage.locate(own).removesuffix(f"/{METADATA}")


def state_sizes(operator_id: str, operator: OperatorState, storage: Storage) -> dict[str, int | None]:
    """Returns the size of each state of an operator by name; None if it cannot be separated from other states."""
    report = _operator(operator_id, operator, _Contents(storage, set()))
    return {state.name: state.size for state in report.states}


def _operator(operator_id: str, operator: OperatorState, contents: _Contents) -> OperatorReport:
    keyed: dict[str, StateReport] = {}
    others: dict[str, StateReport] = {}
    for _, subtask in sorted(operator.subtasks.items()):
        for handle in subtask.keyed:
            _add_keyed(handle, keyed, contents)
        for content in contents.read([] if subtask.operator is None else [subtask.operator]):
            for name, state in (content or {}).items():
                _add(others, name, state.mode, sum(map(len, state.elements)))
    states = [*keyed.values(), *others.values()]
    size = sum(subtask.size for subtask in operator.subtasks.values())
    if operator.source is not None:
        states.append(StateReport("position", "source", len(operator.source)))
        size += len(operator.source)
    return OperatorReport(
        operator_id, operator.name, operator.uid, operator.parallelism, operator.max_parallelism, size, states
    )


def _add_keyed(handle: KeyedHandle | DatabaseHandle, states: dict[str, StateReport], contents: _Contents) -> None:
    for name, stored in handle.states.items():
        _add(states, name, stored.kind, None if isinstance(handle, DatabaseHandle) else 0)
    if isinstance(handle, DatabaseHandle):
        contents.check([*handle.files.values(), *handle.timers.values()])
        return
    for content in contents.read(handle.groups.values()):
        sizes = {} if content is None else {name: len(entry[1]) for name, entry in content.get("entries", {}).items()}
        for name, stored in handle.states.items():
            _add(states, name, stored.kind, None if content is None else sizes.get(name, 0))


def _add(states: dict[str, StateReport], name: str, kind: str, size: int | None) -> None:
    state = states.setdefault(name, StateReport(name, kind))
    state.size = None if size is None or state.size is None else state.size + size


class _Contents:
    """Reads pieces, and records those that are missing or damaged."""

    def __init__(self, storage: Storage, sound: set[Piece]) -> None:
        self._storage = storage
        self._sound = sound
        self.problems: list[str] = []

    def check(self, pieces: Iterable[Piece]) -> None:
        """Verifies that pieces exist and are unaltered, without reading their contents."""
        for piece in pieces:
            if piece not in self._sound:
                self._bytes(piece)

    def read(self, pieces: Iterable[Piece]) -> Iterator[dict[str, Any] | None]:
        """Returns the contents of the intact pieces; None if they cannot be read."""
        for piece in pieces:
            data = self._bytes(piece)
            if data is not None:
                yield _load(data)

    def _bytes(self, piece: Piece) -> bytes | None:
        try:
            data = read_piece(piece, self._storage)
        except (CorruptCheckpointError, OSError) as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))
            return None
        self._sound.add(piece)
        return data


class _Unknown:
    """A placeholder for objects of unknown classes: accepts whatever a pickle does to it."""

    def __new__(cls, *arguments: Any, **named: Any) -> _Unknown:
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.state = value

    def append(self, value: Any) -> None:
        self.state = value

    def extend(self, values: Any) -> None:
        self.state = values


class _StateReader(pickle.Unpickler):
    """Reads the structure of stored state; keys and values of the program's classes stay unknown."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("flintstream.runtime.checkpoint.snapshot", "StoredOperatorState"):
            return super().find_class(module, name)
        return _Unknown


def _load(data: bytes) -> dict[str, Any] | None:
    try:
        content = _StateReader(io.BytesIO(data)).load()
    except Exception:
        return None  # Classes that are pickled by value cannot be replaced by the placeholder.
    return content if isinstance(content, dict) else None
