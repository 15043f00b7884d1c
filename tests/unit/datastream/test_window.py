"""Windows, assigners and triggers by themselves."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Configuration, Time
from flintstream.datastream import StreamExecutionEnvironment, TimeCharacteristic
from flintstream.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    MergingWindowAssigner,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

TIMES = st.integers(min_value=-(2**40), max_value=2**40)
SIZES = st.integers(min_value=1, max_value=10**6)


class Merges(MergingWindowAssigner.MergeCallback[TimeWindow]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
        self.seen.append((sorted(to_be_merged), merge_result))


class Surroundings(WindowAssigner.WindowAssignerContext):
    """A context with one value state and a clock that stands still."""

    def __init__(self) -> None:
        self.stored: Any = None

    def get_current_processing_time(self) -> int:
        return 1234

    def get_runtime_context(self) -> Any:
        return self

    def get_state(self, descriptor: Any) -> Any:
        return self

    def value(self) -> Any:
        return self.stored

    def update(self, value: Any) -> None:
        self.stored = value


def test_time_windows() -> None:
    window = TimeWindow(0, 10)
    assert (window.max_timestamp(), window.cover(TimeWindow(5, 20))) == (9, TimeWindow(0, 20))
    assert window.intersects(TimeWindow(10, 20))
    assert not window.intersects(TimeWindow(11, 20))
    assert sorted([TimeWindow(1, 3), TimeWindow(0, 9), TimeWindow(0, 2)])[0] == TimeWindow(0, 2)
    assert len({TimeWindow(0, 1), TimeWindow(0, 1)}) == 1
    assert GlobalWindow.get() == GlobalWindow()
    assert CountWindow(1) != CountWindow(2)


def test_merging() -> None:
    merges = Merges()
    windows = [TimeWindow(20, 30), TimeWindow(0, 5), TimeWindow(3, 8), TimeWindow(8, 9)]
    TimeWindow.merge_windows(windows, merges)
    assert merges.seen == [([TimeWindow(0, 5), TimeWindow(3, 8), TimeWindow(8, 9)], TimeWindow(0, 9))]


@given(TIMES, SIZES)
def test_a_tumbling_window_contains_the_record_and_is_aligned(time: int, size: int) -> None:
    (window,) = TumblingEventTimeWindows(size, 0).assign_windows(None, time, Surroundings())
    assert window.start <= time < window.end
    assert window.end - window.start == size
    assert window.start % size == 0


@given(TIMES, st.integers(1, 1000), st.integers(1, 1000))
def test_sliding_windows_are_all_that_contain_the_record(time: int, size: int, slide: int) -> None:
    windows = SlidingEventTimeWindows(size, slide, 0).assign_windows(None, time, Surroundings())
    starts = [start for start in range(time - size + 1, time + 1) if start % slide == 0]
    assert sorted(window.start for window in windows) == starts


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 200))
def test_count_windows(size: int, slide: int, count: int) -> None:
    context = Surroundings()
    context.stored = count
    numbers = [w.id for w in CountSlidingWindowAssigner(size, slide).assign_windows(None, 0, context)]
    assert numbers == [n for n in range(count, -1, -1) if n * slide <= count < n * slide + size]
    assert context.stored == count + 1
    context.stored = count
    assert CountTumblingWindowAssigner(size).assign_windows(None, 0, context) == [CountWindow(count // size)]


def test_sessions() -> None:
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return element  # type: ignore[no-any-return]

    context = Surroundings()
    fixed = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    assert fixed.assign_windows("a", 10, context) == [TimeWindow(10, 15)]
    dynamic = EventTimeSessionWindows.with_dynamic_gap(Gap())
    assert dynamic.assign_windows(7, 10, context) == [TimeWindow(10, 17)]
    with pytest.raises(ValueError, match="a session gap must be an integer greater than 0, got 0"):
        dynamic.assign_windows(0, 10, context)


def test_processing_time_and_missing_timestamps() -> None:
    context = Surroundings()
    clock = TumblingProcessingTimeWindows.of(Time.seconds(1))
    assert clock.assign_windows("a", 5, context) == [TimeWindow(1000, 2000)]
    assert not clock.is_event_time()
    with pytest.raises(ValueError, match="the record has no timestamp"):
        TumblingEventTimeWindows.of(Time.seconds(1)).assign_windows("a", -(2**63), context)
    assert GlobalWindows.create().assign_windows("a", 5, context) == [GlobalWindow()]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows(5, 5),
        lambda: TumblingEventTimeWindows(0, 0),
        lambda: SlidingEventTimeWindows(5, 2, 2),
        lambda: SlidingEventTimeWindows(0, 2, 0),
        lambda: EventTimeSessionWindows(0),
        lambda: CountTumblingWindowAssigner(0),
        lambda: CountTrigger(0),
    ],
)
def test_assigners_refuse(make: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|greater"):
        make()


def test_serializers() -> None:
    for assigner, window in (
        (TumblingEventTimeWindows(5, 0), TimeWindow(-5, 0)),
        (CountTumblingWindowAssigner(5), CountWindow(7)),
        (GlobalWindows(), GlobalWindow()),
    ):
        serializer: Any = assigner.get_window_serializer()
        stream = io.BytesIO()
        serializer.serialize(window, stream)
        stream.seek(0)
        assert serializer.deserialize(stream) == window


class TriggerSurroundings:
    """Timers and one reducing state for a trigger."""

    def __init__(self, watermark: int) -> None:
        self.watermark = watermark
        self.timers: set[int] = set()
        self.total: int | None = None

    def get_current_watermark(self) -> int:
        return self.watermark

    def register_event_time_timer(self, time: int) -> None:
        self.timers.add(time)

    def delete_event_time_timer(self, time: int) -> None:
        self.timers.discard(time)

    def get_partitioned_state(self, descriptor: Any) -> Any:
        self.descriptor = descriptor
        return self

    def add(self, value: int) -> None:
        function = self.descriptor.get_reduce_function()
        self.total = value if self.total is None else function.reduce(self.total, value)

    def get(self) -> int | None:
        return self.total

    def clear(self) -> None:
        self.total = None


def test_the_event_time_trigger() -> None:
    trigger, window = EventTimeTrigger.create(), TimeWindow(0, 10)
    context: Any = TriggerSurroundings(5)
    assert trigger.on_element("a", 3, window, context) is TriggerResult.CONTINUE
    assert context.timers == {9}
    assert trigger.on_event_time(9, window, context) is TriggerResult.FIRE
    trigger.clear(window, context)
    assert context.timers == set()
    context.watermark = 9
    assert trigger.on_element("late", 3, window, context) is TriggerResult.FIRE


def test_counting_and_purging() -> None:
    trigger: Any = PurgingTrigger.of(CountTrigger.of(2))
    context: Any = TriggerSurroundings(0)
    results = [trigger.on_element("a", 0, CountWindow(0), context) for _ in range(4)]
    assert results == [TriggerResult.CONTINUE, TriggerResult.FIRE_AND_PURGE] * 2


class TestShortForms:
    """Windows of a length or a count, without naming an assigner."""

    @pytest.mark.parametrize("characteristic", [None, *TimeCharacteristic])
    def test_time_windows_follow_the_time_characteristic(self, characteristic: TimeCharacteristic | None) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
        if characteristic is not None:
            env.set_stream_time_characteristic(characteristic)
            assert env.get_stream_time_characteristic() is characteristic
        by_clock = characteristic is TimeCharacteristic.ProcessingTime
        assert env.get_config().get_auto_watermark_interval() == (0 if by_clock else 200)
        kind = "Processing" if by_clock else "Event"
        stream = env.from_collection([("a", 1)])
        for short in (stream.key_by(lambda value: value[0]).time_window, stream.time_window_all):
            assert repr(short(Time.seconds(2))._assigner) == f"Tumbling{kind}TimeWindows(2000, 0)"
            assert repr(short(Time.seconds(2), Time.seconds(1))._assigner) == f"Sliding{kind}TimeWindows(2000, 1000, 0)"

    def test_count_windows(self) -> None:
        stream = StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])
        for short in (stream.key_by(lambda value: value[0]).count_window, stream.count_window_all):
            assert repr(short(5)._assigner) == "CountTumblingWindowAssigner(5)"
            assert repr(short(5, 2)._assigner) == "CountSlidingWindowAssigner(5, 2)"

    def test_a_wrong_characteristic(self) -> None:
        configuration = Configuration.from_dict({"pipeline.time-characteristic": "moonlight"})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        with pytest.raises(
            ValueError, match="'pipeline.time-characteristic' must be one of Processing.* got 'moonlight'"
        ):
            env.from_collection([("a", 1)])
        with pytest.raises(
            TypeError, match="set_stream_time_characteristic: expected one of TimeCharacteristic, got 5"
        ):
            env.set_stream_time_characteristic(5)
