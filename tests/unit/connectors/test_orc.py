"""ORC files, read and written."""

from __future__ import annotations

import datetime
import io
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from flintstream.common import Configuration, Instant, Row, Types
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import FileSink, FileSource
from flintstream.datastream.formats.orc import OrcBulkWriters, OrcFormat
from flintstream.table import DataTypes
from flintstream.testing import OneInputOperatorHarness

from .reading import check_resume, read_all, splits_of

ROW = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.BIGINT().not_null()),
        DataTypes.FIELD("name", DataTypes.STRING()),
        DataTypes.FIELD("small", DataTypes.TINYINT()),
        DataTypes.FIELD("share", DataTypes.DOUBLE()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2)),
        DataTypes.FIELD("day", DataTypes.DATE()),
        DataTypes.FIELD("time", DataTypes.TIMESTAMP(3)),
        DataTypes.FIELD("times", DataTypes.ARRAY(DataTypes.TIMESTAMP(3))),
        DataTypes.FIELD("counts", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        DataTypes.FIELD("inner", DataTypes.ROW([DataTypes.FIELD("flag", DataTypes.BOOLEAN())])),
        DataTypes.FIELD("raw", DataTypes.BYTES()),
    ]
)
NOW = datetime.datetime(2024, 2, 29, 23, 59, 58, 123_000)
ROWS = [
    (1, "a", 7, 0.5, Decimal("12.30"), NOW.date(), NOW, [NOW], {"x": 1}, Row(flag=True), b"\x00"),
    (2, None, None, None, None, None, None, None, None, None, None),
]


def written(path: Path, factory: Any, records: list[Any]) -> Path:
    with path.open("wb") as stream:
        writer = pickle.loads(pickle.dumps(factory)).create(stream)
        for each in records:
            writer.add_element(each)
        writer.finish()
        assert not stream.closed
    return path


def source_of(path: Path, file_format: OrcFormat | None = None, split: int | None = None) -> FileSource:
    builder = FileSource.for_bulk_file_format(file_format or OrcFormat(), str(path))
    return (builder if split is None else builder.set_split_size(split)).build()


def test_what_is_written_is_read_again_with_all_types(tmp_path):
    path = written(tmp_path / "out.orc", OrcBulkWriters.for_row_type(ROW), ROWS)
    assert orc.ORCFile(path).compression == "ZLIB"
    source = source_of(path, OrcFormat(ROW))
    names = ROW.field_names()
    assert read_all(source) == [Row(**dict(zip(names, values))) for values in ROWS]
    assert source.produced_type is not None
    first, _ = read_all(source_of(path))
    assert (first["time"], first["times"], first["inner"]) == (NOW, [NOW], {"flag": True})


def test_instants_keep_microseconds(tmp_path):
    kind = Types.ROW_NAMED(["at"], [Types.INSTANT()])
    path = written(tmp_path / "out.orc", OrcBulkWriters.for_row_type(kind), [Row(at=Instant(5, 6_000))])
    assert read_all(source_of(path, OrcFormat(kind))) == [Row(at=Instant(5, 6_000))]


@pytest.fixture
def stripes(tmp_path):
    """A file with 8 stripes of 100 rows, the fifth of them empty in all but name."""
    path = tmp_path / "in.orc"
    with orc.ORCWriter(path, stripe_size=1, batch_size=100, row_index_stride=100) as writer:
        for start in range(0, 800, 100):
            writer.write(
                pa.table({"id": range(start, start + 100), "Name": [f"n{n}" for n in range(start, start + 100)]})
            )
    assert orc.ORCFile(path).nstripes > 4
    return path


@pytest.mark.parametrize("size", [1, 100, 333, 1000, 10**6])
def test_a_file_is_split_by_stripes(stripes, size):
    source = source_of(stripes, split=size)
    assert len(splits_of(source)) == -(-stripes.stat().st_size // size)
    assert [each["id"] for each in read_all(source)] == [*range(800)]


def test_resume_from_every_position(stripes):
    source = source_of(stripes, OrcFormat(columns=["id"], batch_size=7), split=stripes.stat().st_size // 3)
    splits = splits_of(source)
    assert len(splits) >= 3
    seen = []
    for split in splits:
        reader = source.create_reader(split, None)
        expected: list[Any] = []
        while not reader.finished:
            expected += reader.read(1000).values
        reader.close()
        seen += expected
    check_resume(source, splits[-1], expected)
    assert seen == [{"id": number} for number in range(800)]


def test_columns_are_chosen_by_name(stripes):
    assert read_all(source_of(stripes, OrcFormat(columns=["Name"])))[3] == {"Name": "n3"}
    kind = Types.ROW_NAMED(["NAME", "ID"], [Types.STRING(), Types.LONG()])
    assert read_all(source_of(stripes, OrcFormat(kind, case_sensitive=False)))[5] == Row(NAME="n5", ID=5)
    with pytest.raises(SourceError, match="no such column: NAME, ID; the file has id, Name"):
        read_all(source_of(stripes, OrcFormat(kind)))


def test_an_empty_file_and_one_that_is_none(tmp_path):
    assert read_all(source_of(written(tmp_path / "empty.orc", OrcBulkWriters.for_row_type(ROW), []))) == []
    (tmp_path / "no.orc").write_text("no ORC file")
    with pytest.raises(SourceError, match=r"no\.orc: cannot read the ORC file"):
        read_all(source_of(tmp_path / "no.orc"))


def test_properties(tmp_path):
    properties = Configuration.from_dict({"orc.compress": "SNAPPY", "orc.stripe.size": "1000000"})
    path = written(tmp_path / "out.orc", OrcBulkWriters.for_row_type(ROW, properties), ROWS)
    assert orc.ORCFile(path).compression == "SNAPPY"
    for key, value, message in [
        ("orc.compress", "ZIP", "orc.compress: invalid value 'ZIP'"),
        ("orc.stripe.size", "large", "orc.stripe.size: invalid value 'large'"),
        ("orc.bloom.filter.columns", "id", "orc.bloom.filter.columns is not supported"),
    ]:
        with pytest.raises(ValueError, match=message):
            OrcBulkWriters.for_row_type(ROW, Configuration.from_dict({key: value}))
    with pytest.raises(ValueError, match=r"hadoop_config: fs\.x is not supported"):
        OrcBulkWriters.for_row_type(ROW, hadoop_config=Configuration.from_dict({"fs.x": "1"}))


def test_a_type_that_orc_lacks_and_a_record_that_does_not_fit():
    with pytest.raises(TypeError, match="ORC has no type for column 't'"):
        OrcBulkWriters.for_row_type(Types.ROW_NAMED(["t"], [Types.SQL_TIME()]))
    writer: Any = OrcBulkWriters.for_row_type(ROW).create(io.BytesIO())
    writer.add_element(ROWS[0])
    writer.add_element((None, *ROWS[0][1:]))
    with pytest.raises(ValueError, match=r"does not fit the columns of the ORC file: column 'id' cannot be null"):
        writer.finish()


def test_a_sink_writes_files_that_the_source_reads(tmp_path):
    kind = Types.ROW_NAMED(["id"], [Types.LONG()])
    sink = FileSink.for_bulk_format(str(tmp_path), OrcBulkWriters.for_row_type(kind)).build()
    with OneInputOperatorHarness(sink.create_operator(kind)) as harness:
        harness.process_elements([Row(id=number) for number in range(5)])
        harness.end_input()
        harness.snapshot(1)
        harness.notify_checkpoint_complete(1)
    assert [row["id"] for row in read_all(source_of(tmp_path, OrcFormat(kind)))] == [*range(5)]
