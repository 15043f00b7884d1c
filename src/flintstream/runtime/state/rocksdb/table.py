"""CachedTable: a table of the RocksDB backend.

A block's keys are prefetched together before it is processed, and changes are flushed together when the cache is full
or a snapshot needs them. Entries stay in the cache between blocks, and are evicted in order of insertion.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, MutableMapping, ValuesView
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.runtime.state.rocksdb.cache import CHUNK, GONE, AverageSize, EntryCache
from flintstream.runtime.state.rocksdb.codec import EntryCodec, KeyCodec, after, decode_key
from flintstream.runtime.state.rocksdb.store import Store
from flintstream.runtime.state.ttl import TimeToLive
from flintstream.runtime.state.views import CachedValueStateView

if TYPE_CHECKING:
    from flintstream.runtime.state.backend import KeyedStateBackend

_PROBES = 4

Convert = Callable[[list[Any]], Iterable[Any]]
"""Converts entries, e.g. to another type."""


NEVER = 1 << 62
"""Later than any time."""


class Cleaned(NamedTuple):
    """What has become of some entries."""

    removed: int
    earliest: int
    """When the earliest used one of those that stay was used."""


def converted(
    raw: Iterator[tuple[bytes, bytes]], codec: EntryCodec, convert: Convert | None
) -> Iterator[tuple[list[tuple[bytes, bytes]], list[Any]]]:
    """Yields stored pairs in chunks, each with its converted entries."""
    while pairs := list(islice(raw, CHUNK)):
        entries = codec.decode([data for _, data in pairs])
        yield pairs, entries if convert is None else list(convert(entries))


class CachedTable(EntryCache, MutableMapping[Any, Any]):
    """The entries of one state.

    An entry returned by `get` may be modified in place until the next `prefetch`; iteration returns copies.
    """

    _keys: KeyCodec
    _codec: EntryCodec

    def __init__(
        self, place: str, store: Callable[[], Store], keys: KeyCodec, groups: range, codec: EntryCodec, stored: bool
    ) -> None:
        super().__init__(place, store, keys, codec, stored)
        self._ranges = [keys.prefixes[group] for group in groups]
        self._average = AverageSize()
        self._wanted = True
        """Whether the last blocks used this table, so that prefetching pays off."""
        self._probes: list[Any] = []

    def value_view(self, backend: KeyedStateBackend, default: Any) -> CachedValueStateView:
        """Returns a state that accesses the cache itself."""
        return CachedValueStateView(backend, self, default, self._live, self._marked)

    # --- a block ---

    @property
    def size(self) -> int:
        """Returns the approximate size of the cache in bytes."""
        return int(len(self._live) * self._average.bytes)

    @property
    def may_prefetch(self) -> bool:
        """Returns whether there may be entries to fetch."""
        return self._stored

    def prefetch(self, keys: set[Any]) -> None:
        """Fetches the entries of keys that will be used."""
        if self._stored:
            self._fetch_unknown(keys)

    def measure(self, keys: Iterable[Any]) -> None:
        """Samples the entries of some keys in the cache for their size, before a block uses them."""
        self._gather()
        self._average.look_at(self._live_get(key, GONE) for key in keys)

    def _fetch_unknown(self, keys: set[Any]) -> None:
        unknown = keys.difference(self._live)
        self._note_use(len(keys))
        if not unknown or not self._wanted:
            return
        wanted = list(unknown)
        if len(wanted) > 16 * _PROBES:
            # Not prefetched, but fetched individually, which shows whether the table is used at all.
            self._probes = wanted[-_PROBES:]
            del wanted[-_PROBES:]
        for start in range(0, len(wanted), CHUNK):
            self._fetch(wanted[start : start + CHUNK])

    def _note_use(self, keys: int) -> None:
        if self._wanted:
            self._wanted = not self._probes or any(key in self._live for key in self._probes)
        else:
            self._wanted = self._loaded * 16 > keys
        self._probes = []
        self._loaded = 0

    def trim(self, fraction: float) -> None:
        """Evicts a fraction of what may be evicted while a block is processed; here nothing."""

    # --- all keys ---

    def __iter__(self) -> Iterator[Any]:
        return (decode_key(key, data) for key, data in self._raw())

    def __len__(self) -> int:
        return sum(1 for _ in self._raw())

    def __bool__(self) -> bool:
        return next(self._raw(), None) is not None

    def items(self) -> ItemsView[Any, Any]:
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        return _Values(self)

    def of_group(self, group: int) -> dict[Any, Any]:
        """Returns the entries of a key group."""
        self.flush()
        return dict(self._decoded(self._store().items(self._keys.prefixes[group]))) if self._stored else {}

    def scan(self) -> Iterator[tuple[Any, Any]]:
        """Yields all keys and entries, with few of them in memory at a time."""
        return self._decoded(self._raw())

    def _raw(self) -> Iterator[tuple[bytes, bytes]]:
        self.flush()
        if not self._stored:
            return iter(())
        store = self._store()
        return chain.from_iterable(map(store.items, self._ranges))

    def _raw_whole(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields the stored pairs of entries stored as a whole."""
        return self._raw()

    def _decoded(self, raw: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        while pairs := list(islice(raw, CHUNK)):
            keys = [decode_key(key, data) for key, data in pairs]
            yield from zip(keys, self._whole(keys, [data for _, data in pairs]))

    def _whole(self, keys: list[Any], data: list[bytes]) -> Iterable[Any]:
        """Returns copies of the entries of stored values."""
        return self._codec.decode(data)

    def update(self, other: Any = (), /, **entries: Any) -> None:
        """Sets many entries at once, bypassing the cache."""
        pairs = iter(dict(other, **entries).items() if entries or hasattr(other, "keys") else other)
        while chunk := dict(islice(pairs, CHUNK)):
            self._replace(chunk)
            self._put(list(chunk), list(chunk.values()))
            for key in chunk:
                self._live.pop(key, None)
            self._dirty.difference_update(chunk)

    def _replace(self, keys: Iterable[Any]) -> None:
        """Called before the entries of keys are replaced."""

    def clear(self) -> None:
        self._live.clear()
        self._dirty.clear()
        self._remove_ranges(self._ranges)
        self._stored = False

    def _remove_ranges(self, prefixes: list[bytes]) -> None:
        for prefix in prefixes if self._stored else ():
            self._store().remove_range(prefix, after(prefix))

    # --- other entries ---

    def rewrite(self, codec: EntryCodec, convert: Convert | None = None) -> None:
        """Changes the codec of the entries, and converts the existing ones."""
        if codec == self._codec and convert is None:
            return
        raw = self._raw_whole()
        before, self._codec = self._codec, codec
        self._live.clear()
        for pairs, entries in converted(raw, before, convert):
            self._put([decode_key(key, data) for key, data in pairs], entries)

    # --- expired entries ---

    def changed_keys(self) -> list[Any]:
        """Returns the keys whose entries in the cache may differ from RocksDB's."""
        return list(self._dirty)

    def clean_changed(self, keys: list[Any], live: TimeToLive, now: int) -> Cleaned:
        """Removes those of the entries in the cache that have expired."""
        entries = ((key, self._live_get(key, GONE)) for key in keys)
        times = [(key, NEVER if entry is GONE else self._last_use(entry)) for key, entry in entries]
        oldest = now - live.millis
        gone = [key for key, time in times if time <= oldest]
        for key in gone:
            del self._live[key]
        self._dirty.difference_update(gone)
        if gone and self._stored:
            self._store().write({}, self._keys.encode(gone))
        return Cleaned(len(gone), min((time for _, time in times if time > oldest), default=NEVER))

    def _last_use(self, entry: Any) -> int:
        """Returns when an entry in the cache was last used."""
        time: int = entry[1]
        return time

    def clean_stored(self, count: int, oldest: Callable[[], int]) -> Iterator[Cleaned]:
        """Looks at all entries in RocksDB, `count` at a time, and removes those last used at `oldest` or before."""
        for pairs in self._chunks(self._ranges, count):
            yield self._clean_pairs(pairs, oldest())

    def _chunks(self, prefixes: list[bytes], count: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yields the stored pairs of some ranges as they are when they are asked for."""
        for prefix in prefixes if self._stored and self._codec.expires else ():
            start: bytes | None = None
            while True:
                pairs = list(islice(self._store().items(prefix, start), count))
                if pairs:
                    yield pairs
                if len(pairs) < count:
                    break
                start = pairs[-1][0] + b"\0"

    def _clean_pairs(self, pairs: list[tuple[bytes, bytes]], oldest: int) -> Cleaned:
        times = list(map(self._stored_use, [data for _, data in pairs]))
        gone = []
        for (stored_key, data), time in zip(pairs, times):
            if time <= oldest:
                key = decode_key(stored_key, data)
                # A changed entry was looked at in the cache, or will be.
                if key not in self._dirty:
                    self._live.pop(key, None)
                    gone.append(stored_key)
        if gone:
            self._store().write({}, gone)
        return Cleaned(len(gone), min((time for time in times if time > oldest), default=NEVER))

    def _stored_use(self, stored: bytes) -> int:
        """Returns when an entry in RocksDB was last used."""
        return self._codec.last_used(stored)

    def flush_soon(self) -> None:
        """Lets RocksDB write what it has in memory to files, in the background."""
        self._store().flush_soon()


class _Items(ItemsView[Any, Any]):
    _mapping: CachedTable

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.scan()


class _Values(ValuesView[Any]):
    _mapping: CachedTable

    def __iter__(self) -> Iterator[Any]:
        return (entry for _, entry in self._mapping.scan())
