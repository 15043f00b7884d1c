"""Parquet files as a source, and the public names of the Parquet writers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.common.arguments import positive
from flintstream.common.configuration import Configuration
from flintstream.common.time import Instant
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flintstream.common.types import make_rows
from flintstream.connectors.files.formats import BulkFormat, FileSplit, StreamFormat
from flintstream.connectors.files.paths import open_for_reading
from flintstream.datastream.formats.arrow_types import arrow_schema_of_avro
from flintstream.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
from flintstream.datastream.formats.parquet_writers import AvroParquetWriters, ParquetBulkWriters
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import SourceError, SplitReader
from flintstream.table.types import RowType, row_type_info

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFormat",
]


class ParquetFormat(BulkFormat):
    """Parquet files; each record is a dict, or a Row if a type is given.

    Example::

        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING())])
        source = FileSource.for_bulk_file_format(ParquetFormat(row_type), "/data/in").build()

    :param row_type: the type of the rows, made by `DataTypes.ROW` or `Types.ROW_NAMED`; only its columns are read.
    :param columns: the columns to read where no type is given; all unless given.
    :param batch_size: how many rows are taken out of the file at a time.
    :param case_sensitive: whether column names must have the same case as in the file.
    """

    def __init__(
        self,
        row_type: RowType | RowTypeInfo | None = None,
        columns: Sequence[str] | None = None,
        batch_size: int = 8192,
        case_sensitive: bool = True,
    ) -> None:
        kind = None if row_type is None else row_type_info(type(self).__name__, row_type)
        if kind is not None and columns is not None:
            raise ValueError(f"{type(self).__name__}: the row type names the columns already")
        self._type = kind
        self._columns = kind.get_field_names() if kind is not None else columns and list(columns)
        self._batch_size = positive(f"{type(self).__name__}: batch_size", batch_size)
        self._case_sensitive = case_sensitive

    def splittable(self, path: str) -> bool:
        return True

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._type

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return _ParquetReader(split, position, self._type, self._columns, self._batch_size, self._case_sensitive)


class ParquetColumnarRowInputFormat(ParquetFormat):
    """`ParquetFormat` under PyFlink's name and with its parameters."""

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
        super().__init__(row_type, None, batch_size, is_case_sensitive)


class _ParquetReader(SplitReader):
    """Reads the row groups that start in a split; a position is a row group and a row within it."""

    def __init__(
        self,
        split: FileSplit,
        position: tuple[int, int] | None,
        row_type: RowTypeInfo | None,
        columns: Sequence[str] | None,
        batch_size: int,
        case_sensitive: bool,
    ) -> None:
        self._split = split
        self._position = position
        self._type = row_type
        self._wanted = columns
        self._batch_size = batch_size
        self._case_sensitive = case_sensitive
        self._file: Any = None
        self._groups: list[int] = []
        self._batches: Iterator[Any] = iter(())
        self._ahead: list[Any] = []
        self._next = 0

    @property
    def position(self) -> tuple[int, int] | None:
        return self._position

    def read(self, limit: int) -> Batch:
        try:
            if self._file is None:
                self._open()
            while self._next >= len(self._ahead) and not self.finished:
                self._load()
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{self._split.path}: cannot read the Parquet file: {error}") from error
        taken = self._ahead[self._next : self._next + limit]
        self._next += len(taken)
        if taken:
            assert self._position is not None
            group, row = self._position
            self._position = (group, row + len(taken))
            self._end_group()
        return Batch(taken)

    def close(self) -> None:
        if self._file is not None:
            self._file.close(force=True)

    def _open(self) -> None:
        source = self._split.path if "://" not in self._split.path else open_for_reading(self._split.path)
        self._file = pq.ParquetFile(source)
        metadata = self._file.metadata
        end = self._split.end
        self._rows = {index: metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)}
        groups = [
            index
            for index, start in enumerate(map(_start_of, map(metadata.row_group, self._rows)))
            if start >= self._split.start and (end is None or start < end)
        ]
        self._names = self._column_names(self._file.schema_arrow.names)
        first, row = self._position or (groups[0] if groups else 0, 0)
        self._groups = [index for index in groups if index >= first]
        if not self._groups:
            self.finished = True
            return
        self._position = (first, row) if self._groups[0] == first else (self._groups[0], 0)
        self._start_group()
        self._end_group()

    def _column_names(self, present: list[str]) -> list[str]:
        if self._wanted is None:
            return present
        if self._case_sensitive:
            found = {name: name for name in present}
        else:
            found = {name.lower(): name for name in present}
        keys = [name if self._case_sensitive else name.lower() for name in self._wanted]
        missing = [name for name, key in zip(self._wanted, keys, strict=True) if key not in found]
        if missing:
            raise SourceError(
                f"{self._split.path}: no such column: {', '.join(missing)}; the file has {', '.join(present)}"
            )
        return [found[key] for key in keys]

    def _start_group(self) -> None:
        self._batches = self._file.iter_batches(self._batch_size, row_groups=self._groups[:1], columns=self._names)
        self._ahead, self._next = [], 0
        self._to_skip = (self._position or (0, 0))[1]

    def _end_group(self) -> None:
        """Advances to the next row group once all rows of this one have been returned."""
        assert self._position is not None
        while self._position[1] >= self._rows[self._position[0]]:
            self._groups.pop(0)
            if not self._groups:
                self.finished = True
                return
            self._position = (self._groups[0], 0)
            self._start_group()

    def _load(self) -> None:
        batch = next(self._batches)
        skipped = min(self._to_skip, batch.num_rows)
        self._to_skip -= skipped
        self._ahead, self._next = self._records(batch.slice(skipped)), 0

    def _records(self, batch: Any) -> list[Any]:
        columns = [_values(batch.column(batch.schema.get_field_index(name))) for name in self._names]
        if self._type is not None:
            for index, kind in enumerate(self._type.get_field_types()):
                if kind == Types.INSTANT():
                    columns[index] = list(map(_instant, columns[index]))
            rows = make_rows(zip(*columns, strict=True), tuple(self._type.get_field_names()))
            return self._type.coerce(rows)
        names = self._wanted or self._names
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _start_of(group: Any) -> int:
    """Returns the offset of a row group in its file."""
    column = group.column(0)
    start: int = column.data_page_offset
    return min(start, column.dictionary_page_offset) if column.has_dictionary_page else start


_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _values(column: Any) -> list[Any]:
    """Returns the values of a column. Timestamps are converted here, ten times as fast as by pyarrow."""
    if not pa.types.is_timestamp(column.type):
        return column.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    epoch = _EPOCH if column.type.tz is None else _EPOCH_UTC
    micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    delta = datetime.timedelta
    return [None if value is None else epoch + delta(0, 0, value) for value in micros]


def _instant(value: datetime.datetime | None) -> Instant | None:
    if value is None:
        return None
    micros = (value.replace(tzinfo=None) - _EPOCH) // datetime.timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    return Instant(seconds, rest * 1000)


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
