"""State scoped to a key and a window, and the contexts that provide it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping
from typing import Any

from flintstream.runtime.state.backend import KeyedStateBackend, KeyedStateInfo
from flintstream.runtime.state.ttl import IncrementalCleanup


class NamespaceTable(MutableMapping[Any, Any]):
    """The entries of the current key in a table by key and window; a key without entries is removed."""

    def __init__(self, backend: KeyedStateBackend, table: MutableMapping[Any, Any]) -> None:
        self._backend = backend
        self._table = table

    def __getitem__(self, window: Any) -> Any:
        return self._table[self._backend.current_key][window]

    def get(self, window: Any, default: Any = None) -> Any:
        entries = self._table.get(self._backend.current_key)
        return default if entries is None else entries.get(window, default)

    def __setitem__(self, window: Any, entry: Any) -> None:
        entries = self._table.get(self._backend.current_key)
        if entries is None:
            self._table[self._backend.current_key] = {window: entry}
        else:
            entries[window] = entry

    def __delitem__(self, window: Any) -> None:
        entries = self._table[self._backend.current_key]
        del entries[window]
        if not entries:
            del self._table[self._backend.current_key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._table.get(self._backend.current_key, ()))

    def __len__(self) -> int:
        return len(self._table.get(self._backend.current_key, ()))


class NamespacedStateBackend(KeyedStateBackend):
    """A backend nested in another: its `current_key` is the current window, the outer one's the current key."""

    def __init__(self, backend: KeyedStateBackend, prefix: str) -> None:
        super().__init__(backend.operator, backend.max_parallelism, backend.clock, backend.key_groups)
        self._backend = backend
        self._prefix = prefix
        self._known: dict[tuple[str, type[Any]], Any] = {}

    def table(self, name: str) -> NamespaceTable:
        return NamespaceTable(self._backend, self._backend.engine_table(self._prefix + name))

    def touch(self, keys: Collection[Any]) -> None:
        """Does nothing: the outer backend tracks changes."""

    def clean_with_every_record(self, cleanup: IncrementalCleanup, size: int) -> None:
        """Does nothing: entries are cleaned up on access, and with their window."""

    def peek(self, name: str, key: Any, default: Any) -> Any:
        raise NotImplementedError(f"operator '{self.operator}': the state of a window cannot be queried")

    def _publish(self, descriptor: Any, info: KeyedStateInfo) -> None:
        if getattr(descriptor, "_queryable_name", None) is not None:
            raise NotImplementedError(
                f"operator '{self.operator}': state {info.name!r} belongs to a window, and cannot be queried: only state "
                "of a key can, such as that of global_state()"
            )

    def changed_keys(self) -> set[Any] | None:
        return self._backend.changed_keys()

    def forget_changes(self) -> None:
        self._backend.forget_changes()

    def state_of(self, descriptor: Any) -> Any:
        described = descriptor.name, type(descriptor)
        state = self._known.get(described)
        if state is None:
            state = self._known[described] = super().state_of(descriptor)
        return state

    def merge(self, descriptor: Any, windows: Collection[Any], target: Any) -> None:
        """Merges the state of several windows of the current key into another one."""
        self.state_of(descriptor)
        table = self.table(descriptor.name)
        entries = [table.pop(window) for window in windows if window != target and window in table]
        if target in table:
            entries.insert(0, table.pop(target))
        if entries:
            merged = entries[0]
            for entry in entries[1:]:
                merged = self._merged(descriptor, merged, entry)
            table[target] = merged

    def _merged(self, descriptor: Any, entry: Any, other: Any) -> Any:
        kind = self.states[descriptor.name].kind
        if kind == "reducing":
            return descriptor.get_reduce_function().reduce(entry, other)
        if kind == "aggregating":
            return descriptor.get_agg_function().merge(entry, other)
        if kind == "list":
            return entry + other
        raise TypeError(
            f"operator '{self.operator}': state {descriptor.name!r} is a {kind} state, which cannot be merged when "
            "windows merge: use list, reducing or aggregating state"
        )


class StateStore:
    """Provides state to a window function: scoped to its key and window, or to its key."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self.get_state = backend.value_state
        self.get_list_state = backend.list_state
        self.get_map_state = backend.map_state
        self.get_reducing_state = backend.reducing_state
        self.get_aggregating_state = backend.aggregating_state
