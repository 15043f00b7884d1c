"""Columns: a block whose records are numbers, strings and the like, and tuples and Rows of them, as bytes.

Pickle writes and reads such records one object at a time. A column is written and read by a loop in C, in a third of
the time, and takes fewer bytes. What else a block may hold is pickled: every record is looked at, and one that can be
changed makes the whole block a pickle.

Only the compiled module writes columns; without it all blocks are pickles. Columns are read without it, too: the slots
of a job may run on machines of both kinds.

The format: the mark; flags (1: timestamps, 2: keys); the number of records in four bytes; then the columns of values,
timestamps and keys. Numbers are little-endian. A column begins with its kind:

    N       None
    b       booleans, a byte each
    c       the same integer for all, in eight bytes
    i       integers: the least in eight bytes, the width, and the difference of each to the least
    d       floats, eight bytes each
    p       immutable values of several classes, or of others: the length of a pickle in eight bytes, and the pickle of a
            list
    s u y   ASCII strings, UTF-8 strings, bytes: the width and the lengths in bytes, and all bytes
    t       tuples: the number of elements in two bytes, and a column for each
    n       named tuples: the length of a pickled reference to their class in four bytes, the reference, and a column of
            tuples
    r R     Rows that insert, without names or with the same: the number of fields in two bytes, the names as a column of
            strings (only if there are fields), and a column for each field
    =       of keys: the position of the key in each value, in two bytes; 65535 for the value itself
"""

from __future__ import annotations

import collections
import copyreg
import pickle
import struct
import sys
from array import array
from importlib import import_module
from typing import Any

from flintstream.common.types import make_rows

MARK = 3
"""The first byte of a block of columns."""
_HAS_TIMESTAMPS, _HAS_KEYS = 1, 2
_WHOLE = 0xFFFF
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}

_COUNT = struct.Struct("<I")
HEADER_BYTES = 2 + _COUNT.size

Decoded = tuple[list[Any], "list[int] | None", "list[Any] | None", int]
"""Values, timestamps, keys, and the number of bytes read."""


def is_named_tuple(kind: Any) -> bool:
    """Returns whether a class is made by `NamedTuple` or `namedtuple`, with nothing that says how to copy or make it."""
    known = _NAMED_TUPLES.get(kind)
    if known is None:
        known = _NAMED_TUPLES[kind] = (
            isinstance(kind, type)
            and kind.__bases__ == (tuple,)
            and getattr(kind.__new__, "__module__", None) == f"namedtuple_{kind.__name__}"
            and all(getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__"))
            and not hasattr(kind, "__getnewargs_ex__")
            and getattr(getattr(kind, "__getnewargs__", None), "__module__", None) == collections.__name__
            and not {"__getstate__", "__setstate__"} & vars(kind).keys()
            and kind not in copyreg.dispatch_table
        )
    return known


_NAMED_TUPLES: dict[Any, bool] = {}


class _Reader:
    """Reads columns from bytes."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self.place = 1

    def take(self, size: int) -> memoryview:
        found = self._data[self.place : self.place + size]
        if len(found) < size:
            raise ValueError("a block of columns is cut off")
        self.place += size
        return found

    def number(self, code: str) -> int:
        (found,) = struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))
        return int(found)

    def column(self, count: int) -> list[Any]:
        kind = self.take(1).tobytes()
        if kind == b"i":
            low = self.number("q")
            return [low + difference for difference in self._narrow(count)]
        if kind == b"c":
            return [self.number("q")] * count
        if kind in (b"s", b"u", b"y"):
            return self._strings(kind, count)
        if kind == b"t":
            columns = [self.column(count) for _ in range(self.number("H"))]
            return list(zip(*columns)) if columns else [()] * count
        if kind == b"n":
            made = pickle.loads(self.take(self.number("I")))
            if not is_named_tuple(made):
                raise ValueError(f"a block has a column of named tuples of {made!r}, which is no class of such")
            return [tuple.__new__(made, values) for values in self.column(count)]
        if kind in (b"r", b"R"):
            arity = self.number("H")
            fields = None if kind == b"r" else tuple(self.column(arity)) if arity else ()
            columns = [self.column(count) for _ in range(arity)]
            return make_rows(zip(*columns) if columns else [()] * count, fields)
        if kind == b"p":
            found = pickle.loads(self.take(self.number("Q")))
            if type(found) is not list or len(found) != count:
                raise ValueError(f"a block has a column that is no list of {count} values")
            return found
        if kind == b"d":
            return self._array("d", count).tolist()
        if kind == b"b":
            return [byte != 0 for byte in self.take(count)]
        if kind == b"N":
            return [None] * count
        raise ValueError(f"a block has a column of an unknown kind, {kind!r}")

    def keys(self, values: list[Any]) -> list[Any]:
        start = self.place
        if self.take(1).tobytes() != b"=":
            self.place = start
            return self.column(len(values))
        place = self.number("H")
        return list(values) if place == _WHOLE else [value[place] for value in values]

    def _narrow(self, count: int) -> list[int]:
        width = self.number("B")
        if width not in _UNSIGNED:
            raise ValueError(f"a block of columns has integers of {width} bytes")
        return self._array(_UNSIGNED[width], count).tolist()

    def _array(self, code: str, count: int) -> array[Any]:
        found = array(code)
        found.frombytes(self.take(count * found.itemsize))
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def _strings(self, kind: bytes, count: int) -> list[Any]:
        strings: list[Any] = []
        for length in self._narrow(count):
            data = self.take(length).tobytes()
            strings.append(data if kind == b"y" else data.decode("utf-8", "surrogatepass"))
        return strings


def decode(data: bytes | memoryview) -> Decoded:
    """Returns the values, the timestamps, the keys, and how many bytes they took."""
    source = _Reader(data)
    flags, count = source.number("B"), source.number("I")
    values = source.column(count)
    timestamps = source.column(count) if flags & _HAS_TIMESTAMPS else None
    keys = source.keys(values) if flags & _HAS_KEYS else None
    return values, timestamps, keys, source.place


def encode(values: list[Any], timestamps: list[int] | None, keys: list[Any] | None) -> bytes | None:
    """Returns the block, or None if it cannot be written as columns."""
    return None


def count(data: bytes | memoryview) -> int:
    """Returns the number of records of a block of columns."""
    return int(_COUNT.unpack_from(data, 2)[0])


decode_in_python = decode
try:
    _compiled = import_module("flintstream.runtime._columns")
except ImportError:
    pass  # See `setup.py`.
else:
    if sys.byteorder == "little":
        decode, encode = _compiled.decode, _compiled.encode
