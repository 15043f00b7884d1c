"""Converts records to the values of an SQL statement."""

from __future__ import annotations

from typing import Any

from flintstream.common.basic_typeinfo import BasicType, BasicTypeInfo
from flintstream.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from flintstream.connectors.jdbc.databases import Database

_ARRAYS = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)
_NEEDS_ADAPTING = (BasicType.BIG_DEC, BasicType.INSTANT)


class RowBinder:
    """Converts each record to the tuple of values for the placeholders of a statement."""

    def __init__(self, sql: str, type_info: TypeInformation, database: Database) -> None:
        self.sql = sql
        """The statement as given."""
        self._type = type_info
        self._database = database
        self.statement, marks = database.syntax.translate(sql)
        fields = fields_of(type_info)
        if marks != len(fields):
            raise ValueError(
                f"the SQL statement {sql!r} has {marks} placeholders, but the type {type_info} has {len(fields)} fields"
            )
        for name, kind in fields:
            _check_column(name, kind, database)
        self._adapted = [index for index, (_, kind) in enumerate(fields) if not _is_plain(kind)]

    def bind(self, records: list[Any]) -> list[tuple[Any, ...]]:
        """Returns the values of each record, in the declared type."""
        values = self._type.coerce(records)
        if isinstance(self._type, RowTypeInfo):
            rows = [tuple(row._values) for row in values]
        elif isinstance(self._type, TupleTypeInfo):
            rows = values
        else:
            rows = [(value,) for value in values]
        if not self._adapted or not rows:
            return rows
        columns: list[Any] = list(zip(*rows))
        for index in self._adapted:
            columns[index] = self._database.adapted(columns[index])
        return list(zip(*columns))


def fields_of(type_info: TypeInformation) -> list[tuple[str, TypeInformation]]:
    """Returns the name and type of each value of a record; a type that is neither a row nor a tuple is a single value."""
    if isinstance(type_info, RowTypeInfo):
        return list(zip(type_info.get_field_names(), type_info.get_field_types()))
    if isinstance(type_info, TupleTypeInfo):
        return [(f"f{index}", kind) for index, kind in enumerate(type_info.get_field_types())]
    return [("f0", type_info)]


def _check_column(name: str, kind: TypeInformation, database: Database) -> None:
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo, MapTypeInfo)):
        raise ValueError(
            f"JdbcSink: field {name!r} has the type {kind}, which no column supports: convert it to a string"
        )
    if isinstance(kind, _ARRAYS) and not database.has_arrays and kind != Types.PRIMITIVE_ARRAY(Types.BYTE()):
        raise ValueError(f"JdbcSink: field {name!r} has the type {kind}, but {database} has no arrays")


def _is_plain(kind: TypeInformation) -> bool:
    """Returns whether every driver accepts values of the type directly."""
    return isinstance(kind, BasicTypeInfo) and kind.basic_type not in _NEEDS_ADAPTING
