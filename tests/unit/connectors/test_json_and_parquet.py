"""JSON lines, JSON messages, and Parquet files."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintstream.common import Row, Types
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import FileSource
from flintstream.datastream.formats.json import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from flintstream.datastream.formats.parquet import ParquetColumnarRowInputFormat, ParquetFormat

from .reading import check_resume, drain, read_all, splits_of

ROW = Types.ROW_NAMED(
    ["id", "name", "at", "tags", "more"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.SQL_TIMESTAMP(),
        Types.LIST(Types.INT()),
        Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
    ],
)


def json_source(path: Path, content: str, type_info: Any = None) -> FileSource:
    path.write_text(content)
    return FileSource.for_record_stream_format(JsonLinesFormat(type_info), str(path)).build()


def test_json_lines_are_dicts(tmp_path: Path) -> None:
    source = json_source(tmp_path / "a", '{"id": 1}\n\n[2, "\u00e4"]\nnull')
    source = pickle.loads(pickle.dumps(source))
    assert source.produced_type is None
    assert read_all(source, limit=1) == [{"id": 1}, [2, "\u00e4"], None]
    check_resume(source, splits_of(source)[0], [{"id": 1}, [2, "\u00e4"], None])


def test_json_lines_are_rows_where_a_type_is_given(tmp_path: Path) -> None:
    full = '{"more": {"x": 1}, "at": "2024-05-01T10:00:00Z", "id": 1, "name": "a", "tags": [1, 2], "z": 0}\n'
    source = json_source(tmp_path / "a", full + '{"id": 2}', ROW)
    assert source.produced_type == ROW
    at = datetime.datetime(2024, 5, 1, 10)
    assert read_all(source) == [
        Row(id=1, name="a", at=at, tags=[1, 2], more=Row(x=1.0)),
        Row(id=2, name=None, at=None, tags=None, more=None),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1', r"a, byte 10: cannot read the line '\{\"id\": 1': Expecting"),
        ('{"id": "x"}', "byte 10.*field 'id': 'x' is not an integer"),
        ('{"more": {"x": []}}', "byte 10.*field 'more': field 'x'"),
        ("[1]", "byte 10.*expected an object with the fields id, name"),
    ],
)
def test_bad_json_names_file_and_place(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_all(json_source(tmp_path / "a", '{"id": 1}\n' + line, ROW))


def test_json_messages() -> None:
    row = Row(id=1, name="\u00e4", at=datetime.datetime(2024, 5, 1, 10), tags=[1], more=Row(x=0.5))
    message = JsonRowSerializationSchema.builder().with_type_info(ROW).build().serialize(row)
    assert message is not None
    assert json.loads(message) == {
        "id": 1,
        "name": "\u00e4",
        "at": "2024-05-01T10:00:00",
        "tags": [1],
        "more": {"x": 0.5},
    }
    schema = JsonRowDeserializationSchema.builder().type_info(ROW).build()
    assert pickle.loads(pickle.dumps(schema)).deserialize(message) == row
    assert schema.get_produced_type() == ROW
    with pytest.raises(ValueError, match="cannot read the JSON message b'nothing'"):
        schema.deserialize(b"nothing")
    lenient = JsonRowDeserializationSchema.builder().type_info(ROW).ignore_parse_errors().build()
    assert lenient.deserialize(b"nothing") is None
    strict = JsonRowDeserializationSchema.builder().type_info(ROW).fail_on_missing_field().build()
    with pytest.raises(ValueError, match="the field 'name', 'at', 'tags', 'more' is missing"):
        strict.deserialize(b'{"id": 1}')
    with pytest.raises(TypeError, match="Typeinfo should be set"):
        JsonRowSerializationSchema.builder().build()


def test_json_schema() -> None:
    properties = {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "day": {"type": "string", "format": "date"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "ok": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
    }
    text = json.dumps({"type": "object", "properties": properties})
    schema = JsonRowDeserializationSchema.builder().json_schema(text).build()
    day, data = datetime.date(2024, 5, 1), b"ab"
    message = b'{"id": 1, "price": 1.10, "day": "2024-05-01", "data": "YWI=", "ok": true, "list": ["a", null]}'
    assert schema.deserialize(message) == Row(id=1, price=Decimal("1.1"), day=day, data=data, ok=True, list=["a", None])
    with pytest.raises(ValueError, match="is not supported"):
        JsonRowDeserializationSchema.builder().json_schema('{"type": "object", "properties": {"x": {}}}')


RECORDS = [{"id": n, "name": None if n == 3 else f"n{n}", "at": datetime.datetime(2024, 1, 1 + n)} for n in range(10)]


@pytest.fixture
def parquet_file(tmp_path: Path) -> Path:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=4)
    return path


def parquet_source(path: Path, parquet_format: ParquetFormat, split_size: int = 1 << 30) -> FileSource:
    return FileSource.for_bulk_file_format(parquet_format, str(path)).set_split_size(split_size).build()


@pytest.mark.parametrize("batch_size", [1, 3, 100])
@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_parquet_dicts(parquet_file: Path, batch_size: int, limit: int) -> None:
    assert read_all(parquet_source(parquet_file, ParquetFormat(batch_size=batch_size)), limit=limit) == RECORDS


def test_parquet_resume_from_every_position(parquet_file: Path) -> None:
    source = parquet_source(parquet_file, ParquetFormat(batch_size=3))
    (split,) = splits_of(source)
    check_resume(source, split, RECORDS)
    reader = source.create_reader(split, None)
    reader.read(3)
    assert reader.position == (0, 3)
    reader.read(1)
    assert reader.position == (1, 0)
    reader.close()


@pytest.mark.parametrize("size", [1, 50, 500, 1000])
def test_parquet_splits_by_row_groups(parquet_file: Path, size: int) -> None:
    source = parquet_source(parquet_file, ParquetFormat(), size)
    assert len(splits_of(source)) > 1
    assert read_all(source) == RECORDS
    for split in splits_of(source)[:20]:
        check_resume(source, split, drain(source.create_reader(split, None)))


def test_parquet_rows_and_columns(parquet_file: Path) -> None:
    row_type = Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.INT()])
    source = parquet_source(parquet_file, ParquetFormat(row_type))
    assert source.produced_type == row_type
    assert read_all(source)[2:4] == [Row(name="n2", id=2), Row(name=None, id=3)]
    assert read_all(parquet_source(parquet_file, ParquetFormat(columns=["name"])))[0] == {"name": "n0"}
    upper = Types.ROW_NAMED(["ID"], [Types.INT()])
    insensitive = ParquetColumnarRowInputFormat(upper, batch_size=2, is_case_sensitive=False)
    assert read_all(parquet_source(parquet_file, insensitive))[1] == Row(ID=1)
    with pytest.raises(SourceError, match=r"no such column: ID; the file has id, name, at"):
        read_all(parquet_source(parquet_file, ParquetColumnarRowInputFormat(upper)))


def test_parquet_empty_and_broken(tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), empty)
    assert read_all(parquet_source(empty, ParquetFormat())) == []
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"no parquet")
    with pytest.raises(SourceError, match=r"broken\.parquet: cannot read the Parquet file"):
        read_all(parquet_source(broken, ParquetFormat()))


def test_parquet_timestamps_with_a_zone(tmp_path: Path) -> None:
    at = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc)
    path = tmp_path / "a.parquet"
    table = pa.table({"at": pa.array([at, None], pa.timestamp("ns", "UTC")), "raw": [b"x", None]})
    pq.write_table(table, path)
    assert read_all(parquet_source(path, ParquetFormat())) == [{"at": at, "raw": b"x"}, {"at": None, "raw": None}]
