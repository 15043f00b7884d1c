"""KeyedStateBackend: where the keyed state of one operator in one subtask lives."""

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
from flintstream.runtime.state.ttl import IncrementalCleanup, TimeToLive

_FOREVER = 1 << 62
ENGINE = "engine"
"""The kind of a table that an operator itself keeps, not a function."""

_KINDS = {f"{kind.capitalize()}StateDescriptor": kind for kind in ("value", "list", "map", "reducing", "aggregating")}


@dataclass(frozen=True)
class StoredKeyedState:
    """What is known of a keyed state besides its entries."""

    kind: str
    serializer: dict[str, Any]
    """How the values were written: the data of a TypeSerializerSnapshot."""
    expires: bool
    """Whether entries have a time to live, and so a time each."""


@dataclass(frozen=True)
class KeyedStateInfo:
    """What a backend knows of a state besides its entries."""

    name: str
    kind: str
    """`value`, `list`, `map`, `reducing` or `aggregating`: what a function asked for."""
    type_info: Any = None
    """The declared type of what is stored for a key; None for any Python object."""
    time_to_live: TimeToLive | None = None


class StateMigrationException(PermanentError):
    """State of an earlier run does not fit what the program declares now."""


@dataclass(frozen=True)
class RestoredState:
    """What an earlier run has said of a state whose entries were restored."""

    kind: str
    written: TypeSerializerSnapshot
    expires: bool

    def create_serializer(self) -> TypeSerializer[Any]:
        """The serialiser with which the values were written."""
        return self.written.restore_serializer()


class NoKey:
    """Stands for the current key while there is none. It cannot be looked up: using keyed state then is an error."""

    __slots__ = ("_message",)

    def __init__(self, operator: str, reason: str) -> None:
        self._message = (
            f"operator '{operator}': there is no key at hand, so keyed state and timers cannot be used: {reason}"
        )

    def __hash__(self) -> NoReturn:
        raise RuntimeError(self._message)


class KeyedStateBackend(ABC):
    """Tables from key to what is stored for it, one for each state of the operator.

    `current_key` is set before each record and each timer; the states that a function holds read and write the entry of
    that key. A backend stores what it likes how it likes, as long as a `table` behaves like a mapping, and what a table
    gave may be changed in place until the block at hand is processed. `touch` tells once a block which keys may change:
    enough for a backend that fetches and writes back in bulk, and for snapshots of what has changed.

    A key belongs to one of `max_parallelism` key groups. Snapshots are made and restored by key group.
    """

    cleans_incrementally = True
    """Whether states with a time to live may look at some keys with each access, to remove what has expired."""

    list_view: type[views.ListStateView] = views.ListStateView
    map_view: type[views.MapStateView] = views.MapStateView
    ttl_list_view: type[ttl.TtlListState] = ttl.TtlListState
    ttl_map_view: type[ttl.TtlMapState] = ttl.TtlMapState
    """The states of functions, for a backend that stores lists and maps in its own way."""

    database: str | None = None
    """The directory of the database in which state lives; None where it lives in memory."""

    def __init__(
        self, operator: str, max_parallelism: int, clock: Callable[[], int], key_groups: range | None = None
    ) -> None:
        self.operator = operator
        self.max_parallelism = max_parallelism
        self.key_groups = range(max_parallelism) if key_groups is None else key_groups
        """The groups that this subtask owns."""
        self.clock = clock
        self.states: dict[str, KeyedStateInfo] = {}
        self.restored: dict[str, RestoredState] = {}
        """States whose entries were restored, and that the program has not asked for yet."""
        self.no_key = NoKey(operator, "they belong to the key of a record or timer, and none is being processed")
        self.current_key: Any = self.no_key

    # --- what a backend has to do ---

    @abstractmethod
    def table(self, name: str) -> MutableMapping[Any, Any]:
        """The table of that name, made when missing."""

    @abstractmethod
    def touch(self, keys: Collection[Any]) -> None:
        """Says that what is stored for these keys may be read and changed until the next call: one key for each record."""

    @abstractmethod
    def clean_with_every_record(self, cleanup: IncrementalCleanup, size: int) -> None:
        """Lets a clean-up look at `size` keys for each record, as told by `touch`."""

    @abstractmethod
    def changed_keys(self) -> set[Any] | None:
        """The keys touched since `forget_changes`; None while that is not recorded."""

    @abstractmethod
    def forget_changes(self) -> None:
        """Starts to record changes anew: what is stored now is safe elsewhere."""

    def checkpoint(self, directory: str) -> Any:
        """A copy of the database in a local directory that does not exist yet; where there is a `database`."""
        raise NotImplementedError(f"operator '{self.operator}': this backend has no database")

    def restore(self, checkpoints: list[Any]) -> None:
        """Takes over databases of an earlier run; where there is a `database`."""
        raise NotImplementedError(f"operator '{self.operator}': this backend has no database")

    def close(self) -> None:
        """Lets go what the backend holds besides memory; it is not used any more."""

    # --- the states of functions ---

    def value_state(self, descriptor: Any) -> Any:
        """One value a key."""
        table, live = self._register(descriptor, "value")
        default = getattr(descriptor, "default_value", None)
        return views.value_view(self, table, default) if live is None else ttl.TtlValueState(self, table, live, default)

    def list_state(self, descriptor: Any) -> Any:
        """A list a key."""
        table, live = self._register(descriptor, "list")
        return self.list_view(self, table) if live is None else self.ttl_list_view(self, table, live)

    def map_state(self, descriptor: Any) -> Any:
        """A map a key."""
        table, live = self._register(descriptor, "map")
        return self.map_view(self, table) if live is None else self.ttl_map_view(self, table, live)

    def reducing_state(self, descriptor: Any) -> Any:
        """One value a key, reduced from all values added."""
        table, live = self._register(descriptor, "reducing")
        reduce = descriptor.get_reduce_function().reduce
        if live is None:
            return views.ReducingStateView(self, table, reduce)
        return ttl.TtlReducingState(self, table, live, reduce)

    def aggregating_state(self, descriptor: Any) -> Any:
        """One accumulator a key, aggregated from all values added."""
        table, live = self._register(descriptor, "aggregating")
        function = descriptor.get_agg_function()
        if live is None:
            return views.AggregatingStateView(self, table, function)
        return ttl.TtlAggregatingState(self, table, live, function)

    def state_of(self, descriptor: Any) -> Any:
        """The state that a descriptor describes, whatever its kind."""
        kind = _kind_of(descriptor)
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

    def engine_table(self, name: str) -> MutableMapping[Any, Any]:
        """A table that the operator keeps for itself. Its name must be one that no function would choose."""
        self.restored.pop(name, None)
        self.states.setdefault(name, KeyedStateInfo(name, ENGINE))
        return self.table(name)

    def _register(self, descriptor: Any, kind: str) -> tuple[MutableMapping[Any, Any], TimeToLive | None]:
        described = _kind_of(descriptor)
        if described not in (None, kind):
            raise TypeError(f"operator '{self.operator}': a {kind} state was asked for with {descriptor!r}")
        name = descriptor.name
        live = TimeToLive.of(getattr(descriptor, "_ttl_config", None))
        known = self.states.get(name)
        if known is not None and known.kind != kind:
            raise ValueError(
                f"operator '{self.operator}': state {name!r} is a {known.kind} state already, and cannot be a {kind} "
                "state too: give it another name"
            )
        if known is not None and (known.time_to_live is None) != (live is None):
            raise ValueError(
                f"operator '{self.operator}': state {name!r} is described twice, once with a time to live and once without"
            )
        info = self.states[name] = KeyedStateInfo(name, kind, getattr(descriptor, "type_info", None), live)
        self._take_over(info)
        return self.table(name), live

    def _take_over(self, info: KeyedStateInfo) -> None:
        """Makes restored entries fit what the program declares now, or says why they do not."""
        before = self.restored.pop(info.name, None)
        if before is None:
            return
        place = f"operator '{self.operator}': state {info.name!r}"
        if before.kind != info.kind:
            raise StateMigrationException(f"{place} was a {before.kind} state, and is a {info.kind} state now")
        if before.expires != (info.time_to_live is not None):
            was, now = ("with", "without") if before.expires else ("without", "with")
            raise StateMigrationException(f"{place} was stored {was} a time to live, and is declared {now} one")
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
        # A snapshot before this one has them as they were.
        self.touch(keys)

    # --- by key ---

    def keys(self, name: str) -> list[Any]:
        """The keys for which something is stored under a name."""
        return list(self.table(name))

    def key_chunks(self, name: str) -> Iterator[list[Any]]:
        """The keys for which something is stored under a name, as many at a time as the backend likes."""
        yield self.keys(name)

    def apply_to_all_keys(self, descriptor: Any, function: Callable[[Any, Any], Any]) -> None:
        """Calls `function(key, state)` for each key that has something stored, with that key set."""
        state = self.state_of(descriptor)
        before = self.current_key
        table = self.table(descriptor.name)
        try:
            for keys in self.key_chunks(descriptor.name):
                self.touch(keys)
                for key in keys:
                    # What has expired may be removed meanwhile.
                    if key in table:
                        self.current_key = key
                        function(key, state)
        finally:
            self.current_key = before

    def by_key_group(self, name: str, keys: Iterable[Any] | None = None) -> dict[int, dict[Any, Any]]:
        """What is stored under a name, by key group: for all keys, or for those of the given ones that have something."""
        table = self.table(name)
        groups: dict[int, dict[Any, Any]] = {}
        stored = self.keys(name) if keys is None else [key for key in keys if key in table]
        for key, group in zip(stored, key_groups(stored, self.max_parallelism)):
            if group not in groups:
                groups[group] = {}
            groups[group][key] = table[key]
        return groups

    def groups(self) -> Iterator[tuple[int, dict[str, dict[Any, Any]]]]:
        """Each key group that has something stored, and what: by the name of the state, then by key.

        A backend whose state is larger than memory holds one group at a time.
        """
        stored = {info.name: self.by_key_group(info.name) for info, _ in self.entries()}
        for group in sorted(set().union(*stored.values())):
            yield group, {name: groups[group] for name, groups in stored.items() if group in groups}

    def entries(self) -> Iterator[tuple[KeyedStateInfo, MutableMapping[Any, Any]]]:
        """All states with their tables, also those of an earlier run that nobody has asked for yet."""
        for name, info in self.states.items():
            yield info, self.table(name)
        for name, before in self.restored.items():
            live = TimeToLive(_FOREVER) if before.expires else None
            yield KeyedStateInfo(name, before.kind, before, live), self.table(name)


def _kind_of(descriptor: Any) -> str | None:
    """What a descriptor describes, by its class or the one it is derived from; the classes are in a layer above."""
    names = (base.__name__ for base in type(descriptor).__mro__)
    return next((_KINDS[name] for name in names if name in _KINDS), None)
