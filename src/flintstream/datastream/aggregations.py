"""Rolling aggregates on a field of the records, for `sum`, `min`, `max`, `min_by` and `max_by`.

As in PyFlink, `sum`, `min` and `max` replace one field and keep the other fields of the key's first record; `min_by`
and `max_by` keep whole records, and of several with the same value the first. On plain values the field is the value
itself. Nothing is changed in place: the previous result is the operator's state and has been emitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import add, gt, lt
from typing import Any

from flintstream.common.typeinfo import BasicTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from flintstream.common.types import Row, make_row
from flintstream.datastream.basic_functions import ReduceFunction
from flintstream.graph.transformations import InvalidProgramException

Position = int | str
_INTEGERS = (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT())


def _smaller(left: Any, right: Any) -> Any:
    return right if right < left else left


def _larger(left: Any, right: Any) -> Any:
    return right if right > left else left


class FieldAggregation(ReduceFunction):
    """Combines one field of two records and keeps the other fields of the first."""

    def __init__(self, name: str, position: Position, combine: Callable[[Any, Any], Any]) -> None:
        self._name = name
        self._position: Any = position
        self._combine = combine

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the first record with the combined field."""
        position = self._position
        if isinstance(value1, Row):
            row = make_row(list(value1), value1._fields, value1.get_row_kind())
            row[position] = self._combine(value1[position], value2[position])
            return row
        if isinstance(value1, (tuple, list)):
            fields = list(value1)
            try:
                fields[position] = self._combine(value1[position], value2[position])
            except (IndexError, TypeError):
                _check_position(self._name, position, value1, value2)
                raise
            if isinstance(value1, list):
                return fields
            make = getattr(type(value1), "_make", tuple)  # a named tuple stays one
            return make(fields)
        if isinstance(position, str) and dataclasses.is_dataclass(value1) and not isinstance(value1, type):
            combined = self._combine(getattr(value1, position), getattr(value2, position))
            return dataclasses.replace(value1, **{position: combined})
        if position != 0:
            raise _no_field(self._name, position, value1)
        return self._combine(value1, value2)


class RollingSum(FieldAggregation):
    """The sum, with fast paths for pairs and other plain tuples."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the first record with the sum."""
        if value1.__class__ is not tuple:
            return super().reduce(value1, value2)
        position = self._position
        if position == 1 and len(value1) == 2:
            return value1[0], value1[1] + value2[1]
        fields = list(value1)
        try:
            fields[position] = fields[position] + value2[position]
        except (IndexError, TypeError):
            _check_position(self._name, position, value1, value2)
            raise
        return tuple(fields)


class RecordSelection(ReduceFunction):
    """Keeps the record whose field is the smallest (or largest); of equal ones, the first."""

    def __init__(self, name: str, position: Position, better: Callable[[Any, Any], bool]) -> None:
        self._name = name
        self._position = position
        self._better = better

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns one of the two records."""
        position: Any = self._position
        if isinstance(value2, (tuple, list, Row)):
            try:
                return value2 if self._better(value2[position], value1[position]) else value1
            except (IndexError, TypeError):
                _check_position(self._name, position, value1, value2)
                raise
        if isinstance(position, str) and dataclasses.is_dataclass(value2):
            return value2 if self._better(getattr(value2, position), getattr(value1, position)) else value1
        if position != 0:
            raise _no_field(self._name, position, value2)
        return value2 if self._better(value2, value1) else value1


_AGGREGATIONS: dict[str, tuple[Callable[..., ReduceFunction], Callable[[Any, Any], Any]]] = {
    "sum": (RollingSum, add),
    "min": (FieldAggregation, _smaller),
    "max": (FieldAggregation, _larger),
    "min_by": (RecordSelection, lt),
    "max_by": (RecordSelection, gt),
}


def aggregation(name: str, position: Position, type_info: TypeInformation | None) -> ReduceFunction:
    """Returns the function for `sum`, `min`, `max`, `min_by` or `max_by`; refuses a field that the type does not have."""
    if isinstance(position, bool) or not isinstance(position, (int, str)):
        raise TypeError(
            f"{name}: the field must be a position (int) or a field name (str), "
            f"got {position!r} of type {type(position).__name__}"
        )
    _check_field(name, position, type_info)
    make, combine = _AGGREGATIONS[name]
    return make(name, position, combine)


def is_mergeable(name: str, type_info: TypeInformation | None) -> bool:
    """Returns whether partial aggregates, merged in any order, are known to equal the aggregate of the whole.

    This holds for integers and for the order of strings. It does not hold for floating point numbers, which are rounded
    and may be NaN, nor for records with other fields, which depend on which record came first.
    """
    return type_info in _INTEGERS or (type_info == Types.STRING() and name != "sum")


def _check_field(name: str, position: Position, type_info: TypeInformation | None) -> None:
    if isinstance(type_info, RowTypeInfo):
        names = list(type_info.get_field_names())
        found = position in names if isinstance(position, str) else -len(names) <= position < len(names)
        if not found:
            raise InvalidProgramException(f"{name}: there is no field {position!r} in {type_info}")
    elif isinstance(type_info, TupleTypeInfo):
        count = len(type_info.get_field_types())
        if isinstance(position, str):
            raise InvalidProgramException(
                f"{name}: the fields of a tuple have positions, not names: got {position!r} for {type_info}"
            )
        if not -count <= position < count:
            raise InvalidProgramException(f"{name}: there is no field {position!r} in {type_info}")
    elif isinstance(type_info, BasicTypeInfo) and position != 0:
        raise InvalidProgramException(
            f"{name}: a stream of {type_info} has no field {position!r}; position 0 means the value itself"
        )


def _check_position(name: str, position: Any, *records: Any) -> None:
    """Refuses a position that a tuple or list does not have; called after an access failed."""
    for record in records:
        if isinstance(record, (tuple, list)) and (
            isinstance(position, str) or not -len(record) <= position < len(record)
        ):
            raise _no_field(name, position, record) from None


def _no_field(name: str, position: Any, value: Any) -> TypeError:
    return TypeError(
        f"{name}: the record {value!r} of type {type(value).__name__} has no field {position!r}; "
        "on a value without fields, position 0 means the value itself"
    )
