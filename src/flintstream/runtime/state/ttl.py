"""Time-to-live: keyed states whose entries expire when not used for some time.

An entry is stored with the time of its last write (or read, if that counts): `(value, time)` for a value, one such pair
per element of a list or entry of a map. Times are those of the slot's clock.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from flintstream.runtime.state.views import MapMethods, Table

if TYPE_CHECKING:
    from flintstream.runtime.state.backend import KeyedStateBackend

Stamped = tuple[Any, int]
"""A value, and when it was last used."""


@dataclass(frozen=True)
class TimeToLive:
    """The runtime form of a `StateTtlConfig`."""

    millis: int
    refreshed_by_reading: bool = False
    shows_expired: bool = False
    """Whether an expired entry that still exists is returned."""
    cleanup_size: int = 0
    """The number of entries checked with each access; 0 for none."""
    cleanup_every_record: bool = False
    cleanup_in_snapshot: bool = False
    cleanup_in_compaction: bool = False
    """Whether a backend on disk removes expired entries in the background."""
    cleanup_entries: int = 1000
    """There: after how many entries it looks at the clock again."""
    cleanup_interval: int = 0
    """There: within how many milliseconds it looks at all entries; 0 to let it choose."""

    @staticmethod
    def of(config: Any) -> TimeToLive | None:
        """Creates it from a `StateTtlConfig`; None for None or a disabled one."""
        if config is None or not config.is_enabled():
            return None
        strategies = config.get_cleanup_strategies()
        incremental = strategies.get_incremental_cleanup_strategy()
        in_background = strategies.get_rocksdb_compact_filter_cleanup_strategy()
        return TimeToLive(
            config.get_ttl().to_milliseconds(),
            config.get_update_type().name == "OnReadAndWrite",
            config.get_state_visibility().name == "ReturnExpiredIfNotCleanedUp",
            0 if incremental is None else incremental.get_cleanup_size(),
            incremental is not None and incremental.run_cleanup_for_every_record(),
            strategies.in_full_snapshot(),
            in_background is not None,
            1000 if in_background is None else in_background.get_query_time_after_num_entries(),
            0 if in_background is None else in_background.get_periodic_compaction_time().to_millis(),
        )

    def unexpired(self, kind: str, entry: Any, now: int) -> Any:
        """Returns the unexpired part of a key's entry at a time; None if nothing is left."""
        oldest = now - self.millis
        if kind == "list":
            return [stamped for stamped in entry if stamped[1] > oldest] or None
        if kind == "map":
            return {key: stamped for key, stamped in entry.items() if stamped[1] > oldest} or None
        return entry if entry[1] > oldest else None


def without_times(kind: str, entries: list[Any]) -> tuple[list[Any], list[Any]]:
    """Separates the values of entries from their times."""
    if kind == "list":
        return [[value for value, _ in entry] for entry in entries], [[time for _, time in entry] for entry in entries]
    if kind == "map":
        values = [{key: value for key, (value, _) in entry.items()} for entry in entries]
        return values, [[time for _, time in entry.values()] for entry in entries]
    return [value for value, _ in entries], [time for _, time in entries]


def with_times(kind: str, values: list[Any], times: list[Any]) -> list[Any]:
    """The inverse of `without_times`."""
    if kind == "list":
        return [list(zip(value, stamps)) for value, stamps in zip(values, times)]
    if kind == "map":
        return [dict(zip(value, zip(value.values(), stamps))) for value, stamps in zip(values, times)]
    return list(zip(values, times))


class IncrementalCleanup:
    """Scans a table a few keys at a time, repeatedly, and removes expired entries."""

    def __init__(self, table: Table, kind: str, live: TimeToLive) -> None:
        self.table = table
        self._kind = kind
        self._live = live
        self._whole = kind not in ("list", "map")
        self._ahead: Iterator[Any] = iter(())

    def run(self, keys: int, now: int) -> None:
        """Checks a number of keys, continuing after the last one."""
        table = self.table
        oldest = now - self._live.millis
        for key in islice(self._ahead, keys):
            keys -= 1
            entry = table.get(key)
            if entry is None:
                continue
            if self._whole:
                if entry[1] <= oldest:
                    del table[key]
            else:
                self._clean(key, entry, now)
        if keys > 0:
            # A copy, since the table changes between two calls.
            self._ahead = iter(list(table))

    def _clean(self, key: Any, entry: Any, now: int) -> None:
        left = self._live.unexpired(self._kind, entry, now)
        if left is None:
            del self.table[key]
        elif len(left) < len(entry):
            self.table[key] = left


class TtlState:
    """Base class of the states with a time-to-live."""

    kind = "value"

    def __init__(self, backend: KeyedStateBackend, table: Table, live: TimeToLive) -> None:
        self._backend = backend
        self._table = table
        self._live = live
        self._clock = backend.clock
        cleans = live.cleanup_size and backend.cleans_incrementally
        self._cleanup = IncrementalCleanup(table, self.kind, live) if cleans else None
        if self._cleanup is not None and live.cleanup_every_record:
            backend.clean_with_every_record(self._cleanup, live.cleanup_size)

    def clear(self) -> None:
        """Clears the entry of the current key."""
        self._now()
        key = self._backend.current_key
        if key in self._table:
            del self._table[key]

    def _now(self) -> int:
        """Returns the time of an access, and checks some other keys at this time."""
        now = self._clock()
        if self._cleanup is not None:
            self._cleanup.run(self._live.cleanup_size, now)
        return now

    def _read(self, table: Any, key: Any, now: int) -> Stamped | None:
        """Returns a visible value, with the side effects of reading it."""
        stamped: Stamped | None = table.get(key)
        if stamped is None:
            return None
        if stamped[1] + self._live.millis <= now:
            del table[key]
            return stamped if self._live.shows_expired else None
        if self._live.refreshed_by_reading:
            table[key] = (stamped[0], now)
        return stamped

    def _unexpired(self, now: int) -> Any:
        """Returns the unexpired value of the current key, to update it; None if there is none."""
        stamped: Stamped | None = self._table.get(self._backend.current_key)
        return None if stamped is None or stamped[1] + self._live.millis <= now else stamped


class TtlValueState(TtlState):
    """One value for the current key."""

    def __init__(self, backend: KeyedStateBackend, table: Table, live: TimeToLive, default: Any = None) -> None:
        super().__init__(backend, table, live)
        self._default = default

    def value(self) -> Any:
        """Returns the value, or the default."""
        stamped = self._read(self._table, self._backend.current_key, self._now())
        return copy.deepcopy(self._default) if stamped is None else stamped[0]

    def update(self, value: Any) -> None:
        """Sets the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._table[self._backend.current_key] = (value, self._now())


class TtlListState(TtlState):
    """A list for the current key whose elements expire individually."""

    kind = "list"

    def get(self) -> Iterator[Any]:
        """Returns an iterator over the elements."""
        now = self._now()
        key = self._backend.current_key
        elements: list[Stamped] = self._table.get(key, [])
        left = self._live.unexpired("list", elements, now)
        seen = [value for value, _ in (elements if self._live.shows_expired else left or ())]
        if elements and left is None:
            del self._table[key]
        elif left is not None and self._live.refreshed_by_reading:
            self._table[key] = [(value, now) for value, _ in left]
        elif left is not None and not self._live.shows_expired and len(left) < len(elements):
            self._table[key] = left
        return iter(seen)

    def __iter__(self) -> Iterator[Any]:
        return self.get()

    def add(self, value: Any) -> None:
        """Appends an element."""
        self._append([(value, self._now())])

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends elements."""
        now = self._now()
        self._append([(value, now) for value in values])

    def _append(self, added: list[Stamped]) -> None:
        elements = self._table.get(self._backend.current_key)
        if elements is not None:
            elements.extend(added)
        elif added:
            self._table[self._backend.current_key] = added

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        now = self._now()
        elements = [(value, now) for value in values]
        if elements:
            self._table[self._backend.current_key] = elements
        else:
            self.clear()


class TtlMapState(TtlState, MapMethods):
    """A map for the current key whose entries expire individually."""

    kind = "map"

    def get(self, key: Any) -> Any:
        """Returns the value of a map key, or None."""
        stamped = self._entry(key)
        return None if stamped is None else stamped[0]

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a map key."""
        self.put_all({key: value})

    def put_all(self, dict_value: Any) -> None:
        """Sets several values, from a dict or from pairs of key and value."""
        now = self._now()
        added = {key: (value, now) for key, value in dict(dict_value).items()}
        entries = self._table.get(self._backend.current_key)
        if entries is not None:
            entries.update(added)
        elif added:
            self._table[self._backend.current_key] = added

    def remove(self, key: Any) -> None:
        """Removes a map key."""
        self._now()
        entries = self._table.get(self._backend.current_key)
        if entries is not None:
            entries.pop(key, None)
            self._drop_if_empty(entries)

    def contains(self, key: Any) -> bool:
        """Returns whether the map key exists."""
        return self._entry(key) is not None

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns a copy of the entries."""
        now = self._now()
        entries = self._table.get(self._backend.current_key, {})
        seen = [(key, self._read(entries, key, now)) for key in list(entries)]
        self._drop_if_empty(entries)
        return [(key, stamped[0]) for key, stamped in seen if stamped is not None]

    def keys(self) -> Iterable[Any]:
        """Returns a copy of the map keys."""
        return [key for key, _ in self.items()]

    def values(self) -> Iterable[Any]:
        """Returns a copy of the values."""
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Returns whether there are no visible entries."""
        entries = self._table.get(self._backend.current_key)
        if entries is None or self._live.shows_expired:
            return not entries
        return self._live.unexpired("map", entries, self._now()) is None

    def _entry(self, key: Any) -> Stamped | None:
        now = self._now()
        entries = self._table.get(self._backend.current_key)
        if entries is None:
            return None
        stamped = self._read(entries, key, now)
        self._drop_if_empty(entries)
        return stamped

    def _drop_if_empty(self, entries: dict[Any, Stamped]) -> None:
        if not entries:
            self._table.pop(self._backend.current_key, None)


class TtlReducingState(TtlState):
    """One value for the current key, reduced from all unexpired values added."""

    def __init__(self, backend: KeyedStateBackend, table: Table, live: TimeToLive, reduce: Any) -> None:
        super().__init__(backend, table, live)
        self._reduce = reduce

    def get(self) -> Any:
        """Returns the value, or None."""
        stamped = self._read(self._table, self._backend.current_key, self._now())
        return None if stamped is None else stamped[0]

    def add(self, value: Any) -> None:
        """Adds a value."""
        now = self._now()
        before = self._unexpired(now)
        self._table[self._backend.current_key] = (value if before is None else self._reduce(before[0], value), now)


class TtlAggregatingState(TtlState):
    """One accumulator for the current key, aggregated from all unexpired values added."""

    def __init__(self, backend: KeyedStateBackend, table: Table, live: TimeToLive, function: Any) -> None:
        super().__init__(backend, table, live)
        self._function = function

    def get(self) -> Any:
        """Returns the result, or None."""
        stamped = self._read(self._table, self._backend.current_key, self._now())
        return None if stamped is None else self._function.get_result(stamped[0])

    def add(self, value: Any) -> None:
        """Adds a value; an accumulator of None clears the state."""
        if value is None:
            self.clear()
            return
        now = self._now()
        before = self._unexpired(now)
        accumulator = self._function.create_accumulator() if before is None else before[0]
        self._table[self._backend.current_key] = (self._function.add(value, accumulator), now)
