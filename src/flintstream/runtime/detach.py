"""Detaches emitted results from objects that a function may still modify.

A function may emit an object that it keeps and modify it later: a list in its state, a buffer that it clears after the
`yield`. As in PyFlink, the emitted value must not change. Since records pass through a chain in batches, mutable
results are copied when emitted, before the function continues. Each result is checked, since neither other results nor
the function's references determine whether it is mutable. Numbers, strings and tuples of them need no copy. No result is
copied if the user enables Flink's object reuse.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import pickle
import uuid
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from itertools import chain
from typing import Any

from flintstream.common.output_tag import OutputTag
from flintstream.common.types import Row, make_row

PLAIN = frozenset(
    {
        bool,
        bytes,
        complex,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
        float,
        int,
        type(None),
        str,
        uuid.UUID,
    }
)


def is_plain(value: Any) -> bool:
    """Returns whether a value is immutable: a number, a string and the like, or a tuple, named tuple or frozen
    dataclass of such.
    """
    kind = type(value)
    if kind in PLAIN:
        return True
    if kind is tuple:
        return all(map(is_plain, value))
    fields = _FIELDS.get(kind, _UNKNOWN)
    if fields is _UNKNOWN:
        fields = _FIELDS[kind] = _fields_of(kind)
    return fields is not None and all(map(is_plain, fields(value)))


def all_plain(values: Collection[Any]) -> bool:
    """Returns whether all values are immutable: `is_plain` for each, without a Python call for most of them."""
    kinds = set(map(type, values))
    while not kinds <= PLAIN:
        tuples = kinds - PLAIN
        if not all(map(_is_tuple_of_fields, tuples)):
            return all(map(is_plain, values))
        if len(kinds) > len(tuples):
            values = [value for value in values if type(value) in tuples]
        values = list(chain.from_iterable(map(_TUPLE_FIELDS, values)))
        kinds = set(map(type, values))
    return True


def _no_fields(value: Any) -> Iterable[Any]:
    return ()


_UNKNOWN: Any = object()
_TUPLE_FIELDS: Callable[[Any], Iterable[Any]] = tuple.__iter__
_FIELDS: dict[type, Callable[[Any], Iterable[Any]] | None] = {OutputTag: _no_fields}
"""By class, a function that returns the fields of an object that determine whether it is mutable; None if it always is.
"""


def _is_tuple_of_fields(kind: type) -> bool:
    """Returns whether objects of a class are mutable only if an element is: tuples and named tuples."""
    if kind is not tuple and kind not in _FIELDS:
        _FIELDS[kind] = _fields_of(kind)
    return kind is tuple or _FIELDS[kind] is _TUPLE_FIELDS


def _fields_of(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    if issubclass(kind, Enum):
        return _no_fields
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__dictoffset__ == 0:
        return _TUPLE_FIELDS
    if dataclasses.is_dataclass(kind) and _is_frozen(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda value: [getattr(value, name) for name in names]
    return None


def _is_frozen(kind: type) -> bool:
    # Not inherited: objects of a subclass that is no dataclass itself may be given attributes.
    parameters = vars(kind).get("__dataclass_params__")
    return parameters is not None and parameters.frozen


_copies = True


def set_object_reuse(enabled: bool) -> None:
    """Sets whether results are shared without copies in this process."""
    global _copies
    _copies = not enabled


def detached(value: Any) -> Any:
    """Returns the value, or a copy if it is mutable."""
    if not _copies:
        return value
    kind = type(value)
    if kind is tuple:
        # Most results are short tuples of plain values. Operators check pairs themselves: a call would cost as much
        # again.
        size = len(value)
        if size == 3:
            first, second, third = value
            if type(first) in PLAIN and type(second) in PLAIN and type(third) in PLAIN:
                return value
        elif size == 4:
            first, second, third, fourth = value
            if type(first) in PLAIN and type(second) in PLAIN and type(third) in PLAIN and type(fourth) in PLAIN:
                return value
        else:
            for each in value:
                if type(each) not in PLAIN:
                    break
            else:
                return value
    elif kind in PLAIN:
        return value
    elif kind in _COPIES:
        return _COPIES[kind](value)
    elif _FIELDS.get(kind) is _TUPLE_FIELDS:
        for each in _TUPLE_FIELDS(value):
            if type(each) not in PLAIN:
                break
        else:
            return value
    return value if is_plain(value) else _deep_copy(value)


def copied(value: Any) -> Any:
    """As `detached`, even if the user enables object reuse: for what the engine itself would use twice."""
    copy_of_kind = _COPIES.get(type(value))
    if copy_of_kind is not None:
        return copy_of_kind(value)
    return value if is_plain(value) else _deep_copy(value)


def _deep_copy(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, 5))
    except Exception:
        return copy.deepcopy(value)


def _copy_of_list(value: list[Any]) -> list[Any]:
    for each in value:
        if type(each) not in PLAIN:
            return _deep_copy(value)  # type: ignore[no-any-return]
    return value.copy()


def _copy_of_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    for key, each in value.items():
        if type(each) not in PLAIN or type(key) not in PLAIN:
            return _deep_copy(value)  # type: ignore[no-any-return]
    return value.copy()


def _copy_of_row(value: Row) -> Row:
    for each in value._values:
        if type(each) not in PLAIN:
            return _deep_copy(value)  # type: ignore[no-any-return]
    return make_row(value._values.copy(), value._fields, value._row_kind)


_COPIES: dict[type, Callable[[Any], Any]] = {list: _copy_of_list, dict: _copy_of_dict, Row: _copy_of_row}
"""By class, a function that copies its objects if they hold plain values only, at a fraction of the cost of pickling.
"""
