"""Columnar files as sinks: records become Arrow columns, for the writers of Parquet and ORC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa

from flintstream.common.typeinfo import RowTypeInfo
from flintstream.common.types import Row
from flintstream.connectors.files.parquet_joining import GROUP_BYTES
from flintstream.datastream.formats.arrow_types import Converter, arrow_type
from flintstream.table.types import RowType

__all__ = ["ColumnarWriter", "NamedColumns", "RowColumns", "ToColumns", "arrow_columns"]

_BATCH_ROWS = 8192

ToColumns = Callable[[list[Any]], Sequence[Sequence[Any]]]
"""Converts records to columns."""


def arrow_columns(row_type: RowType | RowTypeInfo, row_info: RowTypeInfo, zone: str | None) -> Any:
    """Returns the Arrow schema of a row type, given as declared and as type information.

    :param zone: the time zone for timestamps without one.
    """
    columns = list(arrow_type(row_info, zone)[0])
    if isinstance(row_type, RowType):
        columns = [column.with_nullable(field.data_type.is_nullable) for column, field in zip(columns, row_type)]
    return pa.schema(columns)


class ColumnarWriter:
    """Collects records into Arrow batches, and batches into row groups or stripes.

    :param kind: the name of the format, for messages.
    :param write: writes an Arrow table to the file.
    :param close: completes the file.
    """

    def __init__(
        self, kind: str, schema: Any, to_columns: ToColumns, write: Callable[[Any], None], close: Callable[[], None]
    ) -> None:
        self._kind = kind
        self._schema = schema
        self._to_columns = to_columns
        self._write = write
        self._close = close
        self._records: list[Any] = []
        self._batches: list[Any] = []
        self._bytes = 0

    def add_element(self, element: Any) -> None:
        self._records.append(element)
        if len(self._records) >= _BATCH_ROWS:
            self._close_batch()
            if self._bytes >= GROUP_BYTES:
                self.flush()

    def flush(self) -> None:
        self._close_batch()
        if self._batches:
            self._write(pa.Table.from_batches(self._batches, self._schema))
            self._batches, self._bytes = [], 0

    def finish(self) -> None:
        try:
            self.flush()
        finally:
            self._close()

    def _close_batch(self) -> None:
        if self._records:
            try:
                batch = self._batch(self._records)
            except Exception as error:
                raise self._first_refused() or error from error
            self._records = []
            self._batches.append(batch)
            self._bytes += batch.nbytes

    def _batch(self, records: list[Any]) -> Any:
        columns = self._to_columns(records)
        arrays = [_array(field, column) for field, column in zip(self._schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _first_refused(self) -> Exception | None:
        for record in self._records:
            try:
                self._batch([record])
            except Exception as error:
                return ValueError(f"{record!r} does not fit the columns of the {self._kind} file: {error}")
        return None


def _array(field: Any, column: Sequence[Any]) -> Any:
    if pa.types.is_integer(field.type) and float in set(map(type, column)):
        # pyarrow would truncate the fraction.
        fraction = next((value for value in column if isinstance(value, float) and not value.is_integer()), None)
        if fraction is not None:
            raise ValueError(f"{fraction} is not an integer, as column {field.name!r} requires")
    if not field.nullable and None in column:
        raise ValueError(f"column {field.name!r} cannot be null")
    try:
        return pa.array(column, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"column {field.name!r}: {error}") from error


class RowColumns:
    """Columns of the values of a row type."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        self._type = row_type

    def __call__(self, records: list[Any]) -> Sequence[Sequence[Any]]:
        columns = zip(*[row._values for row in self._type.coerce(records)])
        return [_converted(convert, column) for convert, column in zip(self._converters(), columns, strict=True)]

    def _converters(self) -> list[Converter | None]:
        # Not stored: the converters cannot be pickled.
        return [arrow_type(field)[1] for field in self._type.get_field_types()]


def _converted(convert: Converter | None, column: tuple[Any, ...]) -> Sequence[Any]:
    if convert is None:
        return column
    return [None if value is None else convert(value) for value in column]


class NamedColumns:
    """Columns of records whose fields are matched by name, or by position if they have no names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, records: list[Any]) -> Sequence[Sequence[Any]]:
        return list(zip(*map(self._fields, records)))

    def _fields(self, record: Any) -> Sequence[Any]:
        if isinstance(record, Row) and record._fields is None:
            record = record._values
        if isinstance(record, (tuple, list)) and not hasattr(record, "_asdict"):
            if len(record) != len(self._names):
                raise ValueError(f"it has {len(record)} fields, but there are {len(self._names)} columns")
            return record
        named = _by_name(record)
        unknown = [name for name in named if name not in self._names]
        if unknown:
            raise ValueError(
                f"no such column: {', '.join(map(repr, unknown))}; the columns are {', '.join(self._names)}"
            )
        return [named.get(name) for name in self._names]


def _by_name(record: Any) -> dict[str, Any]:
    if isinstance(record, dict):
        return record
    if isinstance(record, Row):
        return record.as_dict()
    if hasattr(record, "_asdict"):
        named: dict[str, Any] = record._asdict()
        return named
    if is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in fields(record)}
    raise TypeError(f"a record must be a dict, a Row, a tuple or a dataclass, got {type(record).__name__}")
