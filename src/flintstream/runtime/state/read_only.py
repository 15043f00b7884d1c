"""Read-only states: what a query of state returns, a copy of the state of one key at one moment."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from flintstream.common.queryable_state import QueryableStateError, StateAnswer, UnsupportedOperationException
from flintstream.runtime.state.views import MapMethods


class ImmutableState:
    """Base class of the states that queries return."""

    kind = ""

    def __init__(self, value: Any) -> None:
        self._value = value

    def clear(self) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r})"


class ImmutableValueState(ImmutableState):
    """One value."""

    kind = "value"

    def value(self) -> Any:
        """Returns the value."""
        return self._value

    def update(self, value: Any) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()


class ImmutableListState(ImmutableState):
    """A list."""

    kind = "list"

    def get(self) -> Iterator[Any]:
        """Returns an iterator over the elements."""
        return iter(self._value)

    def __iter__(self) -> Iterator[Any]:
        return self.get()

    def add(self, value: Any) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()

    def add_all(self, values: Iterable[Any]) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()

    def update(self, values: Iterable[Any]) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()


class ImmutableMapState(ImmutableState, MapMethods):
    """A map."""

    kind = "map"

    def get(self, key: Any) -> Any:
        """Returns the value of a map key, or None."""
        return self._value.get(key)

    def contains(self, key: Any) -> bool:
        """Returns whether the map key exists."""
        return key in self._value

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Returns the entries."""
        return list(self._value.items())

    def keys(self) -> Iterable[Any]:
        """Returns the map keys."""
        return list(self._value)

    def values(self) -> Iterable[Any]:
        """Returns the values."""
        return list(self._value.values())

    def is_empty(self) -> bool:
        """Returns whether there are no entries."""
        return not self._value

    def put(self, key: Any, value: Any) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()

    def put_all(self, dict_value: Any) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()

    def remove(self, key: Any) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()


class ImmutableReducingState(ImmutableState):
    """The reduced value."""

    kind = "reducing"

    def get(self) -> Any:
        """Returns the value."""
        return self._value

    def add(self, value: Any) -> NoReturn:
        """Refused: the state is read-only."""
        _refuse()


class ImmutableAggregatingState(ImmutableReducingState):
    """The result of the aggregation."""

    kind = "aggregating"


_KINDS: dict[str, type[ImmutableState]] = {
    each.kind: each
    for each in (
        ImmutableValueState,
        ImmutableListState,
        ImmutableMapState,
        ImmutableReducingState,
        ImmutableAggregatingState,
    )
}


def state_of(name: str, answer: StateAnswer, wanted: str | None) -> ImmutableState:
    """Returns the state of a successful answer; raises if it is of another kind than `wanted`, or cannot be read here."""
    if wanted not in (None, answer.kind):
        raise QueryableStateError(f"queryable state {name!r} is a {answer.kind} state, and not a {wanted} state")
    try:
        value = pickle.loads(answer.value)
    except Exception as error:
        raise QueryableStateError(
            f"the value of queryable state {name!r} cannot be read here, where a class of it may be missing: {error!r}"
        ) from error
    return _KINDS[answer.kind](value)


def _refuse() -> NoReturn:
    raise UnsupportedOperationException("the state was queried, and is read-only")
