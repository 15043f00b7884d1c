"""State of functions, keyed or per subtask, and its descriptors.

Example::

    class CountPerKey(MapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def map(self, value):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            return count
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic

from flintstream.common.type_variables import ACC, IN, OUT, A, K, R, S, T, V
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.datastream.basic_functions import AggregateFunction, ReduceFunction, ReduceFunctionWrapper, Reducer
from flintstream.datastream.state_ttl import StateTtlConfig
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.state import read_only, ttl, views
from flintstream.runtime.state.operator_state import (
    BroadcastStateView,
    OperatorListState,
    OperatorStateBackend,
    ReadOnlyBroadcastStateView,
)

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]


class State(ABC):
    """Base class of all state. Keyed state is scoped to the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Clears the state of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """Returns the value; None, or the descriptor's default, if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Stores a value; None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Returns the combination of the values added so far; None before the first."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged when windows merge."""


class ReducingState(MergingState[T, T]):
    """One value per key, reduced from all values added."""


class AggregatingState(MergingState[IN, OUT]):
    """One result per key, aggregated from all values added."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key.

    `state.add(1); state.add_all([2, 3]); list(state)` is `[1, 2, 3]`.
    """

    @abstractmethod
    def get(self) -> Iterator[T]:
        """Returns an iterator over the elements, in insertion order."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces all elements."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Adds several elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """Read-only broadcast state: a map that is the same in every subtask."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a map key, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether the map key exists."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns the entries."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns the map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns whether there are no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """Writable broadcast state, on the broadcast side only."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Stores a value under a map key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Stores several values."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a map key."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(State, Generic[K, V]):
    """A map per key.

    `state.put("a", 1); state["b"] = 2; dict(state.items())` is `{"a": 1, "b": 2}`.
    """

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a map key, or None."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Stores a value under a map key."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Stores several values."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a map key, if it exists."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether the map key exists."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns the entries."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns the map keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns whether there are no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


# The runtime does not import this layer, so its states are registered as subclasses.
for _public, *_own in (
    (ValueState, views.ValueStateView, ttl.TtlValueState, read_only.ImmutableValueState),
    (ListState, views.ListStateView, ttl.TtlListState, read_only.ImmutableListState, OperatorListState),
    (MapState, views.MapStateView, ttl.TtlMapState, read_only.ImmutableMapState),
    (ReducingState, views.ReducingStateView, ttl.TtlReducingState, read_only.ImmutableReducingState),
    (
        AggregatingState,
        views.AggregatingStateView,
        ttl.TtlAggregatingState,
        read_only.ImmutableAggregatingState,
    ),
    (ReadOnlyBroadcastState, ReadOnlyBroadcastStateView, BroadcastStateView),
    (BroadcastState, BroadcastStateView),
):
    for _state in _own:
        _public.register(_state)


class StateDescriptor(ABC, Generic[S]):
    """Describes a state: its name, its type and its time-to-live."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        kind = type(self).__name__
        if not isinstance(name, str) or not name:
            raise ValueError(f"{kind}: name must be a non-empty string, got {name!r}")
        if not isinstance(type_info, TypeInformation):
            raise TypeError(f"{kind} {name!r}: the type must be one of Types, such as Types.LONG(), got {type_info!r}")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        self._queryable_name: str | None = None

    def get_name(self) -> str:
        """Returns the name of the state, unique within its operator."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Enables expiry of entries."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(
                f"{type(self).__name__} {self.name!r}: ttl_config must be a StateTtlConfig, got {ttl_config!r}"
            )
        self._ttl_config = ttl_config if ttl_config.is_enabled() else None

    def set_queryable(self, queryable_state_name: str) -> None:
        """Lets the state be queried from outside the job under a name, which must be unique within the job.

        It has an effect on keyed state, if `queryable-state.enable` is set::

            descriptor.set_queryable("counts")
        """
        kind = type(self).__name__
        if not isinstance(queryable_state_name, str) or not queryable_state_name:
            raise ValueError(
                f"{kind} {self.name!r}: the queryable name must be a non-empty string, got {queryable_state_name!r}"
            )
        if self._queryable_name is not None:
            raise ValueError(f"{kind} {self.name!r}: the queryable name is already {self._queryable_name!r}")
        self._queryable_name = queryable_state_name

    def is_queryable(self) -> bool:
        """Returns whether the state can be queried."""
        return self._queryable_name is not None

    def get_queryable_state_name(self) -> str | None:
        """Returns the name under which the state can be queried; None if it cannot."""
        return self._queryable_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor[ValueState[T]]):
    """Describes a `ValueState`.

    >>> ValueStateDescriptor("count", Types.LONG(), default_value=0).name
    'count'
    """

    def __init__(self, name: str, value_type_info: TypeInformation[T], default_value: T | None = None) -> None:
        super().__init__(name, value_type_info)
        self.default_value = default_value


class ListStateDescriptor(StateDescriptor[ListState[T]]):
    """Describes a `ListState`: `ListStateDescriptor("seen", Types.STRING())`."""

    def __init__(self, name: str, elem_type_info: TypeInformation[T]) -> None:
        super().__init__(name, Types.LIST(_type_of(self, name, elem_type_info)))


class MapStateDescriptor(StateDescriptor[MapState[K, V]]):
    """Describes a `MapState` or a broadcast state.

    MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    """

    def __init__(self, name: str, key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]) -> None:
        key_type, value_type = (_type_of(self, name, kind) for kind in (key_type_info, value_type_info))
        super().__init__(name, Types.MAP(key_type, value_type))


class ReducingStateDescriptor(StateDescriptor[ReducingState[T]]):
    """Describes a `ReducingState`: `ReducingStateDescriptor("largest", max, Types.LONG())`."""

    def __init__(
        self,
        name: str,
        reduce_function: Reducer[T],
        type_info: TypeInformation[T],
    ) -> None:
        super().__init__(name, type_info)
        if isinstance(reduce_function, type) and issubclass(reduce_function, ReduceFunction):
            reduce_function = reduce_function()
        if isinstance(reduce_function, ReduceFunction):
            self._reduce_function: ReduceFunction[T] | ReduceFunctionWrapper = reduce_function
        elif callable(reduce_function):
            self._reduce_function = ReduceFunctionWrapper(reduce_function)
        else:
            raise TypeError(
                f"ReducingStateDescriptor {name!r}: reduce_function must be a ReduceFunction or a callable, "
                f"got {reduce_function!r}"
            )

    def get_reduce_function(self) -> ReduceFunction[T] | ReduceFunctionWrapper:
        """Returns the reduce function."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor[AggregatingState[IN, OUT]], Generic[IN, ACC, OUT]):
    """Describes an `AggregatingState`; the type is that of the accumulator."""

    def __init__(
        self, name: str, agg_function: AggregateFunction[IN, ACC, OUT], state_type_info: TypeInformation[ACC]
    ) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError(
                f"AggregatingStateDescriptor {name!r}: agg_function must be an AggregateFunction, got {agg_function!r}"
            )
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[IN, ACC, OUT]:
        """Returns the aggregate function."""
        return self._agg_function


class KeyedStateStore(ABC):
    """Provides keyed state to functions: the runtime context, or the state of a window."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Returns a state with one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Returns a state with a list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Returns a state with a map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Returns a state with one value per key, reduced from all values added."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[A, Any, R]) -> AggregatingState[A, R]:
        """Returns a state with one result per key, aggregated from all values added."""


class OperatorStateStore(ABC):
    """Provides state that is not scoped to a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Returns a map that is the same in every subtask."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Returns a list of this subtask; on rescaling its elements are redistributed evenly."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Returns a list of this subtask; after a restore every subtask has the elements of all."""


KeyedStateStore.register(RuntimeContext)
OperatorStateStore.register(OperatorStateBackend)


def _type_of(descriptor: StateDescriptor, name: Any, type_info: Any) -> TypeInformation:
    if not isinstance(type_info, TypeInformation):
        kind = type(descriptor).__name__
        raise TypeError(f"{kind} {name!r}: the type must be one of Types, such as Types.LONG(), got {type_info!r}")
    return type_info
