"""QueryableStateStream: the end of a keyed stream that is written into queryable state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flintstream.common.typeinfo import TypeInformation
from flintstream.common.types import Row
from flintstream.datastream.basic_functions import FlatMapFunction
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flintstream.runtime.operators.keyed import RichOperator

if TYPE_CHECKING:
    from flintstream.datastream.data_stream import DataStream
    from flintstream.datastream.keyed_stream import KeyedStream

__all__ = ["QueryableStateStream", "queryable_stream"]


class QueryableStateStream:
    """A keyed stream that is written into queryable state. Returned by `KeyedStream.as_queryable_state`."""

    def __init__(self, stream: DataStream, queryable_state_name: str, descriptor: StateDescriptor) -> None:
        self._stream = stream
        self._name = queryable_state_name
        self._descriptor = descriptor

    def get_queryable_state_name(self) -> str:
        """Returns the name under which the state is queried."""
        return self._name

    def get_state_descriptor(self) -> StateDescriptor:
        """Returns the descriptor of the state, which a client may use."""
        return self._descriptor

    def name(self, name: str) -> QueryableStateStream:
        """Sets the name of the operator."""
        self._stream.name(name)
        return self

    def uid(self, uid: str) -> QueryableStateStream:
        """Sets the id by which the operator's state is found in checkpoints."""
        self._stream.uid(uid)
        return self


def queryable_stream(
    stream: KeyedStream[Any, Any], name: str, descriptor: StateDescriptor | None, record_type: TypeInformation
) -> QueryableStateStream:
    """Adds the operator that writes a keyed stream into queryable state."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"as_queryable_state: the name must be a non-empty string, got {name!r}")
    if descriptor is None:
        descriptor = ValueStateDescriptor(name, record_type)
    if not isinstance(descriptor, StateDescriptor):
        raise TypeError(f"as_queryable_state: expected a state descriptor, got {descriptor!r}")
    other = descriptor.get_queryable_state_name()
    if other not in (None, name):
        raise ValueError(f"as_queryable_state: the descriptor is queryable as {other!r}, and not as {name!r}")
    if other is None:
        descriptor = copy.copy(descriptor)
        descriptor.set_queryable(name)
    operator = RichOperator(_WriteState(descriptor), "flat_map", ("flat_map",), keyed=True)
    operator.queryable_name = name  # type: ignore[attr-defined]
    return QueryableStateStream(stream._transform("Queryable state", operator, None), name, descriptor)


class _WriteState(FlatMapFunction):
    """Writes each record into the state of its key."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        descriptor = self._descriptor
        self._write: Callable[[Any], None]
        if isinstance(descriptor, ValueStateDescriptor):
            self._write = runtime_context.get_state(descriptor).update
        elif isinstance(descriptor, ListStateDescriptor):
            self._write = runtime_context.get_list_state(descriptor).add
        elif isinstance(descriptor, ReducingStateDescriptor):
            self._write = runtime_context.get_reducing_state(descriptor).add
        elif isinstance(descriptor, AggregatingStateDescriptor):
            self._write = runtime_context.get_aggregating_state(descriptor).add
        elif isinstance(descriptor, MapStateDescriptor):
            self._map = runtime_context.get_map_state(descriptor)
            self._write = self._put
        else:
            raise TypeError(f"as_queryable_state: there is no state for {descriptor!r}")

    def flat_map(self, value: Any) -> None:
        self._write(value)

    def _put(self, value: Any) -> None:
        if isinstance(value, dict):
            self._map.put_all(value)
        elif isinstance(value, (tuple, list, Row)) and len(value) == 2:
            key, content = value
            self._map.put(key, content)
        else:
            raise TypeError(
                f"as_queryable_state: a map state takes records that are pairs or dicts, got a {type(value).__name__}"
            )
