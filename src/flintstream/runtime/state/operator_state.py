"""OperatorStateBackend: the operator state of one operator in one subtask, which is not scoped to a key.

On rescaling, list state is redistributed evenly, and union list state goes to every subtask as a whole; broadcast state
is a map that is the same in all subtasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from flintstream.runtime.state.views import MapMethods

SPLIT, UNION, BROADCAST = "split", "union", "broadcast"


@dataclass(frozen=True)
class ListDescriptor:
    """Describes a list state of the engine, of any Python objects."""

    name: str
    type_info: Any = None


@dataclass(frozen=True)
class OperatorStateSnapshot:
    """The operator state of one subtask by name: redistribution mode, declared type and content."""

    states: dict[str, tuple[str, Any, Any]] = field(default_factory=dict)


class OperatorListState:
    """A list of one subtask."""

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        self._elements = list(elements)

    def get(self) -> Iterator[Any]:
        """Returns an iterator over a copy of the elements."""
        return iter(list(self._elements))

    def __iter__(self) -> Iterator[Any]:
        return self.get()

    def add(self, value: Any) -> None:
        """Appends an element."""
        self._elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends elements."""
        self._elements.extend(values)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        self._elements = list(values)

    def clear(self) -> None:
        """Clears the list."""
        self._elements = []


class BroadcastStateView(MapMethods):
    """A writable broadcast state, on the broadcast side."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def get(self, key: Any) -> Any:
        """Returns the value of a map key, or None."""
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        """Returns whether the map key exists."""
        return key in self._entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns a copy of the entries."""
        return list(self._entries.items())

    def keys(self) -> Iterable[Any]:
        """Returns a copy of the map keys."""
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        """Returns a copy of the values."""
        return list(self._entries.values())

    def is_empty(self) -> bool:
        """Returns whether there are no entries."""
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a map key."""
        self._entries[key] = value

    def put_all(self, dict_value: Any) -> None:
        """Sets several values, from a dict or from pairs of key and value."""
        self._entries.update(dict_value)

    def remove(self, key: Any) -> None:
        """Removes a map key."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Clears all entries."""
        self._entries.clear()


class ReadOnlyBroadcastStateView(BroadcastStateView):
    """A read-only broadcast state, on the other side, whose records differ between subtasks."""

    def __init__(self, entries: dict[Any, Any], operator: str, name: str) -> None:
        super().__init__(entries)
        self._place = (operator, name)

    def put(self, key: Any, value: Any) -> NoReturn:
        """Refused."""
        self._refuse("put")

    def put_all(self, dict_value: Any) -> NoReturn:
        """Refused."""
        self._refuse("put_all")

    def remove(self, key: Any) -> NoReturn:
        """Refused."""
        self._refuse("remove")

    def clear(self) -> NoReturn:
        """Refused."""
        self._refuse("clear")

    def _refuse(self, call: str) -> NoReturn:
        operator, name = self._place
        raise RuntimeError(
            f"operator '{operator}': {call}(): broadcast state {name!r} is read-only here, since it must stay the "
            "same in "
            "every subtask: write it in process_broadcast_element()"
        )


class OperatorStateBackend:
    """The operator state of an operator in a subtask."""

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._restored: dict[str, tuple[str, Any]] = {}
        self._lists: dict[str, tuple[str, Any, OperatorListState]] = {}
        self._broadcast: dict[str, tuple[Any, dict[Any, Any]]] = {}
        self.is_restored = False
        """Whether state was restored."""

    # --- OperatorStateStore ---

    def get_list_state(self, state_descriptor: Any) -> OperatorListState:
        """Returns a list of this subtask; on rescaling its elements are redistributed evenly."""
        return self._list(state_descriptor, SPLIT)

    def get_union_list_state(self, state_descriptor: Any) -> OperatorListState:
        """Returns a list of this subtask; after a restore every subtask has the elements of all."""
        return self._list(state_descriptor, UNION)

    def get_broadcast_state(self, state_descriptor: Any) -> BroadcastStateView:
        """Returns a map that is the same in every subtask."""
        return BroadcastStateView(self.broadcast_entries(state_descriptor))

    def get_registered_state_names(self) -> set[str]:
        """Returns the names of the list states."""
        return set(self._lists)

    def get_registered_broadcast_state_names(self) -> set[str]:
        """Returns the names of the broadcast states."""
        return set(self._broadcast)

    def broadcast_entries(self, descriptor: Any) -> dict[Any, Any]:
        """Returns the live entries of a broadcast state, creating it if needed."""
        known = self._broadcast.get(descriptor.name)
        if known is None:
            self._check_free(descriptor.name, BROADCAST)
            entries = dict(self._taken_over(descriptor.name, BROADCAST) or {})
            known = self._broadcast[descriptor.name] = (descriptor.type_info, entries)
        return known[1]

    def _list(self, descriptor: Any, mode: str) -> OperatorListState:
        known = self._lists.get(descriptor.name)
        if known is None:
            self._check_free(descriptor.name, mode)
            state = OperatorListState(self._taken_over(descriptor.name, mode) or ())
            known = self._lists[descriptor.name] = (mode, descriptor.type_info, state)
        elif known[0] != mode:
            self._check_free(descriptor.name, mode)
        return known[2]

    def _check_free(self, name: str, mode: str) -> None:
        before = self._lists[name][0] if name in self._lists else BROADCAST if name in self._broadcast else None
        if before is not None and before != mode:
            raise ValueError(
                f"operator '{self._operator}': state {name!r} is already {before} state, and cannot be {mode} "
                "state too: use another name"
            )

    def _taken_over(self, name: str, mode: str) -> Any:
        before, content = self._restored.pop(name, (mode, None))
        if before != mode:
            raise ValueError(
                f"operator '{self._operator}': state {name!r} was stored as a {before} state, and is requested as a "
                f"{mode} state"
            )
        return content

    # --- snapshots ---

    def snapshot(self) -> OperatorStateSnapshot:
        """Returns all states, with copies of their lists and maps."""
        lists = {name: (mode, kind, list(state)) for name, (mode, kind, state) in self._lists.items()}
        maps = {name: (BROADCAST, kind, dict(entries)) for name, (kind, entries) in self._broadcast.items()}
        left = {name: (mode, None, content) for name, (mode, content) in self._restored.items()}
        return OperatorStateSnapshot({**left, **lists, **maps})

    def restore(self, snapshot: OperatorStateSnapshot) -> None:
        """Restores the state of this subtask; functions get it when they request it."""
        self._restored = {name: (mode, content) for name, (mode, _, content) in snapshot.states.items()}
        self.is_restored = True
