"""Parses and formats values as text by their declared type, for CSV."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from flintstream.common.basic_typeinfo import DecimalTypeInfo
from flintstream.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)

__all__ = ["element_type_of", "parse_date_time", "parser"]

Parser = Callable[[str], Any]


def parser(type_info: TypeInformation, separator: str = ";") -> Parser:
    """Returns a function that parses a value of that type from text, and raises ValueError if it cannot.

    :param separator: the separator of list elements, and of the fields of a nested row.
    """
    if isinstance(type_info, DecimalTypeInfo):
        return lambda text: type_info.fit(_decimal(text))  # None if it does not fit, as in Flink
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return _row(type_info, separator)
    basic = _PARSERS.get(type_info)
    if basic is not None:
        return basic
    element = element_type_of(type_info)
    if element is None:
        raise TypeError(f"a column of type {type_info} cannot be read from text")
    parse = parser(element)
    if not separator:
        return lambda text: [parse(text)] if text else []
    return lambda text: [parse(part) for part in text.split(separator)] if text else []


def _row(type_info: RowTypeInfo | TupleTypeInfo, separator: str) -> Parser:
    parsers = [parser(field, separator) for field in type_info.get_field_types()]

    def parse(text: str) -> Any:
        parts = text.split(separator) if separator else [text]
        if len(parts) != len(parsers):
            raise ValueError(f"{text!r} has {len(parts)} parts, but {type_info} has {len(parsers)} fields")
        values = [parse(part) for parse, part in zip(parsers, parts, strict=True)]
        return type_info.coerce([tuple(values)])[0]

    return parse


def element_type_of(type_info: TypeInformation) -> TypeInformation | None:
    """Returns the element type of a list or array; None for other types."""
    lists = (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)
    return type_info.element_type if isinstance(type_info, lists) else None


def _integer(bits: int | None) -> Parser:
    low, high = (0, 0) if bits is None else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not an integer") from None
        if "_" in text:  # Python allows underscores between digits
            raise ValueError(f"{text!r} is not an integer")
        if bits is not None and not low <= value <= high:
            raise ValueError(f"{text!r} is not between {low} and {high}")
        return value

    return parse


def _real(text: str) -> float:
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    return float(text)


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None
    if not value.is_finite() or "_" in text:  # Python allows underscores, Java's BigDecimal does not
        raise ValueError(f"{text!r} is no number")
    return value


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"  # as Java's Boolean.parseBoolean


def parse_date_time(text: str) -> datetime.datetime:
    """Parses a date and time in ISO form; a trailing Z is UTC."""
    text = text.strip()
    return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)


_PARSERS: dict[TypeInformation, Parser] = {
    Types.STRING(): str,
    Types.CHAR(): str,
    Types.BOOLEAN(): _boolean,
    Types.BYTE(): _integer(8),
    Types.SHORT(): _integer(16),
    Types.INT(): _integer(32),
    Types.LONG(): _integer(64),
    Types.BIG_INT(): _integer(None),
    Types.FLOAT(): _real,
    Types.DOUBLE(): _real,
    Types.BIG_DEC(): _decimal,
    Types.SQL_DATE(): lambda text: datetime.date.fromisoformat(text.strip()),
    Types.SQL_TIME(): lambda text: datetime.time.fromisoformat(text.strip()),
    Types.SQL_TIMESTAMP(): parse_date_time,
    Types.PRIMITIVE_ARRAY(Types.BYTE()): lambda text: base64.b64decode(text, validate=True),
}
