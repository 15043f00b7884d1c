"""Canonical encoding of keys, and their assignment to key groups and subtasks.

Equal keys have equal bytes on every machine and in every run, and different keys have different bytes, so the encoding
never uses ``hash()`` or pickle. Numbers that are equal in Python (``1 == 1.0 == True == Decimal(1)``) are one key, and
a named tuple equals the plain tuple.
"""

from __future__ import annotations

import copyreg
import dataclasses
import datetime
import marshal
import zlib
from array import array
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from types import FunctionType
from typing import Any
from uuid import UUID

from .canonical_keys import NAN, BytesKey, DictKey, ListKey, SetKey
from .time import Instant
from .types import Row

__all__ = [
    "default_max_parallelism",
    "key_bytes",
    "key_group",
    "key_group_range",
    "key_groups",
    "subtask_for_group",
    "subtasks",
]

DEFAULT_MAX_PARALLELISM = 128
UPPER_BOUND_MAX_PARALLELISM = 32_768

# Version 2 of marshal has neither references nor interning, so its bytes depend on the value alone. It writes any
# buffer (a bytearray, a NumPy scalar) as plain bytes, so only results of _normal may reach it. A list marks an encoded
# object: no key is a list, so it cannot be confused with a user's tuple.
_VERSION = 2
_PLAIN = frozenset((int, str, bytes))
_MARSHALLED = frozenset((int, str))
"""Keys of these types are written by marshal unchanged."""
SMALL_BLOCK = 256
"""Fewer keys are encoded one by one: the vectorised path needs NumPy, which a small job need not load."""
_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_DECIMAL_EXPONENT_LIMIT = 10_000

_newobj: Any = copyreg.__newobj__  # type: ignore[attr-defined]
_Normaliser = Callable[[Any], Any]


def key_bytes(key: Any) -> bytes:
    """Returns the canonical bytes of a key.

    Example::

        >>> key_bytes(("a", 1)) == key_bytes(("a", 1.0)) == key_bytes(("a", True))
        True
        >>> key_bytes(range(2))
        Traceback (most recent call last):
        ...
        TypeError: A key cannot be or contain a range (here range(0, 2)): use a tuple instead.
    """
    kind = type(key)
    if kind is int or kind is str:
        return marshal.dumps(key, _VERSION)
    if kind is tuple and _PLAIN.issuperset(map(type, key)):
        return marshal.dumps(key, _VERSION)
    if key is None:
        raise TypeError("A key cannot be None: let the key selector return a value for every record.")
    return marshal.dumps(_normal(key), _VERSION)


def key_group(key: Any, max_parallelism: int) -> int:
    """Returns the key group of a key, from 0 to ``max_parallelism - 1``.

    Example::

        >>> key_group(1, 128) == key_group(1.0, 128)
        True
    """
    # CRC is linear, so neighbouring keys would form patterns; the finaliser of MurmurHash3 breaks them up.
    h = zlib.crc32(key_bytes(key))
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return (h ^ (h >> 16)) % max_parallelism


def key_groups(keys: list[Any], max_parallelism: int) -> list[int]:
    """Returns the key groups of a block of keys: `key_group` for each, at a fraction of the cost."""
    if len(keys) < SMALL_BLOCK:
        return [key_group(key, max_parallelism) for key in keys]
    groups: list[int] = (_mixed(_checksums(keys)) % max_parallelism).tolist()
    return groups


def subtasks(keys: list[Any], max_parallelism: int, parallelism: int) -> list[int]:
    """Returns the subtasks that own the key groups of a block of keys."""
    if len(keys) < SMALL_BLOCK:
        return [subtask_for_group(group, max_parallelism, parallelism) for group in key_groups(keys, max_parallelism)]
    groups = (_mixed(_checksums(keys)) % max_parallelism).astype("int64")
    found: list[int] = (groups * parallelism // max_parallelism).tolist()
    return found


def _mixed(h: Any) -> Any:
    import numpy

    h = (h ^ (h >> 16)) * numpy.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * numpy.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def _checksums(keys: list[Any]) -> Any:
    """Returns the CRC-32 of the bytes of each key."""
    import numpy

    kinds = {*map(type, keys)}
    if kinds == {int}:
        try:
            return _checksums_of_integers(numpy.frombuffer(array("i", keys), dtype=numpy.uint32))
        except OverflowError:
            pass  # Integers of more than 32 bits have another encoding.
    crc32, dumps = zlib.crc32, marshal.dumps
    if kinds <= _MARSHALLED:
        checksums = [crc32(dumps(key, _VERSION)) for key in keys]
    else:
        checksums = [crc32(key_bytes(key)) for key in keys]
    return numpy.array(checksums, dtype=numpy.uint32)


def _checksums_of_integers(keys: Any) -> Any:
    """Vectorised `crc32(marshal.dumps(key, 2))`: an integer of 32 bits is a letter and four bytes, little-endian."""
    table = _crc_table()
    crc = (zlib.crc32(marshal.dumps(0, _VERSION)[:1]) ^ 0xFFFFFFFF) ^ keys
    for _ in range(4):
        crc = table[crc & 0xFF] ^ (crc >> 8)
    return ~crc


@cache
def _crc_table() -> Any:
    """Returns the CRC-32 lookup table."""
    import numpy

    table = numpy.arange(256, dtype=numpy.uint32)
    for _ in range(8):
        table = numpy.where(table & 1, (table >> 1) ^ numpy.uint32(0xEDB88320), table >> 1)
    return table


def subtask_for_group(group: int, max_parallelism: int, parallelism: int) -> int:
    """Returns the subtask that owns a key group: ``subtask_for_group(64, 128, 2)`` is 1."""
    return group * parallelism // max_parallelism


def key_group_range(max_parallelism: int, parallelism: int, subtask: int) -> range:
    """Returns the key groups of a subtask: ``key_group_range(128, 2, 1)`` is ``range(64, 128)``."""
    if not 1 <= parallelism <= max_parallelism:
        raise ValueError(f"The parallelism {parallelism} must be from 1 to the maximum parallelism {max_parallelism}.")
    if not 0 <= subtask < parallelism:
        raise ValueError(f"The subtask {subtask} must be from 0 to {parallelism - 1}.")
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask + 1) * max_parallelism - 1) // parallelism
    return range(start, end + 1)


def default_max_parallelism(parallelism: int) -> int:
    """Returns the default number of key groups of an operator: one and a half times the parallelism, rounded up to a
    power of two, within 128 to 32768.
    """
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), DEFAULT_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def _normal(key: Any) -> Any:
    """Normalises a key to ints, floats, strs, bytes, tuples and marked lists, all of exactly these types."""
    kind = type(key)
    normaliser = _NORMALISERS.get(kind)
    if normaliser is None:
        normaliser = _find_normaliser(kind)
        _NORMALISERS[kind] = normaliser
    return normaliser(key)


def _same(key: Any) -> Any:
    return key


def _int(key: Any) -> int:
    return int.__add__(key, 0)


def _float(key: float) -> Any:
    if key != key and key is not NAN:
        raise TypeError(
            "A key cannot be or contain this NaN: NaN is supported only as a key itself and in tuples, Rows and "
            "collections."
        )
    key = float.__float__(key)
    return int(key) if key.is_integer() else key  # also -0.0, which equals 0.0


def _str(key: str) -> str:
    return str.__str__(key)


def _bytes(key: bytes) -> bytes:
    return bytes.__add__(b"", key)


def _tuple(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_normal, tuple.__iter__(key)))


def _ratio(key: Decimal | Fraction) -> Any:
    if isinstance(key, Decimal):
        if not key.is_finite():
            return _float(float("nan") if key.is_nan() else float(key))
        if key and abs(key.adjusted()) > _DECIMAL_EXPONENT_LIMIT:
            raise TypeError(f"The Decimal {key} is too large or too small for a key.")
    numerator, denominator = key.as_integer_ratio()
    if denominator == 1:
        return numerator
    try:
        as_float = numerator / denominator
    except OverflowError:
        as_float = 0.0
    if Fraction(as_float) == Fraction(numerator, denominator):
        return as_float
    return ["ratio", numerator, denominator]


def _complex(key: complex) -> Any:
    return ["complex", _float(key.real), _float(key.imag)] if key.imag else _float(key.real)


def _list(key: ListKey) -> list[Any]:
    return ["list", *map(_normal, key)]


def _dict(key: DictKey) -> list[Any]:
    return ["dict", *sorted(marshal.dumps(_tuple(item), _VERSION) for item in key.items())]


def _frozenset(key: frozenset[Any] | SetKey) -> list[Any]:
    return ["frozenset", *sorted(marshal.dumps(_normal(item), _VERSION) for item in key)]


def _row(key: Row) -> list[Any]:
    return ["row", key._row_kind.value, key._fields, *map(_normal, key._values)]


def _datetime(key: datetime.datetime) -> list[Any]:
    if key.utcoffset() is None:
        return ["datetime", (key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND]
    return ["instant", (key - _UTC_EPOCH) // _MICROSECOND]


def _time(key: datetime.time) -> list[Any]:
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    offset = key.utcoffset()
    return ["time", micros] if offset is None else ["offset time", micros - offset // _MICROSECOND]


def _timedelta(key: datetime.timedelta) -> list[Any]:
    return ["timedelta", key // _MICROSECOND]


def _enum(key: Enum) -> list[Any]:
    return ["enum", _class_name(type(key)), key.name]


def _class(key: type) -> list[Any]:
    return ["class", _class_name(key)]


def _instant(key: Instant) -> list[Any]:
    return ["Instant", key.seconds, key.nanos]


_NORMALISERS: dict[type, _Normaliser] = {
    type(None): _same,  # only inside a tuple or an object: key_bytes refuses None as a key
    int: _same,
    str: _same,
    bytes: _same,
    bool: int,
    float: _float,
    complex: _complex,
    tuple: _tuple,
    frozenset: _frozenset,
    ListKey: _list,
    DictKey: _dict,
    SetKey: _frozenset,
    BytesKey: bytes,
    Row: _row,
    Decimal: _ratio,
    Fraction: _ratio,
    datetime.datetime: _datetime,
    datetime.date: lambda key: ["date", key.toordinal()],
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    UUID: lambda key: ["uuid", key.bytes],
    Instant: _instant,
    type: _class,
}

_INSTEAD: dict[type, str] = {
    list: "use a tuple instead",
    dict: "use a tuple of its items, or a Row, instead",
    set: "use a frozenset instead",
    bytearray: "use bytes instead",
    memoryview: "use bytes instead",
    range: "use a tuple instead",
}

# A subclass equals what its base class equals: a named tuple is a tuple, an IntEnum an int, a str enum a str.
_BASES: tuple[tuple[type, _Normaliser], ...] = (
    (int, _int),
    (float, _float),
    (str, _str),
    (bytes, _bytes),
    (complex, _complex),
    (tuple, _tuple),
    (frozenset, _frozenset),
    (Enum, _enum),
    (Row, _row),
    (Decimal, _ratio),
    (Fraction, _ratio),
    (datetime.datetime, _datetime),
    (datetime.time, _time),
    (datetime.timedelta, _timedelta),
    (type, _class),
)


def _find_normaliser(kind: type) -> _Normaliser:
    for refused, instead in _INSTEAD.items():
        if issubclass(kind, refused):
            return _refusal(refused.__name__, instead)
    if any(base.__module__ == "numpy" for base in kind.__mro__):
        return _numpy
    if kind.__hash__ is None:
        fix = "declare it with @dataclass(frozen=True)" if dataclasses.is_dataclass(kind) else "give it a __hash__"
        return _refusal(f"{kind.__qualname__}, which is not hashable", fix)
    if dataclasses.is_dataclass(kind) and _has_own_equality(kind):
        return _dataclass(kind)
    for base, normaliser in _BASES:
        if issubclass(kind, base):
            return normaliser
    if not _has_own_equality(kind) or issubclass(kind, FunctionType):
        return _refusal(
            f"{kind.__qualname__}, which compares by identity and so cannot be matched in another process",
            "give it an __eq__ and a __hash__, or use a frozen dataclass",
        )
    return _object


def _refusal(what: str, instead: str) -> _Normaliser:
    article = "an" if what[0] in "aeiou" else "a"

    def refuse(key: Any) -> Any:
        shown = repr(key)
        shown = shown if len(shown) <= 200 else shown[:200] + "..."
        raise TypeError(f"A key cannot be or contain {article} {what} (here {shown}): {instead}.")

    return refuse


def _numpy(key: Any) -> Any:
    kind = getattr(getattr(key, "dtype", None), "kind", "")
    if isinstance(key, (str, bytes)):
        return _str(key) if isinstance(key, str) else _bytes(key)
    plain = key.item() if kind in {"b", "i", "u", "f", "c"} and key.ndim == 0 else key
    if type(plain) not in (bool, int, float, complex):
        raise TypeError(
            f"A key cannot be or contain a NumPy {type(key).__name__} (here {key!r}): convert it to a Python value."
        )
    return _normal(plain)


def _dataclass(kind: type) -> _Normaliser:
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    class_name = _class_name(kind)

    def encode(key: Any) -> Any:
        return ["object", class_name, *(_normal(getattr(key, name)) for name in names)]

    return encode


def _object(key: Any) -> Any:
    """Encodes an object of any other class that defines equality: its class and its state, as copied by `copy`."""
    kind = type(key)
    try:
        reduced = key.__reduce_ex__(2)
    except Exception as error:
        raise TypeError(f"The {kind.__qualname__} {key!r} has no state to use as a key: {error}") from error
    if not isinstance(reduced, tuple):
        raise TypeError(f"A key cannot be or contain {key!r}: it has no state.")
    function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    if items is not None or pairs is not None:
        raise TypeError(f"A key cannot be or contain the collection {key!r}: use a tuple or a frozenset instead.")
    maker = "" if function is _newobj else f"{function.__module__}.{function.__qualname__}"
    return ["object", _class_name(kind), maker, _tuple(arguments), _state(state)]


def _state(state: Any) -> Any:
    if isinstance(state, dict):
        return ["state", *_pairs(state.items())]
    if type(state) is tuple and len(state) == 2 and all(part is None or isinstance(part, dict) for part in state):
        return ["state", *_pairs(item for part in state if part for item in part.items())]
    return _normal(state)


def _pairs(items: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return sorted(((name, _normal(value)) for name, value in items), key=lambda pair: pair[0])


def _has_own_equality(kind: Any) -> bool:
    return kind.__eq__ is not object.__eq__


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
