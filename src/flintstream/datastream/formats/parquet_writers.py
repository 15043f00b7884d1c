"""Parquet files as a sink: bulk writers for rows, dicts and tuples."""

from __future__ import annotations

from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.common.configuration import Configuration
from flintstream.common.serialization import BulkWriterFactory
from flintstream.common.typeinfo import RowTypeInfo
from flintstream.datastream.formats.arrow_types import arrow_schema_of_avro
from flintstream.datastream.formats.avro import AvroSchema
from flintstream.datastream.formats.columnar_writers import (
    ColumnarWriter,
    NamedColumns,
    RowColumns,
    ToColumns,
    arrow_columns,
)
from flintstream.table.types import RowType, row_type_info

__all__ = ["AvroParquetWriters", "ParquetBulkWriters"]

_COMPRESSION = "parquet.compression"
_COMPRESSIONS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")


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
        schema = arrow_columns(row_type, row_info, "UTC" if utc_timestamp else None)
        compression = settings.get(_COMPRESSION, "snappy").lower()
        return ParquetWriterFactory(
            schema, RowColumns(row_info), "none" if compression == "uncompressed" else compression
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
        return ParquetWriterFactory(schema, NamedColumns(tuple(schema.names)), compression)


class AvroParquetWriters:
    """Writers of Parquet files whose columns are given by an Avro schema, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Returns a factory for dicts of an Avro schema."""
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"for_generic_record: expected an AvroSchema, got {schema!r}")
        arrow = arrow_schema_of_avro(schema.schema)
        return ParquetWriterFactory(arrow, NamedColumns(tuple(arrow.names)), "snappy")


class ParquetWriterFactory(BulkWriterFactory):
    """Creates writers of Parquet files."""

    writes_parquet = True

    def __init__(self, schema: Any, to_columns: ToColumns, compression: str) -> None:
        if compression not in _COMPRESSIONS:
            raise ValueError(f"Parquet: unknown compression {compression!r}; use one of {', '.join(_COMPRESSIONS)}")
        self._schema = schema
        self._to_columns = to_columns
        self._compression = compression

    def create(self, stream: IO[bytes]) -> ColumnarWriter:
        writer = pq.ParquetWriter(stream, self._schema, compression=self._compression)
        return ColumnarWriter("Parquet", self._schema, self._to_columns, writer.write_table, writer.close)
