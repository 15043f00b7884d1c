"""Keyed states as used by functions: each accesses the entry of the current key in a table."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from flintstream.runtime.detach import PLAIN, is_plain

if TYPE_CHECKING:
    from flintstream.runtime.state.backend import KeyedStateBackend

Table = MutableMapping[Any, Any]
_MISSING: Any = object()


class StateView:
    """A keyed state: the entry of the current key in a table."""

    __slots__ = ("_backend", "_table")

    def __init__(self, backend: KeyedStateBackend, table: Table) -> None:
        self._backend = backend
        self._table = table

    def clear(self) -> None:
        """Clears the entry of the current key."""
        key = self._backend.current_key
        # Not `pop`, which does not hash the key if the table is empty: without a current key this must raise.
        if key in self._table:
            del self._table[key]


class ValueStateView(StateView):
    """One value for the current key."""

    __slots__ = ("_default",)

    def __init__(self, backend: KeyedStateBackend, table: Table, default: Any = None) -> None:
        super().__init__(backend, table)
        self._default = default

    def value(self) -> Any:
        """Returns the value, or the default (None unless set)."""
        return self._table.get(self._backend.current_key, self._default)

    def update(self, value: Any) -> None:
        """Sets the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._table[self._backend.current_key] = value


class HeapValueStateView(ValueStateView):
    """One value for the current key, in a dict."""

    __slots__ = ("_entries",)

    def __init__(self, backend: KeyedStateBackend, table: dict[Any, Any], default: Any = None) -> None:
        super().__init__(backend, table, default)
        self._entries = table

    def value(self) -> Any:
        """Returns the value, or the default (None unless set)."""
        return self._entries.get(self._backend.current_key, self._default)

    def update(self, value: Any) -> None:
        """Sets the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._entries[self._backend.current_key] = value


class CachedValueStateView(ValueStateView):
    """One value for the current key, in a table with a cache (see `rocksdb.cache`), which is asked if a value is not there,
    or is one that can be modified in place.
    """

    __slots__ = ("_cached", "_changed", "_plain")

    def __init__(
        self,
        backend: KeyedStateBackend,
        table: Table,
        default: Any,
        cached: dict[Any, Any],
        changed: list[Any],
    ) -> None:
        super().__init__(backend, table, default)
        self._cached = cached
        self._changed = changed
        self._plain: Any = _MISSING
        """A class of immutable values, that of the last one."""

    def value(self) -> Any:
        """Returns the value, or the default (None unless set)."""
        value = self._cached.get(self._backend.current_key, _MISSING)
        if type(value) is self._plain:
            return value
        if type(value) in PLAIN:
            self._plain = type(value)
            return value
        return self._table.get(self._backend.current_key, self._default)

    def update(self, value: Any) -> None:
        """Sets the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._cached[self._backend.current_key] = value
            self._changed.append(self._backend.current_key)


class CopiedDefaultValueStateView(ValueStateView):
    """A value with a mutable default: each read of the default returns a copy."""

    __slots__ = ()

    def value(self) -> Any:
        value = self._table.get(self._backend.current_key, _MISSING)
        return copy.deepcopy(self._default) if value is _MISSING else value


class ListStateView(StateView):
    """A list for the current key."""

    __slots__ = ()

    def get(self) -> Iterator[Any]:
        """Returns an iterator over a copy of the elements."""
        return iter(list(self._table.get(self._backend.current_key, ())))

    def __iter__(self) -> Iterator[Any]:
        return self.get()

    def add(self, value: Any) -> None:
        """Appends an element."""
        elements = self._table.get(self._backend.current_key)
        if elements is None:
            self._table[self._backend.current_key] = [value]
        else:
            elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends elements."""
        added = list(values)
        elements = self._table.get(self._backend.current_key)
        if elements is not None:
            elements.extend(added)
        elif added:
            self._table[self._backend.current_key] = added

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        elements = list(values)
        if elements:
            self._table[self._backend.current_key] = elements
        else:
            self.clear()


class MapMethods:
    """The Python mapping interface of a map state."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)  # type: ignore[attr-defined]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)  # type: ignore[attr-defined]

    def __delitem__(self, key: Any) -> None:
        self.remove(key)  # type: ignore[attr-defined]

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)  # type: ignore[attr-defined,no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())  # type: ignore[attr-defined]


class MapStateView(StateView):
    """A map for the current key. It repeats `MapMethods`: a compiled class has one base."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def _map(self) -> dict[Any, Any]:
        return self._table.get(self._backend.current_key) or {}

    def get(self, key: Any) -> Any:
        """Returns the value of a map key, or None."""
        entries = self._table.get(self._backend.current_key)
        return None if entries is None else entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a map key."""
        entries = self._table.get(self._backend.current_key)
        if entries is None:
            self._table[self._backend.current_key] = {key: value}
        else:
            entries[key] = value

    def put_all(self, dict_value: Any) -> None:
        """Sets several values, from a dict or from pairs of key and value."""
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Removes a map key."""
        entries = self._table.get(self._backend.current_key)
        if entries is not None:
            entries.pop(key, None)
            if not entries:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Returns whether the map key exists."""
        entries = self._table.get(self._backend.current_key)
        return entries is not None and key in entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns a copy of the entries."""
        return list(self._map().items())

    def keys(self) -> Iterable[Any]:
        """Returns a copy of the map keys."""
        return list(self._map())

    def values(self) -> Iterable[Any]:
        """Returns a copy of the values."""
        return list(self._map().values())

    def is_empty(self) -> bool:
        """Returns whether there are no entries."""
        return not self._map()


class ReducingStateView(StateView):
    """One value for the current key, reduced from all values added."""

    __slots__ = ("_reduce",)

    def __init__(self, backend: KeyedStateBackend, table: Table, reduce: Any) -> None:
        super().__init__(backend, table)
        self._reduce = reduce

    def get(self) -> Any:
        """Returns the value; None if nothing was added."""
        return self._table.get(self._backend.current_key)

    def add(self, value: Any) -> None:
        """Adds a value."""
        previous = self._table.get(self._backend.current_key, _MISSING)
        self._table[self._backend.current_key] = value if previous is _MISSING else self._reduce(previous, value)


class AggregatingStateView(StateView):
    """One accumulator for the current key, aggregated from all values added."""

    __slots__ = ("_function",)

    def __init__(self, backend: KeyedStateBackend, table: Table, function: Any) -> None:
        super().__init__(backend, table)
        self._function = function

    def get(self) -> Any:
        """Returns the result; None if nothing was added."""
        accumulator = self._table.get(self._backend.current_key, _MISSING)
        return None if accumulator is _MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds a value; an accumulator of None clears the state."""
        if value is None:
            self.clear()
            return
        accumulator = self._table.get(self._backend.current_key, _MISSING)
        if accumulator is _MISSING:
            accumulator = self._function.create_accumulator()
        self._table[self._backend.current_key] = self._function.add(value, accumulator)


def value_view(backend: KeyedStateBackend, table: Table, default: Any) -> ValueStateView:
    """Returns a value state; a mutable default is copied for each key that reads it."""
    if default is not None and not is_plain(default):
        return CopiedDefaultValueStateView(backend, table, default)
    if type(table) is dict:
        return HeapValueStateView(backend, table, default)
    return ValueStateView(backend, table, default)
