"""PartedTable: a table of the RocksDB backend whose entries are maps or lists.

A small one is one entry, read and written as a whole, which costs least. A large one is stored in parts: an entry of a map
is then read and written by itself, and a list added to without reading it, at a cost that does not depend on the size. What
is in parts stays so until it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any

from flintstream.runtime.state.rocksdb.cache import CHUNK, GONE, UNKNOWN, AverageSize
from flintstream.runtime.state.rocksdb.codec import (
    EntryCodec,
    KeyCodec,
    after,
    decode_key,
    decode_numbers,
    is_in_parts,
    parts_of_state,
    parts_prefix,
    whole_key,
)
from flintstream.runtime.state.rocksdb.parts import ListParts, MapParts, Parts, map_part
from flintstream.runtime.state.rocksdb.store import Store
from flintstream.runtime.state.rocksdb.table import CachedTable

_PARTS_BYTES = 2000
"""What parts take besides what is in them."""


class PartedTable(CachedTable):
    """From key to a dict or list, or to its `Parts`, which offer what the states of functions need of a dict or list."""

    most_entries = 1024
    most_bytes = 4096
    """What has more entries or elements, or takes more bytes when it is written, is stored in parts."""

    def __init__(
        self,
        place: str,
        store: Callable[[], Store],
        keys: KeyCodec,
        groups: range,
        codec: EntryCodec,
        stored: bool,
        make_room: Callable[[], None],
    ) -> None:
        """`make_room` is called while a block is processed, when many parts were read: it may call `trim`."""
        super().__init__(place, store, keys, groups, codec, stored)
        self._backend_makes_room = make_room
        self._kind: type[Parts] = MapParts if codec.kind == "map" else ListParts
        self._parts: dict[Any, Parts] = {}
        """What is in parts, of the keys in the cache."""
        self._in_use: dict[Any, Parts] = {}
        """What was asked for since parts were counted."""
        self._cached = 0
        """How many parts are in their caches."""
        self._average_part = AverageSize()
        self._cleaned_parts_to: tuple[int, bytes | None] = (0, None)

    # --- one key ---

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._live_get(key, UNKNOWN)
        if value is UNKNOWN:
            value = self._load(key)
        if value is GONE:
            return default
        self._mark_dirty(key)
        if value.__class__ is self._kind:
            self._in_use[key] = value
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._drop_parts(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._drop_parts(key)
        super().__delitem__(key)

    def _drop_parts(self, key: Any) -> None:
        if key not in self._live:
            self._load(key)
        parts = self._parts.pop(key, None)
        if parts is not None:
            self._in_use.pop(key, None)
            self._cached -= parts.counted
            parts.drop()

    def look_at_size(self, key: Any) -> None:
        """Called when something was added for a key: what has become large goes on in parts."""
        entry = self._live_get(key)
        if isinstance(entry, (dict, list)) and len(entry) > self.most_entries:
            self._live[key] = self._parts[key] = self._in_use[key] = self._divide(key, entry)
            self._make_room()

    def _divide(self, key: Any, entry: Any) -> Parts:
        (stored_key,) = self._keys.encode([key])
        parts = self._kind(self._place, self._store, self._codec, key, stored_key, self._make_room)
        parts.take(entry)
        return parts

    # --- a block ---

    @property
    def size(self) -> int:
        parts = len(self._parts) * _PARTS_BYTES + int(self._cached * self._average_part.bytes)
        return super().size + parts

    def prefetch(self, keys: set[Any]) -> None:
        self._count_parts()
        self._in_use.clear()
        super().prefetch(keys)

    def _count_parts(self) -> None:
        for parts in self._in_use.values():
            self._cached += parts.cached - parts.counted
            parts.counted = parts.cached
            self._average_part.look_at(parts.latest())

    def _make_room(self) -> None:
        self._count_parts()
        self._backend_makes_room()

    def evict(self, fraction: float, kept: Collection[Any] = ()) -> None:
        super().evict(fraction, kept)
        self._parts = {key: parts for key, parts in self._parts.items() if key in self._live}
        self._in_use.clear()
        self.trim(fraction)

    def trim(self, fraction: float) -> None:
        for parts in self._parts.values():
            parts.evict(fraction)
            parts.counted = parts.cached
        self._cached = sum(parts.counted for parts in self._parts.values())

    # --- bytes ---

    def _decode(self, keys: list[Any], data: list[bytes]) -> list[Any]:
        found = self._entries_of(keys, data)
        self._parts.update((key, entry) for key, entry in zip(keys, found) if isinstance(entry, Parts))
        return found

    def _whole(self, keys: list[Any], data: list[bytes]) -> Iterable[Any]:
        return (entry.whole() if isinstance(entry, Parts) else entry for entry in self._entries_of(keys, data))

    def _entries_of(self, keys: list[Any], data: list[bytes]) -> list[Any]:
        if not any(map(is_in_parts, data)):
            return self._codec.decode(data)
        whole = iter(self._codec.decode([each for each in data if not is_in_parts(each)]))
        return [self._stored_parts(key, each) if is_in_parts(each) else next(whole) for key, each in zip(keys, data)]

    def _stored_parts(self, key: Any, data: bytes) -> Parts:
        (stored_key,) = self._keys.encode([key])
        numbers = decode_numbers(data)
        return self._kind(self._place, self._store, self._codec, key, stored_key, self._make_room, numbers)

    def _encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        whole = [(key, entry) for key, entry in zip(keys, entries) if not isinstance(entry, Parts)]
        written = iter(super()._encode([key for key, _ in whole], [entry for _, entry in whole]))
        data = []
        for key, entry in zip(keys, entries):
            parts = entry
            if not isinstance(entry, Parts):
                each = next(written)
                if len(each) <= self.most_bytes or len(entry) < 2:
                    data.append(each)
                    continue
                parts = self._divide(key, entry)
                if self._live_get(key) is entry:
                    self._live[key] = self._parts[key] = self._in_use[key] = parts
            parts.flush()
            data.append(parts.numbers())
        return data

    # --- all keys ---

    def _replace(self, keys: Iterable[Any]) -> None:
        if self._stored:
            self._fetch([key for key in keys if key not in self._live])
        for key in keys:
            self._drop_parts(key)

    def clear(self) -> None:
        if self._stored:
            for prefix in self._parts_prefixes():
                self._store().remove_range(prefix, after(prefix))
        self._parts.clear()
        self._in_use.clear()
        self._cached = 0
        super().clear()

    def _parts_prefixes(self) -> Iterator[bytes]:
        return (parts_of_state(self._keys.prefixes[group]) for group in self._groups)

    def _raw_whole(self) -> Iterator[tuple[bytes, bytes]]:
        return (pair for pair in self._raw() if not is_in_parts(pair[1]))

    def rewrite(self, codec: EntryCodec, convert: Callable[[list[Any]], Iterable[Any]] | None = None) -> None:
        before = self._codec
        if codec == before and convert is None:
            return
        self.flush()
        self._parts.clear()
        self._in_use.clear()
        self._cached = 0
        for prefix in self._parts_prefixes() if self._stored else ():
            raw = self._store().items(prefix)
            while pairs := list(islice(raw, CHUNK)):
                entries = before.decode([data for _, data in pairs])
                changed = entries if convert is None else list(convert(entries))
                keys = self._part_keys([key for key, _ in pairs], changed)
                data = codec.encode([0] * len(keys), changed)
                self._store().write(dict(zip(keys, data)), {key for key, _ in pairs}.difference(keys))
        # Behind the parts, since what is large now is divided into parts that are written anew already.
        super().rewrite(codec, convert)

    def _part_keys(self, stored: list[bytes], entries: list[Any]) -> list[bytes]:
        """The stored keys of parts with other content: the keys of a map may have changed."""
        if self._kind is ListParts:
            return stored
        return [parts_prefix(whole_key(key)) + map_part(next(iter(entry))) for key, entry in zip(stored, entries)]

    # --- clean-up ---

    def clean(self, entries: int, oldest: int) -> None:
        super().clean(entries, oldest)
        if not self._stored or not self._codec.expires:
            return
        index, start = self._cleaned_parts_to
        prefix = parts_of_state(self._keys.prefixes[self._groups[index]])
        pairs = list(islice(self._store().items(prefix, start), entries))
        for stored_key, data in pairs:
            if self._codec.last_used(data) <= oldest:
                self._expire(stored_key, data)
        if len(pairs) < entries:
            self._cleaned_parts_to = ((index + 1) % len(self._groups), None)
        else:
            self._cleaned_parts_to = (index, pairs[-1][0] + b"\0")

    def _expire(self, stored_key: bytes, data: bytes) -> None:
        whole = whole_key(stored_key)
        (numbers,) = self._store().get([whole])
        if numbers is None:
            # Not written yet, so it was used lately.
            return
        key = decode_key(whole, numbers)
        parts = self.get(key)
        if isinstance(parts, Parts):
            parts.expire(stored_key, data)
            if not parts:
                del self[key]

    def _has_expired(self, stored: bytes, oldest: int) -> bool:
        return not is_in_parts(stored) and super()._has_expired(stored, oldest)
