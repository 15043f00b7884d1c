"""CachedTable: a table of the RocksDB backend. Entries are Python objects in a cache, and bytes in RocksDB.

A block's keys are fetched together before it is processed, and changes are written back together when the cache is full or
a snapshot needs them. Between blocks entries stay in the cache, the ones that came first being the first to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, MutableMapping, Sequence, ValuesView
from itertools import chain, islice
from sys import getsizeof
from typing import Any

from flintstream.runtime.detach import PLAIN, is_plain
from flintstream.runtime.state.rocksdb_codec import EntryCodec, KeyCodec, after, decode_key
from flintstream.runtime.state.rocksdb_store import Store

_CHUNK = 8192
"""How many entries are written or read at once."""
_PROBES = 4
_MEASURED = 4
"""How many entries of each block are looked at how large they are."""
_OVERHEAD = 100
"""The bytes that an entry takes besides its value: its key, and its places in a dict and a set."""


class _Mark:
    """Stands for an entry in the cache."""

    __slots__ = ()


_UNKNOWN: Any = _Mark()
"""The key is not in the cache."""
_GONE: Any = _Mark()
"""Nothing is stored for the key, or what is stored is to be removed."""


class CachedTable(MutableMapping[Any, Any]):
    """From key to entry.

    What `get` gives may be changed in place until the next `prefetch`; what iterating gives is a copy.
    """

    def __init__(
        self, place: str, store: Callable[[], Store], keys: KeyCodec, groups: range, codec: EntryCodec, stored: bool
    ) -> None:
        self._place = place
        """Names the operator and the state in errors."""
        self._store = store
        self._keys = keys
        self._groups = groups
        self._codec = codec
        self._stored = stored
        """Whether RocksDB may have entries."""
        self._live: dict[Any, Any] = {}
        self._live_get = self._live.get
        self._dirty: set[Any] = set()
        """Keys in the cache whose entries RocksDB does not have as they are, or whose entries may be changed in place."""
        self._mark_dirty = self._dirty.add
        self._entry_bytes = float(_OVERHEAD)
        self._wanted = True
        """Whether the last blocks used this table, so that fetching ahead is worth it."""
        self._probes: list[Any] = []
        self._loaded = 0
        """How many entries were fetched one by one since the last block."""
        self._cleaned_to: tuple[int, bytes | None] = (0, None)

    # --- one key ---

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._live_get(key, _UNKNOWN)
        if value.__class__ in PLAIN:
            return value
        return self._get_other(key, value, default)

    def _get_other(self, key: Any, value: Any, default: Any) -> Any:
        if value is _UNKNOWN:
            value = self._load(key)
        if value is _GONE:
            return default
        if key not in self._dirty and not is_plain(value):
            self._mark_dirty(key)
        return value

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._live[key] = value
        self._mark_dirty(key)

    def __contains__(self, key: Any) -> bool:
        value = self._live_get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._load(key)
        return value is not _GONE

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self[key] = _GONE

    def _load(self, key: Any) -> Any:
        """Fetches the entry of one key."""
        if not self._stored:
            return _GONE
        self._loaded += 1
        (stored,) = self._store().get(self._keys.encode([key]))
        value = self._live[key] = _GONE if stored is None else self._codec.decode([stored])[0]
        return value

    # --- a block ---

    @property
    def size(self) -> int:
        """About how many bytes the cache takes."""
        return int(len(self._live) * self._entry_bytes)

    def prefetch(self, keys: set[Any]) -> None:
        """Fetches what is stored for keys that will be used."""
        if self._stored:
            self._fetch_unknown(keys)
        self._measure(keys)

    def _fetch_unknown(self, keys: set[Any]) -> None:
        unknown = keys.difference(self._live)
        self._look_at_use(len(keys))
        if not unknown or not self._wanted:
            return
        wanted = list(unknown)
        if len(wanted) > 16 * _PROBES:
            # Left to be fetched one by one: that tells whether the table is used at all.
            self._probes = wanted[-_PROBES:]
            del wanted[-_PROBES:]
        for start in range(0, len(wanted), _CHUNK):
            self._fetch(wanted[start : start + _CHUNK])

    def _look_at_use(self, keys: int) -> None:
        if self._wanted:
            self._wanted = not self._probes or any(key in self._live for key in self._probes)
        else:
            self._wanted = self._loaded * 16 > keys
        self._probes = []
        self._loaded = 0

    def _fetch(self, keys: list[Any]) -> None:
        key_of = dict(zip(self._keys.encode(keys), keys))
        ordered = sorted(key_of)
        present, data, absent = [], [], []
        for stored_key, value in zip(ordered, self._store().get(ordered)):
            if value is None:
                absent.append(key_of[stored_key])
            else:
                present.append(key_of[stored_key])
                data.append(value)
        self._live.update(zip(present, self._codec.decode(data)))
        self._live.update(dict.fromkeys(absent, _GONE))

    def evict(self, fraction: float, kept: set[Any]) -> None:
        """Lets a part of the cache go, the oldest first, but none of the kept keys."""
        first = islice(self._live, int(len(self._live) * fraction) + 1)
        victims = [key for key in first if key not in kept]
        self._write_back(self._dirty.intersection(victims))
        for key in victims:
            del self._live[key]

    def flush(self) -> None:
        """Writes all changes to RocksDB."""
        self._write_back(self._dirty.copy())

    def _write_back(self, keys: set[Any]) -> None:
        live = self._live
        remaining = iter(keys)
        while kept := list(islice(remaining, _CHUNK)):
            entries = [live[key] for key in kept]
            gone: list[Any] = []
            if _Mark in set(map(type, entries)):
                gone = [key for key in kept if live[key] is _GONE] if self._stored else []
                kept = [key for key in kept if live[key] is not _GONE]
                entries = [live[key] for key in kept]
            self._put(kept, entries, gone)
        self._dirty.difference_update(keys)

    def _put(self, keys: list[Any], entries: list[Any], gone: Sequence[Any] = ()) -> None:
        data = self._encode(keys, entries)
        self._stored = self._stored or bool(keys)
        self._store().write(dict(zip(self._keys.encode(keys), data)), self._keys.encode(gone))

    def _encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        try:
            return self._codec.encode(keys, entries)
        except Exception as error:
            raise ValueError(f"{self._place} cannot be written{self._culprit(keys, entries)}: {error}") from error

    def _culprit(self, keys: list[Any], entries: list[Any]) -> str:
        for key, entry in zip(keys, entries):
            try:
                self._codec.encode([key], [entry])
            except Exception:
                return f" for the key {key!r}"
        return ""

    def _measure(self, keys: Iterable[Any]) -> None:
        for key in islice(keys, _MEASURED):
            value = self._live_get(key, _GONE)
            if value is not _GONE:
                self._entry_bytes += (_OVERHEAD + _bytes_of(value) - self._entry_bytes) / 16

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
        """What is stored for the keys of a key group."""
        self.flush()
        return dict(self._decoded(self._store().items(self._keys.prefixes[group]))) if self._stored else {}

    def scan(self) -> Iterator[tuple[Any, Any]]:
        """All keys and entries, a few of them in memory at a time."""
        return self._decoded(self._raw())

    def _raw(self) -> Iterator[tuple[bytes, bytes]]:
        self.flush()
        if not self._stored:
            return iter(())
        store = self._store()
        return chain.from_iterable(store.items(self._keys.prefixes[group]) for group in self._groups)

    def _decoded(self, raw: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        while pairs := list(islice(raw, _CHUNK)):
            entries = self._codec.decode([data for _, data in pairs])
            yield from zip((decode_key(key, data) for key, data in pairs), entries)

    def update(self, other: Any = (), /, **entries: Any) -> None:
        """Sets many at once, past the cache."""
        pairs = iter(dict(other, **entries).items() if entries or hasattr(other, "keys") else other)
        while chunk := dict(islice(pairs, _CHUNK)):
            self._put(list(chunk), list(chunk.values()))
            for key in chunk:
                self._live.pop(key, None)
            self._dirty.difference_update(chunk)

    def clear(self) -> None:
        self._live.clear()
        self._dirty.clear()
        if self._stored:
            for group in self._groups:
                prefix = self._keys.prefixes[group]
                self._store().remove_range(prefix, after(prefix))
            self._stored = False

    # --- other entries ---

    def rewrite(self, codec: EntryCodec, convert: Callable[[list[Any]], Iterable[Any]] | None = None) -> None:
        """From now on entries are written in another way; converts those that there are."""
        if codec == self._codec and convert is None:
            return
        raw = self._raw()
        before, self._codec = self._codec, codec
        self._live.clear()
        while pairs := list(islice(raw, _CHUNK)):
            entries = before.decode([data for _, data in pairs])
            changed = entries if convert is None else list(convert(entries))
            self._put([decode_key(key, data) for key, data in pairs], changed)

    def clean(self, entries: int, oldest: int) -> None:
        """Looks at so many entries in RocksDB, further on each time, and removes those last used at `oldest` or before."""
        if not self._stored or not self._codec.expires:
            return
        index, start = self._cleaned_to
        prefix = self._keys.prefixes[self._groups[index]]
        pairs = list(islice(self._store().items(prefix, start), entries))
        live, last_used = self._live, self._codec.last_used
        expired = [key for key, data in pairs if last_used(data) <= oldest and decode_key(key, data) not in live]
        if expired:
            self._store().write({}, expired)
        if len(pairs) < entries:
            self._cleaned_to = ((index + 1) % len(self._groups), None)
        else:
            self._cleaned_to = (index, pairs[-1][0] + b"\0")


class _Items(ItemsView[Any, Any]):
    _mapping: CachedTable

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.scan()


class _Values(ValuesView[Any]):
    _mapping: CachedTable

    def __iter__(self) -> Iterator[Any]:
        return (entry for _, entry in self._mapping.scan())


def _bytes_of(value: Any, depth: int = 4) -> float:
    """About how many bytes of memory a value takes. Of many elements some are looked at."""
    size: float = getsizeof(value)
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        parts = value
    elif hasattr(value, "__dict__"):
        parts = vars(value).values()
    if parts and depth:
        some = list(islice(parts, 32))
        size += sum(_bytes_of(part, depth - 1) for part in some) * len(parts) / len(some)
    return size
