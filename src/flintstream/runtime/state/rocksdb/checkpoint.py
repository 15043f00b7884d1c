"""Checkpoints of a RocksDB database: their files, and the restore of a database from those of other subtasks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from flintstream.common.serializer_snapshot import TypeSerializerSnapshot
from flintstream.runtime.permissions import Permissions
from flintstream.runtime.state.backend import StoredKeyedState
from flintstream.runtime.state.rocksdb.codec import (
    PREFIX_BYTES,
    EntryCodec,
    decode_key,
    group_prefix,
    is_segmented,
    segments_of_state,
    state_prefix,
)
from flintstream.runtime.state.rocksdb.store import Store

_CHUNK = 8192
_SST = ".sst"
_Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class RocksDBFile:
    """A file of a checkpoint."""

    name: str
    size: int
    identity: str | None
    """The identity of an immutable file: equal in two checkpoints only for the same file, whatever its name, so that it
    is stored once. None for a small file that belongs to one checkpoint.
    """


@dataclass(frozen=True)
class RocksDBCheckpoint:
    """The database of one operator in one subtask at a point in time."""

    directory: str
    """The local directory of the files."""
    key_groups: range
    files: tuple[RocksDBFile, ...]
    states: dict[str, StoredKeyedState] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """The number of each state in stored keys."""

    def codec(self, name: str) -> EntryCodec:
        """Returns the codec of the entries of a state."""
        stored = self.states[name]
        serializer = TypeSerializerSnapshot.from_data(stored.serializer).restore_serializer()
        return EntryCodec(stored.kind, serializer, stored.expires)


def list_files(directory: str, identities: dict[str, str], new: str) -> tuple[RocksDBFile, ...]:
    """Returns the files of a checkpoint; `identities` has those of files from another database, `new` names this one."""
    return tuple(
        RocksDBFile(
            entry.name,
            entry.stat().st_size,
            identities.get(entry.name, f"{new}-{entry.name}") if entry.name.endswith(_SST) else None,
        )
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name)
    )


def best_base(checkpoints: list[RocksDBCheckpoint], key_groups: range) -> RocksDBCheckpoint:
    """Returns the checkpoint with most of the key groups: it is opened, and the others are copied into it."""
    return max(checkpoints, key=lambda each: len(overlap(each.key_groups, key_groups)))


def overlap(groups: range, others: range) -> range:
    """Returns the common key groups."""
    return range(max(groups.start, others.start), max(min(groups.stop, others.stop), max(groups.start, others.start)))


def take_files(checkpoint: RocksDBCheckpoint, directory: str) -> None:
    """Moves the files into an empty directory; immutable ones as hard links if possible."""
    Permissions.OWNER.make_directory(directory)
    for file in checkpoint.files:
        source, target = os.path.join(checkpoint.directory, file.name), os.path.join(directory, file.name)
        try:
            if file.identity is None:
                raise OSError("it is mutable, so it needs a copy")
            os.link(source, target)
        except OSError:
            shutil.copy(source, target)


def clip(store: Store, has: range, wanted: range) -> None:
    """Removes the key groups that are not needed."""
    if has.start < wanted.start:
        store.remove_range(group_prefix(has.start), group_prefix(wanted.start))
    if has.stop > wanted.stop:
        store.remove_range(group_prefix(wanted.stop), group_prefix(has.stop))


def copy_groups(
    checkpoint: RocksDBCheckpoint, source: Store, target: Store, groups: Iterable[int], into: RocksDBCheckpoint
) -> None:
    """Copies key groups from the database of a checkpoint into another one, encoded as in `into`."""
    for name, number in checkpoint.numbers.items():
        before, now = checkpoint.codec(name), into.codec(name)
        for group in groups:
            old, new = state_prefix(group, number), state_prefix(group, into.numbers[name])
            for pairs in _chunks(source, old):
                whole = [pair for pair in pairs if not is_segmented(pair[1])]
                keys = [decode_key(*pair) for pair in whole] if before != now else []
                _copy(_recoded(whole, keys, before, now), target, new)
                _copy([pair for pair in pairs if is_segmented(pair[1])], target, new)
            for pairs in _chunks(source, segments_of_state(old)):
                _copy(_recoded(pairs, [0] * len(pairs), before, now), target, segments_of_state(new))


def _chunks(source: Store, prefix: bytes) -> Iterator[_Pairs]:
    raw = source.items(prefix)
    while pairs := list(islice(raw, _CHUNK)):
        yield pairs


def _recoded(pairs: _Pairs, keys: list[Any], before: EntryCodec, now: EntryCodec) -> _Pairs:
    """Re-encodes stored values with another codec."""
    if before == now:
        return pairs
    data = now.encode(keys, before.decode([value for _, value in pairs]))
    return [(key, value) for (key, _), value in zip(pairs, data)]


def _copy(pairs: _Pairs, target: Store, prefix: bytes) -> None:
    target.write({prefix + key[PREFIX_BYTES:]: value for key, value in pairs})
