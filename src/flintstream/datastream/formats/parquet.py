"""Parquet files as a source, and the public names of the Parquet writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import pyarrow.parquet as pq

from flintstream.common.configuration import Configuration
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation
from flintstream.connectors.files.formats import FileSplit, StreamFormat
from flintstream.datastream.formats.arrow_types import arrow_schema_of_avro
from flintstream.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
from flintstream.datastream.formats.columnar import ColumnarFormat, ColumnarReader
from flintstream.datastream.formats.parquet_writers import AvroParquetWriters, ParquetBulkWriters
from flintstream.runtime.source import SplitReader
from flintstream.table.types import RowType

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFormat",
]


class ParquetFormat(ColumnarFormat):
    """Parquet files; each record is a dict, or a Row if a type is given.

    Example::

        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING())])
        source = FileSource.for_bulk_file_format(ParquetFormat(row_type), "/data/in").build()

    :param row_type: the type of the rows, made by `DataTypes.ROW` or `Types.ROW_NAMED`; only its columns are read.
    :param columns: the columns to read where no type is given; all unless given.
    :param batch_size: how many rows are taken out of the file at a time.
    :param case_sensitive: whether column names must have the same case as in the file.
    """

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return _ParquetReader(split, position, self)


class ParquetColumnarRowInputFormat(ParquetFormat):
    """`ParquetFormat` under PyFlink's name and with its parameters.

    :param hadoop_config: must be empty, since no Hadoop is used.
    :param is_utc_timestamp: without effect: a timestamp is read as it is stored, whatever the time zone of the machine.
    """

    def __init__(
        self,
        row_type: RowType | RowTypeInfo,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if row_type is None:
            raise TypeError("ParquetColumnarRowInputFormat: row_type must be given")
        for key in {} if hadoop_config is None else hadoop_config.to_dict():
            raise ValueError(f"ParquetColumnarRowInputFormat: hadoop_config: {key} is not supported: no Hadoop is used")
        super().__init__(row_type, None, batch_size, is_case_sensitive)


class _ParquetReader(ColumnarReader):
    """Reads the row groups that start in a split."""

    kind = "Parquet"
    _file: Any = None

    def open_file(self, source: str | IO[bytes]) -> tuple[list[str], list[int]]:
        self._file = pq.ParquetFile(source)
        metadata, end = self._file.metadata, self._split.end
        self._rows: dict[int, int] = {
            index: metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)
        }
        groups = [
            index
            for index, start in enumerate(map(_start_of, map(metadata.row_group, self._rows)))
            if start >= self._split.start and (end is None or start < end)
        ]
        return self._file.schema_arrow.names, groups

    def rows_of(self, group: int) -> int:
        return self._rows[group]

    def batches_of(self, group: int, columns: list[str]) -> Iterator[Any]:
        batches: Iterator[Any] = self._file.iter_batches(self._settings.batch_size, row_groups=[group], columns=columns)
        return batches

    def close(self) -> None:
        if self._file is not None:
            self._file.close(force=True)


def _start_of(group: Any) -> int:
    """Returns the offset of a row group in its file."""
    column = group.column(0)
    start: int = column.data_page_offset
    return min(start, column.dictionary_page_offset) if column.has_dictionary_page else start


class AvroParquetReaders:
    """Readers of Parquet files with the columns of an Avro schema."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Returns a format of dicts of an Avro schema, for `FileSource.for_record_stream_format`."""
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"for_generic_record: expected an AvroSchema, got {schema!r}")
        return _AvroParquetFormat(schema)


class _AvroParquetFormat(StreamFormat):
    """Parquet files as a stream format, which is what PyFlink calls this reader."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._parquet = ParquetFormat(columns=arrow_schema_of_avro(schema.schema).names)

    def splittable(self, path: str) -> bool:
        return self._parquet.splittable(path)

    @property
    def produced_type(self) -> TypeInformation:
        return GenericRecordAvroTypeInfo(self._schema)

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return self._parquet.create_reader(split, position)
