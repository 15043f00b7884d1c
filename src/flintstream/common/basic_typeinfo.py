"""The base class of all types, and the types of single values: strings, numbers, dates and times.

Used through :mod:`flintstream.common.typeinfo`.
"""

from __future__ import annotations

import copy
import datetime
from abc import ABC
from array import array
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from enum import Enum
from typing import Any, Generic, NoReturn

from .java import java_only
from .serializer import TypeSerializer
from .serializers import (
    ConvertedSerializer,
    DecimalSerializer,
    FloatSerializer,
    IntegerSerializer,
    PickledSerializer,
    TextSerializer,
    TypedSerializer,
)
from .time import Instant
from .type_variables import T

__all__ = [
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "DecimalTypeInfo",
    "InstantTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TypeInformation",
    "wrapping",
]

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_NONE = type(None)
_DIGITS = Context(prec=100, rounding=ROUND_HALF_UP)


class TypeInformation(ABC, Generic[T]):
    """The type of the values of a stream, a state or a field. Created by :class:`Types`.

    Example::

        >>> from flintstream.common import Types
        >>> Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
        RowTypeInfo(id: Integer, name: String)
    """

    def get_java_type_info(self) -> NoReturn:
        """Not supported: there is no JVM type."""
        java_only("TypeInformation.get_java_type_info()", "Pass the type itself.")

    def need_conversion(self) -> bool:
        """Returns whether the internal form of a value differs from the value itself."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Converts a value to its internal form (ints and tuples), in which it is stored."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Converts a value back from its internal form."""
        return obj

    def coerce(self, values: list[Any]) -> list[Any]:
        """Converts a block of values to this type; returns the same list if nothing changes.

        Raises TypeError, naming this type and the value, for a value that is not of this type.
        """
        return values

    def create_serializer(self) -> TypeSerializer[Any]:
        """Returns the serialiser of values of this type: pickle by default.

        A user-defined subclass may return a user-defined serialiser; the type can be used wherever a type is declared.
        """
        return PickledSerializer(self)

    def _coerce_nullable(self, values: list[Any]) -> list[Any]:
        """:meth:`coerce` for the fields of rows and the elements of lists, which may be None."""
        if _NONE not in set(map(type, values)):  # not `None in values`, which fails for NumPy arrays
            return self.coerce(values)
        present = [value for value in values if value is not None]
        coerced = self.coerce(present)
        if coerced is present:
            return values
        following = iter(coerced)
        return [None if value is None else next(following) for value in values]

    def _refuse(self, value: Any, why: str = "") -> NoReturn:
        shown = repr(value)
        shown = shown if len(shown) <= 200 else shown[:200] + "..."
        what = "None" if value is None else f"{shown} ({type(value).__name__})"
        raise TypeError(f"{what} is not a value of the declared type {self}{': ' + why if why else ''}.")

    def _identity(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def __repr__(self) -> str:
        return type(self).__name__


class _EachValue(TypeInformation[T]):
    """A type whose values are converted one by one, unless all are of one exact class already."""

    _exact: type = object

    def coerce(self, values: list[Any]) -> list[Any]:
        if {self._exact}.issuperset(map(type, values)):
            return values
        return [self._convert(value) for value in values]

    def _convert(self, value: Any) -> Any:
        raise NotImplementedError


class BasicType(Enum):
    """The basic types; their values are the names shown."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


class BasicTypeInfo(_EachValue[T]):
    """A basic type: a string, a number, a boolean.

    Example::

        >>> from flintstream.common import Types
        >>> Types.INT().coerce([1, True, 2.0])
        [1, 1, 2]
    """

    def __init__(self, basic_type: BasicType) -> None:
        self._basic_type = basic_type

    @property
    def basic_type(self) -> BasicType:
        """Returns which basic type this is."""
        return self._basic_type

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo[str]:  # noqa: N802
        """``Types.STRING()``."""
        return _StringTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo[bool]:  # noqa: N802
        """``Types.BOOLEAN()``."""
        return _BooleanTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """``Types.BYTE()``."""
        return _IntegerTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """``Types.SHORT()``."""
        return _IntegerTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """``Types.INT()``."""
        return _IntegerTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """``Types.LONG()``."""
        return _IntegerTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo[float]:  # noqa: N802
        """``Types.FLOAT()``."""
        return _FloatTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo[float]:  # noqa: N802
        """``Types.DOUBLE()``."""
        return _DoubleTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo[str]:  # noqa: N802
        """``Types.CHAR()``."""
        return _CharTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """``Types.BIG_INT()``."""
        return _IntegerTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo[Decimal]:  # noqa: N802
        """``Types.BIG_DEC()``."""
        return _DecimalTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo[Instant]:  # noqa: N802
        """``Types.INSTANT()``."""
        return InstantTypeInfo(BasicType.INSTANT)

    def _identity(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def __repr__(self) -> str:
        return self._basic_type.value


class _StringTypeInfo(BasicTypeInfo[str]):
    _exact = str

    def create_serializer(self) -> TypeSerializer[Any]:
        return TextSerializer(self, str)

    def _convert(self, value: Any) -> Any:
        return str.__str__(value) if isinstance(value, str) else self._refuse(value)


class _CharTypeInfo(BasicTypeInfo[str]):
    _exact = str

    def create_serializer(self) -> TypeSerializer[Any]:
        return TextSerializer(self)

    def coerce(self, values: list[Any]) -> list[Any]:
        for value in values:
            if not isinstance(value, str) or len(value) != 1:
                self._refuse(value, "it holds exactly one character")
        return values


class _BooleanTypeInfo(BasicTypeInfo[bool]):
    _exact = bool

    def create_serializer(self) -> TypeSerializer[Any]:
        return TypedSerializer(self, bool)

    def _convert(self, value: Any) -> Any:
        if isinstance(value, int) or _is_numpy(value, "bui"):
            return bool(value)
        return self._refuse(value)


class _IntegerTypeInfo(BasicTypeInfo[int]):
    _exact = int
    _wraps = False
    """Whether values that overflow lose their upper bits, like Java's casts, instead of being refused."""

    def __init__(self, basic_type: BasicType) -> None:
        super().__init__(basic_type)
        bits = _BITS.get(basic_type)
        self._range = None if bits is None else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def create_serializer(self) -> TypeSerializer[Any]:
        return IntegerSerializer(self, _BITS.get(self._basic_type))

    def coerce(self, values: list[Any]) -> list[Any]:
        values = super().coerce(values)
        if self._range is not None and values:
            low, high = self._range
            if min(values) < low or max(values) > high:
                if self._wraps:
                    return [((value - low) & (high - low)) + low for value in values]
                wrong = next(value for value in values if not low <= value <= high)
                self._refuse(wrong, f"it holds {low} to {high}")
        return values

    def _convert(self, value: Any) -> Any:
        if isinstance(value, (int, float, Decimal)) or _is_numpy(value, "buif"):
            try:
                whole = int(value)
            except (ValueError, OverflowError):
                self._refuse(value)
            if whole == value:
                return whole
            self._refuse(value, "its fraction would be lost")
        return self._refuse(value)


class _DoubleTypeInfo(BasicTypeInfo[float]):
    _exact = float

    def create_serializer(self) -> TypeSerializer[Any]:
        return FloatSerializer(self, float if self._basic_type is BasicType.DOUBLE else None)

    def _convert(self, value: Any) -> Any:
        if isinstance(value, (int, float, Decimal)) or _is_numpy(value, "buif"):
            try:
                return float(value)
            except OverflowError:
                self._refuse(value, "it is too large")
        return self._refuse(value)


class _FloatTypeInfo(_DoubleTypeInfo):
    def coerce(self, values: list[Any]) -> list[Any]:
        # A C float has 32 bits: going through an array rounds, and turns values that are too large into infinity, as
        # Java does.
        return array("f", super().coerce(values)).tolist()


class _DecimalTypeInfo(BasicTypeInfo[Decimal]):
    _exact = Decimal

    def create_serializer(self) -> TypeSerializer[Any]:
        return DecimalSerializer(self)

    def coerce(self, values: list[Any]) -> list[Any]:
        values = super().coerce(values)
        for value in values:
            if not value.is_finite():
                self._refuse(value, "it holds finite numbers only")
        return values

    def _convert(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return value
        if isinstance(value, (int, float, str)):
            try:
                return Decimal(str(int(value) if isinstance(value, bool) else value))
            except InvalidOperation:
                self._refuse(value, "it is no number")
        return self._refuse(value)


class DecimalTypeInfo(_DecimalTypeInfo):
    """A decimal number of at most `precision` digits, rounded to `scale` decimal places; the type of
    `DataTypes.DECIMAL`.

    Example::

        >>> DecimalTypeInfo(4, 1).coerce([Decimal("1.25")])
        [Decimal('1.3')]
    """

    def __init__(self, precision: int, scale: int) -> None:
        super().__init__(BasicType.BIG_DEC)
        self.precision = precision
        self.scale = scale

    def coerce(self, values: list[Any]) -> list[Any]:
        return [self._fitting(value) for value in super().coerce(values)]

    def fit(self, value: Decimal) -> Decimal | None:
        """Returns the number rounded half up; None if it has too many digits."""
        try:
            rounded = _DIGITS.quantize(value, Decimal(1).scaleb(-self.scale))
        except InvalidOperation:
            return None
        return rounded if rounded.adjusted() < self.precision - self.scale or not rounded else None

    def _fitting(self, value: Decimal) -> Decimal:
        fitting = self.fit(value)
        return self._refuse(value, "it has too many digits") if fitting is None else fitting

    def _identity(self) -> tuple[Any, ...]:
        return self._basic_type, self.precision, self.scale

    def __repr__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


class InstantTypeInfo(BasicTypeInfo[Instant]):
    """A point in time, an :class:`~flintstream.common.time.Instant`."""

    _exact = Instant

    def create_serializer(self) -> TypeSerializer[Any]:
        return ConvertedSerializer(self)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Instant) -> Any:
        return obj.seconds * 1_000_000_000 + obj.nanos

    def from_internal_type(self, obj: int) -> Any:
        return Instant(*divmod(obj, 1_000_000_000))

    def _convert(self, value: Any) -> Any:
        return value if isinstance(value, Instant) else self._refuse(value)


class DateTypeInfo(_EachValue[datetime.date]):
    """A calendar date, a ``datetime.date``; a datetime is truncated to its date."""

    EPOCH_ORDINAL = _EPOCH_ORDINAL
    _exact = datetime.date

    def create_serializer(self) -> TypeSerializer[Any]:
        return ConvertedSerializer(self)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: datetime.date | None) -> Any:
        return None if obj is None else obj.toordinal() - _EPOCH_ORDINAL

    def from_internal_type(self, obj: int | None) -> Any:
        return None if obj is None else datetime.date.fromordinal(obj + _EPOCH_ORDINAL)

    def _convert(self, value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.date()
        return value if isinstance(value, datetime.date) else self._refuse(value)


class TimeTypeInfo(TypeInformation[datetime.time]):
    """A time of day in milliseconds, a ``datetime.time``; finer digits are truncated."""

    EPOCH_ORDINAL = _EPOCH_ORDINAL

    def create_serializer(self) -> TypeSerializer[Any]:
        return ConvertedSerializer(self)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: datetime.time | None) -> Any:
        if obj is None:
            return None
        return ((obj.hour * 60 + obj.minute) * 60 + obj.second) * 1_000_000 + obj.microsecond

    def from_internal_type(self, obj: int | None) -> Any:
        if obj is None:
            return None
        seconds, micros = divmod(obj, 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        return datetime.time(*divmod(minutes, 60), seconds, micros)

    def coerce(self, values: list[Any]) -> list[Any]:
        for value in values:
            if not isinstance(value, datetime.time):
                self._refuse(value)
            if value.utcoffset():
                self._refuse(value, "it has no time zone; convert the time to UTC")
        if all(value.microsecond % 1000 == 0 and value.tzinfo is None for value in values):
            return values
        return [value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=None) for value in values]


class TimestampTypeInfo(TypeInformation[datetime.datetime]):
    """A date and time of day in milliseconds without a time zone, a ``datetime.datetime``; finer digits are truncated."""

    def create_serializer(self) -> TypeSerializer[Any]:
        return ConvertedSerializer(self)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: datetime.datetime | None) -> Any:
        return None if obj is None else (obj.replace(tzinfo=None) - _EPOCH) // datetime.timedelta(microseconds=1)

    def from_internal_type(self, obj: int | None) -> Any:
        return None if obj is None else _EPOCH + datetime.timedelta(microseconds=obj)

    def coerce(self, values: list[Any]) -> list[Any]:
        for value in values:
            if not isinstance(value, datetime.datetime):
                self._refuse(value)
            if value.utcoffset():
                self._refuse(value, "it has no time zone; convert the datetime to UTC")
        if all(value.microsecond % 1000 == 0 and value.tzinfo is None for value in values):
            return values
        return [value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=None) for value in values]


class SqlTimeTypeInfo(TypeInformation):
    """The date and time types of SQL."""

    @staticmethod
    def DATE() -> DateTypeInfo:  # noqa: N802
        """``Types.SQL_DATE()``."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:  # noqa: N802
        """``Types.SQL_TIME()``."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:  # noqa: N802
        """``Types.SQL_TIMESTAMP()``."""
        return TimestampTypeInfo()


def wrapping(type_info: TypeInformation) -> TypeInformation:
    """Returns the type with integers that overflow BYTE, SHORT or INT wrapping around, at any depth."""
    copied = copy.deepcopy(type_info)
    pending: list[Any] = [copied]
    while pending:
        part = pending.pop()
        if isinstance(part, _IntegerTypeInfo):
            part._wraps = part.basic_type is not BasicType.LONG
        elif isinstance(part, TypeInformation):
            pending.extend(vars(part).values())
        elif isinstance(part, (list, tuple)):
            pending.extend(part)
    return copied


def _is_numpy(value: Any, kinds: str) -> bool:
    return type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "?") in kinds
