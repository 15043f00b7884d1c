"""SourceOperator: splits, limits, positions, watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from flintstream.common.time import Duration
from flintstream.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators import source as source_module
from flintstream.runtime.operators.source import SourceOperator
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.task import Task
from flintstream.runtime.source import SourceError, SourceReader, Split, SplitReader, SplitRecords, SplitSource
from flintstream.testing import Record, Watermark
from flintstream.testing.recording import RecordingOutput


class Reader(SplitReader):
    def __init__(self, values: list[Any], position: int, ends: bool = True, due: float | None = 0.0) -> None:
        self.values = values
        self.at = position
        self.ends = ends
        self.due = due
        self.closed = 0
        self.limits: list[int] = []

    @property
    def position(self) -> int:
        return self.at

    def read(self, limit: int) -> Batch:
        self.limits.append(limit)
        taken = self.values[self.at : self.at + limit]
        self.at += len(taken)
        self.finished = self.ends and self.at >= len(self.values)
        return Batch(taken)

    def next_due(self) -> float | None:
        return self.due

    def close(self) -> None:
        self.closed += 1


class Lists(SplitSource):
    """Splits made of lists; keeps its readers for the test."""

    def __init__(self, ends: bool = True, due: float | None = 0.0) -> None:
        self.readers: dict[str, Reader] = {}
        self.ends = ends
        self.due = due

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        return []

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        reader = Reader(split.content, position or 0, self.ends, self.due)
        self.readers[split.split_id] = reader
        return reader


class Source:
    """A source task, driven epoch by epoch."""

    def __init__(self, source: SplitSource, strategy: WatermarkStrategy | None = None) -> None:
        self.head = SourceOperator(source, strategy)
        deployed = OperatorDeployment(0, "0" * 32, "Source: Lists", self.head, None, {}, [])
        vertex = VertexDeployment(0, "Source: Lists", 0, 1, 128, [deployed], [], [[[]]], [0])
        self.task = Task(vertex, 0, JobInfo("0" * 32, "test"), SlotServices(), lambda *row: None)
        self.output = RecordingOutput("Source: Lists", 0, None, through_blocks=False)
        self.head.setup(self.head.context, self.output)
        self.task.open()
        self.head._pace.size = source_module.READ_RECORDS  # As after some time; a new source begins with a record.

    def assign(self, position: Any = None, **splits: list[Any]) -> Source:
        self.head.assign([(Split(name, values), position) for name, values in splits.items()])
        return self

    def epoch(self, limit: int = 100) -> list[Any]:
        """The elements of one epoch."""
        self.output.clear()
        self.head.read_epoch(limit)
        if self.head.exhausted:
            self.task.finish_source()
        self.task.end_epoch()
        return [e.value if isinstance(e, Record) and e.timestamp is None else e for e in self.output.main.elements]


ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


class TestReading:
    def test_splits_in_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(source_module, "READ_RECORDS", 2)
        source = Source(Lists()).assign(a=[1, 2, 3], b=[10, 20, 30, 40, 50])
        assert source.epoch() == [1, 2, 10, 20, 3, 30, 40, 50]
        assert source.head.positions == {}

    def test_the_limit_is_kept_and_the_next_epoch_goes_on(self) -> None:
        source = Source(Lists()).assign(a=[1, 2, 3, 4, 5])
        assert source.epoch(2) == [1, 2]
        assert source.head.positions == {"a": 2}
        assert source.epoch(2) == [3, 4]
        assert source.epoch(2) == [5]
        assert source.head.positions == {}

    def test_no_split_starves_under_a_small_limit(self) -> None:
        source = Source(Lists()).assign(a=[1, 2, 3, 4], b=[10, 20, 30, 40], c=[100, 200])
        assert [source.epoch(2) for _ in range(5)] == [[1, 2], [10, 20], [100, 200], [3, 4], [30, 40]]

    def test_the_reader_is_never_asked_for_more_than_the_limit(self) -> None:
        lists = Lists()
        source = Source(lists).assign(a=list(range(50)))
        source.epoch(30)
        assert max(lists.readers["a"].limits) <= 30

    def test_a_new_source_begins_with_small_steps(self) -> None:
        lists = Lists()
        source = Source(lists).assign(a=list(range(5000)))
        source.head._pace.size = 1
        assert source.epoch(5000) == list(range(5000))
        limits = lists.readers["a"].limits
        assert limits[0] == 1 and all(later <= 8 * earlier for earlier, later in pairwise(limits))

    def test_reading_ends_when_its_time_is_over(self) -> None:
        lists = Lists()
        source = Source(lists).assign(a=[1, 2, 3], b=[10, 20])
        source.head._pace.size = 1
        source.head.deadline = 0.0
        assert [source.epoch(), source.epoch(1), source.epoch(1)] == [[1], [10], [2]], "one step, and no split starves"
        source.head.deadline = float("inf")
        assert sorted(source.epoch()) == [3, 20]

    def test_from_a_position(self) -> None:
        source = Source(Lists()).assign(position=2, a=[1, 2, 3])
        assert source.epoch() == [3]

    def test_new_splits_between_epochs(self) -> None:
        source = Source(Lists()).assign(a=[1, 2])
        source.epoch(1)
        source.assign(b=[10])
        assert sorted(source.epoch()) == [2, 10]

    def test_a_finished_reader_is_closed_once_an_open_one_at_the_end(self) -> None:
        lists = Lists()
        source = Source(lists).assign(a=[1], b=[1, 2, 3])
        source.epoch(2)
        assert lists.readers["a"].closed == 1
        source.task.close()
        assert [reader.closed for reader in lists.readers.values()] == [1, 1]

    def test_an_empty_split_ends_too(self) -> None:
        source = Source(Lists()).assign(a=[])
        source.head.no_more_splits()
        assert source.epoch() == [Watermark(MAX_WATERMARK)]
        assert source.head.exhausted

    def test_a_split_without_records_now_stays(self) -> None:
        lists = Lists(ends=False)
        source = Source(lists).assign(a=[1])
        assert source.epoch() == [1]
        assert source.epoch() == []
        lists.readers["a"].values.append(2)
        assert source.epoch() == [2]
        assert source.head.positions == {"a": 2}


class TestEnd:
    def test_exhausted_needs_both_the_splits_and_the_word_that_none_follow(self) -> None:
        source = Source(Lists()).assign(a=[1])
        assert source.epoch() == [1]
        assert not source.head.exhausted
        source.head.no_more_splits()
        assert source.head.exhausted

    def test_the_last_epoch_ends_with_the_last_watermark(self) -> None:
        source = Source(Lists(), ASCENDING).assign(a=[5])
        source.head.no_more_splits()
        assert source.epoch() == [Record(5, 5), Watermark(MAX_WATERMARK)]
        assert source.output.main.finished
        assert source.task.finished


class TestPolling:
    def test_fetching_ahead_does_not_move_the_position(self) -> None:
        lists = Lists(ends=False, due=None)
        source = Source(lists).assign(a=[1, 2, 3])
        assert source.head.wants_polling
        assert not source.head.has_data()
        assert source.head.poll()
        assert source.head.has_data()
        assert source.head.positions == {"a": 0}, "what was fetched ahead was not emitted"
        assert source.epoch() == [1, 2, 3]
        assert source.head.positions == {"a": 3}

    def test_polling_twice_fetches_once(self) -> None:
        lists = Lists(ends=False, due=None)
        source = Source(lists).assign(a=[1])
        assert source.head.poll()
        lists.readers["a"].values.append(2)
        assert source.head.poll()
        assert source.head.positions == {"a": 0}
        assert source.epoch() == [1, 2]

    def test_nothing_to_fetch(self) -> None:
        source = Source(Lists(ends=False, due=None)).assign(a=[])
        assert not source.head.poll()
        assert source.head.positions == {"a": 0}

    def test_an_end_found_while_polling_is_worth_an_epoch(self) -> None:
        source = Source(Lists(ends=True, due=None)).assign(a=[])
        source.head.no_more_splits()
        assert source.head.poll()
        assert source.head.has_data()
        assert source.epoch() == [Watermark(MAX_WATERMARK)]

    def test_a_split_fetched_to_its_end_is_not_dropped_before_it_is_emitted(self) -> None:
        source = Source(Lists(ends=True, due=None)).assign(a=[1, 2])
        source.head.no_more_splits()
        assert source.head.poll()
        assert not source.head.exhausted
        assert source.epoch() == [1, 2, Watermark(MAX_WATERMARK)]

    def test_all_splits_are_looked_at(self) -> None:
        source = Source(Lists(ends=False, due=None)).assign(a=[], b=[2])
        assert source.head.poll()
        assert source.head.positions == {"a": 0, "b": 0}
        assert source.epoch() == [2]

    def test_due_times(self) -> None:
        lists = Lists(ends=False, due=1e12)
        source = Source(lists).assign(a=[1], b=[2])
        assert not source.head.has_data()
        assert not source.head.wants_polling
        lists.readers["b"].due = 5e11
        assert source.head.next_due() == 5e11
        lists.readers["b"].due = 0.0
        assert source.head.has_data()


class TestWatermarks:
    def test_the_least_of_all_splits(self) -> None:
        source = Source(Lists(ends=False), ASCENDING).assign(a=[10], b=[4])
        assert source.epoch() == [Record(10, 10), Record(4, 4), Watermark(3)]

    def test_an_empty_split_holds_the_watermark(self) -> None:
        lists = Lists(ends=False)
        source = Source(lists, ASCENDING).assign(a=[10], b=[])
        assert source.epoch() == [Record(10, 10)]
        lists.readers["b"].values.append(20)
        assert source.epoch() == [Record(20, 20), Watermark(9)]

    def test_a_finished_split_holds_nothing_back(self) -> None:
        source = Source(Lists(), ASCENDING).assign(a=[4], b=[10, 11])
        assert source.epoch(2) == [Record(4, 4), Record(10, 10), Watermark(9)]

    def test_splits_found_after_all_have_ended_go_on_moving_the_watermark(self) -> None:
        source = Source(Lists(), ASCENDING).assign(a=[10])
        assert source.epoch() == [Record(10, 10), Watermark(9)]
        source.assign(b=[20])
        assert source.epoch() == [Record(20, 20), Watermark(19)]

    def test_never_backwards(self) -> None:
        source = Source(Lists(), ASCENDING).assign(a=[10])
        source.epoch()
        source.assign(b=[5])
        assert source.epoch() == [Record(5, 5)]

    def test_a_punctuated_watermark_follows_its_record(self) -> None:
        class Marks(WatermarkGenerator):
            def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
                if event % 10 == 0:
                    output.emit_watermark(event_timestamp)

            def on_periodic_emit(self, output: Any) -> None: ...

        strategy = WatermarkStrategy.for_generator(Marks).with_timestamp_assigner(lambda value, _: value)
        source = Source(Lists(), strategy).assign(a=[1, 10, 5, 20, 10, 21])
        assert source.epoch() == [
            Record(1, 1),
            Record(10, 10),
            Watermark(10),
            Record(5, 5),
            Record(20, 20),
            Watermark(20),
            Record(10, 10),
            Record(21, 21),
        ]

    def test_a_subclass_of_our_generator_sees_each_record(self) -> None:
        from flintstream.common.watermark_strategy import BoundedOutOfOrderness

        seen: list[int] = []

        class Mine(BoundedOutOfOrderness):
            def __init__(self) -> None:
                super().__init__(0)

            def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
                seen.append(event)
                super().on_event(event, event_timestamp, output)

        strategy = WatermarkStrategy.for_generator(Mine).with_timestamp_assigner(lambda value, _: value)
        source = Source(Lists(ends=False), strategy).assign(a=[1, 2])
        assert source.epoch()[-1] == Watermark(1)
        assert seen == [1, 2]

    def test_periodic_watermarks_come_at_the_end_of_an_epoch_but_not_after_the_end(self) -> None:
        class Clock(WatermarkGenerator):
            def __init__(self) -> None:
                self.now = 0

            def on_event(self, event: Any, event_timestamp: int, output: Any) -> None: ...

            def on_periodic_emit(self, output: Any) -> None:
                self.now += 1
                output.emit_watermark(self.now)

        source = Source(Lists(ends=False), WatermarkStrategy.for_generator(Clock)).assign(a=[])
        assert source.epoch() == [Watermark(1)]
        assert source.epoch() == [Watermark(2)]

    def test_timestamps_of_the_source_reach_the_assigner(self) -> None:
        class Timed(Lists):
            def create_reader(self, split: Split, position: Any) -> SplitReader:
                reader = super().create_reader(split, position)
                read = reader.read
                reader.read = lambda limit: Batch(b := read(limit).values, [v * 10 for v in b])  # type: ignore[method-assign]
                return reader

        strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, before: before + 1)
        assert Source(Timed(), strategy).assign(a=[1, 2]).epoch() == [Record(1, 11), Record(2, 21)]
        assert Source(Timed()).assign(a=[1, 2]).epoch() == [Record(1, 10), Record(2, 20)]

    def test_a_failing_assigner_names_source_and_record(self) -> None:
        strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: 1 // value)
        source = Source(Lists(), strategy).assign(a=[1, 0, 2])
        with pytest.raises(UserCodeError) as caught:
            source.epoch()
        fault = caught.value.fault
        assert (fault.operator, fault.subtask, fault.record) == ("Source: Lists", 0, "0")


class Consumer(SourceReader):
    """Reads all its splits at once, as a consumer of many partitions does: what has come is a list of (split, value)."""

    def __init__(self) -> None:
        self.arrived: list[tuple[str, int]] = []
        self.offsets: dict[str, int] = {}
        self.committed: list[dict[str, int]] = []
        self.room: Mapping[str, int] = {}
        self.closed = 0

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, position in splits:
            self.offsets[split.split_id] = position or 0

    def poll(self, limit: int) -> list[SplitRecords]:
        taken, self.arrived = self.arrived[:limit], self.arrived[limit:]
        blocks = []
        for split_id in dict.fromkeys(split_id for split_id, _ in taken):
            values = [value for each, value in taken if each == split_id]
            self.offsets[split_id] += len(values)
            finished = values[-1] < 0
            if finished:
                del self.offsets[split_id]
            blocks.append(SplitRecords(split_id, values, [abs(value) for value in values], finished))
        return blocks

    def snapshot(self) -> dict[str, int]:
        return self.offsets

    def notify_checkpoint_complete(self, positions: Mapping[str, Any]) -> None:
        self.committed.append(dict(positions))

    def next_due(self) -> float | None:
        return None

    def close(self) -> None:
        self.closed += 1


class Topic(SplitSource):
    def __init__(self, consumer: SourceReader) -> None:
        self.consumer = consumer

    def create_source_reader(self, runtime_context: Any) -> SourceReader:
        assert runtime_context.get_index_of_this_subtask() == 0
        return self.consumer


class TestOneReaderForAllSplits:
    def source(self, strategy: WatermarkStrategy | None = None) -> tuple[Consumer, Source]:
        consumer = Consumer()
        return consumer, Source(Topic(consumer), strategy).assign(a=[], b=[], c=[])

    def test_records_of_several_splits_at_once_with_a_watermark_each(self) -> None:
        consumer, source = self.source(WatermarkStrategy.for_monotonous_timestamps())
        consumer.arrived = [("a", 10), ("b", 4), ("a", 11)]
        assert source.epoch() == [Record(10, 10), Record(11, 11), Record(4, 4)], "c holds the watermark"
        consumer.arrived = [("c", 20)]
        assert source.epoch() == [Record(20, 20), Watermark(3)]
        assert source.head.positions == {"a": 2, "b": 1, "c": 1}

    def test_a_split_that_ends_is_forgotten_and_holds_nothing_back(self) -> None:
        consumer, source = self.source(WatermarkStrategy.for_monotonous_timestamps())
        consumer.arrived = [("a", 10), ("b", -4), ("c", 20)]
        assert source.epoch()[-1] == Watermark(9)
        assert source.head.positions == {"a": 1, "c": 1}
        consumer.arrived = [("b", 5)]
        consumer.offsets["b"] = 0
        with pytest.raises(SourceError, match=r"Consumer.poll\(\) returned split 'b', which it was not assigned"):
            source.epoch()

    def test_what_is_fetched_between_epochs_is_not_in_the_positions(self) -> None:
        consumer, source = self.source()
        assert not source.head.poll()
        consumer.arrived = [("a", 1), ("b", 2)]
        assert source.head.poll()
        assert source.head.positions == {"a": 0, "b": 0, "c": 0}
        assert [record.value for record in source.epoch()] == [1, 2]
        assert source.head.positions == {"a": 1, "b": 1, "c": 0}

    def test_positions_are_committed_once_their_checkpoint_is_complete(self) -> None:
        consumer, source = self.source()
        for checkpoint_id in (1, 2, 3):
            consumer.arrived = [("a", checkpoint_id)]
            source.epoch()
            source.task.snapshot(checkpoint_id, 0)
        source.task.notify_checkpoint_aborted(2)
        assert consumer.committed == []
        for checkpoint_id in (1, 2, 3):
            source.task.notify_checkpoint_complete(checkpoint_id)
        assert consumer.committed == [{"a": 1, "b": 0, "c": 0}, {"a": 3, "b": 0, "c": 0}]

    def test_a_reader_that_forgets_a_split_is_told_so(self) -> None:
        consumer, source = self.source()
        del consumer.offsets["b"]
        with pytest.raises(SourceError, match=r"Consumer.snapshot\(\) has no position of split 'b'"):
            _ = source.head.positions

    def test_alignment_needs_a_reader_that_knows_it(self) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("g", Duration.of_millis(10))
        with pytest.raises(NotImplementedError, match=r"Consumer does not define align\(room\)"):
            self.source(strategy)[1].epoch()

    def test_a_reader_that_keeps_step_is_told_which_splits_may_be_read(self) -> None:
        class Aligned(Consumer):
            def align(self, room: Mapping[str, int]) -> None:
                self.room = room

        consumer = Aligned()
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("g", Duration.of_millis(10))
        source = Source(Topic(consumer), strategy).assign(a=[], b=[])
        consumer.arrived = [("a", 5), ("b", 100)]
        source.epoch()
        assert set(consumer.room) == {"a"}
        assert source.head.progress() == (4, 99)

    def test_it_is_closed_at_the_end(self) -> None:
        consumer, source = self.source()
        source.task.close()
        assert consumer.closed == 1
