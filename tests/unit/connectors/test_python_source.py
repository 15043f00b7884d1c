"""PythonSource, and the operators that read splits one by one or by polling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import Duration, Row, Types, WatermarkStrategy
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import FileSource, StreamFormat
from flintstream.datastream.connectors.source import PythonSource
from flintstream.runtime.operators.source import SourceHead

from .operating import opened
from .reading import check_resume, drain, read_all, splits_of


class Letters(PythonSource):
    def splits(self, parallelism: int) -> list[str]:
        return ["abc", "de", ""]

    def read(self, split: str, position: Any) -> Iterator[Any]:
        for index in range(position or 0, len(split)):
            yield index + 1, split[index]


def test_all_splits_are_read() -> None:
    assert read_all(Letters(), limit=2) == ["a", "b", "c", "d", "e"]
    assert [split.split_id for split in Letters().discover(2, frozenset({"de"}))] == ["abc", ""]


def test_resume_from_every_position() -> None:
    source = Letters()
    for split in splits_of(source):
        check_resume(source, split, list(split.content))


def test_a_reader_ends_with_its_last_records_when_there_is_room_left() -> None:
    reader = Letters().create_reader(splits_of(Letters())[0], None)
    assert reader.read(3).values == ["a", "b", "c"]
    assert not reader.finished
    assert reader.read(3).values == []
    assert reader.finished


def test_timestamps_and_types() -> None:
    class Timed(Letters):
        type_info = Types.ROW_NAMED(["letter"], [Types.STRING()])

        def read(self, split: str, position: Any) -> Iterator[Any]:
            yield 1, ("x",), 5
            yield 2, ("y",)

    source = Timed()
    assert source.produced_type == Timed.type_info
    batch = source.create_reader(splits_of(source)[0], None).read(10)
    assert batch.values == [Row(letter="x"), Row(letter="y")]
    assert batch.timestamps == [5, -(2**63)]


class Mailbox(PythonSource):
    bounded = False
    discovery_interval = 0.5
    arrived: list[Any] = []

    def splits(self, parallelism: int) -> range:
        return range(parallelism)

    def read(self, split: int, position: Any) -> Iterator[Any]:
        offset = position or 0
        while offset < 10:
            while offset >= len(self.arrived):
                yield None
            offset += 1
            yield offset, self.arrived[offset - 1]


def test_nothing_now() -> None:
    source = Mailbox()
    source.arrived = ["a"]
    reader = source.create_reader(splits_of(source)[0], None)
    assert reader.next_due() == 0.0
    assert reader.read(10).values == ["a"]
    assert reader.next_due() is None
    assert reader.read(10).values == []
    source.arrived += ["b", "c"]
    assert reader.read(1).values == ["b"]
    assert reader.next_due() == 0.0
    assert reader.position == 2
    assert reader.read(10).values == ["c"]
    source.arrived += ["x"] * 7
    assert reader.read(10).values == ["x"] * 7
    assert reader.finished
    assert reader.next_due() == 0.0


def test_a_slow_iterator_has_to_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintstream.datastream.connectors.source._TURN_SECONDS", 0.0)
    reader = Letters().create_reader(splits_of(Letters())[0], None)
    assert reader.read(10).values == []
    assert reader.next_due() == 0.0


def test_errors_name_the_split_and_the_position() -> None:
    class Broken(Letters):
        def read(self, split: str, position: Any) -> Iterator[Any]:
            yield 1, "a"
            raise KeyError("gone")

    with pytest.raises(SourceError, match=r"Broken.read of split 'abc', after position 1, failed: KeyError\('gone'\)"):
        read_all(Broken())

    class NoTuple(Letters):
        def read(self, split: str, position: Any) -> Iterator[Any]:
            yield "a"

    with pytest.raises(SourceError, match=r"split 'abc', after position None, yielded 'a': expected"):
        read_all(NoTuple())

    class NoSplits(Letters):
        def splits(self, parallelism: int) -> list[str]:
            raise OSError("offline")

    with pytest.raises(SourceError, match=r"NoSplits.splits\(2\) failed: OSError\('offline'\)"):
        splits_of(NoSplits())

    class Twice(Letters):
        def splits(self, parallelism: int) -> list[str]:
            return ["a", "a"]

    with pytest.raises(SourceError, match="returned two splits 'a'"):
        splits_of(Twice())


def test_the_id_of_a_split() -> None:
    class Shard:
        split_id = "shard-7"

    assert Letters().split_id(Shard()) == "shard-7"
    assert Letters().split_id(7) == "7"


def head_of(source: Any, strategy: WatermarkStrategy | None = None) -> tuple[SourceHead, Any]:
    operator = source.create_operator(strategy)
    received = opened(operator)
    return operator, received


def test_an_end_found_by_polling_is_told() -> None:
    source = Mailbox()
    source.arrived = ["a"] * 9
    operator, received = head_of(source)
    operator.assign([(splits_of(source, 1)[0], None)])
    operator.read_epoch(100)
    assert received.elements == ["a"] * 9
    assert operator.wants_polling
    assert not operator.poll()
    ended = Letters()
    ended.read = lambda split, position: iter([None])  # type: ignore[method-assign]
    operator, received = head_of(ended)
    operator.assign([(splits_of(ended)[0], None)])
    operator.no_more_splits()
    operator.read_epoch(100)
    assert not operator.exhausted
    assert operator.poll()  # it has ended without a record: an epoch has to see that
    operator.read_epoch(100)
    assert operator.exhausted


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n{name}3\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    operator, received = head_of(source)
    operator.assign([(split, None) for split in splits_of(source)])
    operator.no_more_splits()
    operator.read_epoch(4)
    assert received.elements == ["a1", "a2", "a3", "b1"]
    assert operator.positions == {str(tmp_path / "b"): 3, str(tmp_path / "c"): None}
    assert operator.has_data()
    assert not operator.exhausted
    operator.read_epoch(100)
    assert received.elements[4:] == ["b2", "b3", "c1", "c2", "c3"]
    assert operator.exhausted
    operator.close()


def test_watermarks_go_on_from_file_to_file(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("10\n20\n")
    (tmp_path / "2").write_text("15\n30\n")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda line, _: int(line))
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )
    operator, received = head_of(source, strategy)
    for split in splits_of(source):
        operator.assign([(split, None)])
        operator.read_epoch(100)
        operator.end_epoch()
    assert received.elements == ["10", "20", ("watermark", 19), "15", "30", ("watermark", 29)]
    assert not operator.exhausted
    assert drain(source.create_reader(splits_of(source)[0], None)) == ["10", "20"]
