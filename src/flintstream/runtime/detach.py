"""Results that a function may still hold and change.

A function may emit an object that it keeps, and change it later: a list in its state, a buffer that it clears behind the
`yield`. What was emitted must stay as it was at that moment, as it does in PyFlink. Records pass through a chain in
batches here, so such results are copied when they are emitted, before the function runs on: each one is looked at, since
what others were tells nothing about it. Numbers, strings and tuples of them need no copy.
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
        OutputTag,
        str,
        uuid.UUID,
    }
)


_PLAIN_OR_TUPLE = PLAIN | {tuple}


def is_plain(value: Any) -> bool:
    """Whether a value cannot change: a number, a string and the like, a tuple, named tuple or frozen dataclass of such."""
    kind = value.__class__
    if kind in PLAIN:
        return True
    if kind is tuple:
        return all(map(is_plain, value))
    parts = _PARTS.get(kind, _UNKNOWN)
    if parts is _UNKNOWN:
        parts = _PARTS[kind] = _parts_of(kind)
    return parts is not None and all(map(is_plain, parts(value)))


def all_plain(values: Collection[Any]) -> bool:
    """Whether none of the values can change. As `is_plain` for each, but with no Python call for most of them."""
    kinds = set(map(type, values))
    while not kinds <= PLAIN:
        if not kinds <= _PLAIN_OR_TUPLE:
            return all(map(is_plain, values))
        if len(kinds) > 1:
            values = [value for value in values if value.__class__ is tuple]
        values = list(chain.from_iterable(values))
        kinds = set(map(type, values))
    return True


_UNKNOWN: Any = object()
_PARTS: dict[type, Callable[[Any], Iterable[Any]] | None] = {}
"""Class to what gives the parts of an object that decide whether it can change; None if it can in any case."""


def _parts_of(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    if issubclass(kind, Enum):
        return _none
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__dictoffset__ == 0:
        return tuple.__iter__
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda value: [getattr(value, name) for name in names]
    return None


def _none(value: Any) -> Iterable[Any]:
    return ()


def detached(value: Any) -> Any:
    """The value, or a copy of it if it can change."""
    kind = value.__class__
    if kind is tuple:
        # Most results are tuples of plain values: these need no further call.
        for part in value:
            if part.__class__ not in PLAIN:
                break
        else:
            return value
    elif kind in PLAIN:
        return value
    if is_plain(value):
        return value
    try:
        return pickle.loads(pickle.dumps(value, 5))
    except Exception:
        return copy.deepcopy(value)
