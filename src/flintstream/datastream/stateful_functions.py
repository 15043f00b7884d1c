"""`map_with_state` and its variants: a plain function of a record and the state of its key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic

from flintstream.common.type_variables import IN, OUT, R, T
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.datastream.basic_functions import FilterFunction, FlatMapFunction, Function, MapFunction
from flintstream.datastream.state import ValueState, ValueStateDescriptor
from flintstream.runtime.context import RuntimeContext

StatefulFunction = Callable[[T, Any], tuple[R, Any]]
"""Takes a record and the state of its key (None at first); returns the result and the new state (None clears it)."""


class _WithState(Function, Generic[IN, OUT]):
    """Stores the function's second result as the new state."""

    def __init__(self, operator: str, function: StatefulFunction[IN, OUT], state_type: TypeInformation | None) -> None:
        self._operator = operator
        self._function = function
        self._type = Types.PICKLED_BYTE_ARRAY() if state_type is None else state_type

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state: ValueState[Any] = runtime_context.get_state(ValueStateDescriptor("state", self._type))

    def _call(self, value: IN) -> OUT:
        given = self._function(value, self._state.value())
        # Only tuples and lists: any other pair, such as a string or a generator, is a result without its state.
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise TypeError(
                f"{self._operator}: the function must return a pair of the result and the new state, got {given!r}"
            )
        result, state = given
        self._state.update(state)
        return result


class MapWithState(_WithState[IN, OUT], MapFunction[IN, OUT]):
    """Maps each record to one result."""

    def map(self, value: IN) -> OUT:
        return self._call(value)


class FlatMapWithState(_WithState[IN, Iterable[OUT] | None], FlatMapFunction[IN, OUT]):
    """Maps each record to any number of results."""

    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        return self._call(value)


class FilterWithState(_WithState[IN, object], FilterFunction[IN]):
    """Keeps the records for which the result is true."""

    def filter(self, value: IN) -> bool:
        return bool(self._call(value))
