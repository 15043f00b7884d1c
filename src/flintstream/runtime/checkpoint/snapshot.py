"""Snapshots: the state of an operator in a subtask as bytes, and its restore at any parallelism.

Keyed state and timers are stored by key group, so that a subtask can restore any range of groups. A serialiser snapshot
is stored with each state, so that its values can be read even if the program declares another type.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flintstream.common.keys import key_groups
from flintstream.common.pickling import dumps
from flintstream.common.serializer import TypeSerializer
from flintstream.common.serializer_snapshot import TypeSerializerSnapshot
from flintstream.common.typeinfo import Types
from flintstream.runtime.checkpoint.rescaling import redistribute
from flintstream.runtime.state import ttl
from flintstream.runtime.state.backend import (
    KeyedStateBackend,
    KeyedStateInfo,
    RestoredState,
    StateMigrationException,
    StoredKeyedState,
)
from flintstream.runtime.state.operator_state import (
    BROADCAST,
    OperatorStateBackend,
    OperatorStateSnapshot,
)
from flintstream.runtime.time.changes import ChangedTimers, StoredTimers, Timer, TimerChanges, TimerHistory
from flintstream.runtime.time.timers import Namespaced

if TYPE_CHECKING:
    from flintstream.runtime.state.rocksdb.checkpoint import RocksDBCheckpoint


@dataclass(frozen=True)
class StoredOperatorState:
    """An operator state: its redistribution mode, its serialiser snapshot, and each element as bytes."""

    mode: str
    serializer: dict[str, Any]
    elements: list[bytes]


@dataclass(frozen=True)
class OperatorSnapshot:
    """All state of one operator in one subtask."""

    keyed: dict[str, StoredKeyedState] = field(default_factory=dict)
    groups: dict[int, bytes] = field(default_factory=dict)
    """The entries of all keyed states and the timers, by key group."""
    operator: dict[str, StoredOperatorState] = field(default_factory=dict)
    database: Any = None
    """The keyed state as a RocksDBCheckpoint; then `groups` has only timers."""
    base: int | None = None
    """For a delta, the checkpoint it is relative to; None for a full snapshot."""
    fired: tuple[int, int] | None = None
    """With only the changes of timers: up to which times all earlier ones have fired. None with all timers."""

    @property
    def only_changes(self) -> bool:
        """Returns whether this is a delta: only keys touched since its base."""
        return self.base is not None

    @property
    def keyed_size(self) -> int:
        """Returns the size of its keyed state and timers."""
        return sum(map(len, self.groups.values()))


_Encoded = tuple[list[Any], bytes, list[Any] | None]
"""Keys, their values as bytes, and times of use if entries have a time-to-live."""


@dataclass
class _Group:
    """The content of a key group: keys, values and times of use for each state; and timers."""

    entries: dict[str, _Encoded] = field(default_factory=dict)
    removed: dict[str, list[Any]] = field(default_factory=dict)
    """In a delta: the touched keys without an entry now."""
    timers: StoredTimers = field(default_factory=lambda: ([], []))
    """All timers, or those added."""
    removed_timers: StoredTimers = field(default_factory=lambda: ([], []))


# --- taking ---


def take_snapshot(
    keyed: KeyedStateBackend | None,
    operator: OperatorStateBackend,
    timers: StoredTimers | ChangedTimers,
    changed: Collection[Any] | None = None,
    base: int | None = None,
) -> OperatorSnapshot:
    """Returns the current state of an operator: all its keyed state, or the entries of the keys `changed` since the
    checkpoint `base`; and all timers, or their changes since.
    """
    stored = {name: _store(*state) for name, state in operator.snapshot().states.items()}
    if keyed is None:
        return OperatorSnapshot(operator=stored)
    groups: dict[int, _Group] = {}
    _add_timers(timers, keyed.max_parallelism, groups)
    if changed is None:
        data = _all_groups(keyed, groups)
    else:
        for info, _ in keyed.entries():
            _add_changes(keyed, info, changed, groups)
        data = _as_bytes(groups)
    states = {info.name: _describe(info) for info, _ in keyed.entries()}
    return OperatorSnapshot(states, data, stored, base=base, fired=_fired(timers))


def _all_groups(keyed: KeyedStateBackend, timers: dict[int, _Group]) -> dict[int, bytes]:
    """Yields the bytes of all key groups, one by one, since the state may be larger than memory."""
    infos = {info.name: info for info, _ in keyed.entries()}
    data = {}
    for group, stored in keyed.groups():
        content = timers.pop(group, None) or _Group()
        for name, entries in stored.items():
            content.entries[name] = _encoded(keyed, infos[name], entries)
        data[group] = _group_bytes(content)
    return data | _as_bytes(timers)


def take_database_snapshot(
    keyed: KeyedStateBackend,
    operator: OperatorStateBackend,
    timers: StoredTimers | ChangedTimers,
    directory: str,
    base: int | None = None,
) -> OperatorSnapshot:
    """Returns the current state of an operator, with its keyed state as a database in a local directory, which must not
    exist; and all timers, or their changes since the checkpoint `base`.
    """
    groups: dict[int, _Group] = {}
    _add_timers(timers, keyed.max_parallelism, groups)
    database = keyed.checkpoint(directory)
    stored = {name: _store(*state) for name, state in operator.snapshot().states.items()}
    return OperatorSnapshot(database.states, _as_bytes(groups), stored, database, base, _fired(timers))


def _as_bytes(groups: dict[int, _Group]) -> dict[int, bytes]:
    return {group: _group_bytes(content) for group, content in sorted(groups.items())}


def _group_bytes(content: _Group) -> bytes:
    # There may be many groups with little in each.
    empty = _Group()
    return dumps({name: value for name, value in vars(content).items() if value != getattr(empty, name)})


def _describe(info: KeyedStateInfo) -> StoredKeyedState:
    snapshot = _serializer(info.type_info).snapshot_configuration()
    return StoredKeyedState(info.kind, snapshot.to_data(), info.time_to_live is not None)


def _add_changes(
    keyed: KeyedStateBackend, info: KeyedStateInfo, changed: Collection[Any], groups: dict[int, _Group]
) -> None:
    for group, entries in keyed.by_key_group(info.name, changed).items():
        groups.setdefault(group, _Group()).entries[info.name] = _encoded(keyed, info, entries)
    table = keyed.table(info.name)
    removed = [key for key in changed if key not in table]
    for key, group in zip(removed, key_groups(removed, keyed.max_parallelism)):
        groups.setdefault(group, _Group()).removed.setdefault(info.name, []).append(key)


def _encoded(keyed: KeyedStateBackend, info: KeyedStateInfo, entries: dict[Any, Any]) -> _Encoded:
    live = info.time_to_live
    if live is not None and live.cleanup_in_snapshot:
        now = keyed.clock()
        left = {key: live.unexpired(info.kind, entry, now) for key, entry in entries.items()}
        entries = {key: entry for key, entry in left.items() if entry is not None}
    values, times = list(entries.values()), None
    if live is not None:
        values, times = ttl.without_times(info.kind, values)
    try:
        data = _serializer(info.type_info).serialize_all(values)
    except Exception as error:
        raise ValueError(f"operator '{keyed.operator}': state {info.name!r} cannot be written: {error}") from error
    return list(entries), data, times


def _fired(timers: StoredTimers | ChangedTimers) -> tuple[int, int] | None:
    return timers.fired if isinstance(timers, ChangedTimers) else None


def _add_timers(timers: StoredTimers | ChangedTimers, max_parallelism: int, groups: dict[int, _Group]) -> None:
    if not isinstance(timers, ChangedTimers):
        timers = ChangedTimers(*(TimerChanges(added=each) for each in timers))
    for domain, changes in enumerate((timers.event, timers.processing)):
        for timer, group in zip(changes.added, _groups_of(changes.added, max_parallelism)):
            groups.setdefault(group, _Group()).timers[domain].append(timer)
        for timer, group in zip(changes.removed, _groups_of(changes.removed, max_parallelism)):
            groups.setdefault(group, _Group()).removed_timers[domain].append(timer)


def _groups_of(timers: Sequence[Timer], max_parallelism: int) -> list[int]:
    keys = [owner.key if isinstance(owner, Namespaced) else owner for _, owner in timers]
    return list(key_groups(keys, max_parallelism))


def _store(mode: str, type_info: Any, content: Any) -> StoredOperatorState:
    # A list is redistributed by element, a map goes to every subtask as a whole.
    serializer = _serializer(type_info if mode == BROADCAST or type_info is None else type_info.elem_type)
    elements = [content] if mode == BROADCAST else content
    data = [serializer.to_bytes(element, canonical=False) for element in elements]
    return StoredOperatorState(mode, serializer.snapshot_configuration().to_data(), data)


# --- restoring ---


def restore_snapshots(
    chains: list[list[OperatorSnapshot]],
    keyed: KeyedStateBackend | None,
    operator: OperatorStateBackend,
    subtask: int,
    parallelism: int,
) -> StoredTimers:
    """Restores a subtask's share of the state of all subtasks of an earlier attempt into its backends; returns its
    timers.

    Each subtask of that attempt has a chain: a full snapshot followed by deltas.
    """
    timers: StoredTimers = ([], [])
    databases = [snapshot.database for chain in chains for snapshot in chain if snapshot.database is not None]
    if databases:
        _restore_databases(databases, keyed)
    for chain in chains if keyed is not None else ():
        assert keyed is not None
        history = TimerHistory()
        for snapshot in chain:
            _restore_keyed(snapshot, keyed, history)
        for restored, left in zip(timers, history.timers()):
            restored.extend(left)
    left_states = [
        OperatorStateSnapshot({name: _load(state) for name, state in chain[-1].operator.items()}) for chain in chains
    ]
    operator.restore(redistribute(left_states, parallelism)[subtask])
    return timers


def _restore_databases(databases: list[RocksDBCheckpoint], keyed: KeyedStateBackend | None) -> None:
    if keyed is None or keyed.database is None:
        name = "?" if keyed is None else keyed.operator
        raise StateMigrationException(
            f"operator '{name}': the checkpoint was taken with the state backend rocksdb, but the job uses another "
            "one: to change the backend, restore a savepoint, whose format is independent of it"
        )
    try:
        keyed.restore(databases)
    finally:
        for database in databases:
            shutil.rmtree(database.directory, ignore_errors=True)


def _restore_keyed(snapshot: OperatorSnapshot, keyed: KeyedStateBackend, history: TimerHistory) -> None:
    added: StoredTimers = ([], [])
    removed: StoredTimers = ([], [])
    serializers = {}
    for name, stored in snapshot.keyed.items() if snapshot.database is None else ():
        written = TypeSerializerSnapshot.from_data(stored.serializer)
        serializers[name] = written.restore_serializer()
        keyed.restored[name] = RestoredState(stored.kind, written, stored.expires)
    for group in keyed.key_groups:
        if group in snapshot.groups:
            content = _Group(**pickle.loads(snapshot.groups[group]))
            for name, (keys, data, times) in content.entries.items():
                values = serializers[name].deserialize_all(data)
                if times is not None:
                    values = ttl.with_times(snapshot.keyed[name].kind, values, times)
                keyed.table(name).update(zip(keys, values))
            for name, keys in content.removed.items():
                for key in keys:
                    keyed.table(name).pop(key, None)
            for all_found, found in zip((*added, *removed), (*content.timers, *content.removed_timers)):
                all_found.extend(found)
    history.add(snapshot.fired, removed, added)


def _load(state: StoredOperatorState) -> tuple[str, Any, Any]:
    serializer = TypeSerializerSnapshot.from_data(state.serializer).restore_serializer()
    elements = [serializer.from_bytes(data) for data in state.elements]
    return state.mode, None, elements[0] if state.mode == BROADCAST else elements


# --- bytes ---

_ANY = Types.PICKLED_BYTE_ARRAY()


def _serializer(type_info: Any) -> TypeSerializer[Any]:
    serializer: TypeSerializer[Any] = (_ANY if type_info is None else type_info).create_serializer()
    return serializer
