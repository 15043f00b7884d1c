"""OperatorStateBackend: state of one operator in one subtask that belongs to no key.

List state is dealt out evenly when the parallelism changes, union list state is given as a whole to every subtask, broadcast
state is a map that is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from flintstream.runtime.state.views import MapMethods

SPLIT, UNION, BROADCAST = "split", "union", "broadcast"


@dataclass(frozen=True)
class ListDescriptor:
    """Describes a list state of the engine's own, of any Python objects."""

    name: str
    type_info: Any = None


@dataclass(frozen=True)
class OperatorStateSnapshot:
    """The operator state of one subtask: by name, how it is dealt out, its declared type and its content."""

    states: dict[str, tuple[str, Any, Any]] = field(default_factory=dict)


class OperatorListState:
    """A list of one subtask."""

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        self._elements = list(elements)

    def get(self) -> Iterator[Any]:
        """An iterator over the elements, as they are now."""
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
        """Forgets all elements."""
        self._elements = []


class BroadcastStateView(MapMethods):
    """A broadcast state where it may be written: on the broadcast side."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def get(self, key: Any) -> Any:
        """The value under a map key, or None."""
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        """Whether the map key is there."""
        return key in self._entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        """The entries, as they are now."""
        return list(self._entries.items())

    def keys(self) -> Iterable[Any]:
        """The map keys, as they are now."""
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        """The values, as they are now."""
        return list(self._entries.values())

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        """Sets the value under a map key."""
        self._entries[key] = value

    def put_all(self, dict_value: Any) -> None:
        """Sets many: from a dict, or from pairs of key and value."""
        self._entries.update(dict_value)

    def remove(self, key: Any) -> None:
        """Removes a map key."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forgets all entries."""
        self._entries.clear()


class ReadOnlyBroadcastStateView(BroadcastStateView):
    """A broadcast state where it may only be read: on the other side, whose records differ from subtask to subtask."""

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
            f"operator '{operator}': {call}(): broadcast state {name!r} is read-only here, since it must stay the same in "
            "every subtask: write it in process_broadcast_element()"
        )


class OperatorStateBackend:
    """The states of an operator in a subtask that belong to no key."""

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._restored: dict[str, tuple[str, Any]] = {}
        self._lists: dict[str, tuple[str, Any, OperatorListState]] = {}
        self._broadcast: dict[str, tuple[Any, dict[Any, Any]]] = {}
        self.is_restored = False
        """Whether there was an earlier run whose state this one has taken over."""

    # --- OperatorStateStore ---

    def get_list_state(self, state_descriptor: Any) -> OperatorListState:
        """A list of this subtask; dealt out evenly when the parallelism changes."""
        return self._list(state_descriptor, SPLIT)

    def get_union_list_state(self, state_descriptor: Any) -> OperatorListState:
        """A list of this subtask; after a restore every subtask gets the lists of all."""
        return self._list(state_descriptor, UNION)

    def get_broadcast_state(self, state_descriptor: Any) -> BroadcastStateView:
        """A map that is the same in every subtask."""
        return BroadcastStateView(self.broadcast_entries(state_descriptor))

    def get_registered_state_names(self) -> set[str]:
        """The names of the list states."""
        return set(self._lists)

    def get_registered_broadcast_state_names(self) -> set[str]:
        """The names of the broadcast states."""
        return set(self._broadcast)

    def broadcast_entries(self, descriptor: Any) -> dict[Any, Any]:
        """The live entries of a broadcast state, which is made when missing."""
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
                f"operator '{self._operator}': state {name!r} is a {before} state already, and cannot be a {mode} state "
                "too: give it another name"
            )

    def _taken_over(self, name: str, mode: str) -> Any:
        before, content = self._restored.pop(name, (mode, None))
        if before != mode:
            raise ValueError(
                f"operator '{self._operator}': state {name!r} was a {before} state when it was stored, and is asked for as "
                f"a {mode} state"
            )
        return content

    # --- snapshots ---

    def snapshot(self) -> OperatorStateSnapshot:
        """All states, with copies of their lists and maps."""
        lists = {name: (mode, kind, list(state)) for name, (mode, kind, state) in self._lists.items()}
        maps = {name: (BROADCAST, kind, dict(entries)) for name, (kind, entries) in self._broadcast.items()}
        left = {name: (mode, None, content) for name, (mode, content) in self._restored.items()}
        return OperatorStateSnapshot({**left, **lists, **maps})

    def restore(self, snapshot: OperatorStateSnapshot) -> None:
        """Takes over what an earlier run has left for this subtask; functions get it when they ask for it."""
        self._restored = {name: (mode, content) for name, (mode, _, content) in snapshot.states.items()}
        self.is_restored = True
