"""Watermarks by the clock: periodic ones, idle splits and sources, and what is told to those behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common.time import Duration
from flintstream.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.source import PythonSource
from flintstream.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction, SourceFunction
from flintstream.graph import SinkTransformation, StreamGraphConfig, StreamGraphGenerator
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.runtime.operators.source import SourceHead, SourceOperator, SparkSourceOperator
from flintstream.runtime.operators.source_function import SourceFunctionOperator
from flintstream.runtime.operators.watermarks import TimestampsAndWatermarksOperator
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.task import Task
from flintstream.runtime.source import Split, SplitReader, SplitSource
from flintstream.runtime.time.valve import InputWatermarks
from flintstream.testing import (
    Idleness,
    LocalJob,
    OneInputOperatorHarness,
    Record,
    TwoInputOperatorHarness,
    UserCodeError,
    Watermark,
)
from flintstream.testing.recording import RecordingOutput

TIMEOUT = 1000
ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
IDLING = ASCENDING.with_idleness(Duration.of_millis(TIMEOUT))


class Reader(SplitReader):
    """Gives what a list holds, and does not end unless told."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.at = 0

    @property
    def position(self) -> int:
        return self.at

    def read(self, limit: int) -> Batch:
        taken = self.values[self.at : self.at + limit]
        self.at += len(taken)
        if taken and taken[-1] is None:
            self.finished = True
            taken.pop()
        return Batch(taken)

    def next_due(self) -> float | None:
        return None


class Lists(SplitSource):
    def __init__(self, sequential: bool = False) -> None:
        self.sequential = sequential

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        return Reader(split.content)


class Source:
    """A source task, driven epoch by epoch, with a clock that the test sets. None in a split is its end."""

    def __init__(self, head: SourceHead, interval: int = 200, batch_mode: bool = False) -> None:
        self.now = 0
        self.head = head
        deployed = OperatorDeployment(0, "0" * 32, "Source: Lists", head, None, {}, [])
        vertex = VertexDeployment(0, "Source: Lists", 0, 1, 128, [deployed], [], [[[]]], [0])
        job = JobInfo("0" * 32, "test", watermark_interval=interval, batch_mode=batch_mode)
        self.task = Task(vertex, 0, job, SlotServices(clock=lambda: self.now), lambda *row: None)
        self.output = RecordingOutput("Source: Lists", 0, None, through_blocks=False)
        head.setup(head.context, self.output)
        self.task.open()
        self.splits: dict[str, list[Any]] = {}

    def assign(self, **splits: list[Any]) -> Source:
        self.splits.update(splits)
        self.head.assign([(Split(name, values), None) for name, values in splits.items()])
        return self

    def put(self, name: str, *values: Any) -> None:
        self.splits[name].extend(values)

    def epoch(self, now: int | None = None, limit: int = 100) -> list[Any]:
        """The elements since the last epoch, up to the end of one at a time of the clock."""
        self.now = self.now if now is None else now
        self.head.read_epoch(limit)
        if self.head.exhausted:
            self.task.finish_source()
        self.task.end_epoch()
        elements = [e.value if isinstance(e, Record) else e for e in self.output.main.elements]
        self.output.clear()
        return elements

    @property
    def due(self) -> float | None:
        """When the source wants an epoch, in milliseconds."""
        due = self.task.next_due()
        return None if due is None else due * 1000


def source(strategy: WatermarkStrategy = IDLING, **options: Any) -> Source:
    return Source(SourceOperator(Lists(), strategy), **options)


class TestSplits:
    def test_a_split_without_records_is_left_out_after_the_timeout(self) -> None:
        task = source().assign(a=[10], b=[])
        assert task.epoch(0) == [10], "b holds the watermark"
        task.put("a", 20)
        assert task.epoch(TIMEOUT - 1) == [20]
        assert task.epoch(TIMEOUT) == [Watermark(19)]
        task.put("a", 30)
        assert task.epoch(TIMEOUT + 1) == [30, Watermark(29)]

    def test_without_idleness_it_holds_for_ever(self) -> None:
        task = source(ASCENDING).assign(a=[10], b=[])
        assert task.epoch(0) == [10]
        assert task.epoch(10**9) == []
        assert task.due is None

    def test_the_timeout_counts_from_the_last_record(self) -> None:
        task = source().assign(a=[10], b=[10])
        task.epoch(0)
        for now in range(500, 3000, 500):
            task.put("a", now)
            task.put("b", 11)
            task.epoch(now)
        task.put("a", 3000)
        assert task.epoch(3400) == [3000], "b had one at 2500"
        assert task.epoch(3500) == [Watermark(2999)]

    def test_an_idle_split_that_wakes_holds_the_watermark_again(self) -> None:
        task = source().assign(a=[10], b=[5])
        assert task.epoch(0) == [10, 5, Watermark(4)]
        task.put("a", 20)
        assert task.epoch(TIMEOUT)[-1] == Watermark(19)
        task.put("b", 15)
        assert task.epoch(TIMEOUT + 1) == [15]
        task.put("a", 40)
        assert task.epoch(TIMEOUT + 1) == [40], "b is at 14 now, behind: nothing moves"
        task.put("b", 31)
        assert task.epoch(TIMEOUT + 2) == [31, Watermark(30)]

    def test_all_idle_is_told_once_and_waking_before_the_record(self) -> None:
        task = source().assign(a=[10], b=[20])
        assert task.epoch(0) == [10, 20, Watermark(9)]
        assert task.epoch(TIMEOUT - 1) == []
        elements = task.epoch(TIMEOUT)
        assert [e for e in elements if isinstance(e, Idleness)] == [Idleness(True)] == elements[-1:]
        assert task.epoch(TIMEOUT + 500) == []
        task.put("a", 30)
        elements = task.epoch(TIMEOUT + 600)
        assert elements == [Idleness(False), 30, Watermark(29)], "b is still left out"

    def test_one_split_alone(self) -> None:
        task = source().assign(a=[10])
        assert task.epoch(0) == [10, Watermark(9)]
        assert task.epoch(TIMEOUT) == [Idleness(True)]
        task.put("a", 11)
        assert task.epoch(TIMEOUT) == [Idleness(False), 11, Watermark(10)]
        assert task.epoch(2 * TIMEOUT - 1) == []
        assert task.epoch(2 * TIMEOUT) == [Idleness(True)]

    def test_when_an_epoch_is_wanted(self) -> None:
        task = source().assign(a=[10], b=[])
        task.now = 0
        task.epoch(0)
        assert task.due == TIMEOUT
        task.put("a", 20)
        task.epoch(700)
        assert task.due == TIMEOUT, "of b"
        task.epoch(TIMEOUT)
        assert task.due == 700 + TIMEOUT, "of a"
        task.epoch(700 + TIMEOUT)
        assert task.due is None, "an idle source costs nothing"
        task.put("b", 5)
        task.epoch(5000)
        assert task.due == 5000 + TIMEOUT

    def test_no_epoch_is_wanted_again_and_again(self) -> None:
        task = source().assign(a=[10], b=[], c=[1, 2])
        epochs = 0
        task.epoch(0)
        while task.due is not None and epochs < 100:
            epochs += 1
            assert task.due > task.now, "an epoch that was wanted must have had an effect"
            task.epoch(int(task.due))
        assert epochs == 1
        assert task.head._splits.idle  # type: ignore[attr-defined]

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_a_limit_that_is_just_reached_does_not_double_the_timeout(self, limit: int) -> None:
        task = source().assign(a=list(range(1, limit + 1)))
        task.epoch(0, limit=limit)
        assert task.epoch(TIMEOUT) == [Idleness(True)]

    def test_a_split_that_was_not_asked_is_not_idle(self) -> None:
        task = source().assign(a=list(range(1, 11)), b=[5])
        task.epoch(0, limit=1)
        elements = task.epoch(2 * TIMEOUT, limit=1)
        assert Idleness(True) not in elements
        assert task.epoch(2 * TIMEOUT, limit=1) != []
        assert not any(split.time.idle for split in task.head._open.values() if split.time is not None)  # type: ignore[attr-defined]

    def test_a_split_that_ends_leaves_the_idle_ones(self) -> None:
        task = source().assign(a=[10], b=[20])
        task.epoch(0)
        task.put("a", 30)
        task.epoch(TIMEOUT)
        task.put("a", 40, None)
        elements = task.epoch(TIMEOUT + 1)
        assert elements[0] == 40
        assert Idleness(True) in elements, "only b is left, which is idle"

    def test_a_new_split_is_awake(self) -> None:
        task = source().assign(a=[10])
        task.epoch(0)
        assert task.epoch(TIMEOUT) == [Idleness(True)]
        task.assign(b=[])
        assert task.epoch(TIMEOUT) == [Idleness(False)]
        task.put("a", 20)
        assert task.epoch(TIMEOUT) == [20], "the new one holds the watermark"
        assert task.epoch(2 * TIMEOUT)[-1] == Idleness(True)

    def test_the_end_of_the_source(self) -> None:
        task = source().assign(a=[10])
        task.epoch(0)
        task.epoch(TIMEOUT)
        task.head.no_more_splits()
        task.put("a", None)
        assert task.epoch(TIMEOUT) == [Watermark(MAX_WATERMARK)]
        assert task.task.finished


class TestWithoutSplits:
    def test_a_subtask_without_splits_is_idle_after_the_timeout(self) -> None:
        task = source()
        assert task.epoch(0) == []
        assert task.due == TIMEOUT
        assert task.epoch(TIMEOUT - 1) == []
        assert task.epoch(TIMEOUT) == [Idleness(True)]
        assert task.due is None
        assert task.epoch(5 * TIMEOUT) == []
        task.assign(a=[10])
        assert task.epoch(6 * TIMEOUT) == [Idleness(False), 10, Watermark(9)]

    def test_not_without_idleness(self) -> None:
        task = source(ASCENDING)
        assert task.epoch(10**9) == []
        assert task.due is None

    def test_after_the_last_split_has_ended(self) -> None:
        task = source().assign(a=[10, None])
        assert task.epoch(500) == [10, Watermark(9)]
        assert task.due == 500 + TIMEOUT
        assert task.epoch(500 + TIMEOUT) == [Idleness(True)]

    def test_files_one_after_the_other(self) -> None:
        task = Source(SourceOperator(Lists(sequential=True), IDLING)).assign(a=[10, None], b=[20])
        assert task.epoch(0)[-1] == Watermark(19)
        assert task.epoch(TIMEOUT) == [Idleness(True)]
        task.put("b", 30)
        assert task.epoch(TIMEOUT) == [Idleness(False), 30, Watermark(29)]


class TestWaiting:
    """Splits that wait for others, too far ahead as they are, are not idle."""

    @pytest.mark.parametrize("sequential", [False, True])
    def test_a_waiting_split_is_not_idle_and_wants_no_epochs_all_the_time(self, sequential: bool) -> None:
        strategy = IDLING.with_watermark_alignment("g", Duration.of_millis(10))
        task = Source(SourceOperator(Lists(sequential), strategy)).assign(a=[1, 1000, 2000])
        task.head.align_to(500)
        assert 1000 in task.epoch(0)
        assert task.head.progress().waiting == 999  # type: ignore[union-attr]
        for _ in range(5):
            assert task.due is not None
            assert task.due > task.now, "an epoch that was wanted must have had an effect"
            assert task.epoch(int(task.due)) == []
        task.head.align_to(5000)
        assert 2000 in task.epoch()
        assert task.epoch(task.now + TIMEOUT) == [Idleness(True)]


class TestSparkRows:
    def test_a_streaming_dataframe_without_rows_is_idle(self) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[0])
        task = Source(SparkSourceOperator(("time",), strategy.with_idleness(Duration.of_millis(TIMEOUT)), False))
        assert task.due == TIMEOUT
        assert task.epoch(TIMEOUT) == [Idleness(True)]
        task.head.process_split(3, Batch([(5,)]))
        elements = task.epoch()
        assert elements[0] == Idleness(False)
        assert elements[-1] == Watermark(4)
        assert task.due == 2 * TIMEOUT

    def test_partitions_without_rows_hold_until_they_are_idle(self) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[0])
        task = Source(SparkSourceOperator(("time",), strategy.with_idleness(Duration.of_millis(TIMEOUT))))
        task.head.assign([(Split("0"), None), (Split("1"), None)])
        task.head.process_split(0, Batch([(5,)]))
        assert len(task.epoch(500)) == 1
        assert task.epoch(TIMEOUT) == [Watermark(4)]
        assert task.epoch(500 + TIMEOUT) == [Idleness(True)]

    def test_rows_without_a_strategy(self) -> None:
        task = Source(SparkSourceOperator(("time",)))
        task.head.assign([(Split("0"), None)])
        task.head.process_split(0, Batch([(5,)]))
        assert [record.value[0] for record in task.output.main.records] == [5]
        assert task.due is None


# --- generators of the user ---


class Says(WatermarkGenerator):
    """Does what records say: `(timestamp, "wm", 5)`, `(timestamp, "idle")`, `(timestamp, "active")`, several in a row."""

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        say(output, *event[1:])

    def on_periodic_emit(self, output: Any) -> None: ...


def say(output: Any, *words: Any) -> None:
    for index, word in enumerate(words):
        if word == "wm":
            output.emit_watermark(words[index + 1])
        elif word == "idle":
            output.mark_idle()
        elif word == "active":
            output.mark_active()


SAYS = WatermarkStrategy.for_generator(Says).with_timestamp_assigner(lambda value, _: value[0])


class TestMarkIdle:
    def test_others_go_on_behind_the_record_that_said_so(self) -> None:
        task = source(SAYS).assign(a=[(10, "wm", 10)], b=[])
        assert task.epoch() == [(10, "wm", 10)]
        task.put("b", (3,), (5, "idle"))
        assert task.epoch() == [(3,), (5, "idle"), Watermark(10)], "never before the record: it would be late"
        task.put("b", (7,))
        assert task.epoch() == [(7,)], "a record alone does not wake it"
        task.put("a", (20, "wm", 20))
        assert task.epoch() == [(20, "wm", 20), Watermark(20)]

    def test_active_holds_again(self) -> None:
        task = source(SAYS).assign(a=[(10, "wm", 10)], b=[(1, "idle")])
        assert task.epoch()[-1] == Watermark(10)
        task.put("b", (2, "active"))
        task.epoch()
        task.put("a", (20, "wm", 20))
        assert task.epoch() == [(20, "wm", 20)]
        task.put("b", (15, "wm", 15))
        assert task.epoch() == [(15, "wm", 15), Watermark(15)]

    def test_a_watermark_wakes_it(self) -> None:
        task = source(SAYS).assign(a=[(1, "idle")])
        assert task.epoch() == [(1, "idle"), Idleness(True)]
        task.put("a", (5, "wm", 5))
        assert task.epoch() == [Idleness(False), (5, "wm", 5), Watermark(5)]
        task.put("a", (6, "idle"), (7, "active"))
        assert [e for e in task.epoch() if isinstance(e, Idleness)] in ([], [Idleness(True), Idleness(False)])

    def test_a_watermark_and_then_idle(self) -> None:
        task = source(SAYS).assign(a=[(1, "idle")])
        task.epoch()
        task.put("a", (5, "wm", 5, "idle"))
        elements = task.epoch()
        assert elements[0] == (5, "wm", 5, "idle")
        assert elements[1:] == [Idleness(False), Watermark(5), Idleness(True)], "the watermark is not lost"

    def test_idle_and_then_a_watermark(self) -> None:
        task = source(SAYS).assign(a=[(5, "idle", "wm", 5)])
        assert task.epoch() == [(5, "idle", "wm", 5), Watermark(5)]

    def test_in_the_periodic_call(self) -> None:
        class ByClock(WatermarkGenerator):
            """Idle at every second call."""

            calls = 0

            def on_event(self, event: Any, event_timestamp: int, output: Any) -> None: ...

            def on_periodic_emit(self, output: Any) -> None:
                self.calls += 1
                say(output, "wm", self.calls * 10, *(["idle"] if self.calls % 2 == 0 else []))

        task = source(WatermarkStrategy.for_generator(ByClock)).assign(a=[])
        assert task.epoch() == [Watermark(10)]
        assert task.epoch() == [Watermark(20), Idleness(True)]
        assert task.epoch() == [Idleness(False), Watermark(30)]

    def test_a_generator_of_a_split_that_timed_out_is_not_asked(self) -> None:
        class Ticks(WatermarkGenerator):
            """Makes watermarks without records."""

            calls = 0

            def on_event(self, event: Any, event_timestamp: int, output: Any) -> None: ...

            def on_periodic_emit(self, output: Any) -> None:
                self.calls += 1
                output.emit_watermark(self.calls)

        strategy = WatermarkStrategy.for_generator(Ticks).with_idleness(Duration.of_millis(TIMEOUT))
        task = source(strategy).assign(a=[])
        assert task.epoch(0) == [Watermark(1)]
        assert task.epoch(TIMEOUT) == [Idleness(True)]
        assert task.epoch(TIMEOUT + 1) == []
        task.put("a", 5)
        assert task.epoch(TIMEOUT + 2) == [Idleness(False), 5, Watermark(2)]


class TestGenerators:
    def test_a_watermark_that_goes_back_is_ignored(self) -> None:
        task = source(SAYS).assign(a=[(1, "wm", 10), (2, "wm", 5), (3, "wm", 10), (4, "wm", 11)])
        assert task.epoch() == [
            (1, "wm", 10),
            Watermark(10),
            (2, "wm", 5),
            (3, "wm", 10),
            (4, "wm", 11),
            Watermark(11),
        ]

    def test_several_watermarks_at_one_record_are_the_greatest(self) -> None:
        task = source(SAYS).assign(a=[(1, "wm", 3, "wm", 7, "wm", 5)])
        assert task.epoch()[1:] == [Watermark(7)]

    def test_an_object_with_a_timestamp(self) -> None:
        task = source(SAYS).assign(a=[(1, "wm", Watermark(5))])
        assert task.epoch()[1:] == [Watermark(5)]

    @pytest.mark.parametrize("method", ["on_event", "on_periodic_emit"])
    def test_errors_name_the_source(self, method: str) -> None:
        def fail(self: Any, *args: Any) -> None:
            raise KeyError("gone")

        class Fails(Says):
            pass

        setattr(Fails, method, fail)
        task = source(WatermarkStrategy.for_generator(Fails)).assign(a=[(1,)])
        with pytest.raises(UserCodeError, match=r"Operator 'Source: Lists' .* KeyError: 'gone'") as caught:
            task.epoch()
        assert caught.value.fault.record == ("(1,)" if method == "on_event" else None)

    def test_each_split_has_one_of_its_own(self) -> None:
        made: list[Any] = []

        class Counts(Says):
            def __init__(self) -> None:
                made.append(self)

        source(WatermarkStrategy.for_generator(Counts)).assign(a=[], b=[])
        assert len(made) == 2

    def test_in_batch_mode_there_is_only_the_last(self) -> None:
        for strategy in (IDLING, SAYS, ASCENDING):
            values = [(1, "wm", 1), None] if strategy is SAYS else [1, None]
            task = source(strategy, batch_mode=True).assign(a=list(values), b=[])
            assert task.epoch(0) == [values[0]]
            assert not any(isinstance(e, Watermark) for e in task.epoch(2 * TIMEOUT))
            task.head.no_more_splits()
            task.put("b", None)
            assert task.epoch(3 * TIMEOUT)[-1] == Watermark(MAX_WATERMARK)


# --- periodic watermarks ---


class TestPeriodic:
    def run(self, steps: list[tuple[int, int]], interval: int = 200) -> list[Any]:
        """Steps are times of the clock with a record each, all in one epoch."""
        task = source(ASCENDING, interval=interval).assign(a=[])
        head = task.head
        assert isinstance(head, SourceOperator)
        task.output.clear()
        for now, value in steps:
            task.now = now
            task.put("a", value)
            head.read_epoch(1)
        inside = list(task.output.main.elements)
        task.task.end_epoch()
        inside = [e.value if isinstance(e, Record) else e for e in inside]
        return [*inside, "end", *task.output.main.elements[len(inside) :]]

    def test_at_most_once_an_interval_within_an_epoch_and_at_its_end(self) -> None:
        steps = [(now, now + 1) for now in range(0, 500, 50)]
        assert self.run(steps) == [
            *(1, 51, 101, 151, 201, Watermark(200)),
            *(251, 301, 351, 401, Watermark(400)),
            *(451, "end", Watermark(450)),
        ]

    def test_an_input_that_is_read_at_once_has_none_before_the_end(self) -> None:
        assert self.run([(1000, 1), (1000, 2), (1199, 3)]) == [1, 2, 3, "end", Watermark(2)]

    def test_the_interval_counts_from_the_first_record_after_a_rest(self) -> None:
        task = source(ASCENDING).assign(a=[1])
        assert task.epoch(0) == [1, Watermark(0)]
        task.put("a", 2, 3)
        assert task.epoch(10_000) == [2, 3, Watermark(2)]

    def test_an_interval_of_nothing_means_none_but_the_last(self) -> None:
        assert self.run([(now, now) for now in range(0, 5000, 500)], interval=0)[-2:] == [4500, "end"]
        task = source(ASCENDING, interval=0).assign(a=[5, None])
        task.head.no_more_splits()
        assert task.epoch() == [5, Watermark(MAX_WATERMARK)]

    def test_with_an_interval_of_nothing_a_record_can_still_make_one(self) -> None:
        task = source(SAYS, interval=0).assign(a=[(1, "wm", 1), (2,)])
        assert task.epoch() == [(1, "wm", 1), Watermark(1), (2,)]

    def test_idleness_needs_no_interval(self) -> None:
        task = source(IDLING, interval=0).assign(a=[5])
        assert task.epoch(0) == [5]
        assert task.epoch(TIMEOUT) == [Idleness(True)]

    @given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), max_size=20), st.sampled_from([100, 200]))
    def test_never_more_often_and_never_ahead(self, steps: list[tuple[int, int]], interval: int) -> None:
        now, timeline = 0, []
        for passed, value in steps:
            now += passed
            timeline.append((now, value))
        elements = self.run(timeline, interval)
        seen = [value for value in elements if isinstance(value, int)]
        assert seen == [value for _, value in timeline]
        greatest, marks = MIN_WATERMARK, []
        for element in elements:
            if isinstance(element, Watermark):
                assert element.timestamp == greatest - 1
                marks.append(element.timestamp)
            elif element != "end":
                greatest = max(greatest, element)
        assert marks == sorted(set(marks))
        within = elements[: elements.index("end")]
        assert sum(isinstance(e, Watermark) for e in within) <= now // interval


# --- assign_timestamps_and_watermarks ---


def assigning(strategy: WatermarkStrategy = IDLING, **options: Any) -> OneInputOperatorHarness:
    return OneInputOperatorHarness(TimestampsAndWatermarksOperator(strategy), processing_time=0, **options)


class TestOperator:
    def test_idle_by_the_clock_and_awake_before_the_record(self) -> None:
        with assigning() as harness:
            harness.process_element(10)
            harness.end_epoch()
            assert harness.task.next_due() == TIMEOUT / 1000
            harness.set_processing_time(TIMEOUT - 1)
            assert harness.records_and_watermarks == [Record(10, 10), Watermark(9)]
            harness.clear_output()
            harness.set_processing_time(TIMEOUT)
            assert harness.task.next_due() is None
            harness.set_processing_time(5 * TIMEOUT)
            harness.process_element(20)
            harness.end_epoch()
            assert harness.records_and_watermarks == [Idleness(True), Idleness(False), Record(20, 20), Watermark(19)]
            assert harness.task.next_due() == 6 * TIMEOUT / 1000

    def test_nothing_ever(self) -> None:
        with assigning() as harness:
            harness.set_processing_time(TIMEOUT)
            assert harness.records_and_watermarks == [Idleness(True)]

    def test_a_timestamp_with_a_fraction_loses_it(self) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value * 1000)
        with assigning(strategy) as harness:
            harness.process_elements([1.0015, 2, 0.5])
            harness.end_epoch()
            assert harness.records_and_watermarks == [
                Record(1.0015, 1001),
                Record(2, 2000),
                Record(0.5, 500),
                Watermark(1999),
            ]

    def test_what_comes_in_is_replaced(self) -> None:
        with assigning() as harness:
            harness.process_element(10, timestamp=99)
            harness.process_watermark(50)
            harness.process_idleness()
            harness.process_idleness(False)
            harness.end_epoch()
            assert harness.records_and_watermarks == [Record(10, 10), Watermark(9)]
            harness.clear_output()
            harness.end_input()
            assert harness.records_and_watermarks == [Watermark(MAX_WATERMARK)]

    def test_mark_idle_is_told_behind_the_record(self) -> None:
        with assigning(SAYS) as harness:
            harness.process_elements([(1, "wm", 1), (2, "idle")])
            harness.process_elements([(3,), (4, "wm", 4, "idle")])
            harness.process_element((5, "active"))
            assert harness.records_and_watermarks == [
                Record((1, "wm", 1), 1),
                Watermark(1),
                Record((2, "idle"), 2),
                Idleness(True),
                Record((3,), 3),
                Record((4, "wm", 4, "idle"), 4),
                Idleness(False),
                Watermark(4),
                Idleness(True),
                Idleness(False),
                Record((5, "active"), 5),
            ]

    def test_periodic_within_a_long_epoch(self) -> None:
        with assigning(ASCENDING, watermark_interval=200) as harness:
            for now in range(0, 500, 100):
                harness._processing_time = now
                harness.process_element(now)
            harness.process_element(450)
            assert harness.watermarks == [199, 399]
            harness.end_epoch()
            assert harness.watermarks == [199, 399, 449]

    def test_in_batch_mode_only_the_last(self) -> None:
        with assigning(ASCENDING, batch_mode=True) as harness:
            harness.process_element(5)
            harness.end_epoch()
            harness.end_input()
            assert harness.records_and_watermarks == [Record(5, 5), Watermark(MAX_WATERMARK)]


# --- source functions ---


class TestSourceFunction:
    def run(self, *steps: Any) -> list[Any]:
        class Steps(SourceFunction):
            def run(self, ctx: Any) -> None:
                for step in steps:
                    if step == "idle":
                        ctx.mark_as_temporarily_idle()
                    elif isinstance(step, Watermark):
                        ctx.emit_watermark(step.timestamp)
                    else:
                        ctx.collect(step)

            def cancel(self) -> None: ...

        head = SourceFunctionOperator(Steps())
        task = Source(head)
        head._ended.wait(60)
        elements = task.epoch()
        task.task.close()
        return elements[:-1] if elements[-1] == Watermark(MAX_WATERMARK) else elements

    def test_a_record_wakes_it(self) -> None:
        assert self.run(1, "idle", 2) == [1, Idleness(True), Idleness(False), 2]

    def test_a_watermark_wakes_it(self) -> None:
        assert self.run("idle", Watermark(5), 2) == [Idleness(True), Idleness(False), Watermark(5), 2], (
            "who is idle is not asked for watermarks: it would be lost"
        )

    def test_idle_twice_is_told_once(self) -> None:
        assert self.run("idle", "idle") == [Idleness(True)]


# --- channels and inputs ---


class TestInputs:
    def test_an_input_of_which_only_idle_channels_are_left_is_idle(self) -> None:
        inputs = InputWatermarks([[0, 1], [2]])
        inputs.advance(1, 2, 50)
        inputs.advance(0, 0, 10)
        assert inputs.set_idle(0, 1, True) == 10
        assert inputs.end(0, 0) == 50, "the other input need not wait for an idle channel"
        assert not inputs.idle
        assert inputs.set_idle(1, 2, True) is None
        assert inputs.idle

    def test_a_task_that_wakes_tells_so_before_its_watermark(self) -> None:
        with TwoInputOperatorHarness(Joined(), lambda value: "k", lambda value: "k") as harness:
            harness.process_watermark1(50)
            harness.process_watermark2(10)
            harness.process_idleness1()
            harness.process_idleness2()
            assert harness.records_and_watermarks == [Watermark(10), Idleness(True)]
            harness.clear_output()
            harness.process_idleness1(False)
            assert harness.records_and_watermarks == [Idleness(False), Watermark(50)], (
                "nobody listens to the watermarks of one who is idle"
            )

    def test_a_watermark_that_falling_idle_moves_comes_before_it(self) -> None:
        operator = ProcessOperator(lambda value, ctx: [value])
        deployed = OperatorDeployment(0, "0" * 32, "op", operator, None, {}, [])
        vertex = VertexDeployment(0, "op", 1, 1, 128, [deployed], [], [[[0, 1]]], [0])
        task = Task(vertex, 0, JobInfo("0" * 32, "test"), SlotServices(), lambda *row: None)
        output = RecordingOutput("op", 0, None, through_blocks=False)
        operator.setup(operator.context, output)
        task.open()
        for channel, element in ((0, Watermark(50)), (1, Watermark(10)), (0, Idleness(True)), (1, Idleness(True))):
            task.control(0, channel, element)
        assert output.main.elements == [Watermark(10), Watermark(50), Idleness(True)]
        output.clear()
        task.control(0, 0, Idleness(False))
        task.control(0, 0, Watermark(60))
        assert output.main.elements == [Idleness(False), Watermark(60)]

    def test_the_end_of_an_idle_task(self) -> None:
        with TwoInputOperatorHarness(Joined(), lambda value: "k", lambda value: "k") as harness:
            harness.process_watermark1(50)
            harness.end_input2()
            assert harness.records_and_watermarks == [Watermark(50)]
            harness.process_idleness1()
            harness.end_input1()
            assert harness.records_and_watermarks[1:] == [Idleness(True), Idleness(False), Watermark(MAX_WATERMARK)]
            assert harness.finished

    def test_the_task_is_idle_when_the_last_active_channel_ends(self) -> None:
        for by_watermark in (False, True):
            inputs = InputWatermarks([[0, 1]])
            inputs.set_idle(0, 1, True)
            assert not inputs.idle
            if by_watermark:
                inputs.advance(0, 0, MAX_WATERMARK)
            else:
                inputs.end(0, 0)
            assert inputs.idle
            inputs.set_idle(0, 1, False)
            assert not inputs.idle
            assert inputs.end(0, 1) == MAX_WATERMARK
            assert not inputs.idle

    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("wm"), st.integers(0, 3), st.integers(0, 50)),
                st.tuples(st.just("idle"), st.integers(0, 3), st.booleans()),
                st.tuples(st.just("end"), st.integers(0, 3)),
            ),
            max_size=30,
        )
    )
    def test_idle_means_that_all_open_channels_are(self, steps: list[tuple[Any, ...]]) -> None:
        inputs = InputWatermarks([[0, 1], [2, 3]])
        idle: set[int] = set()
        ended: set[int] = set()
        last = MIN_WATERMARK
        for kind, channel, *rest in steps:
            if channel in ended:
                continue
            if kind == "wm":
                moved = inputs.advance(channel // 2, channel, *rest)
            elif kind == "idle":
                (idle.add if rest[0] else idle.discard)(channel)
                moved = inputs.set_idle(channel // 2, channel, *rest)
            else:
                ended.add(channel)
                idle.discard(channel)
                moved = inputs.end(channel // 2, channel)
            assert inputs.idle == (len(ended) < 4 and idle == {0, 1, 2, 3} - ended)
            if moved is not None:
                assert moved > last
                last = moved
            assert (last == MAX_WATERMARK) == (len(ended) == 4)


# --- whole jobs, by the clock of the machine ---


class Feed(PythonSource):
    """A source without end: each split is a list of timestamps, then nothing."""

    bounded = False

    def __init__(self, *splits: list[int]) -> None:
        self.timelines = splits

    def splits(self, parallelism: int) -> range:
        return range(len(self.timelines))

    def read(self, split: int, position: Any) -> Iterator[Any]:
        for offset, moment in enumerate(self.timelines[split]):
            yield offset + 1, (split, moment), moment
        while True:
            yield None


class AtTen(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp


class Joined(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10)

    def process_element2(self, value: Any, ctx: Any) -> None: ...

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp


class TestWholeJobs:
    def env(self, parallelism: int = 1) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        return env

    def strategy(self, idle: bool = True) -> WatermarkStrategy:
        plain = WatermarkStrategy.for_monotonous_timestamps()
        return plain.with_idleness(Duration.of_millis(30)) if idle else plain

    def run(self, stream: Any, seconds: float = 5.0) -> LocalJob:
        """Until there is a result, or for so long; then also for a moment in which nothing is left to do."""
        sink = SinkTransformation(stream._transformation, "collect", CollectOperator("c"))
        parallelism = stream.get_execution_environment().get_parallelism()
        job = LocalJob(StreamGraphGenerator([sink], StreamGraphConfig(parallelism=parallelism)).generate())
        job.open()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if job.is_due():
                job.run_epoch()
            if job.collected.get("c"):
                deadline = min(deadline, time.monotonic() + 0.08)
            time.sleep(0.001)
        job.close()
        return job

    @pytest.mark.parametrize("idle", [True, False])
    def test_a_split_that_says_nothing(self, idle: bool) -> None:
        source = self.env().from_source(Feed([5, 20], []), self.strategy(idle), "feed")
        job = self.run(source.key_by(lambda value: "k").process(AtTen()), 5 if idle else 0.1)
        assert job.collected.get("c") == ([("timer", 10)] if idle else None)
        assert job.epochs < 12, "an idle job runs no epochs"

    def test_a_subtask_without_splits(self) -> None:
        source = self.env(2).from_source(Feed([5, 20]), self.strategy(), "feed")
        job = self.run(source.key_by(lambda value: "k").process(AtTen()))
        assert job.collected["c"] == [("timer", 10)]
        assert job.epochs < 12

    @pytest.mark.parametrize("idle", [True, False])
    @pytest.mark.parametrize("connected", [True, False])
    def test_a_source_that_says_nothing(self, idle: bool, connected: bool) -> None:
        env = self.env()
        talks = env.from_source(Feed([5, 20]), self.strategy(False), "talks").key_by(lambda value: "k")
        silent = env.from_source(Feed([]), self.strategy(idle), "silent")
        if connected:
            stream = talks.connect(silent.key_by(lambda value: "k")).process(Joined())
        else:
            stream = talks.map(lambda value: value).union(silent).key_by(lambda value: "k").process(AtTen())
        job = self.run(stream, 5 if idle else 0.1)
        assert job.collected.get("c") == ([("timer", 10)] if idle else None)
        assert job.epochs < 12

    def test_timers_of_processing_time_fire_while_nothing_comes(self) -> None:
        class Soon(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: Any) -> None:
                timers = ctx.timer_service()
                timers.register_processing_time_timer(timers.current_processing_time() + 30)

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield ctx.timer_service().current_processing_time() - timestamp

        source = self.env().from_source(Feed([5]), WatermarkStrategy.no_watermarks(), "feed")
        job = self.run(source.key_by(lambda value: "k").process(Soon()))
        (late,) = job.collected["c"]
        assert late >= 0
        assert job.epochs < 8
