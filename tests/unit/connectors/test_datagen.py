"""DataGeneratorSource: indices, splits, rates, errors."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flintstream.common import Row, Types
from flintstream.datastream.connectors import datagen
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

from .reading import check_resume, drain, read_all, splits_of


@pytest.mark.parametrize("parallelism", [1, 2, 3, 20])
def test_every_index_is_given_once_and_in_order(parallelism: int) -> None:
    source = DataGeneratorSource(lambda index: index * 10, 10)
    assert source.bounded
    assert read_all(source, parallelism, limit=3) == [index * 10 for index in range(10)]


def test_no_records() -> None:
    assert splits_of(DataGeneratorSource(str, 0)) == []


def test_resume_from_every_position() -> None:
    source = DataGeneratorSource(str, 7)
    first, second = splits_of(source)
    check_resume(source, first, ["0", "1", "2"])
    check_resume(source, second, ["3", "4", "5", "6"])


def test_without_a_count_the_indices_are_dealt_out_in_turn() -> None:
    source = DataGeneratorSource(lambda index: index, None)
    assert not source.bounded
    readers = [source.create_reader(split, None) for split in splits_of(source, 3)]
    assert [reader.read(3).values for reader in readers] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    again = source.create_reader(splits_of(source, 3)[1], readers[1].position)
    assert again.read(2).values == [10, 13]
    assert not again.finished


def test_an_object_with_map_and_a_type() -> None:
    class Pairs:
        def map(self, index: int) -> Any:
            return (index, "x")

    row_type = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    source = DataGeneratorSource(Pairs(), 1, type_info=row_type)
    assert source.produced_type == row_type
    assert read_all(source) == [Row(id=0, name="x")]


def test_an_error_names_the_index() -> None:
    source = DataGeneratorSource(lambda index: 1 // (5 - index), 10)
    with pytest.raises(SourceError, match=r"index 5: ZeroDivisionError"):
        read_all(source, 1)


def test_a_value_of_another_type_is_refused() -> None:
    source = DataGeneratorSource(str, 10, type_info=Types.INT())
    with pytest.raises(SourceError, match=r"index from 0 to 9.*'0' \(str\)"):
        read_all(source, 1)


def test_the_rate_is_shared_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(datagen.time, "time", lambda: now[0])
    source = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(20))
    reader = source.create_reader(splits_of(source, 2)[0], None)
    assert reader.next_due() == 0.0
    counts = []
    for _ in range(20):
        counts.append(len(reader.read(1000).values))
        assert reader.read(1000).values == []
        due = reader.next_due()
        assert due is not None
        assert now[0] < due <= now[0] + 0.1
        now[0] += 0.1
    assert counts == [1] * 20  # 10 a second for each of two subtasks


def test_what_was_missed_is_made_up_for_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(datagen.time, "time", lambda: now[0])
    source = DataGeneratorSource(lambda index: index, 10_000, RateLimiterStrategy.per_second(10))
    reader = source.create_reader(splits_of(source, 1)[0], None)
    reader.read(1000)
    now[0] += 3600
    assert len(reader.read(1000).values) == 11
    now[0] += 1
    assert len(reader.read(1000).values) == 10


def test_a_bounded_source_with_a_rate_ends() -> None:
    source = DataGeneratorSource(lambda index: index, 5, RateLimiterStrategy.per_second(1_000_000))
    reader = source.create_reader(splits_of(source, 1)[0], None)
    values: list[int] = []
    deadline = time.monotonic() + 60
    while not reader.finished and time.monotonic() < deadline:
        values += reader.read(2).values
    assert values == [0, 1, 2, 3, 4]
    assert drain(reader) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataGeneratorSource(5, 1), "callable"),
        (lambda: DataGeneratorSource(str, -1), "count must be at least 0"),
        (lambda: DataGeneratorSource(str, 1.5), "count must be an integer"),
        (lambda: DataGeneratorSource(str, 1, 100), "RateLimiterStrategy"),
        (lambda: DataGeneratorSource(str, 1, type_info=str), "must be a type"),
        (lambda: RateLimiterStrategy.per_second(0), "greater than 0"),
        (lambda: RateLimiterStrategy.per_second("x"), "expected a number"),
        (lambda: RateLimiterStrategy.per_checkpoint(0), "records_per_checkpoint must be at least 1"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        make()


class _Context:
    """What the reader asks of its runtime context."""

    def __init__(self, parallelism: int, checkpointing: bool = True) -> None:
        self.get_number_of_parallel_subtasks = lambda: parallelism
        self.is_checkpointing_enabled = lambda: checkpointing


def test_a_number_of_records_between_two_checkpoints() -> None:
    source = DataGeneratorSource(lambda index: index, 100, RateLimiterStrategy.per_checkpoint(7))
    context: Any = _Context(2)
    reader = source.create_source_reader(context)
    first, second = splits_of(source, 2)
    reader.add_splits([(first, None)])

    def polled() -> list[int]:
        return [value for block in reader.poll(1000) for value in block.values]

    assert reader.next_due() == 0.0
    assert polled() + polled() == [0, 1, 2]
    assert reader.next_due() is None  # It waits for a checkpoint, and is polled until there is one.
    reader.notify_checkpoint_complete({second.split_id: 0})
    assert polled() == []
    reader.notify_checkpoint_complete(reader.snapshot())
    assert reader.next_due() == 0.0
    assert polled() + polled() == [3, 4, 5]


def test_a_number_of_records_between_checkpoints_that_there_are_not() -> None:
    source = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_checkpoint(3))
    few: Any = _Context(4)
    with pytest.raises(SourceError, match=r"per_checkpoint\(3\): must be at least the parallelism of the source, 4"):
        source.create_source_reader(few)
    none: Any = _Context(1, checkpointing=False)
    with pytest.raises(SourceError, match=r"per_checkpoint\(3\): the job takes no checkpoints"):
        source.create_source_reader(none)
