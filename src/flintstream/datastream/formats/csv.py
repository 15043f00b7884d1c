"""CSV files as a source, and CSV messages."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flintstream.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation
from flintstream.common.types import Row
from flintstream.connectors.files.formats import (
    FileSplit,
    LinesReader,
    StreamFormat,
    checked_charset,
)
from flintstream.connectors.files.lines import Lines, has_ascii_line_ends, lines_of
from flintstream.connectors.files.paths import compression_of
from flintstream.datastream.formats.csv_schema import (
    CsvOptions,
    CsvSchema,
    CsvSchemaBuilder,
    RowParser,
    one_char,
)
from flintstream.datastream.formats.csv_text import CsvWriterFactory, RowFormatter
from flintstream.runtime.source import SourceError, SplitReader

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvReaderFormat(StreamFormat):
    """CSV files; each record is a Row with the schema's columns.

    Example::

        schema = CsvSchema.builder().add_number_column("id").add_string_column("name").build()
        source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "/data/in").build()
    """

    def __init__(self, schema: CsvSchema, charset_name: str = "UTF-8") -> None:
        if not isinstance(schema, CsvSchema):
            raise TypeError(f"CsvReaderFormat: expected a CsvSchema, got {schema!r}")
        if not len(schema):
            raise ValueError("CsvReaderFormat: the schema has no columns")
        self._schema = schema
        self._charset = checked_charset(charset_name)

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Returns the format of UTF-8 files with these columns."""
        return CsvReaderFormat(schema)

    def splittable(self, path: str) -> bool:
        # A quoted or escaped record may span several lines, and its end is known only by reading from the start.
        options = self._schema.options
        plain = options.quote_char is None and options.escape_char is None
        return plain and has_ascii_line_ends(self._charset) and compression_of(path) is None

    @property
    def produced_type(self) -> TypeInformation:
        return self._schema.row_type

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return _CsvReader(self._schema, lines_of(split, self._charset, position), split.start == 0 and not position)


class _CsvReader(LinesReader):
    """Reads CSV records; a position is the start of a line that starts a record."""

    def __init__(self, schema: CsvSchema, lines: Lines, at_start: bool) -> None:
        super().__init__(lines)
        csv.field_size_limit(sys.maxsize)
        self._options = schema.options
        self._dialect = schema.options.dialect()
        self._parser = schema.row_parser()
        self._at_start = at_start

    def _read_records(self, limit: int) -> list[Row]:
        if self._at_start:
            self._at_start = False
            self._skip_header()
        texts = self._lines.peek(limit, keep_ends=True)
        if self._one_record_a_line(texts):
            records = [record or [""] for record in csv.reader(texts, **self._dialect)]
            ends = range(1, len(records) + 1)
        else:
            records, ends = self._parse(limit)  # type: ignore[assignment]
        try:
            rows = self._parser.rows(records)
        except ValueError as error:
            raise self._error(records, list(ends), error) from error
        self._lines.advance(max(ends[-1] if ends else 0, len(texts) if not records else 0))
        return rows

    def _skip_header(self) -> None:
        options = self._options
        if options.use_header:
            records, ends = self._parse(1)
            if options.strict_headers and records and tuple(records[0]) != self._parser.names:
                raise SourceError(
                    f"{self._lines.path}: the header is {records[0]!r}, but the schema's columns are "
                    f"{list(self._parser.names)!r}"
                )
            self._lines.advance(ends[-1] if ends else 0)
        if options.skip_first_data_row:
            _, ends = self._parse(1)
            self._lines.advance(ends[-1] if ends else 0)

    def _one_record_a_line(self, texts: list[str]) -> bool:
        options = self._options
        if options.allow_comments:
            return False
        special = [char for char in (options.quote_char, options.escape_char) if char is not None]
        block = "".join(texts) if special else ""
        return not any(char in block for char in special)

    def _parse(self, limit: int) -> tuple[list[list[str]], list[int]]:
        """Returns at most `limit` records, and the number of lines read after each."""
        feed = _Feed(self._lines, limit, "#" if self._options.allow_comments else None)
        reader = csv.reader(feed, **self._dialect)
        records: list[list[str]] = []
        ends: list[int] = []
        try:
            while len(records) < limit:
                feed.between_records = True
                record = next(reader, None)
                if record is None:
                    if ends:
                        ends[-1] = feed.taken  # comments after the last record
                    break
                records.append(record or [""])
                ends.append(feed.taken)
        except csv.Error as error:
            place = self._lines.place(ends[-1] if ends else 0)
            raise SourceError(f"{self._lines.path}, {place}: invalid CSV record: {error}") from error
        return records, ends

    def _error(self, records: list[list[str]], ends: list[int], error: Exception) -> SourceError:
        for index, record in enumerate(records):
            try:
                self._parser.rows([record])
            except ValueError as single:
                place = self._lines.place(ends[index - 1] if index else 0)
                return SourceError(f"{self._lines.path}, {place}: cannot read the record: {single}")
        return SourceError(f"{self._lines.path}: {error}")


class _Feed:
    """Feeds lines to a csv reader and counts them."""

    def __init__(self, lines: Lines, block: int, comment: str | None) -> None:
        self.taken = 0
        self.between_records = True
        self._lines = lines
        self._block = max(block, 16)
        self._comment = comment
        self._texts: Iterator[str] = iter(())

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while True:
            text = next(self._texts, None)
            if text is None:
                block = self._lines.peek(self._block, keep_ends=True, skip=self.taken)
                if not block:
                    raise StopIteration
                self._texts = iter(block)
                continue
            self.taken += 1
            if self.between_records and self._comment is not None and text.startswith(self._comment):
                continue
            self.between_records = False
            return text


class CsvBulkWriters:
    """Writers of CSV files, for `FileSink.for_bulk_format`.

    Example::

        schema = CsvSchema.builder().add_number_column("id").add_string_column("name").build()
        sink = FileSink.for_bulk_format("/data/out", CsvBulkWriters.for_schema(schema)).build()
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Returns a factory for rows with the schema's columns; a header, if enabled, starts each file."""
        if not isinstance(schema, CsvSchema):
            raise TypeError(f"CsvBulkWriters.for_schema: expected a CsvSchema, got {schema!r}")
        return CsvWriterFactory(schema)


class CsvRowDeserializationSchema(DeserializationSchema):
    """Deserialises a CSV message to a Row.

    Example::

        schema = CsvRowDeserializationSchema.Builder(Types.ROW([Types.INT(), Types.STRING()])).build()
        schema.deserialize(b"1,a")  # Row(f0=1, f1='a')
    """

    def __init__(self, row_type: RowTypeInfo, options: CsvOptions, ignore_parse_errors: bool = False) -> None:
        self._type = row_type
        self._options = options
        self._ignore_parse_errors = ignore_parse_errors
        self._parser = RowParser(row_type, options)

    def __reduce__(self) -> Any:
        return CsvRowDeserializationSchema, (self._type, self._options, self._ignore_parse_errors)

    def deserialize(self, message: bytes) -> Any:
        text = str(message, "UTF-8", "replace")
        if self._options.allow_comments and text.startswith("#"):
            return None
        try:
            records = list(csv.reader(text.splitlines(keepends=True), **self._options.dialect()))
            return self._parser.rows([records[0] or [""]] if records else [[""]])[0]
        except (csv.Error, ValueError) as error:
            if self._ignore_parse_errors:
                return None
            raise ValueError(f"cannot read the CSV message {text[:200]!r}: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return self._type

    class Builder:
        """Settings of a `CsvRowDeserializationSchema`."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._type = _row_type("CsvRowDeserializationSchema", type_info)
            self._options = CsvOptions()
            self._ignore_parse_errors = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the field delimiter; a comma by default."""
            return self._set(column_separator=one_char("Field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Ignores messages that start with `#`."""
            return self._set(allow_comments=bool(allow_comments))

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the delimiter of list elements; `;` by default."""
            return self._set(array_separator=delimiter)

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the quote character; `"` by default."""
            return self._set(quote_char=one_char("Quote character", c))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the escape character; the character after it is taken literally."""
            return self._set(escape_char=one_char("Escape character", c))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Sets the text that represents None."""
            return self._set(null_value=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Skips messages that cannot be parsed."""
            self._ignore_parse_errors = bool(ignore_parse_errors)
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Returns the schema."""
            return CsvRowDeserializationSchema(self._type, self._options, self._ignore_parse_errors)

        def _set(self, **options: Any) -> CsvRowDeserializationSchema.Builder:
            self._options = replace(self._options, **options)
            return self


class CsvRowSerializationSchema(SerializationSchema):
    """Serialises a Row to a CSV message.

    Example::

        schema = CsvRowSerializationSchema.Builder(Types.ROW([Types.INT(), Types.STRING()])).build()
        schema.serialize(Row(1, "a"))  # b'1,a\\n'
    """

    def __init__(self, row_type: RowTypeInfo, options: CsvOptions) -> None:
        self._type = row_type
        self._options = options
        self._formatter = RowFormatter(row_type, options)

    def __reduce__(self) -> Any:
        return CsvRowSerializationSchema, (self._type, self._options)

    def serialize(self, element: Any) -> bytes | None:
        return self.serialize_block([element])[0]

    def serialize_block(self, elements: list[Any]) -> list[bytes | None]:
        line = self._formatter.line
        return [line(row).encode() for row in self._type.coerce(elements)]

    class Builder:
        """Settings of a `CsvRowSerializationSchema`."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._type = _row_type("CsvRowSerializationSchema", type_info)
            self._options = CsvOptions()

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Sets the field delimiter; a comma by default."""
            return self._set(column_separator=one_char("Field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Sets the record delimiter; `\n` by default; may be empty."""
            return self._set(line_separator=delimiter)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Sets the delimiter of list elements; `;` by default."""
            return self._set(array_separator=delimiter)

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Disables quoting."""
            return self._set(quote_char=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Sets the quote character of fields that contain delimiters; `"` by default."""
            return self._set(quote_char=one_char("Quote character", c))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Sets the escape character, written before special characters."""
            return self._set(escape_char=one_char("Escape character", c))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Sets the text that represents None."""
            return self._set(null_value=s)

        def build(self) -> CsvRowSerializationSchema:
            """Returns the schema."""
            return CsvRowSerializationSchema(self._type, self._options)

        def _set(self, **options: Any) -> CsvRowSerializationSchema.Builder:
            self._options = replace(self._options, **options)
            return self


def _row_type(name: str, type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"{name}: expected a type of rows, such as Types.ROW([Types.INT()]), got {type_info!r}")
    return type_info
