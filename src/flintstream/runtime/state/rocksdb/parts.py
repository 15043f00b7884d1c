"""Parts: a large map or list of one key in RocksDB, of which each part is read and written by itself."""

from __future__ import annotations

import marshal
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from flintstream.common.canonical_keys import canonical_key
from flintstream.common.keys import key_bytes
from flintstream.runtime.detach import PLAIN, is_plain
from flintstream.runtime.state.rocksdb.cache import GONE, EntryCache, Keys
from flintstream.runtime.state.rocksdb.codec import EntryCodec, encode_numbers, parts_prefix
from flintstream.runtime.state.rocksdb.store import Store

_CHUNK = 64
"""How many parts are read at once when all are."""
_LOOK_EVERY = 1024
"""After so many parts that were not in the cache it is looked whether there is room for more."""
_FEW, _FEW_BYTES = 4096, 1 << 20
"""So few entries or elements, of so few bytes, are kept in the cache when all are read."""
_ELEMENTS = 128
"""The most elements of a list in one part."""
_NONE = marshal.dumps(None, 2)
_SIMPLE = frozenset((int, str, bytes))

RawPairs = Iterable[tuple[bytes, bytes]]


def map_part(key: Any) -> bytes:
    """What tells the entry of a map in its stored key. Unlike other keys, those of a map may be None, and any NaN."""
    if key is None:
        return _NONE
    return key_bytes(key if key.__class__ in _SIMPLE else canonical_key(key))


class Parts(EntryCache, ABC):
    """The parts of one key, those used lately in a cache: from what tells a part to what is in it.

    Where all are in the cache, nothing is read any more. What was given may be changed in place until the block at hand is
    processed, or so many other parts were used that the cache was full.
    """

    _codec: EntryCodec

    def __init__(
        self,
        place: str,
        store: Callable[[], Store],
        codec: EntryCodec,
        key: Any,
        stored_key: bytes,
        make_room: Callable[[], None],
        numbers: tuple[int, int] | None = None,
    ) -> None:
        """`numbers` are those of parts that RocksDB has."""
        place = f"{place} of the key {key!r}"
        self._prefix = parts_prefix(stored_key)
        super().__init__(place, store, self._part_keys(place, self._prefix), codec, numbers is not None)
        self._key = key
        self._make_room = make_room
        self._count, self._following = numbers or (0, 0)
        self._complete = numbers is None
        """Whether all parts are in the cache."""
        self._changes = 0
        """How often a part was set or removed."""
        self._looked = 0
        self.counted = 0
        """How many parts the table counts as those in the cache."""

    @property
    def cached(self) -> int:
        """How many parts are in the cache."""
        return len(self._live)

    def latest(self) -> Iterator[Any]:
        """What is in the parts that are in the cache, those that came last first."""
        return reversed(self._live.values())

    def __len__(self) -> int:
        return self._count

    def numbers(self) -> bytes:
        """What is stored for the key itself."""
        return encode_numbers(self._key, self._count, self._following)

    # --- what a map and a list differ in ---

    @staticmethod
    @abstractmethod
    def _part_keys(place: str, prefix: bytes) -> Keys:
        """The stored keys of parts."""

    @abstractmethod
    def take(self, entry: Any) -> None:
        """Takes over what was stored whole; there are no parts yet."""

    @abstractmethod
    def whole(self) -> Any:
        """A copy of all of it."""

    @abstractmethod
    def _pairs(self, raw: RawPairs) -> Iterable[tuple[Any, Any]]:
        """What tells a part and what is in it, from what is stored."""

    def _weight(self, content: Any) -> int:
        """How many entries or elements are in a part."""
        return 1

    def _can_change(self, content: Any) -> bool:
        return not (content.__class__ in PLAIN or is_plain(content))

    # --- one part ---

    def _load(self, key: Any) -> Any:
        self._look_at_room()
        return GONE if self._complete else super()._load(key)

    def _look_at_room(self) -> None:
        self._looked += 1
        if not self._looked % _LOOK_EVERY:
            self._make_room()

    def _culprit(self, keys: list[Any], entries: list[Any]) -> str:
        return ""

    def expire(self, stored_key: bytes, data: bytes) -> None:
        """Removes a part that has expired, unless it is in the cache."""
        ((part, content),) = self._pairs([(stored_key, data)])
        if part not in self._live:
            self._live[part] = GONE
            self._mark_dirty(part)
            self._changes += 1
            self._count -= self._weight(content)

    # --- all parts ---

    def evict(self, fraction: float, kept: Collection[Any] = ()) -> None:
        self._complete = self._complete and not self._live
        super().evict(fraction, kept)

    def drop(self) -> None:
        """Removes everything."""
        self._live.clear()
        self._dirty.clear()
        self._count = 0
        self._complete = True
        self._changes += 1
        if self._stored:
            self._store().remove_all(self._prefix)
            self._stored = False

    def _write_back(self, keys: set[Any]) -> None:
        super()._write_back(keys)
        if self._complete:
            for part in keys:
                if self._live[part] is GONE:
                    del self._live[part]

    def _write_for_reading(self) -> None:
        """Writes all changes; what may still be changed in place stays marked."""
        written = self._dirty.copy()
        self._write_back(written)
        contents = ((part, self._live_get(part, GONE)) for part in written)
        self._dirty.update(part for part, content in contents if content is not GONE and self._can_change(content))

    def contents(self, shared: bool = True) -> Iterable[tuple[Any, Any]]:
        """All parts as they are now; if they are `shared`, what is in them may be changed in place as far as the cache goes.

        Where not all are in the cache, they are read while they are iterated over. Iterated over again, these are the parts
        as they are then.
        """
        if not self._complete and self._count <= _FEW:
            self._fill()
        if not self._complete:
            return _Contents(self, shared)
        found = [(part, content) for part, content in self._live.items() if content is not GONE]
        if shared and not PLAIN.issuperset(map(type, self._live.values())):
            self._dirty.update(part for part, content in found if self._can_change(content))
        return found

    def _fill(self) -> None:
        """Reads all parts into the cache, if they are not too large."""
        self._write_for_reading()
        taken, size = [], 0
        for pair in self._raw():
            taken.append(pair)
            size += len(pair[1])
            if size > _FEW_BYTES:
                return
        for part, content in self._pairs(taken):
            self._live.setdefault(part, content)
        self._complete = True

    def _raw(self) -> Iterator[tuple[bytes, bytes]]:
        return self._store().items(self._prefix) if self._stored else iter(())

    def _copies(self) -> Iterator[tuple[Any, Any]]:
        return iter(_Contents(self, shared=False))

    def raw_contents(self) -> tuple[int, Iterator[tuple[bytes, bytes]]]:
        """The number of changes until now, and what is stored for all parts as they are now."""
        self._write_for_reading()
        return self._changes, self._raw()

    def read(self, shared: bool, changes: int, raw: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        """The parts of what `raw_contents` gave."""
        while pairs := list(islice(raw, _CHUNK)):
            found = self._pairs(pairs)
            if not shared:
                yield from found
                continue
            for (part, content), (_, data) in zip(found, pairs):
                yield part, self._shared(part, content, data, changes) if self._can_change(content) else content

    def _shared(self, part: Any, content: Any, data: bytes, changes: int) -> Any:
        """What the cache has for a part that was read, if it is that still: only there it can be changed in place."""
        if self._changes == changes:
            if part not in self._live:
                self._look_at_room()
                self._live[part] = content
            return self.get(part)
        current = self.get(part, GONE)
        return current if current is not GONE and self._encode([part], [current]) == [data] else content


class _Contents:
    """All parts of what does not fit into the cache."""

    def __init__(self, parts: Parts, shared: bool) -> None:
        self._parts = parts
        self._shared = shared
        self._count = len(parts)
        self._now: Any = parts.raw_contents()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        now, self._now = self._now or self._parts.raw_contents(), None
        return self._parts.read(self._shared, *now)


class _MapKeys:
    def __init__(self, place: str, prefix: bytes) -> None:
        self._place = place
        self._prefix = prefix

    def encode(self, keys: Sequence[Any]) -> list[bytes]:
        prefix = self._prefix
        try:
            return [prefix + map_part(key) for key in keys]
        except TypeError as error:
            raise TypeError(f"{self._place} is a large map, which is stored entry by entry: {error}") from error


class _Numbers:
    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix

    def encode(self, keys: Sequence[Any]) -> list[bytes]:
        return [self._prefix + key.to_bytes(8, "big") for key in keys]


class MapParts(Parts, MutableMapping[Any, Any]):
    """A map: each entry is a part, told by its key."""

    @staticmethod
    def _part_keys(place: str, prefix: bytes) -> Keys:
        return _MapKeys(place, prefix)

    def take(self, entry: dict[Any, Any]) -> None:
        self._live.update(entry)
        self._dirty.update(entry)
        self._count = len(entry)

    def whole(self) -> dict[Any, Any]:
        return dict(self._copies())

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.contents())

    def __setitem__(self, key: Any, value: Any) -> None:
        if key not in self:
            self._count += 1
        self._changes += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._changes += 1
        self._count -= 1

    def _encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        return super()._encode([0] * len(keys), [{key: value} for key, value in zip(keys, entries)])

    def _decode(self, keys: list[Any], data: list[bytes]) -> list[Any]:
        return [value for entry in self._codec.decode(data) for value in entry.values()]

    def _pairs(self, raw: RawPairs) -> Iterable[tuple[Any, Any]]:
        return [pair for entry in self._codec.decode([data for _, data in raw]) for pair in entry.items()]


class ListParts(Parts):
    """A list: a part is some elements that follow each other, told by a number."""

    @staticmethod
    def _part_keys(place: str, prefix: bytes) -> Keys:
        return _Numbers(prefix)

    def take(self, entry: list[Any]) -> None:
        self.extend(entry)

    def whole(self) -> list[Any]:
        return [element for _, elements in self._copies() for element in elements]

    def append(self, value: Any) -> None:
        """Adds an element behind the others, without reading them."""
        last = self._live_get(self._following - 1, GONE)
        if last is GONE or len(last) >= _ELEMENTS:
            self.extend((value,))
            return
        last.append(value)
        self._mark_dirty(self._following - 1)
        self._changes += 1
        self._count += 1

    def extend(self, values: Sequence[Any]) -> None:
        """Adds elements behind the others, without reading them."""
        last = self._live_get(self._following - 1, GONE)
        room = 0 if last is GONE else _ELEMENTS - len(last)
        if room > 0:
            last.extend(values[:room])
            self._mark_dirty(self._following - 1)
        for start in range(max(room, 0), len(values), _ELEMENTS):
            self._look_at_room()
            self._live[self._following] = list(values[start : start + _ELEMENTS])
            self._mark_dirty(self._following)
            self._following += 1
        self._changes += 1
        self._count += len(values)

    def __iter__(self) -> Iterator[Any]:
        contents = self.contents()
        if isinstance(contents, list):
            contents.sort(key=itemgetter(0))
            return iter([element for _, elements in contents for element in elements])
        # Copies, since the last part may grow meanwhile.
        return chain.from_iterable(list(elements) for _, elements in contents)

    def _encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        return super()._encode([0] * len(keys), entries)

    def _pairs(self, raw: RawPairs) -> Iterable[tuple[Any, Any]]:
        pairs = list(raw)
        numbers = [int.from_bytes(key[-8:], "big") for key, _ in pairs]
        return zip(numbers, self._codec.decode([data for _, data in pairs]))

    def _weight(self, content: Any) -> int:
        return len(content)

    def _can_change(self, content: Any) -> bool:
        return not PLAIN.issuperset(map(type, content)) and not all(map(is_plain, content))
