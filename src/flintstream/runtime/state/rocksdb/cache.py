"""EntryCache: caches entries of RocksDB as Python objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from sys import getsizeof
from typing import Any, Protocol

from flintstream.runtime.detach import PLAIN, is_plain
from flintstream.runtime.state.rocksdb.store import Store

CHUNK = 8192
"""The number of entries written or read at once."""
OVERHEAD = 100
"""The overhead of an entry in bytes: its key, and its places in a dict and a set."""


class _Mark:
    """A placeholder for an entry in the cache."""

    __slots__ = ()


UNKNOWN: Any = _Mark()
"""The key is not in the cache."""
GONE: Any = _Mark()
"""The key has no entry, or its entry is to be removed."""


class Keys(Protocol):
    """Encodes keys as stored keys."""

    def encode(self, keys: Sequence[Any]) -> list[bytes]: ...


class Codec(Protocol):
    """Encodes entries as stored values, and decodes them."""

    def encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]: ...

    def decode(self, stored: list[bytes]) -> list[Any]: ...


class EntryCache:
    """A cache of entries by key. Entries are read on access, and changes are flushed together.

    An entry returned by `get` may be modified in place while it is in the cache, so a mutable entry is written back
    once it was read.
    """

    def __init__(self, place: str, store: Callable[[], Store], keys: Keys, codec: Codec, stored: bool) -> None:
        self._place = place
        """Names the operator and the state in errors."""
        self._store = store
        self._keys = keys
        self._codec = codec
        self._stored = stored
        """Whether RocksDB may have entries."""
        # Neither the dict nor the list is ever replaced: others hold them.
        self._live: dict[Any, Any] = {}
        self._live_get = self._live.get
        self._gathered: set[Any] = set()
        self._marked: list[Any] = []
        """Dirty keys that are not among the gathered ones yet: many at once are cheaper to add to a large set."""
        self._mark_dirty = self._marked.append
        self._loaded = 0
        """The number of entries fetched individually."""

    @property
    def _dirty(self) -> set[Any]:
        """The dirty keys: their entries differ from RocksDB's, or may be modified in place."""
        self._gather()
        return self._gathered

    def _gather(self) -> None:
        """Gathers the marked keys; called once a block, so that they never become many."""
        self._gathered.update(self._marked)
        self._marked.clear()

    # --- one key ---

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._live_get(key, UNKNOWN)
        if value.__class__ in PLAIN:
            return value
        return self._get_other(key, value, default)

    def _get_other(self, key: Any, value: Any, default: Any) -> Any:
        if value is UNKNOWN:
            value = self._load(key)
        if value is GONE:
            return default
        if key not in self._dirty and not is_plain(value):
            self._mark_dirty(key)
        return value

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, UNKNOWN)
        if value is UNKNOWN:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._live[key] = value
        self._mark_dirty(key)

    def __contains__(self, key: Any) -> bool:
        value = self._live_get(key, UNKNOWN)
        if value is UNKNOWN:
            value = self._load(key)
        return value is not GONE

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self._live[key] = GONE
        self._mark_dirty(key)

    def _load(self, key: Any) -> Any:
        """Fetches the entry of one key."""
        if not self._stored:
            return GONE
        self._loaded += 1
        (stored,) = self._store().get(self._keys.encode([key]))
        value = self._live[key] = GONE if stored is None else self._decode([key], [stored])[0]
        return value

    def peek(self, key: Any, default: Any) -> Any:
        """Returns the entry of a key, without caching it or marking it dirty: the caller must not modify it."""
        value = self._live_get(key, UNKNOWN)
        if value is UNKNOWN:
            (stored,) = self._store().get(self._keys.encode([key])) if self._stored else (None,)
            value = GONE if stored is None else self._codec.decode([stored])[0]
        return default if value is GONE else value

    # --- many ---

    def _fetch(self, keys: list[Any]) -> None:
        """Fetches the entries of keys that are not in the cache."""
        key_of = dict(zip(self._keys.encode(keys), keys))
        ordered = sorted(key_of)
        present, data, absent = [], [], []
        for stored_key, value in zip(ordered, self._store().get(ordered)):
            if value is None:
                absent.append(key_of[stored_key])
            else:
                present.append(key_of[stored_key])
                data.append(value)
        self._live.update(zip(present, self._decode(present, data)))
        self._live.update(dict.fromkeys(absent, GONE))

    def evict(self, fraction: float, kept: Collection[Any] = ()) -> None:
        """Evicts a fraction of the cache, the oldest first, but none of the kept keys."""
        first = islice(self._live, int(len(self._live) * fraction) + 1)
        victims = [key for key in first if key not in kept]
        self._write_back(self._dirty.intersection(victims))
        for key in victims:
            del self._live[key]

    def flush(self) -> None:
        """Flushes all changes to RocksDB."""
        self._write_back(self._dirty.copy())

    def _write_back(self, keys: set[Any]) -> None:
        live = self._live
        remaining = iter(keys)
        while kept := list(islice(remaining, CHUNK)):
            entries = [live[key] for key in kept]
            gone: list[Any] = []
            if _Mark in set(map(type, entries)):
                gone = [key for key in kept if live[key] is GONE] if self._stored else []
                kept = [key for key in kept if live[key] is not GONE]
                entries = [live[key] for key in kept]
            self._put(kept, entries, gone)
        self._dirty.difference_update(keys)

    def _put(self, keys: list[Any], entries: list[Any], gone: Sequence[Any] = ()) -> None:
        data = self._encode(keys, entries)
        self._stored = self._stored or bool(keys)
        self._store().write(dict(zip(self._keys.encode(keys), data)), self._keys.encode(gone))

    # --- bytes ---

    def _decode(self, keys: list[Any], data: list[bytes]) -> list[Any]:
        return self._codec.decode(data)

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


class AverageSize:
    """Estimates the size of an entry in bytes from a sample."""

    _MEASURED = 4

    def __init__(self) -> None:
        self.bytes = float(OVERHEAD)

    def look_at(self, entries: Iterable[Any]) -> None:
        """Samples the first of the entries; those that are caches themselves report their size."""
        for entry in islice(entries, self._MEASURED):
            if not isinstance(entry, (_Mark, EntryCache)):
                self.bytes += (OVERHEAD + _bytes_of(entry) - self.bytes) / 16


def _bytes_of(value: Any, depth: int = 4) -> float:
    """Estimates how many bytes of memory a value takes, from a sample of its elements."""
    size: float = getsizeof(value)
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        members = value
    elif hasattr(value, "__dict__"):
        members = vars(value).values()
    if members and depth:
        some = list(islice(members, 32))
        size += sum(_bytes_of(member, depth - 1) for member in some) * len(members) / len(some)
    return size
