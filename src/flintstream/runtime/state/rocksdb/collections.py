"""CollectionTable: a table of the RocksDB backend whose entries are maps or lists, and the list and map states on it.

A small collection is one entry, read and written as a whole, which is cheapest. A large one is stored in segments: an
entry of a map is read and written separately, and elements are appended to a list without reading it, at a cost
independent of the size. A collection in segments stays so until it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from flintstream.runtime.state.rocksdb.cache import GONE, UNKNOWN, AverageSize
from flintstream.runtime.state.rocksdb.codec import (
    EntryCodec,
    KeyCodec,
    decode_header,
    decode_key,
    is_segmented,
    owner_of_segment,
    segments_of_key,
    segments_of_state,
)
from flintstream.runtime.state.rocksdb.segments import (
    Pairs,
    Pick,
    SegmentedList,
    SegmentedMap,
    Segments,
    each_key,
    each_pair,
    each_value,
    map_segment,
)
from flintstream.runtime.state.rocksdb.store import Store
from flintstream.runtime.state.rocksdb.table import NEVER, CachedTable, Cleaned, Convert, converted
from flintstream.runtime.state.ttl import Stamped, TtlListState, TtlMapState
from flintstream.runtime.state.views import ListStateView, MapStateView

_FEW_SEGMENTS = 64
_SEGMENTS_BYTES = 2000
"""The size of a `Segments` object without its contents."""


class CollectionTable(CachedTable):
    """Maps a key to a dict or list, or to its `Segments`, which have the methods of one that states use."""

    most_entries = 1024
    most_bytes = 4096
    """A collection with more entries or elements, or more bytes when written, is stored in segments."""

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
        """`make_room` is called when many segments were read while a block is processed; it may call `trim`."""
        super().__init__(place, store, keys, groups, codec, stored)
        self._backend_makes_room = make_room
        self._kind: type[Segments] = SegmentedMap if codec.kind == "map" else SegmentedList
        self._segments: dict[Any, Segments] = {}
        """The segments of the keys in the cache."""
        self._in_use: dict[Any, Segments] = {}
        """The segments accessed since the last count."""
        self._cached = 0
        """The number of segments in all their caches."""
        self._average_segment = AverageSize()
        self._segment_ranges = [segments_of_state(prefix) for prefix in self._ranges]

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

    def peek(self, key: Any, default: Any) -> Any:
        value = self._live_get(key, UNKNOWN)
        if value is UNKNOWN:
            (stored,) = self._store().get(self._keys.encode([key])) if self._stored else (None,)
            value = GONE if stored is None else self._entries_of([key], [stored])[0]
        if isinstance(value, Segments):
            return value.peek_whole()
        return default if value is GONE else value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._drop_segments(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._drop_segments(key)
        super().__delitem__(key)

    def _drop_segments(self, key: Any) -> None:
        if key not in self._live:
            self._load(key)
        segments = self._segments.pop(key, None)
        if segments is not None:
            self._in_use.pop(key, None)
            self._cached -= segments.counted
            segments.drop()

    def divide_if_large(self, key: Any) -> None:
        """Called after an addition to the entry of a key: divides it into segments if it has become large."""
        entry = self._live_get(key)
        if isinstance(entry, (dict, list)) and len(entry) > self.most_entries:
            self._live[key] = self._segments[key] = self._in_use[key] = self._divided(key, entry)
            self._make_room()

    def _divided(self, key: Any, entry: Any) -> Segments:
        segments = self._segments_of(key)
        segments.take(entry)
        return segments

    def _segments_of(self, key: Any, header: tuple[int, int] | None = None) -> Segments:
        (stored_key,) = self._keys.encode([key])
        return self._kind(self._place, self._store, self._codec, key, stored_key, self._make_room, header)

    # --- a block ---

    @property
    def size(self) -> int:
        segments = len(self._segments) * _SEGMENTS_BYTES + int(self._cached * self._average_segment.bytes)
        return super().size + segments

    @property
    def may_prefetch(self) -> bool:
        return True  # Or else to count the segments that were used.

    def prefetch(self, keys: set[Any]) -> None:
        self._count_segments()
        self._in_use.clear()
        super().prefetch(keys)

    def _count_segments(self) -> None:
        for segments in self._in_use.values():
            self._cached += segments.cached - segments.counted
            segments.counted = segments.cached
            self._average_segment.look_at(segments.latest())

    def _make_room(self) -> None:
        self._count_segments()
        self._backend_makes_room()

    def evict(self, fraction: float, kept: Collection[Any] = ()) -> None:
        super().evict(fraction, kept)
        self._segments = {key: segments for key, segments in self._segments.items() if key in self._live}
        self._in_use.clear()
        self.trim(fraction)

    def trim(self, fraction: float) -> None:
        for segments in self._segments.values():
            segments.evict(fraction)
            segments.counted = segments.cached
        self._cached = sum(segments.counted for segments in self._segments.values())

    def _forget_segments(self) -> None:
        self._segments.clear()
        self._in_use.clear()
        self._cached = 0

    # --- bytes ---

    def _decode(self, keys: list[Any], data: list[bytes]) -> list[Any]:
        found = self._entries_of(keys, data)
        self._segments.update((key, entry) for key, entry in zip(keys, found) if isinstance(entry, Segments))
        return found

    def _whole(self, keys: list[Any], data: list[bytes]) -> Iterable[Any]:
        return (entry.whole() if isinstance(entry, Segments) else entry for entry in self._entries_of(keys, data))

    def _entries_of(self, keys: list[Any], data: list[bytes]) -> list[Any]:
        if not any(map(is_segmented, data)):
            return self._codec.decode(data)
        whole = iter(self._codec.decode([each for each in data if not is_segmented(each)]))
        return [
            self._segments_of(key, decode_header(each)) if is_segmented(each) else next(whole)
            for key, each in zip(keys, data)
        ]

    def _encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        whole = [(key, entry) for key, entry in zip(keys, entries) if not isinstance(entry, Segments)]
        written = iter(super()._encode([key for key, _ in whole], [entry for _, entry in whole]))
        data = []
        for key, entry in zip(keys, entries):
            segments = entry
            if not isinstance(entry, Segments):
                each = next(written)
                if len(each) <= self.most_bytes or len(entry) < 2:
                    data.append(each)
                    continue
                segments = self._divided(key, entry)
                if self._live_get(key) is entry:
                    self._live[key] = self._segments[key] = self._in_use[key] = segments
            segments.flush()
            data.append(segments.header())
        return data

    # --- all keys ---

    def _replace(self, keys: Iterable[Any]) -> None:
        if self._stored:
            self._fetch([key for key in keys if key not in self._live])
        for key in keys:
            self._drop_segments(key)

    def clear(self) -> None:
        self._remove_ranges(self._segment_ranges)
        self._forget_segments()
        super().clear()

    def _raw_whole(self) -> Iterator[tuple[bytes, bytes]]:
        return (pair for pair in self._raw() if not is_segmented(pair[1]))

    def rewrite(self, codec: EntryCodec, convert: Convert | None = None) -> None:
        if codec == self._codec and convert is None:
            return
        self.flush()
        self._forget_segments()
        for prefix in self._segment_ranges if self._stored else ():
            for pairs, entries in converted(self._store().items(prefix), self._codec, convert):
                before = [key for key, _ in pairs]
                keys = before if self._kind is SegmentedList else self._keys_of_segments(before, entries)
                data = codec.encode([0] * len(keys), entries)
                self._store().write(dict(zip(keys, data)), set(before).difference(keys))
        # After the segments: an entry that has become large is divided into segments, which have the new codec already.
        super().rewrite(codec, convert)

    def _keys_of_segments(self, stored: list[bytes], entries: list[Any]) -> list[bytes]:
        """Returns the stored keys of converted segments: the keys of a map may have changed."""
        return [
            segments_of_key(owner_of_segment(key)) + map_segment(next(iter(entry)))
            for key, entry in zip(stored, entries)
        ]

    # --- clean-up ---

    def clean_stored(self, count: int, oldest: Callable[[], int]) -> Iterator[Cleaned]:
        yield from super().clean_stored(count, oldest)
        # Each segment that has expired is removed by itself.
        for pairs in self._chunks(self._segment_ranges, min(count, _FEW_SEGMENTS)):
            least = oldest()
            times = [self._codec.last_used(data) for _, data in pairs]
            expired = [pair for pair, time in zip(pairs, times) if time <= least]
            for stored_key, data in expired:
                self._expire(stored_key, data)
            yield Cleaned(len(expired), min((time for time in times if time > least), default=NEVER))

    def _expire(self, stored_key: bytes, data: bytes) -> None:
        owner = owner_of_segment(stored_key)
        (header,) = self._store().get([owner])
        if header is None:
            # Not written yet, so it was used recently.
            return
        key = decode_key(owner, header)
        segments = self.get(key)
        if isinstance(segments, Segments):
            segments.expire(stored_key, data)
            if not segments:
                del self[key]

    def _stored_use(self, stored: bytes) -> int:
        return NEVER if is_segmented(stored) else super()._stored_use(stored)

    def _last_use(self, entry: Any) -> int:
        # The segments of a large one are looked at one by one, in RocksDB.
        if isinstance(entry, Segments) or not entry:
            return NEVER
        times: Iterator[int] = (time for _, time in (entry.values() if isinstance(entry, dict) else entry))
        return max(times)


class RocksDBListState(ListStateView):
    """A list for the current key. Adding to a large one does not read it."""

    __slots__ = ()
    _table: CollectionTable

    def get(self) -> Iterator[Any]:
        elements = self._table.get(self._backend.current_key, ())
        return iter(elements if isinstance(elements, Segments) else list(elements))

    def add(self, value: Any) -> None:
        elements = self._table.get(self._backend.current_key)
        if elements is None:
            self._table[self._backend.current_key] = [value]
            return
        elements.append(value)
        if len(elements) > self._table.most_entries:
            self._table.divide_if_large(self._backend.current_key)

    def add_all(self, values: Iterable[Any]) -> None:
        super().add_all(values)
        self._table.divide_if_large(self._backend.current_key)


class RocksDBMapState(MapStateView):
    """A map for the current key. Each entry of a large one is read and written separately."""

    __slots__ = ()
    _table: CollectionTable

    def put(self, key: Any, value: Any) -> None:
        entries = self._table.get(self._backend.current_key)
        if entries is None:
            self._table[self._backend.current_key] = {key: value}
            return
        entries[key] = value
        if len(entries) > self._table.most_entries:
            self._table.divide_if_large(self._backend.current_key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        entries = self._map()
        return entries.contents() if isinstance(entries, SegmentedMap) else list(entries.items())

    def keys(self) -> Iterable[Any]:
        entries = self._map()
        return entries.contents(each_key, shared=False) if isinstance(entries, SegmentedMap) else list(entries)

    def values(self) -> Iterable[Any]:
        entries = self._map()
        return entries.contents(each_value) if isinstance(entries, SegmentedMap) else list(entries.values())


class RocksDBTtlListState(TtlListState):
    """A list for the current key whose elements expire individually. Adding to a large one does not read it."""

    _table: CollectionTable

    def _append(self, added: list[Stamped]) -> None:
        super()._append(added)
        self._table.divide_if_large(self._backend.current_key)


class RocksDBTtlMapState(TtlMapState):
    """A map for the current key whose entries expire individually, and are read and written separately."""

    _table: CollectionTable

    def put_all(self, dict_value: Any) -> None:
        super().put_all(dict_value)
        self._table.divide_if_large(self._backend.current_key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._seen(each_pair)

    def keys(self) -> Iterable[Any]:
        return self._seen(each_key)

    def values(self) -> Iterable[Any]:
        return self._seen(each_value)

    def _seen(self, pick: Pick) -> Iterable[Any]:
        owner = self._backend.current_key
        entries = self._table.get(owner)
        if not isinstance(entries, SegmentedMap):
            found = super().items()
            return found if pick is each_pair else list(pick(found))
        now = self._now()
        return entries.contents(lambda pairs: pick(self._unexpired_of(owner, pairs, now)), picks_all=False)

    def is_empty(self) -> bool:
        entries = self._table.get(self._backend.current_key)
        if not isinstance(entries, SegmentedMap) or self._live.shows_expired:
            return super().is_empty()
        oldest = self._now() - self._live.millis
        return all(time <= oldest for _, time in entries.contents(each_value, shared=False))

    def _unexpired_of(self, owner: Any, pairs: Pairs, now: int) -> Iterator[tuple[Any, Any]]:
        """Yields the visible entries, and refreshes or removes them as reading does."""
        live = self._live
        for key, (value, time) in pairs:
            expired = time + live.millis <= now
            if expired or live.refreshed_by_reading:
                # It may have been changed or removed during iteration.
                entries = self._table.get(owner)
                if entries is not None:
                    self._read(entries, key, now)
                    if not entries:
                        del self._table[owner]
            if not expired or live.shows_expired:
                yield key, value
