"""Columns: values of a declared type as Arrow record batches, for DataFrames and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flintstream.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flintstream.datastream.formats.arrow_types import arrow_type
from flintstream.runtime.faults import short_repr

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Columns:
    """Names and types of columns. It is pickled as its type, since converters are functions."""

    names: tuple[str, ...]
    types: tuple[TypeInformation, ...]
    is_row: bool
    """Whether a value has a field for each column; otherwise there is one column, for the value itself."""
    what: str
    """What the values are, for messages."""

    @staticmethod
    def of(type_info: TypeInformation, what: str, names: Sequence[str] | None = None) -> Columns:
        """Returns the columns of a type: one for each field of a row or tuple, else one, named `value`."""
        if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
            types = tuple(type_info.get_field_types())
            if names is None and isinstance(type_info, RowTypeInfo):
                names = type_info.get_field_names()
            found = tuple(names or (f"f{index}" for index in range(len(types))))
            columns = Columns(found, types, True, what)
        else:
            columns = Columns(tuple(names or ("value",)), (type_info,), False, what)
        columns.schema()  # Raises for a type that no column can have.
        return columns

    def schema(self) -> Any:
        """Returns the Arrow schema."""
        columns = zip(self.names, self.types)
        return pa.schema([(name, _supported(self._column(name, kind)[0])) for name, kind in columns])

    def _column(self, name: str, kind: TypeInformation) -> tuple[Any, Convert | None]:
        try:
            found, convert = arrow_type(kind)
        except TypeError as error:
            raise TypeError(f"{self.what}: column {name!r}: {error}") from None
        return found, convert

    def batches(self, schema: Any) -> Callable[[list[Any]], Any]:
        """Returns a function from a list of values to a record batch of a schema: `schema()`, or one it can be cast to."""
        columns = [self._column(name, kind) for name, kind in zip(self.names, self.types)]

        def batch(values: list[Any]) -> Any:
            parts = self._fields(values) if self.is_row else [values]
            arrays = [
                self._array(field, part, *column) for field, part, column in zip(schema, parts, columns, strict=True)
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)

        return batch

    def _fields(self, values: list[Any]) -> list[tuple[Any, ...]]:
        try:
            found = list(zip(*values, strict=True))
        except (TypeError, ValueError):
            found = []
        if len(found) != len(self.names):
            wrong = next((each for each in values if _width(each) != len(self.names)), values[0])
            raise TypeError(
                f"{self.what}: the declared type has the fields {', '.join(self.names)}, but got {short_repr(wrong)}"
            )
        return found

    def _array(self, field: Any, values: Sequence[Any], kind: Any, convert: Convert | None) -> Any:
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        try:
            array = pa.array(values, kind)
            return array if kind == field.type else array.cast(field.type, safe=False)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise TypeError(
                f"{self.what}: column {field.name!r} is declared as {kind}, but got {short_repr(_misfit(values, kind))}: "
                f"{error}"
            ) from error


def _width(value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        return -1


def _misfit(values: Sequence[Any], kind: Any) -> Any:
    """Returns the first value that is not of a type."""
    for value in values:
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, OverflowError):
            return value
    return values[0]


def _supported(kind: Any) -> Any:
    """Returns the type that Spark reads in the place of another one: it has microseconds only."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_list(kind):
        return pa.list_(_supported(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_supported(kind.key_type), _supported(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _supported(each.type)) for each in kind])
    return kind
