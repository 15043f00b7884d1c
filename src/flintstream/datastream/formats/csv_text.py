"""Formats rows as lines of CSV, byte for byte as Flink does."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import IO, Any

from flintstream.common.printing import line_formatter
from flintstream.common.serialization import BulkWriterFactory
from flintstream.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from flintstream.datastream.formats.csv_schema import CsvOptions, CsvSchema
from flintstream.datastream.formats.text_values import element_type_of

__all__ = ["CsvWriterFactory", "RowFormatter"]

_LONGEST_LOOKED_AT = 24
"""Longer texts are quoted without being checked."""
_TEXTS = (BasicType.STRING, BasicType.CHAR, BasicType.INSTANT)

Show = Callable[[Any], str]


class RowFormatter:
    """Formats rows as lines. Not picklable: created where it is used."""

    def __init__(
        self, row_type: RowTypeInfo, options: CsvOptions, separators: Sequence[str | None] | None = None
    ) -> None:
        self._type = row_type
        self._options = options
        self._null = options.null_value or ""
        # Flink's CSV library quotes a text not if it must be quoted, but if it contains a character that does not sort
        # after all special ones.
        special = [options.column_separator, options.quote_char or "\0", *(options.line_separator or "\0")]
        self._first_safe = max(map(ord, special)) + 1
        types = row_type.get_field_types()
        own = separators or [None] * len(types)
        self._show = [
            self._shown(kind, options.array_separator if separator is None else separator)
            for kind, separator in zip(types, own, strict=True)
        ]

    def line(self, row: Any) -> str:
        """Returns the line of a row, whose fields fit the row type."""
        fields = [self._null if value is None else show(value) for show, value in zip(self._show, row, strict=True)]
        return self._options.column_separator.join(fields) + self._options.line_separator

    def header(self) -> str:
        """Returns the line of the column names."""
        names = map(self._quoted_if_needed, self._type.get_field_names())
        return self._options.column_separator.join(names) + self._options.line_separator

    def _shown(self, kind: TypeInformation, separator: str) -> Show:
        show = self._plain(kind, separator)
        if isinstance(kind, BasicTypeInfo) and kind.basic_type not in _TEXTS:
            return show
        return lambda value: self._quoted_if_needed(show(value))

    def _plain(self, kind: TypeInformation, separator: str) -> Show:
        if kind == Types.PRIMITIVE_ARRAY(Types.BYTE()):
            return lambda value: base64.b64encode(value).decode()
        element = element_type_of(kind)
        if element is not None:
            each = self._nullable(self._plain(element, separator))
            return lambda value: separator.join(map(each, value))
        if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
            fields = [self._nullable(self._plain(field, separator)) for field in kind.get_field_types()]
            return lambda value: separator.join(show(field) for show, field in zip(fields, value, strict=True))
        return line_formatter(kind)

    def _nullable(self, show: Show) -> Show:
        return lambda value: self._null if value is None else show(value)

    def _quoted_if_needed(self, text: str) -> str:
        quote, escape = self._options.quote_char, self._options.escape_char
        if quote is None:
            return text if escape is None else self._escaped(text, escape)
        short = len(text) <= _LONGEST_LOOKED_AT
        if short and (not text or (ord(min(text)) >= self._first_safe and (escape is None or escape not in text))):
            return text
        if escape is not None:
            text = text.replace(escape, escape * 2)
        return quote + (text if escape == quote else text.replace(quote, quote * 2)) + quote

    def _escaped(self, text: str, escape: str) -> str:
        special = {escape, self._options.column_separator, "\n", "\r"}
        return "".join(escape + char if char in special else char for char in text)


class CsvWriterFactory(BulkWriterFactory):
    """Creates writers of CSV files."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    def create(self, stream: IO[bytes]) -> _CsvWriter:
        return _CsvWriter(stream, self._schema)


class _CsvWriter:
    """Writes each row at once; the underlying stream buffers."""

    def __init__(self, stream: IO[bytes], schema: CsvSchema) -> None:
        self._stream = stream
        self._type = schema.row_type
        self._formatter = RowFormatter(schema.row_type, schema.options, schema.separators)
        self._header_due = schema.options.use_header

    def add_element(self, element: Any) -> None:
        if self._header_due:
            self._header_due = False
            self._stream.write(self._formatter.header().encode())
        (row,) = self._type.coerce([element])
        self._stream.write(self._formatter.line(row).encode())

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        self.flush()
