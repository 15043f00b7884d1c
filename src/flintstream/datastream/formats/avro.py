"""Avro files as source and sink, and Avro messages. Records are dicts; in messages they are Rows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from flintstream.common.java import java_only
from flintstream.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.common.types import Row
from flintstream.connectors.files.formats import BulkFormat, FileSplit
from flintstream.connectors.files.paths import compression_of, open_for_reading
from flintstream.datastream.connectors.input_format import FileInputFormat
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import SourceError, SplitReader

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as error:
        raise ImportError("Avro needs the package fastavro: pip install flintstream[avro]") from error
    return fastavro


class AvroSchema:
    """An Avro schema.

    Example::

        AvroSchema.parse_string('{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}')
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parses a schema from JSON."""
        try:
            return AvroSchema(json.loads(json_schema))
        except ValueError as error:
            raise ValueError(f"AvroSchema: invalid JSON: {error}") from error

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parses a schema from a JSON file."""
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))

    def _parsed(self, what: str) -> Any:
        """Returns the schema as parsed by fastavro."""
        try:
            return _fastavro().parse_schema(self.schema)
        except (ValueError, TypeError, KeyError, _fastavro().schema.SchemaParseException) as error:
            raise ValueError(f"{what}: invalid Avro schema: {error}") from error


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records of an Avro schema: dicts, which are not converted."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def _identity(self) -> tuple[Any, ...]:
        return (json.dumps(self._schema.schema, sort_keys=True),)


# --- files ---


class AvroBulkWriters:
    """Writers of Avro files, for `FileSink.for_bulk_format`.

    Example::

        sink = FileSink.for_bulk_format("/data/out", AvroBulkWriters.for_generic_record(schema)).build()
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Returns a factory of writers for dicts of an Avro schema."""
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"for_generic_record: expected an AvroSchema, got {schema!r}")
        schema._parsed("for_generic_record")
        return AvroWriterFactory(schema)


class AvroWriterFactory(BulkWriterFactory):
    """Creates writers of Avro files."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def create(self, stream: IO[bytes]) -> _AvroWriter:
        return _AvroWriter(stream, self._schema)


class _AvroWriter:
    def __init__(self, stream: IO[bytes], schema: AvroSchema) -> None:
        self._writer = _fastavro().write.Writer(stream, schema._parsed("AvroBulkWriters"), validator=True)

    def add_element(self, element: Any) -> None:
        try:
            self._writer.write(element)
        except _fastavro().validation.ValidationError as error:
            raise ValueError(f"{element!r} does not fit the Avro schema: {error}") from error

    def flush(self) -> None:
        self._writer.flush()

    def finish(self) -> None:
        self.flush()


class AvroFormat(BulkFormat):
    """Avro files; each record is a dict.

    Example::

        source = FileSource.for_bulk_file_format(AvroFormat(schema), "/data/in").build()

    :param schema: what records are read as, where it differs from the schema in the file; that one unless given.
    """

    def __init__(self, schema: AvroSchema | None = None) -> None:
        if schema is not None and not isinstance(schema, AvroSchema):
            raise TypeError(f"AvroFormat: expected an AvroSchema, got {schema!r}")
        self._schema = schema

    @property
    def produced_type(self) -> TypeInformation | None:
        return None if self._schema is None else GenericRecordAvroTypeInfo(self._schema)

    def splittable(self, path: str) -> bool:
        return compression_of(path) is None

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return _AvroReader(split, self._schema, position or 0)


class _AvroReader(SplitReader):
    """Reads the blocks of a split: those behind the sync markers that start in it. A position is the number of records
    read.
    """

    def __init__(self, split: FileSplit, schema: AvroSchema | None, position: int) -> None:
        self._path = split.path
        self._split = split
        self._schema = schema
        self._position = position
        self._file: IO[bytes] | None = None
        self._records: Iterator[Any] = iter(())

    @property
    def position(self) -> int:
        return self._position

    def read(self, limit: int) -> Batch:
        values: list[Any] = []
        try:
            if self._file is None:
                self._file = open_for_reading(self._path)
                self._records = self._remaining(self._file)
            while len(values) < limit:
                values.append(next(self._records))
        except StopIteration:
            self.finished = True
        except (ValueError, EOFError, OSError, KeyError) as error:
            raise SourceError(f"{self._path}: cannot read the Avro file: {error}") from error
        self._position += len(values)
        return Batch(values)

    def _remaining(self, file: IO[bytes]) -> Iterator[Any]:
        skipped = self._position
        for block in self._blocks(file):
            if skipped >= block.num_records:
                skipped -= block.num_records
                continue
            for record in block:
                if skipped:
                    skipped -= 1
                else:
                    yield record

    def _blocks(self, file: IO[bytes]) -> Iterator[Any]:
        wanted = None if self._schema is None else self._schema._parsed("AvroFormat")
        whole = _fastavro().block_reader(file, wanted)
        start, end = self._split.start, self._split.end
        if start == 0 and end is None:
            yield from whole
            return
        header = file.tell()
        first: int | None = header
        if start:
            file.seek(header - _MARKER_BYTES)
            first = _after_marker(file, file.read(_MARKER_BYTES), start)
        if first is None or (end is not None and first - _MARKER_BYTES >= end):
            return
        if start:
            file.seek(0)
            # What fastavro reads is an Avro file that begins in the middle.
            whole = _fastavro().block_reader(_Joined(file.read(header), file, first), wanted)
        for block in whole:
            yield block
            if end is not None and block.offset + block.size - _MARKER_BYTES >= end:
                return

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


_MARKER_BYTES = 16
_SCAN_BYTES = 1 << 16


def _after_marker(file: IO[bytes], marker: bytes, start: int) -> int | None:
    """Returns the offset behind the first sync marker that starts at `start` or later; None if there is none."""
    file.seek(start)
    seen, place = b"", start
    while data := file.read(_SCAN_BYTES):
        seen += data
        found = seen.find(marker)
        if found >= 0:
            return place + found + _MARKER_BYTES
        kept = len(seen) - _MARKER_BYTES + 1
        if kept > 0:
            place, seen = place + kept, seen[kept:]
    return None


class _Joined:
    """The header of a file, and behind it the file from an offset on; `tell` gives offsets in the file itself."""

    def __init__(self, header: bytes, file: IO[bytes], offset: int) -> None:
        self._header = io.BytesIO(header)
        self._size = len(header)
        self._file = file
        self._file.seek(offset)

    def read(self, size: int) -> bytes:
        if self._header.tell() < self._size:
            return self._header.read(size)
        return self._file.read(size)

    def tell(self) -> int:
        return self._file.tell() if self._header.tell() >= self._size else self._header.tell()


class AvroInputFormat(FileInputFormat[dict[str, Any]]):
    """Avro files for `env.create_input`, under PyFlink's name; elsewhere `AvroFormat`.

    Example::

        env.create_input(AvroInputFormat("/data/in", schema))
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        super().__init__(path, AvroFormat(schema))


# --- messages ---


class _RowSchema:
    """An Avro schema of records that are Rows."""

    def __init__(self, what: str, record_class: str | None, avro_schema_string: str | None) -> None:
        if record_class is not None:
            java_only(f"{what}(record_class={record_class!r})", "Give avro_schema_string.")
        if avro_schema_string is None:
            raise TypeError(f"{what}: avro_schema_string must be given")
        self.text = avro_schema_string
        self.parsed = AvroSchema.parse_string(avro_schema_string)._parsed(what)
        if not isinstance(self.parsed, dict) or self.parsed.get("type") != "record":
            raise TypeError(f"{what}: the schema must be a record, got {avro_schema_string!r}")


class AvroRowDeserializationSchema(DeserializationSchema):
    """Deserialises an Avro message to a Row.

    Example::

        AvroRowDeserializationSchema(avro_schema_string=text).deserialize(message)  # Row(id=1, name='a')
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _RowSchema("AvroRowDeserializationSchema", record_class, avro_schema_string)

    def __reduce__(self) -> Any:
        return AvroRowDeserializationSchema, (None, self._schema.text)

    def deserialize(self, message: bytes) -> Any:
        try:
            record = _fastavro().schemaless_reader(io.BytesIO(message), self._schema.parsed, None)
        except (ValueError, EOFError, IndexError, KeyError) as error:
            raise ValueError(f"cannot read the Avro message {message[:100]!r}: {error}") from error
        return _row(record, self._schema.parsed)

    def get_produced_type(self) -> TypeInformation:
        return Types.PICKLED_BYTE_ARRAY()


class AvroRowSerializationSchema(SerializationSchema):
    """Serialises a Row to an Avro message.

    Example::

        AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(id=1, name="a"))
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _RowSchema("AvroRowSerializationSchema", record_class, avro_schema_string)

    def __reduce__(self) -> Any:
        return AvroRowSerializationSchema, (None, self._schema.text)

    def serialize(self, element: Any) -> bytes | None:
        stream = io.BytesIO()
        record = _dict(element, self._schema.parsed)
        try:
            _fastavro().schemaless_writer(stream, self._schema.parsed, record)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"{element!r} does not fit the Avro schema: {error}") from error
        return stream.getvalue()


def _row(value: Any, schema: Any) -> Any:
    """Converts dicts of records to Rows, at any depth."""
    schema = _branch(schema)
    if value is None or not isinstance(schema, dict):
        return value
    if schema["type"] == "record":
        return Row(**{field["name"]: _row(value[field["name"]], field["type"]) for field in schema["fields"]})
    return _within(value, schema, _row)


def _dict(value: Any, schema: Any) -> Any:
    """Converts Rows to dicts of records, at any depth."""
    schema = _branch(schema)
    if value is None or not isinstance(schema, dict):
        return value
    if schema["type"] == "record" and isinstance(value, (Row, tuple)):
        fields = schema["fields"]
        if len(value) != len(fields):
            raise ValueError(f"{value!r} has {len(value)} fields, but the record {schema['name']} has {len(fields)}")
        named = value.as_dict() if isinstance(value, Row) and value._fields is not None else {}
        names = [field["name"] for field in fields]
        # Rows of a type without names have f0, f1, ...: as in Flink, their fields are the record's by position.
        values = [named[name] for name in names] if named.keys() == {*names} else value
        return {field["name"]: _dict(each, field["type"]) for field, each in zip(fields, values, strict=True)}
    return _within(value, schema, _dict)


def _within(value: Any, schema: dict[str, Any], convert: Callable[[Any, Any], Any]) -> Any:
    if schema["type"] == "array":
        return [convert(item, schema["items"]) for item in value]
    if schema["type"] == "map":
        return {key: convert(item, schema["values"]) for key, item in value.items()}
    return value


def _branch(schema: Any) -> Any:
    """Returns the other type of a union of one type and null; values of other unions are not converted."""
    if not isinstance(schema, list):
        return schema
    types = [branch for branch in schema if branch != "null"]
    return types[0] if len(types) == 1 else None
