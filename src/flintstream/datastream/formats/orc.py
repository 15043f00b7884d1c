"""ORC files as source and sink, by pyarrow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa
from pyarrow import orc

from flintstream.common.configuration import Configuration
from flintstream.common.serialization import BulkWriterFactory
from flintstream.common.typeinfo import RowTypeInfo
from flintstream.connectors.files.formats import FileSplit
from flintstream.datastream.formats.columnar import ColumnarFormat, ColumnarReader
from flintstream.datastream.formats.columnar_writers import ColumnarWriter, RowColumns, arrow_columns
from flintstream.runtime.source import SplitReader
from flintstream.table.types import RowType, row_type_info

__all__ = ["OrcBulkWriters", "OrcFormat"]


class OrcFormat(ColumnarFormat):
    """ORC files; each record is a dict, or a Row if a type is given.

    Example::

        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING())])
        source = FileSource.for_bulk_file_format(OrcFormat(row_type), "/data/in").build()

    :param row_type: the type of the rows, made by `DataTypes.ROW` or `Types.ROW_NAMED`; only its columns are read.
    :param columns: the columns to read where no type is given; all unless given.
    :param batch_size: how many rows of a stripe are converted at a time; a stripe is read whole.
    :param case_sensitive: whether column names must have the same case as in the file.
    """

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return _OrcReader(split, position, self)


class _OrcReader(ColumnarReader):
    """Reads the stripes of a split.

    pyarrow does not tell where a stripe starts in its file. So the stripes are spread over the length of the file, as if
    all had one size: each falls into exactly one split.
    """

    kind = "ORC"
    _file: Any = None
    _source: IO[bytes] | None = None
    _stripe: tuple[int, Any] | None = None
    """The stripe that is being read, and its number."""

    def open_file(self, source: str | IO[bytes]) -> tuple[list[str], list[int]]:
        self._source = open(source, "rb") if isinstance(source, str) else source
        size, end = self._source.seek(0, io.SEEK_END), self._split.end
        self._file = orc.ORCFile(self._source)
        count = self._file.nstripes
        places = [number * size // count for number in range(count)]
        stripes = [
            number for number, place in enumerate(places) if place >= self._split.start and (end is None or place < end)
        ]
        return self._file.schema.names, stripes

    def rows_of(self, group: int) -> int:
        return self._read(group).num_rows  # type: ignore[no-any-return]

    def batches_of(self, group: int, columns: list[str]) -> Iterator[Any]:
        stripe = self._read(group)  # With these columns.
        size = self._settings.batch_size
        return (stripe.slice(start, size) for start in range(0, stripe.num_rows, size))

    def _read(self, number: int) -> Any:
        if self._stripe is None or self._stripe[0] != number:
            stripe = self._file.read_stripe(number, self._names)
            schema = pa.schema([(field.name, _in_micros(field.type)) for field in stripe.schema])
            self._stripe = (number, stripe.cast(schema, safe=False))
        return self._stripe[1]

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def _in_micros(kind: Any) -> Any:
    """Returns a type with microseconds in the place of nanoseconds, which Python's own times do not have."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(_in_micros(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_in_micros(kind.key_type), _in_micros(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _in_micros(field.type)) for field in kind])
    return kind


class OrcBulkWriters:
    """Writers of ORC files, for `FileSink.for_bulk_format`.

    Example::

        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())])
        sink = FileSink.for_bulk_format("/data/out", OrcBulkWriters.for_row_type(row_type)).build()
    """

    @staticmethod
    def for_row_type(
        row_type: RowType | RowTypeInfo,
        writer_properties: Configuration | None = None,
        hadoop_config: Configuration | None = None,
    ) -> BulkWriterFactory:
        """Returns a factory for Rows, tuples and dicts with the fields of a row type.

        :param row_type: a `DataTypes.ROW`, whose fields may be `not_null()`, or a `Types.ROW_NAMED`.
        :param writer_properties: ORC's own: `orc.compress` (ZLIB unless set, SNAPPY, LZ4, ZSTD, NONE), `orc.stripe.size`,
            `orc.compress.size`, `orc.row.index.stride`, `orc.compression.strategy`, `orc.dictionary.key.threshold`,
            `orc.block.padding.tolerance`, `orc.write.format`.
        :param hadoop_config: must be empty, since no Hadoop is used.
        """
        row_info = row_type_info("for_row_type", row_type)
        for key in {} if hadoop_config is None else hadoop_config.to_dict():
            raise ValueError(
                f"for_row_type: hadoop_config: {key} is not supported: ORC files are written without Hadoop"
            )
        return OrcWriterFactory(
            arrow_columns(row_type, row_info, None), RowColumns(row_info), _options(writer_properties)
        )


class OrcWriterFactory(BulkWriterFactory):
    """Creates writers of ORC files."""

    def __init__(self, schema: Any, to_columns: Any, options: dict[str, Any]) -> None:
        self._schema = schema
        self._to_columns = to_columns
        self._options = options
        for column in schema:
            try:
                with orc.ORCWriter(io.BytesIO(), **options) as writer:
                    writer.write(pa.table({column.name: pa.array([], column.type)}))
            except (pa.ArrowException, NotImplementedError) as error:
                raise TypeError(f"for_row_type: ORC has no type for column {column.name!r} ({column.type})") from error

    def create(self, stream: IO[bytes]) -> ColumnarWriter:
        # pyarrow closes what it writes to when the file is complete; the sink still has to sync it.
        writer = orc.ORCWriter(_Kept(stream), **self._options)
        writer.write(self._schema.empty_table())  # Without it, a file without rows would have no schema.
        return ColumnarWriter("ORC", self._schema, self._to_columns, writer.write, writer.close)


class _Kept(io.RawIOBase):
    """Writes to a stream, and does not close it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()


_COMPRESSIONS = {name: name for name in ("zlib", "snappy", "lz4", "zstd")} | {"none": "uncompressed"}
_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "orc.compress": ("compression", lambda text: _COMPRESSIONS[text.lower()]),
    "orc.stripe.size": ("stripe_size", int),
    "orc.compress.size": ("compression_block_size", int),
    "orc.row.index.stride": ("row_index_stride", int),
    "orc.compression.strategy": ("compression_strategy", str.lower),
    "orc.dictionary.key.threshold": ("dictionary_key_size_threshold", float),
    "orc.block.padding.tolerance": ("padding_tolerance", float),
    "orc.write.format": ("file_version", str),
}


def _options(properties: Configuration | None) -> dict[str, Any]:
    """Returns pyarrow's arguments for ORC's properties."""
    options: dict[str, Any] = {"compression": "zlib"}
    for key, text in ({} if properties is None else properties.to_dict()).items():
        if key not in _OPTIONS:
            raise ValueError(f"for_row_type: {key} is not supported; use one of {', '.join(_OPTIONS)}")
        name, convert = _OPTIONS[key]
        try:
            options[name] = convert(text)
            orc.ORCWriter(io.BytesIO(), **options).close()
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise ValueError(f"for_row_type: {key}: invalid value {text!r}: {error}") from error
    return options
