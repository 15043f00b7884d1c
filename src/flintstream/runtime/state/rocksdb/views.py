"""Lists and maps in RocksDB as a function holds them: small ones whole, large ones in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flintstream.runtime.state.rocksdb.parted import PartedTable
from flintstream.runtime.state.rocksdb.parts import MapParts, Parts
from flintstream.runtime.state.ttl import Stamped, TtlListState, TtlMapState
from flintstream.runtime.state.views import ListStateView, MapStateView

_Pair = tuple[Any, Any]
_Change = Callable[[Iterable[_Pair]], Iterator[Any]]


class RocksDBListState(ListStateView):
    """A list for the current key. Adding to a large one does not read it."""

    __slots__ = ()
    _table: PartedTable

    def get(self) -> Iterator[Any]:
        elements = self._table.get(self._backend.current_key, ())
        return iter(elements if isinstance(elements, Parts) else list(elements))

    def add(self, value: Any) -> None:
        elements = self._table.get(self._backend.current_key)
        if elements is None:
            self._table[self._backend.current_key] = [value]
        else:
            elements.append(value)
            if len(elements) > self._table.most_entries:
                self._table.look_at_size(self._backend.current_key)

    def add_all(self, values: Iterable[Any]) -> None:
        super().add_all(values)
        self._table.look_at_size(self._backend.current_key)


class RocksDBMapState(MapStateView):
    """A map for the current key. Each entry of a large one is read and written by itself."""

    __slots__ = ()
    _table: PartedTable

    def put(self, key: Any, value: Any) -> None:
        entries = self._table.get(self._backend.current_key)
        if entries is None:
            self._table[self._backend.current_key] = {key: value}
        else:
            entries[key] = value
            if len(entries) > self._table.most_entries:
                self._table.look_at_size(self._backend.current_key)

    def items(self) -> Iterable[_Pair]:
        entries = self._map()
        return entries.contents() if isinstance(entries, MapParts) else list(entries.items())

    def keys(self) -> Iterable[Any]:
        entries = self._map()
        return _each(entries.contents(shared=False), _keys) if isinstance(entries, MapParts) else list(entries)

    def values(self) -> Iterable[Any]:
        entries = self._map()
        return _each(entries.contents(), _values) if isinstance(entries, MapParts) else list(entries.values())


class RocksDBTtlListState(TtlListState):
    """A list for the current key whose elements expire one by one. Adding to a large one does not read it."""

    _table: PartedTable

    def _append(self, added: list[Stamped]) -> None:
        super()._append(added)
        self._table.look_at_size(self._backend.current_key)


class RocksDBTtlMapState(TtlMapState):
    """A map for the current key whose entries expire one by one, and of which each is read and written by itself."""

    _table: PartedTable

    def put_all(self, dict_value: Any) -> None:
        super().put_all(dict_value)
        self._table.look_at_size(self._backend.current_key)

    def items(self) -> Iterable[_Pair]:
        owner = self._backend.current_key
        entries = self._table.get(owner)
        if not isinstance(entries, MapParts):
            return super().items()
        now = self._now()
        return _each(entries.contents(), lambda pairs: self._unexpired_of(owner, pairs, now))

    def keys(self) -> Iterable[Any]:
        return _each(self.items(), _keys)

    def values(self) -> Iterable[Any]:
        return _each(self.items(), _values)

    def is_empty(self) -> bool:
        entries = self._table.get(self._backend.current_key)
        if not isinstance(entries, MapParts) or self._live.shows_expired:
            return super().is_empty()
        oldest = self._now() - self._live.millis
        return all(stamped[1] <= oldest for _, stamped in entries.contents(shared=False))

    def _unexpired_of(self, owner: Any, pairs: Iterable[_Pair], now: int) -> Iterator[_Pair]:
        """What may be seen of stamped entries, with all that reading does to them."""
        live = self._live
        for key, (value, time) in pairs:
            expired = time + live.millis <= now
            if expired or live.refreshed_by_reading:
                # It may have been changed or removed meanwhile.
                entries = self._table.get(owner)
                if entries is not None:
                    self._read(entries, key, now)
                    if not entries:
                        del self._table[owner]
            if not expired or live.shows_expired:
                yield key, value


class _Each:
    """What is made of the entries of a map while it is iterated over."""

    def __init__(self, pairs: Iterable[_Pair], change: _Change) -> None:
        self._pairs = pairs
        self._change = change

    def __iter__(self) -> Iterator[Any]:
        return self._change(self._pairs)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _each(pairs: Iterable[_Pair], change: _Change) -> Iterable[Any]:
    return list(change(pairs)) if isinstance(pairs, list) else _Each(pairs, change)


def _keys(pairs: Iterable[_Pair]) -> Iterator[Any]:
    return (key for key, _ in pairs)


def _values(pairs: Iterable[_Pair]) -> Iterator[Any]:
    return (value for _, value in pairs)
