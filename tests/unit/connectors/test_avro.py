"""Avro: files of dicts, and messages of Rows."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pytest

from flintstream.common import Row
from flintstream.common.serialization import BulkWriterFactory
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from flintstream.datastream.formats import avro
from flintstream.datastream.formats.avro import (
    AvroBulkWriters,
    AvroFormat,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from flintstream.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from flintstream.testing import OneInputOperatorHarness

from .reading import check_resume, read_all, splits_of


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


SCHEMA = AvroSchema(
    record(
        "order",
        id="long",
        name=["null", "string"],
        suit={"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]},
        items={"type": "array", "items": record("item", size="int", price="double")},
        counts={"type": "map", "values": "long"},
    )
)
ORDERS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "suit": "SPADES", "items": [{"size": 1, "price": 2.5}], "counts": {"x": 1}},
    {"id": 2, "name": None, "suit": "HEARTS", "items": [], "counts": {}},
]


def content(factory: BulkWriterFactory, records: list[Any]) -> bytes:
    stream = io.BytesIO()
    writer: Any = pickle.loads(pickle.dumps(factory)).create(stream)
    for each in records:
        writer.add_element(each)
    writer.finish()
    return stream.getvalue()


def source(path: Path, schema: AvroSchema | None = SCHEMA) -> FileSource:
    return FileSource.for_bulk_file_format(AvroFormat(schema), str(path)).build()


def test_what_a_sink_has_written_a_source_reads(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record(SCHEMA))
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    with OneInputOperatorHarness(sink) as harness:
        harness.process_elements(ORDERS)
        harness.end_input()
        harness.snapshot(1)
        harness.notify_checkpoint_complete(1)
    assert read_all(source(tmp_path)) == ORDERS
    assert read_all(source(tmp_path, None)) == ORDERS


def test_reading_goes_on_behind_any_record(tmp_path: Path) -> None:
    numbers = [{"n": number} for number in range(20_000)]
    path = tmp_path / "a.avro"
    schema = AvroSchema(record("number", n="int"))
    path.write_bytes(content(AvroBulkWriters.for_generic_record(schema), numbers))
    (split,) = splits_of(source(path, schema))
    with closing(source(path, schema).create_reader(split, 15_000)) as reader:
        assert reader.read(3).values == numbers[15_000:15_003]
    few = tmp_path / "few.avro"
    few.write_bytes(content(AvroBulkWriters.for_generic_record(schema), numbers[:5]))
    (split,) = splits_of(source(few, schema))
    check_resume(source(few, schema), split, numbers[:5])


def test_a_schema_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(content(AvroBulkWriters.for_generic_record(SCHEMA), ORDERS))
    newer = record("order", id="long")
    newer["fields"].append({"name": "vip", "type": "boolean", "default": False})
    assert read_all(source(path, AvroSchema(newer))) == [{"id": 1, "vip": False}, {"id": 2, "vip": False}]


def test_input_formats(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(content(AvroBulkWriters.for_generic_record(SCHEMA), ORDERS))
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(str(path), SCHEMA))
    assert stream.get_type() == GenericRecordAvroTypeInfo(SCHEMA)
    assert read_all(stream._transformation.source) == ORDERS


def test_parquet_files_by_an_avro_schema(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(content(AvroParquetWriters.for_generic_record(SCHEMA), ORDERS))
    format = AvroParquetReaders.for_generic_record(SCHEMA)
    assert read_all(FileSource.for_record_stream_format(format, str(tmp_path)).build()) == ORDERS


def test_messages() -> None:
    text = json.dumps(SCHEMA.schema)
    to_bytes = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=text)))
    to_row = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=text)))
    row = Row(id=1, name="a", suit="SPADES", items=[Row(size=1, price=2.5)], counts={"x": 1})
    message = to_bytes.serialize(row)
    assert to_row.deserialize(message) == row
    assert to_bytes.serialize(Row(1, "a", "SPADES", [(1, 2.5)], {"x": 1})) == message
    assert to_bytes.serialize(ORDERS[0]) == message
    with pytest.raises(ValueError, match="cannot read the Avro message"):
        to_row.deserialize(message[:3])
    with pytest.raises(ValueError, match="has 1 fields, but the record order has 5"):
        to_bytes.serialize(Row(1))


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not fit the Avro schema"):
        content(AvroBulkWriters.for_generic_record(SCHEMA), [{**ORDERS[0], "id": "one"}])
    with pytest.raises(ValueError, match="for_generic_record: invalid Avro schema"):
        AvroBulkWriters.for_generic_record(AvroSchema({"type": "nothing"}))
    with pytest.raises(NotImplementedError, match="record_class='a.B'"):
        AvroRowSerializationSchema(record_class="a.B")
    with pytest.raises(TypeError, match="avro_schema_string must be given"):
        AvroRowDeserializationSchema()
    (tmp_path / "a.avro").write_bytes(b"no Avro")
    with pytest.raises(SourceError, match=r"a\.avro: cannot read the Avro file"):
        read_all(source(tmp_path / "a.avro"))


def test_fields_of_a_row_are_found_by_name_or_else_by_position() -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    text = json.dumps({"type": "record", "name": "r", "fields": fields})
    schema, back = AvroRowSerializationSchema(None, text), AvroRowDeserializationSchema(None, text)
    for row in (Row(id=1, name="a"), Row(name="a", id=1), Row(1, "a"), (1, "a"), Row(f0=1, f1="a")):
        assert back.deserialize(schema.serialize(row)) == Row(id=1, name="a")


class TestSplits:
    """A file is split by its sync markers."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "in.avro"
        with path.open("wb") as file:
            schema = record("number", x="long", text="string")
            records = [{"x": number, "text": "a" * (number % 7)} for number in range(300)]
            fastavro.writer(file, schema, records, codec="deflate", sync_interval=200)
        return path

    @pytest.mark.parametrize("size", [1, 7, 16, 17, 100, 131, 500, 4000])
    def test_each_record_is_in_one_split(self, path: Path, size: int) -> None:
        source = FileSource.for_bulk_file_format(AvroFormat(), str(path)).set_split_size(size).build()
        count = len(splits_of(source))
        assert count == -(-path.stat().st_size // size)
        assert [each["x"] for each in read_all(source)] == [*range(300)]

    def test_resume_from_every_position_of_every_split(self, path: Path) -> None:
        source = FileSource.for_bulk_file_format(AvroFormat(), str(path)).set_split_size(500).build()
        splits = splits_of(source)
        assert len(splits) > 2
        for split in splits:
            with closing(source.create_reader(split, None)) as reader:
                expected = reader.read(1000).values
            assert 0 < len(expected) < 300
            check_resume(source, split, expected)

    def test_a_marker_across_two_reads_is_found(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(avro, "_SCAN_BYTES", 5)
        source = FileSource.for_bulk_file_format(AvroFormat(), str(path)).set_split_size(300).build()
        assert [each["x"] for each in read_all(source)] == [*range(300)]

    def test_a_compressed_file_is_read_whole(self, path: Path) -> None:
        packed = path.with_suffix(".avro.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        source = FileSource.for_bulk_file_format(AvroFormat(), str(packed)).set_split_size(100).build()
        assert len(splits_of(source)) == 1
        assert len(read_all(source)) == 300
