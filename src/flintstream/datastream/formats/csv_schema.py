"""CsvSchema: the columns and separators of CSV files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flintstream.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flintstream.common.types import Row, make_rows
from flintstream.datastream.formats.text_values import Parser, parser
from flintstream.table.types import DataType, type_info_of

__all__ = ["CsvOptions", "CsvSchema", "CsvSchemaBuilder", "RowParser"]

ColumnType = DataType | TypeInformation


@dataclass(frozen=True)
class CsvOptions:
    """The CSV dialect."""

    column_separator: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    null_value: str | None = None
    array_separator: str = ";"
    line_separator: str = "\n"
    allow_comments: bool = False
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    any_property_name: str | None = None
    """If set, records may have more fields than there are columns."""

    def dialect(self) -> dict[str, Any]:
        """Returns the options for Python's csv module."""
        return {
            "delimiter": self.column_separator,
            "quotechar": self.quote_char,
            "escapechar": self.escape_char,
            "quoting": csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            "strict": True,
        }


class RowParser:
    """Creates Rows from the fields of CSV records."""

    def __init__(
        self, row_type: RowTypeInfo, options: CsvOptions, separators: Sequence[str | None] | None = None
    ) -> None:
        self.names = tuple(row_type.get_field_names())
        self._null = options.null_value
        self._may_be_longer = options.any_property_name is not None
        types = row_type.get_field_types()
        own = separators or [None] * len(types)
        self._parsers: list[Parser] = [
            parser(kind, options.array_separator if separator is None else separator)
            for kind, separator in zip(types, own, strict=True)
        ]

    def rows(self, records: list[list[str]]) -> list[Row]:
        """Returns a Row for each record; raises ValueError for one that does not fit."""
        if not records:
            return []
        width = len(self.names)
        if self._may_be_longer:
            records = [record[:width] for record in records]
        if not {width}.issuperset(map(len, records)):
            wrong = next(record for record in records if len(record) != width)
            names = ", ".join(self.names)
            raise ValueError(f"it has {len(wrong)} fields, not {width} ({names}): {wrong!r:.200}")
        columns = []
        for name, parse, texts in zip(self.names, self._parsers, zip(*records, strict=True), strict=True):
            try:
                columns.append(self._column(parse, texts))
            except (ValueError, ArithmeticError) as error:
                raise ValueError(f"column {name!r}: {error}") from error
        return make_rows(zip(*columns, strict=True), self.names)

    def _column(self, parse: Parser, texts: Sequence[str]) -> Sequence[Any]:
        null = self._null
        if null is not None and null in texts:
            return [None if text == null else parse(text) for text in texts]
        return texts if parse is str else list(map(parse, texts))


class CsvSchema:
    """The columns of CSV files.

    Example::

        schema = CsvSchema.builder() \\
            .add_number_column("id", DataTypes.INT()) \\
            .add_string_column("name") \\
            .set_use_header() \\
            .build()
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        options: CsvOptions | None = None,
        separators: Sequence[str | None] | None = None,
    ) -> None:
        self.row_type = row_type
        self.options = options or CsvOptions()
        self.separators = list(separators or [None] * len(row_type.get_field_names()))
        """The separator of elements in array columns; None for the default of all columns."""

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Returns a builder without columns."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Returns the number of columns."""
        return len(self.row_type.get_field_names())

    def row_parser(self) -> RowParser:
        """Returns a parser of rows of this schema."""
        return RowParser(self.row_type, self.options, self.separators)

    def __len__(self) -> int:
        return self.size()

    def __repr__(self) -> str:
        return f"CsvSchema({self.row_type}, {self.options})"


class CsvSchemaBuilder:
    """Builds a `CsvSchema`. Types are those of `DataTypes` or of `Types`."""

    def __init__(self) -> None:
        self._columns: list[tuple[str, TypeInformation, str | None]] = []
        self._options = CsvOptions()

    def build(self) -> CsvSchema:
        """Returns the schema."""
        names = [name for name, _, _ in self._columns]
        row_type = Types.ROW_NAMED(names, [kind for _, kind, _ in self._columns])
        schema = CsvSchema(row_type, self._options, [separator for _, _, separator in self._columns])
        schema.row_parser()  # raises for types without a text form
        return schema

    def add_array_column(
        self, name: str, separator: str = ";", element_type: ColumnType | None = None
    ) -> CsvSchemaBuilder:
        """Adds a column of lists; the elements are strings unless a type is given."""
        kind = Types.LIST(Types.STRING() if element_type is None else type_info_of(element_type))
        return self._add(name, kind, separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Adds a column of booleans; as in Flink, any text other than true is false."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: ColumnType | None = None) -> CsvSchemaBuilder:
        """Adds a column of numbers; `Types.LONG()` unless a type is given."""
        return self._add(name, Types.LONG() if number_type is None else number_type)

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Adds a column of strings."""
        return self._add(name, Types.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Adds all columns of another schema."""
        types, names = schema.row_type.get_field_types(), schema.row_type.get_field_names()
        for name, kind, separator in zip(names, types, schema.separators, strict=True):
            self._add(name, kind, separator)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Removes all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Ignores lines that start with `#`."""
        return self._set(allow_comments=bool(allow))

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Accepts records with more fields than there are columns. As in PyFlink, Rows have no field of that name: what is
        behind the last column is left out.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"set_any_property_name: expected a name, got {name!r}")
        return self._set(any_property_name=name)

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Treats the whole field as a list of one element, unless the column sets a separator."""
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Removes the separator of the column at this index."""
        name, kind, _ = self._columns[index]
        self._columns[index] = (name, kind, None)
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Sets the default separator of list elements, for columns that set none."""
        return self._set(array_separator=separator)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Sets the field separator; a comma by default."""
        return self._set(column_separator=one_char("Column separator", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Disables escaping; the default."""
        return self._set(escape_char=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Sets the escape character; the character after it is taken literally."""
        return self._set(escape_char=one_char("Escape char", char))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Sets the line separator for writing; for reading, `\n`, `\r` and `\r\n` are recognised."""
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Sets the text that represents None."""
        return self._set(null_value=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Disables quoting. Large files can then be split."""
        return self._set(quote_char=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Sets the quote character of fields that contain separators or line ends; `"` by default."""
        return self._set(quote_char=one_char("Quote char", char))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skips the first record of a file, after the header if there is one."""
        return self._set(skip_first_data_row=bool(skip))

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Requires the header to match the column names, in order."""
        return self._set(strict_headers=bool(strict))

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Treats the first line of a file as a header."""
        return self._set(use_header=bool(use))

    def size(self) -> int:
        """Returns the number of columns."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, column_type: ColumnType, separator: str | None = None) -> CsvSchemaBuilder:
        kind = type_info_of(column_type)
        if not isinstance(kind, TypeInformation):
            raise TypeError(f"column {name!r}: {kind!r} is not a type: use DataTypes or Types, e.g. DataTypes.INT()")
        self._columns.append((name, kind, separator))
        return self

    def _set(self, **options: Any) -> CsvSchemaBuilder:
        self._options = replace(self._options, **options)
        return self


def one_char(what: str, char: str) -> str:
    """Returns a single character; raises for anything else."""
    if not isinstance(char, str) or len(char) != 1:
        raise ValueError(f"{what} must be a single char, got {char}")
    return char
