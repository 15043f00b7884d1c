"""KeyedStateBackend: the keyed state of one operator in one subtask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, NoReturn

from flintstream.common.keys import key_groups
from flintstream.common.serializer import TypeSerializer
from flintstream.common.serializer_snapshot import SchemaCompatibility, TypeSerializerSnapshot
from flintstream.runtime.faults import PermanentError
from flintstream.runtime.state import ttl, views
from flintstream.runtime.state.key_context import KeyContext
from flintstream.runtime.state.queryable import QueryableState
from flintstream.runtime.state.ttl import IncrementalCleanup, TimeToLive

_FOREVER = 1 << 62
ENGINE = "engine"
"""The kind of a table of the operator itself, rather than of a user function."""

_KINDS = {f"{kind.capitalize()}StateDescriptor": kind for kind in ("value", "list", "map", "reducing", "aggregating")}


@dataclass(frozen=True)
class StoredKeyedState:
    """The declaration of a stored keyed state."""

    kind: str
    serializer: dict[str, Any]
    """The data of the TypeSerializerSnapshot with which the values were written."""
    expires: bool
    """Whether entries have a time-to-live, and so a timestamp each."""


@dataclass(frozen=True)
class KeyedStateInfo:
    """The declaration of a keyed state of the program."""

    name: str
    kind: str
    """`value`, `list`, `map`, `reducing` or `aggregating`, as requested by a function."""
    type_info: Any = None
    """The declared type of an entry; None for any Python object."""
    time_to_live: TimeToLive | None = None


class StateMigrationException(PermanentError):
    """Restored state does not fit the program's declaration."""


@dataclass(frozen=True)
class RestoredState:
    """The stored declaration of a restored state."""

    kind: str
    written: TypeSerializerSnapshot
    expires: bool

    def create_serializer(self) -> TypeSerializer[Any]:
        """Returns the serialiser with which the values were written."""
        return self.written.restore_serializer()


class NoKey:
    """The current key while there is none. Using it in a table raises, since keyed state needs a key."""

    __slots__ = ("_message",)

    def __init__(self, operator: str, reason: str) -> None:
        self._message = (
            f"operator '{operator}': there is no current key, so keyed state and timers cannot be used: {reason}"
        )

    def __hash__(self) -> NoReturn:
        raise RuntimeError(self._message)


class KeyedStateBackend(KeyContext, ABC):
    """One table of entries by key for each state of the operator.

    `current_key` is set before each record and timer; the state objects of a function read and write the entry of that
    key. A backend is free in how it stores entries, as long as a `table` behaves like a mapping and entries may be
    modified in place until the current block is processed. `touch` announces once per block which keys may change, so
    that a backend can fetch and write back in bulk, and take incremental snapshots.

    A key belongs to one of `max_parallelism` key groups. Snapshots are taken and restored by key group.
    """

    cleans_incrementally = True
    """Whether states with a time-to-live may check some keys with each access, to remove expired entries."""

    list_view: type[views.ListStateView] = views.ListStateView
    map_view: type[views.MapStateView] = views.MapStateView
    ttl_list_view: type[ttl.TtlListState] = ttl.TtlListState
    ttl_map_view: type[ttl.TtlMapState] = ttl.TtlMapState
    """The states of functions, for a backend with its own storage of lists and maps."""

    database: str | None = None
    """The directory of the database; None if state is in memory."""

    def __init__(
        self, operator: str, max_parallelism: int, clock: Callable[[], int], key_groups: range | None = None
    ) -> None:
        super().__init__()
        self.operator = operator
        self.max_parallelism = max_parallelism
        self.key_groups = range(max_parallelism) if key_groups is None else key_groups
        """The key groups of this subtask."""
        self.clock = clock
        self.states: dict[str, KeyedStateInfo] = {}
        self.restored: dict[str, RestoredState] = {}
        """Restored states that the program has not requested yet."""
        self.no_key = NoKey(operator, "they are scoped to the key of a record or timer, and none is being processed")
        self.current_key = self.no_key
        self.queryable: dict[str, QueryableState] = {}
        """The states that may be queried, by their queryable names."""
        self.on_queryable: Callable[[QueryableState], None] | None = None
        """Told of each new one; None where queries are disabled, and nothing is registered."""

    # --- what a backend has to do ---

    @abstractmethod
    def table(self, name: str) -> MutableMapping[Any, Any]:
        """Returns the table of that name, creating it if needed."""

    @abstractmethod
    def touch(self, keys: Collection[Any]) -> None:
        """Announces that the entries of these keys may be read and changed until the next call: one key per record."""

    @abstractmethod
    def clean_with_every_record(self, cleanup: IncrementalCleanup, size: int) -> None:
        """Lets a cleanup check `size` keys for each record announced by `touch`."""

    @abstractmethod
    def peek(self, name: str, key: Any, default: Any) -> Any:
        """Returns the entry of a key under a name, without a trace: no cache and no tracking of changes notices. The
        caller must not modify it.
        """

    @abstractmethod
    def changed_keys(self) -> set[Any] | None:
        """Returns the keys touched since `forget_changes`; None if changes are not tracked."""

    @abstractmethod
    def forget_changes(self) -> None:
        """Restarts the tracking of changes: the current state has been stored."""

    def cleanup_due(self) -> float | None:
        """Returns when, by the monotonic clock, `clean_up` has something to do; None for never."""
        return None

    def clean_up(self, idle: bool = False) -> None:
        """Removes some expired entries, for a very short time; for a longer one if the slot is idle. Called between two
        blocks.
        """

    def checkpoint(self, directory: str) -> Any:
        """Copies the database to a local directory, which must not exist; only if there is a `database`."""
        raise NotImplementedError(f"operator '{self.operator}': this backend has no database")

    def restore(self, checkpoints: list[Any]) -> None:
        """Restores databases; only if there is a `database`."""
        raise NotImplementedError(f"operator '{self.operator}': this backend has no database")

    def close(self) -> None:
        """Releases the resources of the backend."""

    # --- the states of functions ---

    def value_state(self, descriptor: Any) -> Any:
        """Returns a state with one value per key."""
        table, live = self._register(descriptor, "value")
        default = getattr(descriptor, "default_value", None)
        return self.value_view(table, default) if live is None else ttl.TtlValueState(self, table, live, default)

    def value_view(self, table: Any, default: Any) -> views.ValueStateView:
        """Returns a state with one value per key and without a time to live."""
        return views.value_view(self, table, default)

    def list_state(self, descriptor: Any) -> Any:
        """Returns a state with a list per key."""
        table, live = self._register(descriptor, "list")
        return self.list_view(self, table) if live is None else self.ttl_list_view(self, table, live)

    def map_state(self, descriptor: Any) -> Any:
        """Returns a state with a map per key."""
        table, live = self._register(descriptor, "map")
        return self.map_view(self, table) if live is None else self.ttl_map_view(self, table, live)

    def reducing_state(self, descriptor: Any) -> Any:
        """Returns a state with one value per key, reduced from all values added."""
        table, live = self._register(descriptor, "reducing")
        reduce = descriptor.get_reduce_function().reduce
        if live is None:
            return views.ReducingStateView(self, table, reduce)
        return ttl.TtlReducingState(self, table, live, reduce)

    def aggregating_state(self, descriptor: Any) -> Any:
        """Returns a state with one accumulator per key, aggregated from all values added."""
        table, live = self._register(descriptor, "aggregating")
        function = descriptor.get_agg_function()
        if live is None:
            return views.AggregatingStateView(self, table, function)
        return ttl.TtlAggregatingState(self, table, live, function)

    def state_of(self, descriptor: Any) -> Any:
        """Returns the state of a descriptor of any kind."""
        kind = kind_of_descriptor(descriptor)
        makers = {
            "value": self.value_state,
            "list": self.list_state,
            "map": self.map_state,
            "reducing": self.reducing_state,
            "aggregating": self.aggregating_state,
        }
        if kind is None:
            raise TypeError(f"operator '{self.operator}': expected a state descriptor, got {descriptor!r}")
        return makers[kind](descriptor)

    def engine_table(self, name: str, kind: str = ENGINE) -> MutableMapping[Any, Any]:
        """Returns a table of the operator itself. Its name must be one that no function would choose.

        Of the kind `map` or `list`, its entries are dicts or lists, of which a backend for state larger than memory
        reads and writes only what is used: other objects with the same methods may take their place.
        """
        self.restored.pop(name, None)
        self.states.setdefault(name, KeyedStateInfo(name, kind))
        return self.table(name)

    def _register(self, descriptor: Any, kind: str) -> tuple[MutableMapping[Any, Any], TimeToLive | None]:
        described = kind_of_descriptor(descriptor)
        if described not in (None, kind):
            raise TypeError(f"operator '{self.operator}': a {kind} state was requested with {descriptor!r}")
        name = descriptor.name
        live = TimeToLive.of(getattr(descriptor, "_ttl_config", None))
        known = self.states.get(name)
        if known is not None and known.kind != kind:
            raise ValueError(
                f"operator '{self.operator}': state {name!r} is already {known.kind} state, and cannot be {kind} "
                "state too: use another name"
            )
        if known is not None and (known.time_to_live is None) != (live is None):
            raise ValueError(
                f"operator '{self.operator}': state {name!r} is declared twice, once with a time-to-live and once "
                "without"
            )
        info = self.states[name] = KeyedStateInfo(name, kind, getattr(descriptor, "type_info", None), live)
        self._take_over(info)
        self._publish(descriptor, info)
        return self.table(name), live

    def _publish(self, descriptor: Any, info: KeyedStateInfo) -> None:
        """Registers a state that its descriptor makes queryable."""
        name = getattr(descriptor, "_queryable_name", None)
        if name is None or self.on_queryable is None:
            return
        known = self.queryable.get(name)
        if known is not None and known.state != info.name:
            raise ValueError(
                f"operator '{self.operator}': states {known.state!r} and {info.name!r} are both queryable as {name!r}: "
                "give each a name of its own"
            )
        function = descriptor.get_agg_function() if info.kind == "aggregating" else None
        state = self.queryable[name] = QueryableState(name, info.name, info.kind, info.time_to_live, function)
        if known is None:
            self.on_queryable(state)

    def _take_over(self, info: KeyedStateInfo) -> None:
        """Migrates restored entries to the program's declaration; raises if they do not fit."""
        before = self.restored.pop(info.name, None)
        if before is None:
            return
        place = f"operator '{self.operator}': state {info.name!r}"
        if before.kind != info.kind:
            raise StateMigrationException(
                f"{place} was a {before.kind} state, and is declared as a {info.kind} state now"
            )
        if before.expires != (info.time_to_live is not None):
            was, now = ("with", "without") if before.expires else ("without", "with")
            raise StateMigrationException(f"{place} was stored {was} a time-to-live, and is declared {now} one")
        if info.type_info is None:
            return
        compatibility = before.written.resolve_schema_compatibility(info.type_info.create_serializer())
        if compatibility.is_incompatible():
            raise StateMigrationException(f"{place}: {compatibility.text}")
        if compatibility.is_compatible_after_migration():
            self._migrate(info, compatibility)

    def _migrate(self, info: KeyedStateInfo, compatibility: SchemaCompatibility) -> None:
        table = self.table(info.name)
        keys, values = list(table), list(table.values())
        if info.time_to_live is None:
            table.update(zip(keys, compatibility.migrate(values)))
        else:
            plain, times = ttl.without_times(info.kind, values)
            table.update(zip(keys, ttl.with_times(info.kind, compatibility.migrate(plain), times)))
        # The base of the next delta has the entries in their old form.
        self.touch(keys)

    # --- by key ---

    def keys(self, name: str) -> list[Any]:
        """Returns the keys with an entry under a name."""
        return list(self.table(name))

    def key_chunks(self, name: str) -> Iterator[list[Any]]:
        """Yields the keys with an entry under a name, in chunks of any size."""
        yield self.keys(name)

    def apply_to_all_keys(self, descriptor: Any, function: Callable[[Any, Any], Any]) -> None:
        """Calls `function(key, state)` for each key with an entry, with that key set."""
        state = self.state_of(descriptor)
        before = self.current_key
        table = self.table(descriptor.name)
        try:
            for keys in self.key_chunks(descriptor.name):
                self.touch(keys)
                for key in keys:
                    # Expired entries may be removed in the meantime.
                    if key in table:
                        self.current_key = key
                        function(key, state)
        finally:
            self.current_key = before

    def by_key_group(self, name: str, keys: Iterable[Any] | None = None) -> dict[int, dict[Any, Any]]:
        """Returns the entries under a name by key group: for all keys, or for those of the given ones that have an
        entry.
        """
        table = self.table(name)
        groups: dict[int, dict[Any, Any]] = {}
        stored = self.keys(name) if keys is None else [key for key in keys if key in table]
        for key, group in zip(stored, key_groups(stored, self.max_parallelism)):
            if group not in groups:
                groups[group] = {}
            groups[group][key] = table[key]
        return groups

    def groups(self) -> Iterator[tuple[int, dict[str, dict[Any, Any]]]]:
        """Yields each non-empty key group with its entries, by state name and then by key.

        A backend for state larger than memory holds one group at a time.
        """
        stored = {info.name: self.by_key_group(info.name) for info, _ in self.entries()}
        for group in sorted(set().union(*stored.values())):
            yield group, {name: groups[group] for name, groups in stored.items() if group in groups}

    def entries(self) -> Iterator[tuple[KeyedStateInfo, MutableMapping[Any, Any]]]:
        """Returns all states with their tables, including restored ones not requested yet."""
        for name, info in self.states.items():
            yield info, self.table(name)
        for name, before in self.restored.items():
            live = TimeToLive(_FOREVER) if before.expires else None
            yield KeyedStateInfo(name, before.kind, before, live), self.table(name)


def kind_of_descriptor(descriptor: Any) -> str | None:
    """Returns the kind of a descriptor, by its class or a base class; the classes are in a higher layer."""
    names = (base.__name__ for base in type(descriptor).__mro__)
    return next((_KINDS[name] for name in names if name in _KINDS), None)
