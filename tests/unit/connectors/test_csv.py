"""CSV: files by a schema, and messages."""

from __future__ import annotations

import io
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common import Row, Types
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import FileSource
from flintstream.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
)
from flintstream.table import DataTypes

from .reading import check_resume, read_all, splits_of


def people() -> CsvSchemaBuilder:
    return CsvSchema.builder().add_number_column("id", Types.INT()).add_string_column("name")


def csv_source(path: Path, schema: CsvSchemaBuilder, content: str | None = None) -> FileSource:
    if content is not None:
        path.write_text(content, newline="")
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema.build()), str(path)).build()


def plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


def test_rows_with_names_and_types(tmp_path: Path) -> None:
    schema = (
        people()
        .add_boolean_column("active")
        .add_number_column("score", Types.DOUBLE())
        .add_array_column("tags")
        .add_array_column("sizes", ",", Types.INT())
        .set_column_separator("|")
    )
    source = csv_source(tmp_path / "a.csv", schema, " 1|ann|true|1.5|x;y|1,2\n2| bob |no|-3||\n")
    rows = read_all(source)
    assert rows == [
        Row(id=1, name="ann", active=True, score=1.5, tags=["x", "y"], sizes=[1, 2]),
        Row(id=2, name=" bob ", active=False, score=-3.0, tags=[], sizes=[]),
    ]
    assert source.produced_type == Types.ROW_NAMED(
        ["id", "name", "active", "score", "tags", "sizes"],
        [
            Types.INT(),
            Types.STRING(),
            Types.BOOLEAN(),
            Types.DOUBLE(),
            Types.LIST(Types.STRING()),
            Types.LIST(Types.INT()),
        ],
    )


QUOTED = '1,"a,b"\r\n2,"two\nlines\n"\n3,"say ""hi"""\n4,plain\n5,last'
QUOTED_ROWS = [(1, "a,b"), (2, "two\nlines\n"), (3, 'say "hi"'), (4, "plain"), (5, "last")]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_quotes_with_separators_and_line_ends_in_them(tmp_path: Path, limit: int) -> None:
    assert plain(read_all(csv_source(tmp_path / "a.csv", people(), QUOTED), limit=limit)) == QUOTED_ROWS


def test_resume_from_every_record(tmp_path: Path) -> None:
    source = csv_source(tmp_path / "a.csv", people().set_use_header(), "id,name\n" + QUOTED)
    (split,) = splits_of(source)
    check_resume(source, split, read_all(source))


FIELDS = st.text(alphabet='ab,"\n\r', max_size=5)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=8), st.integers(1, 4))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, str]], limit: int
) -> None:
    written = CsvRowSerializationSchema.Builder(Types.ROW([Types.STRING(), Types.STRING()])).build()
    path = tmp_path_factory.getbasetemp() / "property.csv"
    path.write_bytes(b"".join(written.serialize(record) or b"" for record in records))
    schema = CsvSchema.builder().add_string_column("a").add_string_column("b")
    assert plain(read_all(csv_source(path, schema), limit=limit)) == records


def test_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    content = "id,name\n1,a\n2,b\n"
    assert plain(read_all(csv_source(path, people().set_use_header(), content))) == [(1, "a"), (2, "b")]
    strict = people().set_use_header().set_strict_headers()
    assert len(read_all(csv_source(path, strict))) == 2
    both = people().set_use_header().set_skip_first_data_row()
    assert plain(read_all(csv_source(path, both))) == [(2, "b")]
    assert read_all(csv_source(path, both, "id,name")) == []
    with pytest.raises(SourceError, match=r"the header is \['key', 'name'\], but the schema's columns are \['id'"):
        read_all(csv_source(path, strict, "key,name\n1,a\n"))


def test_null_escape_quote_and_comments(tmp_path: Path) -> None:
    schema = people().set_null_value("n/a").set_escape_char("\\").set_quote_char("'").set_allow_comments()
    content = "#first\n1,n/a\nn/a,'#no comment\n#neither'\n# x\n3,a\\,b\n#last\n"
    source = csv_source(tmp_path / "a.csv", schema, content)
    expected = [(1, None), (None, "#no comment\n#neither"), (3, "a,b")]
    for limit in (1, 2, 100):
        assert plain(read_all(source, limit=limit)) == expected
    check_resume(source, splits_of(source)[0], read_all(source))


def test_without_quotes_large_files_are_split(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,name\n" + "".join(f"{n},a\n" for n in range(10)))
    schema = people().set_use_header().disable_quote_char().build()
    builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).set_split_size(10)
    source = builder.build()
    assert len(splits_of(source)) == 5
    assert plain(read_all(source)) == [(n, "a") for n in range(10)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,a\nx,b\n", r"a\.csv, byte 4: cannot read the record: column 'id': 'x' is not an integer"),
        ("1,a\n3000000000,b\n", r"byte 4.*not between -2147483648 and 2147483647"),
        ("1,a\n2\n", r"byte 4.*it has 1 fields, not 2 \(id, name\)"),
        ("1,a\n2,b,c\n", r"byte 4.*it has 3 fields, not 2"),
        ("1,a\n\n", r"byte 4.*it has 1 fields, not 2"),
        ('1,a\n2,"open\n', r"byte 4: invalid CSV record: unexpected end of data"),
        ('1,"a"\n2,b\nx,"c\n"\n', r"byte 10: cannot read the record: column 'id'"),
    ],
)
def test_errors_name_file_place_and_column(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_all(csv_source(tmp_path / "a.csv", people(), content))


@pytest.mark.parametrize("text", ["", "x", "1_0", "NaN", "Infinity"])
@pytest.mark.parametrize("column", [DataTypes.DECIMAL(10, 2), Types.BIG_DEC()])
def test_what_is_no_decimal_is_named(tmp_path: Path, column: Any, text: str) -> None:
    schema = CsvSchema.builder().add_number_column("price", column).add_string_column("name")
    with pytest.raises(SourceError, match=f"column 'price': '{text}' is no number"):
        read_all(csv_source(tmp_path / "a.csv", schema, f"1.5,a\n{text},b\n"))


def test_the_builder() -> None:
    schema = people().add_array_column("tags", ",").build()
    assert len(schema) == schema.size() == 3
    more = CsvSchema.builder().add_columns_from(schema).add_string_column("x")
    assert more.size() == len(more) == 4
    assert more.build().separators == [None, None, ",", None]
    assert more.remove_array_element_separator(2).build().separators == [None] * 4
    assert more.clear_columns().size() == 0
    with pytest.raises(ValueError, match="Column separator must be a single char, got ::"):
        people().set_column_separator("::")
    with pytest.raises(TypeError, match=r"column 'n': .* is not a type"):
        people().add_number_column("n", int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be read from text"):
        people().add_number_column("n", Types.MAP(Types.STRING(), Types.INT())).build()
    with pytest.raises(ValueError, match="set_any_property_name: expected a name, got ''"):
        people().set_any_property_name("")
    with pytest.raises(ValueError, match="no columns"):
        CsvReaderFormat.for_schema(CsvSchema.builder().build())
    with pytest.raises(TypeError, match="expected a CsvSchema"):
        CsvBulkWriters.for_schema(more)  # type: ignore[arg-type]


def test_array_separators_of_the_schema(tmp_path: Path) -> None:
    def read(schema: CsvSchemaBuilder) -> Any:
        return read_all(csv_source(tmp_path / "a.csv", schema, "a/b\n"))[0].x

    column = CsvSchema.builder().add_array_column("x").remove_array_element_separator(0)
    assert read(column) == ["a/b"]
    assert read(column.set_array_element_separator("/")) == ["a", "b"]
    assert read(column.disable_array_element_separator()) == ["a/b"]


ROW = Types.ROW_NAMED(["id", "name", "tags"], [Types.INT(), Types.STRING(), Types.LIST(Types.STRING())])


def test_messages() -> None:
    to_row = CsvRowDeserializationSchema.Builder(ROW).set_null_literal("-").build()
    row = Row(id=1, name="a,b", tags=["x", "y"])
    assert to_row.deserialize(b'1,"a,b",x;y') == row
    assert pickle.loads(pickle.dumps(to_row)).deserialize(b"1,-,") == Row(id=1, name=None, tags=[])
    to_bytes = CsvRowSerializationSchema.Builder(ROW).set_null_literal("-").set_line_delimiter("").build()
    assert to_bytes.serialize(row) == b'1,"a,b",x;y'
    assert to_bytes.serialize((2, None, [])) == b"2,-,"
    with pytest.raises(ValueError, match="cannot read the CSV message 'x,y,z': column 'id'"):
        to_row.deserialize(b"x,y,z")
    lenient = CsvRowDeserializationSchema.Builder(ROW).set_ignore_parse_errors(True).set_allow_comments(True)
    assert lenient.build().deserialize(b"x,y,z") is None
    assert lenient.build().deserialize(b"#1,2,3") is None
    with pytest.raises(TypeError, match="a type of rows"):
        CsvRowDeserializationSchema.Builder(Types.STRING())


def message(kind: Any, value: Any) -> tuple[bytes, Any]:
    """A value between two texts as a message, and what is read from that again."""
    row_type = Types.ROW([Types.STRING(), kind, Types.STRING()])
    builders = (CsvRowSerializationSchema.Builder(row_type), CsvRowDeserializationSchema.Builder(row_type))
    to_bytes, to_row = (
        builder.set_escape_character("*")  # type: ignore[attr-defined]
        .set_quote_character("'")
        .set_array_element_delimiter(":")
        .set_field_delimiter(";")
        .build()
        for builder in builders
    )
    written = pickle.loads(pickle.dumps(to_bytes)).serialize(Row("BEGIN", value, "END"))
    return written, to_row.deserialize(written)[1]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Types.STRING(), "123'4*", "'123''4**'"),
        (Types.STRING(), "a;b'c", "'a;b''c'"),
        (Types.STRING(), "null", "null"),
        (Types.INT(), 12, "12"),
        (Types.DOUBLE(), 3e38, "3.0E38"),
        (Types.ROW([Types.STRING(), Types.STRING()]), Row(f0="1", f1="hello world"), "'1:hello world'"),
        (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.DOUBLE()]), Row(a=1, b=0.5), "'1:0.5'"),
        (Types.TUPLE([Types.INT(), Types.BOOLEAN()]), (1, True), "'1:true'"),
        (Types.LIST(Types.INT()), [1, 2], "'1:2'"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"abc", "YWJj"),
    ],
)
def test_nested_rows_and_quotes_in_messages(kind: Any, value: Any, text: str) -> None:
    assert message(kind, value) == (f"BEGIN;{text};END\n".encode(), value)


def test_a_nested_row_with_too_few_fields() -> None:
    row_type = Types.ROW([Types.ROW([Types.INT(), Types.INT()])])
    with pytest.raises(ValueError, match=r"column 'f0': '1' has 1 parts, but RowTypeInfo.* has 2 fields"):
        CsvRowDeserializationSchema.Builder(row_type).build().deserialize(b"1")


def test_files_are_written_by_the_schema(tmp_path: Path) -> None:
    schema = (
        CsvSchema.builder()
        .add_number_column("price", DataTypes.DECIMAL(5, 2))
        .add_array_column("sizes", ":", DataTypes.INT())
        .add_string_column("name")
        .set_use_header()
        .set_null_value("-")
        .build()
    )
    stream = io.BytesIO()
    writer: Any = pickle.loads(pickle.dumps(CsvBulkWriters.for_schema(schema))).create(stream)
    for record in (Row(Decimal("1.005"), [1, 2], "a, b"), (None, [], "x" * 25), {"price": 2, "name": None}):
        writer.add_element(record)
    writer.finish()
    text = f'price,sizes,name\n1.01,1:2,"a, b"\n-,,"{"x" * 25}"\n2.00,-,-\n'
    assert stream.getvalue().decode() == text
    (tmp_path / "a.csv").write_text(text)
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build()
    rows = read_all(source)
    assert plain(rows)[0] == (Decimal("1.01"), [1, 2], "a, b")
    assert plain(rows)[2] == (Decimal("2.00"), None, None)


def test_a_decimal_that_does_not_fit_is_none_as_in_flink(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("n", DataTypes.DECIMAL(3, 1))
    assert plain(read_all(csv_source(tmp_path / "a.csv", schema, "12345.6\n12.34\n"))) == [(None,), (Decimal("12.3"),)]


def test_fields_behind_the_last_column_may_be_left_out(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("a").add_string_column("b")
    text = "1,x\n2,y,and,more\n"
    with pytest.raises(SourceError, match="it has 4 fields, not 2"):
        read_all(csv_source(tmp_path / "a.csv", schema, text))
    rows = read_all(csv_source(tmp_path / "b.csv", schema.set_any_property_name("rest"), text))
    assert rows == [Row(a=1, b="x"), Row(a=2, b="y")]
    with pytest.raises(SourceError, match="it has 1 fields, not 2"):
        read_all(csv_source(tmp_path / "c.csv", schema, "1\n"))
