"""KeyedStateBackend: where the keyed state of one operator in one subtask lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

_MISSING: Any = object()


class KeyedStateBackend(ABC):
    """Tables from key to value, one for each registered state.

    `current_key` is set before each record; the states that a function holds read and write the entry of that key.
    """

    current_key: Any

    @abstractmethod
    def table(self, name: str) -> MutableMapping[Any, Any]:
        """The table of that name, made when missing."""

    def value_state(self, descriptor: Any) -> ValueStateView:
        """One value a key."""
        return ValueStateView(self, self._table_of(descriptor), getattr(descriptor, "default_value", None))

    def list_state(self, descriptor: Any) -> ListStateView:
        """A list a key."""
        return ListStateView(self, self._table_of(descriptor))

    def map_state(self, descriptor: Any) -> MapStateView:
        """A map a key."""
        return MapStateView(self, self._table_of(descriptor))

    def reducing_state(self, descriptor: Any) -> ReducingStateView:
        """One value a key, reduced from all values added."""
        return ReducingStateView(self, self._table_of(descriptor), descriptor.get_reduce_function().reduce)

    def aggregating_state(self, descriptor: Any) -> AggregatingStateView:
        """One accumulator a key, aggregated from all values added."""
        return AggregatingStateView(self, self._table_of(descriptor), descriptor.get_agg_function())

    def _table_of(self, descriptor: Any) -> MutableMapping[Any, Any]:
        if getattr(descriptor, "_ttl_config", None) is not None:
            raise NotImplementedError(f"state {descriptor.name!r}: time-to-live is not part of this version")
        return self.table(descriptor.name)


class _StateView:
    """A state as a function holds it: the entry of the current key in a table."""

    __slots__ = ("_backend", "_table")

    def __init__(self, backend: KeyedStateBackend, table: MutableMapping[Any, Any]) -> None:
        self._backend = backend
        self._table = table

    def clear(self) -> None:
        """Forgets the entry of the current key."""
        self._table.pop(self._backend.current_key, None)


class ValueStateView(_StateView):
    """One value for the current key."""

    __slots__ = ("_default",)

    def __init__(self, backend: KeyedStateBackend, table: MutableMapping[Any, Any], default: Any) -> None:
        super().__init__(backend, table)
        self._default = default

    def value(self) -> Any:
        """The value, or the default (None unless set)."""
        return self._table.get(self._backend.current_key, self._default)

    def update(self, value: Any) -> None:
        """Sets the value; None clears it."""
        if value is None:
            self._table.pop(self._backend.current_key, None)
        else:
            self._table[self._backend.current_key] = value


class ListStateView(_StateView):
    """A list for the current key."""

    __slots__ = ()

    def get(self) -> Iterator[Any]:
        """An iterator over the elements."""
        return iter(self._table.get(self._backend.current_key, ()))

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
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        elements = list(values)
        if elements:
            self._table[self._backend.current_key] = elements
        else:
            self.clear()


class MapStateView(_StateView):
    """A map for the current key."""

    __slots__ = ()

    def _map(self) -> dict[Any, Any]:
        return self._table.get(self._backend.current_key) or {}

    def get(self, key: Any) -> Any:
        """The value under a map key, or None."""
        return self._map().get(key)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value under a map key."""
        entries = self._table.get(self._backend.current_key)
        if entries is None:
            self._table[self._backend.current_key] = {key: value}
        else:
            entries[key] = value

    def put_all(self, dict_value: Any) -> None:
        """Sets many: from a dict, or from pairs of key and value."""
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
        """Whether the map key is there."""
        return key in self._map()

    def items(self) -> Iterable[tuple[Any, Any]]:
        """The entries, as they are now."""
        return list(self._map().items())

    def keys(self) -> Iterable[Any]:
        """The map keys, as they are now."""
        return list(self._map())

    def values(self) -> Iterable[Any]:
        """The values, as they are now."""
        return list(self._map().values())

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._map()

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


class ReducingStateView(_StateView):
    """One value for the current key, reduced from all that were added."""

    __slots__ = ("_reduce",)

    def __init__(self, backend: KeyedStateBackend, table: MutableMapping[Any, Any], reduce: Any) -> None:
        super().__init__(backend, table)
        self._reduce = reduce

    def get(self) -> Any:
        """The value, or None before the first."""
        return self._table.get(self._backend.current_key)

    def add(self, value: Any) -> None:
        """Reduces a value in."""
        previous = self._table.get(self._backend.current_key, _MISSING)
        self._table[self._backend.current_key] = value if previous is _MISSING else self._reduce(previous, value)


class AggregatingStateView(_StateView):
    """One accumulator for the current key, aggregated from all values added."""

    __slots__ = ("_function",)

    def __init__(self, backend: KeyedStateBackend, table: MutableMapping[Any, Any], function: Any) -> None:
        super().__init__(backend, table)
        self._function = function

    def get(self) -> Any:
        """The result, or None before the first value."""
        accumulator = self._table.get(self._backend.current_key, _MISSING)
        return None if accumulator is _MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds a value to the accumulator."""
        accumulator = self._table.get(self._backend.current_key, _MISSING)
        if accumulator is _MISSING:
            accumulator = self._function.create_accumulator()
        self._table[self._backend.current_key] = self._function.add(value, accumulator)
