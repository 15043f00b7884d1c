"""Formats values as Flink's print sink shows them.

Typed values are formatted as in Java (``true``, ``1.0E10``, ``(a,1)``); rows in Flink's changelog form (``+I[a,1]``)
with fields formatted as in Python, except in files, which Flink writes from Java; and values without a declared type as
Python's ``str``. Arrays, for which Java prints an address, are shown as lists.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from .time import Instant
from .typeinfo import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    _Elements,
)
from .types import Row

__all__ = ["java_double", "java_float", "to_java_string"]


def to_java_string(value: Any, type_info: TypeInformation | None = None) -> str:
    """Returns the text that Flink's print sink shows for a value of that type.

    Example::

        >>> from flintstream.common import Types
        >>> to_java_string(("a", True, 1e10), Types.TUPLE([Types.STRING(), Types.BOOLEAN(), Types.DOUBLE()]))
        '(a,true,1.0E10)'
    """
    return formatter(type_info)(value)


def formatter(type_info: TypeInformation | None) -> Callable[[Any], str]:
    """Returns :func:`to_java_string` for one type, to be called for many values."""
    return _printed_row if isinstance(type_info, RowTypeInfo) else line_formatter(type_info)


def line_formatter(type_info: TypeInformation | None) -> Callable[[Any], str]:
    """Returns a formatter of lines of a text file: like `formatter`, but rows as in Java (``+I[a, null]``)."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return str
    return _nested(type_info)


def java_double(value: float) -> str:
    """Formats a number like ``Double.toString``: ``1.0E10``, ``0.001``, ``NaN``."""
    digits = repr(value)
    return _java_number(value, f"{value:.1e}" if _significant(digits) == 1 else digits)


def java_float(value: float) -> str:
    """Formats a number like ``Float.toString``: with the fewest digits that distinguish it from other 32-bit numbers."""
    if math.isfinite(value):
        try:
            packed = struct.pack("f", value)
        except OverflowError:
            return java_float(math.copysign(math.inf, value))
        for precision in range(1, 9):
            digits = f"{value:.{precision}e}"
            try:
                if struct.pack("f", float(digits)) == packed:
                    return _java_number(value, digits)
            except OverflowError:
                continue
    return _java_number(value, repr(value))


def _significant(digits: str) -> int:
    return len(digits.split("e")[0].replace(".", "").replace("-", "").strip("0"))


def _java_number(value: float, digits: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, numerals, exponent = Decimal(digits).as_tuple()
    text = "".join(map(str, numerals)).lstrip("0")
    minus = "-" if sign else ""
    if not text:
        return minus + "0.0"
    point = len(text) + int(exponent)  # the number of digits before the decimal point
    text = text.rstrip("0")
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _nullable(show: Callable[[Any], str]) -> Callable[[Any], str]:
    def show_or_null(value: Any) -> str:
        return "null" if value is None else show(value)

    return show_or_null


def _nested(type_info: TypeInformation) -> Callable[[Any], str]:
    if isinstance(type_info, BasicTypeInfo):
        return _nullable(_BASIC.get(type_info.basic_type, str))
    if isinstance(type_info, TimeTypeInfo):
        return _nullable(lambda value: f"{value:%H:%M:%S}")
    if isinstance(type_info, TimestampTypeInfo):
        return _nullable(_timestamp)
    if isinstance(type_info, ExternalTypeInfo):
        return _nested(type_info._type_info)
    if isinstance(type_info, _Elements):
        return _nullable(_elements(type_info))
    if isinstance(type_info, MapTypeInfo):
        return _nullable(_map(type_info))
    if isinstance(type_info, TupleTypeInfo):
        return _nullable(_tuple(type_info))
    if isinstance(type_info, RowTypeInfo):
        return _nullable(_row(type_info))
    return _nullable(lambda value: f"[{', '.join(map(str, _signed(value)))}]" if _is_bytes(value) else str(value))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, (bytes, bytearray))


def _signed(value: bytes | bytearray) -> list[int]:
    """Converts bytes to Java's signed values."""
    return [byte - 256 if byte > 127 else byte for byte in value]


def _elements(type_info: _Elements) -> Callable[[Any], str]:
    element = _nested(type_info.elem_type)

    def show(value: Any) -> str:
        if _is_bytes(value):
            value = _signed(value)
        return f"[{', '.join(map(element, value))}]"

    return show


def _map(type_info: MapTypeInfo) -> Callable[[Any], str]:
    key, item = _nested(type_info.key_type), _nested(type_info.value_type)
    return lambda value: "{" + ", ".join(f"{key(k)}={item(v)}" for k, v in value.items()) + "}"


def _tuple(type_info: TupleTypeInfo) -> Callable[[Any], str]:
    fields = [_nested(kind) for kind in type_info.get_field_types()]
    return lambda value: f"({','.join(show(field) for show, field in zip(fields, value, strict=False))})"


def _row(type_info: RowTypeInfo) -> Callable[[Any], str]:
    fields = [_nested(kind) for kind in type_info.get_field_types()]

    def show(value: Row) -> str:
        shown = ", ".join(show_field(field) for show_field, field in zip(fields, value, strict=False))
        return f"{value.get_row_kind()}[{shown}]"

    return show


def _printed_row(value: Any) -> str:
    # PyFlink formats rows in Python, before Java sees them: True and None, and no space after a comma.
    return f"{value.get_row_kind()}[{','.join(map(str, value))}]" if isinstance(value, Row) else str(value)


def _timestamp(value: datetime.datetime) -> str:
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _instant(value: Instant) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    fraction = f"{value.nanos:09d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return moment.isoformat(timespec="seconds") + (f".{fraction}Z" if fraction else "Z")


def _decimal(value: Decimal) -> str:
    return str(value if value else abs(value))  # Java prints no negative zero here


_BASIC: dict[BasicType, Callable[[Any], str]] = {
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.FLOAT: java_float,
    BasicType.DOUBLE: java_double,
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: _instant,
}
