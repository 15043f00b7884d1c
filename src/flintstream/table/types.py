"""DataTypes: the types of columns in PyFlink's schemas of CSV and Parquet files.

Formats accept them wherever they accept :class:`~flintstream.common.Types`, to which each can be converted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from flintstream.common.basic_typeinfo import DecimalTypeInfo
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation, Types

__all__ = ["DataType", "DataTypes", "RowField", "RowType", "row_type_info", "type_info_of"]

_D = TypeVar("_D", bound="DataType")
_MOST_DIGITS = 38
_MOST_LENGTH = 2**31 - 1


class DataType:
    """The type of a column. Created by :class:`DataTypes`.

    >>> DataTypes.DECIMAL(10, 2).not_null()
    DECIMAL(10, 2) NOT NULL
    """

    def __init__(self, name: str, type_info: TypeInformation, nullable: bool = True) -> None:
        self._name = name
        self._type_info = type_info
        self._nullable = nullable

    @property
    def is_nullable(self) -> bool:
        """Returns whether a value may be None."""
        return self._nullable

    def type_info(self) -> TypeInformation:
        """Returns the corresponding type of `Types`."""
        return self._type_info

    def not_null(self: _D) -> _D:
        """Returns this type as not nullable."""
        return self._with(False)

    def nullable(self: _D) -> _D:
        """Returns this type as nullable, which is the default."""
        return self._with(True)

    def bridged_to(self: _D, conversion_cls: str) -> _D:
        """Accepted for compatibility, without effect: values are Python objects."""
        return self

    def _with(self: _D, nullable: bool) -> _D:
        changed = copy.copy(self)
        changed._nullable = nullable
        return changed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return self._name if self._nullable else f"{self._name} NOT NULL"


class RowField:
    """A field of a `RowType`."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"DataTypes.FIELD: the name must be a non-empty string, got {name!r}")
        self.name = name
        self.data_type = _checked(data_type, f"field {name!r}")
        self.description = description

    def __repr__(self) -> str:
        return f"`{self.name}` {self.data_type}"


class RowType(DataType):
    """The type of rows with named fields.

    >>> row = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING())])
    >>> row.field_names(), row.type_info()
    (['id', 'name'], RowTypeInfo(id: Integer, name: String))
    """

    def __init__(self, fields: Sequence[RowField], nullable: bool = True) -> None:
        self.fields = list(fields)
        for field in self.fields:
            if not isinstance(field, RowField):
                raise TypeError(f"DataTypes.ROW: expected fields made by DataTypes.FIELD, got {field!r}")
        types = [field.data_type.type_info() for field in self.fields]
        name = f"ROW<{', '.join(map(repr, self.fields))}>"
        super().__init__(name, Types.ROW_NAMED(self.field_names(), types), nullable)

    def field_names(self) -> list[str]:
        """Returns the names of the fields, in order."""
        return [field.name for field in self.fields]

    def field_types(self) -> list[DataType]:
        """Returns the types of the fields, in order."""
        return [field.data_type for field in self.fields]

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


class DataTypes:
    """Creates data types.

    >>> CsvSchema.builder().add_number_column("price", DataTypes.DECIMAL(10, 2))  # doctest: +SKIP

    Lengths of strings and bytes are not checked; times have millisecond precision, whatever is declared.
    """

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:  # noqa: N802
        """True or False."""
        return DataType("BOOLEAN", Types.BOOLEAN(), nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:  # noqa: N802
        """An integer of 8 bits."""
        return DataType("TINYINT", Types.BYTE(), nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:  # noqa: N802
        """An integer of 16 bits."""
        return DataType("SMALLINT", Types.SHORT(), nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:  # noqa: N802
        """An integer of 32 bits."""
        return DataType("INT", Types.INT(), nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:  # noqa: N802
        """An integer of 64 bits."""
        return DataType("BIGINT", Types.LONG(), nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:  # noqa: N802
        """A floating-point number of 32 bits."""
        return DataType("FLOAT", Types.FLOAT(), nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:  # noqa: N802
        """A floating-point number of 64 bits."""
        return DataType("DOUBLE", Types.DOUBLE(), nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:  # noqa: N802
        """A decimal number of at most `precision` digits, rounded to `scale` decimal places."""
        _check(f"DECIMAL({precision!r}, {scale!r}): precision", precision, 1, _MOST_DIGITS)
        _check(f"DECIMAL({precision!r}, {scale!r}): scale", scale, 0, precision)
        return DataType(f"DECIMAL({precision}, {scale})", DecimalTypeInfo(precision, scale), nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """A string."""
        return DataType(f"CHAR({_length('CHAR', length)})", Types.STRING(), nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """A string."""
        return DataType(f"VARCHAR({_length('VARCHAR', length)})", Types.STRING(), nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:  # noqa: N802
        """A string."""
        return DataType("STRING", Types.STRING(), nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Bytes."""
        return DataType(f"BINARY({_length('BINARY', length)})", Types.PRIMITIVE_ARRAY(Types.BYTE()), nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:  # noqa: N802
        """Bytes."""
        return DataType(f"VARBINARY({_length('VARBINARY', length)})", Types.PRIMITIVE_ARRAY(Types.BYTE()), nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:  # noqa: N802
        """Bytes."""
        return DataType("BYTES", Types.PRIMITIVE_ARRAY(Types.BYTE()), nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:  # noqa: N802
        """A date, a `datetime.date`."""
        return DataType("DATE", Types.SQL_DATE(), nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:  # noqa: N802
        """A time of day, a `datetime.time`."""
        return DataType(f"TIME({_precision('TIME', precision)})", Types.SQL_TIME(), nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """A date and time without a time zone, a `datetime.datetime`."""
        return DataType(f"TIMESTAMP({_precision('TIMESTAMP', precision)})", Types.SQL_TIMESTAMP(), nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """A point in time, an `Instant`."""
        return DataTypes.TIMESTAMP_LTZ(precision, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:  # noqa: N802
        """A point in time, an `Instant`."""
        return DataType(f"TIMESTAMP_LTZ({_precision('TIMESTAMP_LTZ', precision)})", Types.INSTANT(), nullable)

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """A list of values of one type."""
        element = _checked(element_type, "ARRAY")
        return DataType(f"ARRAY<{element}>", Types.LIST(element.type_info()), nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:  # noqa: N802
        """A dict."""
        key, value = _checked(key_type, "MAP"), _checked(value_type, "MAP")
        return DataType(f"MAP<{key}, {value}>", Types.MAP(key.type_info(), value.type_info()), nullable)

    @staticmethod
    def ROW(row_fields: Sequence[RowField] = (), nullable: bool = True) -> RowType:  # noqa: N802
        """A Row with these fields."""
        return RowType(row_fields, nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:  # noqa: N802
        """A field of a row."""
        return RowField(name, data_type, description)


def type_info_of(kind: Any) -> Any:
    """Converts a data type to one of `Types`; anything else is returned unchanged."""
    return kind.type_info() if isinstance(kind, DataType) else kind


def row_type_info(what: str, row_type: Any) -> RowTypeInfo:
    """Returns the row type given to a format, of either kind."""
    kind = type_info_of(row_type)
    if not isinstance(kind, RowTypeInfo):
        raise TypeError(f"{what}: row_type must be made by DataTypes.ROW or Types.ROW_NAMED, got {row_type!r}")
    return kind


def _checked(data_type: Any, what: str) -> DataType:
    if not isinstance(data_type, DataType):
        raise TypeError(f"{what}: expected one of DataTypes, such as DataTypes.INT(), got {data_type!r}")
    return data_type


def _check(what: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be an integer from {least} to {most}, got {value!r}")
    return value


def _length(name: str, length: Any) -> int:
    return _check(f"{name}: the length", length, 1, _MOST_LENGTH)


def _precision(name: str, precision: Any) -> int:
    return _check(f"{name}: the precision", precision, 0, 9)
