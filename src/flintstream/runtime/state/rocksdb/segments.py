"""Segments: a large map or list of one key, stored in segments that are read and written separately.

A segment of a map is one entry, identified by its key; a segment of a list is a run of elements, identified by its
number.
"""

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
from flintstream.runtime.state.rocksdb.cache import GONE, EntryCache
from flintstream.runtime.state.rocksdb.codec import EntryCodec, encode_header, segments_of_key
from flintstream.runtime.state.rocksdb.store import RawPairs, Store

_CHUNK = 64
"""The number of segments read at once when all are read."""
_CHECK_EVERY = 1024
"""The number of cache misses after which the size of the caches is checked."""
_FEW, _FEW_BYTES = 4096, 1 << 20
"""The most entries or elements, and the most bytes of them, that are kept in the cache when all are read."""
_ELEMENTS = 128
"""The most elements of a list in one segment."""
_NONE = marshal.dumps(None, 2)
_SIMPLE = frozenset((int, str, bytes))

Pairs = Iterable[tuple[Any, Any]]
Pick = Callable[[Pairs], Iterator[Any]]


def map_segment(key: Any) -> bytes:
    """Returns the suffix of the stored key of a map's entry. Unlike other keys, a map key may be None or any NaN."""
    if key is None:
        return _NONE
    return key_bytes(key if key.__class__ in _SIMPLE else canonical_key(key))


def each_pair(pairs: Pairs) -> Iterator[Any]:
    """Yields segments with their identifiers: the items of a map."""
    return iter(pairs)


def each_key(pairs: Pairs) -> Iterator[Any]:
    """Yields the identifiers of segments: the keys of a map."""
    return (key for key, _ in pairs)


def each_value(pairs: Pairs) -> Iterator[Any]:
    """Yields the contents of segments: the values of a map."""
    return (value for _, value in pairs)


class _SegmentKeys:
    """Encodes the identifiers of one key's segments as stored keys."""

    def __init__(self, place: str, stored_key: bytes, suffix: Callable[[Any], bytes]) -> None:
        self._place = place
        self.prefix = segments_of_key(stored_key)
        self._suffix = suffix

    def encode(self, keys: Sequence[Any]) -> list[bytes]:
        prefix, suffix = self.prefix, self._suffix
        try:
            return [prefix + suffix(key) for key in keys]
        except TypeError as error:
            raise TypeError(f"{self._place} is a large map, which is stored entry by entry: {error}") from error


class Segments(EntryCache, ABC):
    """The segments of one key, by their identifiers, with the recently used ones in a cache.

    While all are in the cache, nothing is read. The content of a segment may be modified in place until the end of the
    block, or until the segment is evicted because many others were used.
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
        header: tuple[int, int] | None = None,
    ) -> None:
        """`header` is the one stored in RocksDB; None if there are no segments yet."""
        place = f"{place} of the key {key!r}"
        stored_keys = _SegmentKeys(place, stored_key, self._suffix)
        super().__init__(place, store, stored_keys, codec, header is not None)
        # Nobody gathers what segments mark block by block.
        self._mark_dirty = self._gathered.add
        self._prefix = stored_keys.prefix
        self._key = key
        self._make_room = make_room
        self._count, self._following = header or (0, 0)
        self._complete = header is None
        """Whether all segments are in the cache."""
        self._changes = 0
        """The number of times a segment was set or removed."""
        self._misses = 0
        self.counted = 0
        """The number of cached segments that the table has counted."""

    @property
    def cached(self) -> int:
        """Returns the number of segments in the cache."""
        return len(self._live)

    def latest(self) -> Iterator[Any]:
        """Returns the contents of the segments in the cache, the newest first."""
        return reversed(self._live.values())

    def __len__(self) -> int:
        return self._count

    def header(self) -> bytes:
        """Returns the stored value of the key itself."""
        return encode_header(self._key, self._count, self._following)

    # --- where a map and a list differ ---

    @staticmethod
    @abstractmethod
    def _suffix(key: Any) -> bytes:
        """Returns the suffix of the stored key of a segment."""

    @abstractmethod
    def take(self, entry: Any) -> None:
        """Divides an entry that was stored as a whole into segments; there are none yet."""

    @abstractmethod
    def whole(self) -> Any:
        """Returns a copy of the whole map or list."""

    @abstractmethod
    def peek_whole(self) -> Any:
        """Returns the whole map or list without writing or caching anything: the caller must not modify it."""

    def _peek_all(self) -> dict[bytes, tuple[Any, Any]]:
        """Returns all segments with their identifiers, by stored suffix: those in the cache replace stored ones."""
        found = {}
        if not self._complete:
            raw = self._raw()
            while chunk := list(islice(raw, _CHUNK)):
                found.update(
                    {self._suffix(segment): (segment, content) for segment, content in self._identified(chunk)}
                )
        for segment, content in self._live.items():
            if content is GONE:
                found.pop(self._suffix(segment), None)
            else:
                found[self._suffix(segment)] = segment, content
        return found

    @abstractmethod
    def _identified(self, raw: RawPairs) -> Pairs:
        """Decodes stored segments; returns them with their identifiers."""

    def _weight(self, content: Any) -> int:
        """Returns the number of entries or elements in a segment."""
        return 1

    def _is_mutable(self, content: Any) -> bool:
        return not (content.__class__ in PLAIN or is_plain(content))

    # --- one segment ---

    def _load(self, key: Any) -> Any:
        self._count_miss()
        return GONE if self._complete else super()._load(key)

    def _count_miss(self) -> None:
        self._misses += 1
        if not self._misses % _CHECK_EVERY:
            self._make_room()

    def _culprit(self, keys: list[Any], entries: list[Any]) -> str:
        return ""

    def expire(self, stored_key: bytes, data: bytes) -> None:
        """Removes a segment that has expired, unless it was changed in the cache."""
        ((segment, content),) = self._identified([(stored_key, data)])
        if segment not in self._dirty and self._live.get(segment) is not GONE:
            self._live[segment] = GONE
            self._mark_dirty(segment)
            self._changes += 1
            self._count -= self._weight(content)

    # --- all segments ---

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
            for segment in keys:
                if self._live[segment] is GONE:
                    del self._live[segment]

    def _write_for_reading(self) -> None:
        """Writes all changes; contents that may still be modified in place stay dirty."""
        written = self._dirty.copy()
        self._write_back(written)
        contents = ((segment, self._live_get(segment, GONE)) for segment in written)
        self._dirty.update(name for name, content in contents if content is not GONE and self._is_mutable(content))

    def contents(self, pick: Pick = each_pair, shared: bool = True, picks_all: bool = True) -> Iterable[Any]:
        """Returns the picked items, keys or values of all segments as they are now.

        If `shared`, contents in the cache may be modified in place. Segments that are not in the cache are read during
        iteration; a second iteration reads them as they are then.
        """
        if not self._complete and self._count <= _FEW:
            self._fill()
        if not self._complete:
            return _Contents(self, pick, shared, picks_all)
        found = [(segment, content) for segment, content in self._live.items() if content is not GONE]
        if shared and not PLAIN.issuperset(map(type, self._live.values())):
            self._dirty.update(segment for segment, content in found if self._is_mutable(content))
        return found if pick is each_pair else list(pick(found))

    def _fill(self) -> None:
        """Reads all segments into the cache, if they are not too large."""
        self._write_for_reading()
        taken, size = [], 0
        for pair in self._raw():
            taken.append(pair)
            size += len(pair[1])
            if size > _FEW_BYTES:
                return
        for segment, content in self._identified(taken):
            self._live.setdefault(segment, content)
        self._complete = True

    def _raw(self) -> Iterator[tuple[bytes, bytes]]:
        return self._store().items(self._prefix) if self._stored else iter(())

    def _copies(self) -> Iterator[Any]:
        return iter(_Contents(self, each_pair, shared=False))

    def snapshot(self, shared: bool) -> Iterator[tuple[Any, Any]]:
        """Returns all segments as they are now, read during iteration."""
        self._write_for_reading()
        return self._read(shared, self._changes, self._raw())

    def _read(self, shared: bool, changes: int, raw: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        while chunk := list(islice(raw, _CHUNK)):
            found = self._identified(chunk)
            if not shared:
                yield from found
                continue
            for (segment, content), (_, data) in zip(found, chunk):
                yield segment, self._shared(segment, content, data, changes) if self._is_mutable(content) else content

    def _shared(self, segment: Any, content: Any, data: bytes, changes: int) -> Any:
        """Returns the cached content of a segment that was read, unless it has changed: only that can be modified."""
        if self._changes == changes:
            if segment not in self._live:
                self._count_miss()
                self._live[segment] = content
            return self.get(segment)
        current = self.get(segment, GONE)
        return current if current is not GONE and self._encode([segment], [current]) == [data] else content


class _Contents:
    """All segments of a map or list that does not fit into the cache."""

    def __init__(self, segments: Segments, pick: Pick, shared: bool, picks_all: bool = True) -> None:
        self._segments = segments
        self._pick = pick
        self._shared = shared
        self._count = len(segments) if picks_all else None
        self._now: Iterator[Any] | None = segments.snapshot(shared)

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._count is None else self._count

    def __iter__(self) -> Iterator[Any]:
        now, self._now = self._now, None
        return self._pick(self._segments.snapshot(self._shared) if now is None else now)


class SegmentedMap(Segments, MutableMapping[Any, Any]):
    """A map: each entry is a segment."""

    _suffix = staticmethod(map_segment)

    def take(self, entry: dict[Any, Any]) -> None:
        self._live.update(entry)
        self._dirty.update(entry)
        self._count = len(entry)

    def whole(self) -> dict[Any, Any]:
        return dict(self._copies())

    def peek_whole(self) -> dict[Any, Any]:
        return dict(self._peek_all().values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.contents(each_key, shared=False))

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

    def _identified(self, raw: RawPairs) -> Pairs:
        return [pair for entry in self._codec.decode([data for _, data in raw]) for pair in entry.items()]


class SegmentedList(Segments):
    """A list: each run of elements is a segment."""

    @staticmethod
    def _suffix(key: int) -> bytes:
        return key.to_bytes(8, "big")

    def take(self, entry: list[Any]) -> None:
        self.extend(entry)

    def whole(self) -> list[Any]:
        return [element for _, elements in self._copies() for element in elements]

    def peek_whole(self) -> list[Any]:
        segments = sorted(self._peek_all().values(), key=itemgetter(0))
        return [element for _, elements in segments for element in elements]

    def append(self, value: Any) -> None:
        """Appends an element, without reading the others."""
        last = self._live_get(self._following - 1, GONE)
        if last is GONE or len(last) >= _ELEMENTS:
            self.extend((value,))
            return
        last.append(value)
        self._mark_dirty(self._following - 1)
        self._changes += 1
        self._count += 1

    def extend(self, values: Sequence[Any]) -> None:
        """Appends elements, without reading the others."""
        last = self._live_get(self._following - 1, GONE)
        room = 0 if last is GONE else _ELEMENTS - len(last)
        if room > 0:
            last.extend(values[:room])
            self._mark_dirty(self._following - 1)
        for start in range(max(room, 0), len(values), _ELEMENTS):
            self._count_miss()
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
        # Copies, since the last segment may grow during iteration.
        return chain.from_iterable(list(elements) for _, elements in contents)

    def _encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        return super()._encode([0] * len(keys), entries)

    def _identified(self, raw: RawPairs) -> Pairs:
        found = list(raw)
        numbers = [int.from_bytes(key[-8:], "big") for key, _ in found]
        return zip(numbers, self._codec.decode([data for _, data in found]))

    def _weight(self, content: Any) -> int:
        return len(content)

    def _is_mutable(self, content: Any) -> bool:
        return not PLAIN.issuperset(map(type, content)) and not all(map(is_plain, content))
