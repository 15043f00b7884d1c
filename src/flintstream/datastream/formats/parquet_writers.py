"""Parquet files as a sink: bulk writers for rows, dicts and tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.common.configuration import Configuration
from flintstream.common.serialization import BulkWriterFactory
from flintstream.common.typeinfo import RowTypeInfo
from flintstream.common.types import Row
from flintstream.connectors.files.parquet_joining import GROUP_BYTES
from flintstream.datastream.formats.arrow_types import Converter, arrow_schema_of_avro, arrow_type
from flintstream.datastream.formats.avro import AvroSchema
from flintstream.table.types import RowType, row_type_info

__all__ = ["AvroParquetWriters", "ParquetBulkWriters"]

_BATCH_ROWS = 8192
_COMPRESSION = "parquet.compression"
_COMPRESSIONS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")

ToColumns = Callable[[list[Any]], Sequence[Sequence[Any]]]
"""Converts records to columns."""


class ParquetBulkWriters:
    """Writers of Parquet files, for `FileSink.for_bulk_format`.

    Example::

        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())])
        sink = FileSink.for_bulk_format("/data/out", ParquetBulkWriters.for_row_type(row_type)).build()
    """

    @staticmethod
    def for_row_type(
        row_type: RowType | RowTypeInfo, hadoop_config: Configuration | None = None, utc_timestamp: bool = False
    ) -> BulkWriterFactory:
        """Returns a factory for Rows, tuples and dicts with the fields of a row type.

        :param row_type: a `DataTypes.ROW`, whose fields may be `not_null()`, or a `Types.ROW_NAMED`.
        :param hadoop_config: may set `parquet.compression`: SNAPPY unless set, GZIP, ZSTD, LZ4, BROTLI, UNCOMPRESSED.
        :param utc_timestamp: whether timestamps are marked as UTC; otherwise they have no time zone.
        """
        row_info = row_type_info("for_row_type", row_type)
        settings = {} if hadoop_config is None else hadoop_config.to_dict()
        for key in settings.keys() - {_COMPRESSION}:
            raise ValueError(f"for_row_type: hadoop_config: {key} is not supported; only {_COMPRESSION} is")
        kind, _ = arrow_type(row_info, "UTC" if utc_timestamp else None)
        columns = list(kind)
        if isinstance(row_type, RowType):
            columns = [column.with_nullable(field.data_type.is_nullable) for column, field in zip(columns, row_type)]
        compression = settings.get(_COMPRESSION, "snappy").lower()
        return ParquetWriterFactory(
            pa.schema(columns), _RowColumns(row_info), "none" if compression == "uncompressed" else compression
        )

    @staticmethod
    def for_arrow_schema(schema: Any, compression: str = "snappy") -> BulkWriterFactory:
        """Returns a factory for dicts, Rows, dataclasses and tuples, by a pyarrow schema; not in PyFlink.

        Fields of Rows with names, dicts and dataclasses are matched by name, and missing ones are null; fields of
        tuples, lists and Rows without names are matched by position.

        Example::

            schema = pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.string())])
            FileSink.for_bulk_format("/data/out", ParquetBulkWriters.for_arrow_schema(schema, compression="zstd"))
        """
        if not isinstance(schema, pa.Schema):
            raise TypeError(f"for_arrow_schema: expected a pyarrow.Schema, got {schema!r}")
        return ParquetWriterFactory(schema, _NamedColumns(tuple(schema.names)), compression)


class AvroParquetWriters:
    """Writers of Parquet files whose columns are given by an Avro schema, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Returns a factory for dicts of an Avro schema."""
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"for_generic_record: expected an AvroSchema, got {schema!r}")
        arrow = arrow_schema_of_avro(schema.schema)
        return ParquetWriterFactory(arrow, _NamedColumns(tuple(arrow.names)), "snappy")


class ParquetWriterFactory(BulkWriterFactory):
    """Creates writers of Parquet files."""

    writes_parquet = True

    def __init__(self, schema: Any, to_columns: ToColumns, compression: str) -> None:
        if compression not in _COMPRESSIONS:
            raise ValueError(f"Parquet: unknown compression {compression!r}; use one of {', '.join(_COMPRESSIONS)}")
        self._schema = schema
        self._to_columns = to_columns
        self._compression = compression

    def create(self, stream: IO[bytes]) -> _ParquetWriter:
        return _ParquetWriter(stream, self._schema, self._to_columns, self._compression)


class _ParquetWriter:
    """Collects records into Arrow batches, and batches into row groups."""

    def __init__(self, stream: IO[bytes], schema: Any, to_columns: ToColumns, compression: str) -> None:
        self._schema = schema
        self._to_columns = to_columns
        self._writer = pq.ParquetWriter(stream, schema, compression=compression)
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
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema))
            self._batches, self._bytes = [], 0

    def finish(self) -> None:
        try:
            self.flush()
        finally:
            self._writer.close()

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
                return ValueError(f"{record!r} does not fit the columns of the Parquet file: {error}")
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


class _RowColumns:
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


class _NamedColumns:
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
