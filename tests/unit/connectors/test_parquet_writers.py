"""Parquet files written by FileSink: which values become which columns."""

from __future__ import annotations

import datetime
import decimal
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintstream.common import Configuration, Instant, Row, Types
from flintstream.common.serialization import BulkWriterFactory
from flintstream.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flintstream.datastream.formats import columnar_writers
from flintstream.datastream.formats.avro import AvroSchema
from flintstream.datastream.formats.parquet import (
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetFormat,
)
from flintstream.table import DataTypes
from flintstream.testing import OneInputOperatorHarness

from .reading import read_all


def written(factory: BulkWriterFactory, records: list[Any]) -> Any:
    """The table that a file of these records holds."""
    stream = io.BytesIO()
    writer: Any = pickle.loads(pickle.dumps(factory)).create(stream)
    for record in records:
        writer.add_element(record)
    writer.flush()
    writer.finish()
    return pq.read_table(io.BytesIO(stream.getvalue()))


def test_what_a_sink_has_written_a_source_reads(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row_type))
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    with OneInputOperatorHarness(sink) as harness:
        harness.process_elements([Row(id=1, name="a"), (2, "b"), {"name": "c"}])
        harness.end_input()
        harness.snapshot(1)
        harness.notify_checkpoint_complete(1)
    source = FileSource.for_bulk_file_format(ParquetFormat(row_type), str(tmp_path)).build()
    assert read_all(source) == [Row(id=1, name="a"), Row(id=2, name="b"), Row(id=None, name="c")]


MOMENT = datetime.datetime(2024, 2, 29, 23, 5, 6, 70_000)
VALUES: list[tuple[Any, Any, Any, Any]] = [
    (Types.BOOLEAN(), True, pa.bool_(), True),
    (Types.BYTE(), -128, pa.int8(), -128),
    (Types.SHORT(), 300, pa.int16(), 300),
    (Types.INT(), 70_000, pa.int32(), 70_000),
    (Types.LONG(), 2**40, pa.int64(), 2**40),
    (Types.FLOAT(), 1.5, pa.float32(), 1.5),
    (Types.DOUBLE(), 0.1, pa.float64(), 0.1),
    (Types.CHAR(), "x", pa.string(), "x"),
    (Types.BIG_INT(), 10**30, pa.decimal128(38, 0), decimal.Decimal(10**30)),
    (Types.BIG_DEC(), decimal.Decimal("1.25"), pa.decimal128(38, 18), decimal.Decimal("1.25")),
    (Types.INSTANT(), Instant(1, 5000), pa.timestamp("ns", "UTC"), None),
    (Types.SQL_DATE(), MOMENT.date(), pa.date32(), MOMENT.date()),
    (Types.SQL_TIME(), MOMENT.time(), pa.time32("ms"), MOMENT.time()),
    (Types.SQL_TIMESTAMP(), MOMENT, pa.timestamp("ms"), MOMENT),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", pa.binary(), b"ab"),
    (Types.LIST(Types.INT()), [1, None], pa.list_(pa.int32()), [1, None]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}, pa.map_(pa.string(), pa.int32()), [("a", 1)]),
    (
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))]),
        Row(1, [("x", True)]),
        None,
        {"a": 1, "b": [{"f0": "x", "f1": True}]},
    ),
]


@pytest.mark.parametrize(("declared", "value", "kind", "read"), VALUES, ids=lambda value: str(value)[:40])
def test_declared_types(declared: Any, value: Any, kind: Any, read: Any) -> None:
    table = written(ParquetBulkWriters.for_row_type(Types.ROW([declared])), [Row(value), Row(None)])
    assert table.column_names == ["f0"]
    assert kind is None or table.schema.field("f0").type == kind
    first, second = table["f0"]
    assert second.as_py() is None
    assert first.value == 1_000_005_000 if isinstance(value, Instant) else first.as_py() == read


def test_timestamps_of_utc() -> None:
    row_type = Types.ROW([Types.SQL_TIMESTAMP()])
    table = written(ParquetBulkWriters.for_row_type(row_type, utc_timestamp=True), [(MOMENT,)])
    assert table["f0"][0].as_py() == MOMENT.replace(tzinfo=datetime.timezone.utc)


@dataclass
class Order:
    id: int
    name: str


class Item(NamedTuple):
    name: str
    id: int


def test_records_of_all_kinds_with_an_arrow_schema() -> None:
    factory = ParquetBulkWriters.for_arrow_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    records = [
        {"name": "a", "id": 1},
        Row(name="b", id=2),
        Order(3, "c"),
        (4, "d"),
        [5, "e"],
        Row(6, "f"),
        Item("g", 7),
    ]
    table = written(factory, [*records, {"id": 8}, {"id": 9.0, "name": None}])
    assert table["id"].to_pylist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert table["name"].to_pylist() == [*"abcdefg", None, None]


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"id": "x"}, "column 'id'"),
        ({"id": 1.5}, "1.5 is not an integer"),
        ({"id": None}, "column 'id' cannot be null"),
        ({"idd": 1}, "no such column: 'idd'; the columns are id"),
        ((1, 2), "it has 2 fields, but there are 1 columns"),
        (5, "a record must be a dict, a Row, a tuple or a dataclass, got int"),
    ],
    ids=str,
)
def test_records_that_do_not_fit_are_named(record: Any, named: str) -> None:
    factory = ParquetBulkWriters.for_arrow_schema(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(ValueError, match=named) as told:
        written(factory, [{"id": 1}, record, {"id": 2}])
    assert str(told.value).startswith(f"{record!r} does not fit the columns")


def test_row_groups_become_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar_writers, "_BATCH_ROWS", 10)
    monkeypatch.setattr(columnar_writers, "GROUP_BYTES", 8 * 35)
    factory: Any = ParquetBulkWriters.for_arrow_schema(pa.schema([("id", pa.int64())]))
    stream = io.BytesIO()
    writer = factory.create(stream)
    for number in range(100):
        writer.add_element((number,))
    writer.finish()
    metadata = pq.read_metadata(io.BytesIO(stream.getvalue()))
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [40, 40, 20]


@pytest.mark.parametrize(
    ("given", "used"), [(None, "SNAPPY"), ("GZIP", "GZIP"), ("zstd", "ZSTD"), ("UNCOMPRESSED", "UNCOMPRESSED")]
)
def test_compression(given: str | None, used: str) -> None:
    settings = Configuration()
    if given is not None:
        settings.set_string("parquet.compression", given)
    stream = io.BytesIO()
    factory: Any = ParquetBulkWriters.for_row_type(Types.ROW([Types.INT()]), settings)
    writer = factory.create(stream)
    writer.add_element((1,))
    writer.finish()
    assert pq.read_metadata(io.BytesIO(stream.getvalue())).row_group(0).column(0).compression == used


def test_avro_schemas() -> None:
    schema = AvroSchema.parse_string("""
        {"type": "record", "name": "Order", "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
            {"name": "who", "type": {"type": "record", "name": "Who", "fields": [{"name": "name", "type": "string"}]}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}}
        ]}""")
    at = MOMENT.replace(tzinfo=datetime.timezone.utc)
    record = {
        "id": 1,
        "note": None,
        "at": at,
        "price": decimal.Decimal("1.25"),
        "kind": "A",
        "tags": ["x", None],
        "counts": {"a": 1},
        "who": {"name": "ann"},
        "hash": b"ab",
    }
    table = written(AvroParquetWriters.for_generic_record(schema), [record])
    assert table.to_pylist() == [{**record, "counts": [("a", 1)]}]
    assert not table.schema.field("id").nullable
    assert table.schema.field("note").nullable


def test_what_is_refused() -> None:
    row_type = Types.ROW([Types.INT()])
    for call, named in (
        (lambda: ParquetBulkWriters.for_row_type(None), "row_type must be made by DataTypes.ROW or Types.ROW_NAMED"),
        (
            lambda: ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()])),
            "cannot be stored in a column",
        ),
        (lambda: ParquetBulkWriters.for_arrow_schema({"id": "int"}), "expected a pyarrow.Schema"),
        (lambda: ParquetBulkWriters.for_arrow_schema(pa.schema([]), compression="zip"), "unknown compression 'zip'"),
        (
            lambda: ParquetBulkWriters.for_row_type(row_type, Configuration().set_string("parquet.page.size", "1")),
            "parquet.page.size is not supported",
        ),
        (lambda: AvroParquetWriters.for_generic_record({}), "expected an AvroSchema"),
        (lambda: AvroParquetWriters.for_generic_record(AvroSchema("int")), "must be a record"),
        (
            lambda: AvroParquetWriters.for_generic_record(
                AvroSchema({"type": "record", "fields": [{"name": "x", "type": ["int", "string"]}]})
            ),
            "field 'x': only unions of one type and null are supported",
        ),
        (
            lambda: AvroParquetWriters.for_generic_record(
                AvroSchema({"type": "record", "fields": [{"name": "x", "type": "Other"}]})
            ),
            "the Avro type 'Other' cannot be stored in a column",
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=named):
            call()


def test_data_types_of_tables(tmp_path: Path) -> None:
    row_type = DataTypes.ROW(
        [
            DataTypes.FIELD("id", DataTypes.INT().not_null()),
            DataTypes.FIELD("price", DataTypes.DECIMAL(6, 2)),
            DataTypes.FIELD("at", DataTypes.TIMESTAMP_LTZ(3)),
            DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
        ]
    )
    factory = ParquetBulkWriters.for_row_type(row_type)
    table = written(
        factory, [Row(1, decimal.Decimal("1.005"), Instant.of_epoch_milli(1500), ["a"]), (2, None, None, [])]
    )
    assert table.schema.field("price").type == pa.decimal128(6, 2)
    assert [column.nullable for column in table.schema] == [False, True, True, True]
    assert table.column("price").to_pylist() == [decimal.Decimal("1.01"), None]
    with pytest.raises(ValueError, match="column 'id' cannot be null"):
        written(factory, [(None, None, None, [])])
    pq.write_table(table, tmp_path / "a.parquet")
    format = ParquetColumnarRowInputFormat(row_type, Configuration(), 10, True, False)
    rows = read_all(FileSource.for_bulk_file_format(format, str(tmp_path)).build())
    assert rows[0] == Row(id=1, price=decimal.Decimal("1.01"), at=Instant.of_epoch_milli(1500), tags=["a"])
    assert rows[1] == Row(id=2, price=None, at=None, tags=[])
