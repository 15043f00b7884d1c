"""What all sides of queryable state share: its errors, the answer to a query, and keys and values as JSON.

A key crosses the network as JSON, never as a pickle: a driver or server that answers a query runs nothing that the query
brings along.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from flintstream.common.types import Row, make_row

__all__ = [
    "FlinkJobNotFoundException",
    "QueryableStateError",
    "StateAnswer",
    "StateNotAvailableException",
    "UnknownKeyOrNamespaceException",
    "UnknownKvStateLocation",
    "UnsupportedOperationException",
    "error_of",
    "key_from_json",
    "key_from_text",
    "key_to_json",
    "shown",
]

OK = "ok"
UNKNOWN_STATE = "unknown-state"
UNKNOWN_KEY = "unknown-key"
NOT_AVAILABLE = "not-available"
FAILED = "failed"
GONE = "gone"
"""The status of all answers of a driver whose job has ended."""

PICKLED, AS_JSON = "pickled", "json"
"""The forms in which a value may be asked for."""
MOST_QUERIES = 256
"""The most queries of one request."""
LONGEST_SECONDS = 30.0
"""The longest that a request may wait for slots."""
_DEEPEST = 100


class QueryableStateError(RuntimeError):
    """A query of state has failed."""


class FlinkJobNotFoundException(QueryableStateError):
    """There is no such job, or it has ended."""


class UnknownKvStateLocation(QueryableStateError):
    """The job has no queryable state of that name."""


class UnknownKeyOrNamespaceException(QueryableStateError):
    """The state has no entry for the key."""


class StateNotAvailableException(QueryableStateError):
    """The state cannot be read now, for example while the job restarts: try again."""


class UnsupportedOperationException(QueryableStateError):
    """A state that was queried cannot be changed."""


class StateAnswer(NamedTuple):
    """The answer to one query."""

    status: str
    """`ok`, `unknown-state`, `unknown-key`, `not-available` or `failed`."""
    kind: str = ""
    """Of an `ok`: `value`, `list`, `map`, `reducing` or `aggregating`."""
    value: Any = None
    """Of an `ok`: the pickled value, or the value as JSON text. Else: why."""


_ERRORS: Mapping[str, type[QueryableStateError]] = {
    UNKNOWN_STATE: UnknownKvStateLocation,
    UNKNOWN_KEY: UnknownKeyOrNamespaceException,
    NOT_AVAILABLE: StateNotAvailableException,
    FAILED: QueryableStateError,
}


HTTP_STATUSES: Mapping[str, int] = {
    OK: 200,
    UNKNOWN_STATE: 404,
    UNKNOWN_KEY: 404,
    GONE: 404,
    NOT_AVAILABLE: 503,
    FAILED: 500,
}
"""The status of the response to a query of one key."""


def error_of(status: str, message: str) -> QueryableStateError:
    """Returns the error of an answer that is not `ok`."""
    return _ERRORS.get(status, QueryableStateError)(message)


# --- keys ---

_PLAIN = frozenset((bool, int, float, str))
_TAGS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", bytes.hex),
    bytearray: ("bytes", lambda value: bytes(value).hex()),
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
    datetime.datetime: ("datetime", datetime.datetime.isoformat),
    datetime.date: ("date", datetime.date.isoformat),
    datetime.time: ("time", datetime.time.isoformat),
    datetime.timedelta: ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "uuid": UUID,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
}


def key_to_json(key: Any) -> Any:
    """Returns a key as values that JSON has; raises a TypeError for one of another type.

    >>> key_to_json(("a", 1))
    {'tuple': ['a', 1]}
    """
    kind = type(key)
    if kind in _PLAIN:
        return key
    if kind in _TAGS:
        tag, write = _TAGS[kind]
        return {tag: write(key)}
    if isinstance(key, tuple):
        return {"tuple": [key_to_json(part) for part in key]}
    if kind is list:
        return {"list": [key_to_json(part) for part in key]}
    if kind is Row:
        names = None if key._fields is None else list(key._fields)
        return {"row": [key_to_json(part) for part in key._values], "names": names}
    raise TypeError(
        f"a key of type {kind.__name__} cannot be sent to query state: keys are numbers, strings, bytes, dates and times, "
        "and tuples, lists and rows of them. The program's own JobClient.query_state() takes any key."
    )


def key_from_json(value: Any) -> Any:
    """Returns the key of `key_to_json`; raises a ValueError for anything else."""
    try:
        return _read_key(value, 0)
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        raise ValueError(f"{json.dumps(value)[:200]} is no key: {error}") from error


def _read_key(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if type(value) in _PLAIN:
        return value
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} is none")
    names = value.get("names")
    if "row" in value and set(value) <= {"row", "names"}:
        parts = [_read_key(part, depth + 1) for part in value["row"]]
        if names is not None and (len(names) != len(parts) or not all(isinstance(name, str) for name in names)):
            raise ValueError("its names do not fit its fields")
        return Row(*parts) if names is None else make_row(parts, tuple(names))
    if len(value) != 1:
        raise ValueError("it has no type, or several")
    [(tag, content)] = value.items()
    if tag == "tuple":
        return tuple(_read_key(part, depth + 1) for part in content)
    if tag == "list":
        return [_read_key(part, depth + 1) for part in content]
    if tag not in _READERS:
        raise ValueError(f"there is no type {tag!r}")
    return _READERS[tag](content)


def key_from_text(text: str) -> Any:
    """Returns the key in a URL: JSON, in which a list stands for a tuple; what is no JSON is a string.

    >>> key_from_text("5"), key_from_text('"5"'), key_from_text("tea"), key_from_text('["tea", 1]')
    (5, '5', 'tea', ('tea', 1))
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if value is None:
        return text
    return key_from_json(_lists_as_tuples(value))


def _lists_as_tuples(value: Any) -> Any:
    return {"tuple": [_lists_as_tuples(part) for part in value]} if isinstance(value, list) else value


# --- values ---


def shown(value: Any) -> Any:
    """Returns a value for people, as values that JSON has; what JSON lacks is shown by its text."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Row):
        return [*map(shown, value._values)] if value._fields is None else dict(zip(value._fields, map(shown, value)))
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: shown(each) for key, each in value.items()}
        return [[shown(key), shown(each)] for key, each in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: shown(each) for name, each in value._asdict().items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [shown(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: shown(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)
