"""Open windows are read as the job has them: of every kind of assigner and function, from both backends."""

from __future__ import annotations

import pytest
from tests.unit.state_processor.savepoints import LocalReader, Steps

from flintstream.common import Types
from flintstream.common.time import Time
from flintstream.datastream.evictors import CountEvictor
from flintstream.datastream.functions import AggregateFunction
from flintstream.datastream.state import ReducingStateDescriptor
from flintstream.datastream.triggers import CountTrigger, EventTimeTrigger
from flintstream.datastream.window import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from flintstream.datastream.windowed_stream import window_operator
from flintstream.runtime.windows.contents import AggregatedContents, ListContents, ReducedContents
from flintstream.runtime.windows.functions import PassOn
from flintstream.runtime.windows.spec import WindowSpec
from flintstream.state_processor import StateKindError, WindowReaderFunction

RECORDS = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("c", 5), ("b", 6)]
TIMES = [1_000, 2_000, 3_000, 12_000, 25_000, 26_000]
TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10))


class Average(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, one, other):
        return (one[0] + other[0], one[1] + other[1])


class ReadWindow(WindowReaderFunction):
    def open(self, runtime_context):
        self.opened = True

    def read_window(self, key, context, elements, out):
        assert self.opened
        window = context.window()
        bounds = (window.start, window.end) if isinstance(window, TimeWindow) else None
        out.collect((key, bounds, list(elements), context.registered_event_time_timers()))


def stored(tmp_path, assigner, contents, backend="hashmap", trigger=None, evictor=None, savepoint=True, watermark=None):
    def make():
        spec = WindowSpec(assigner, trigger or EventTimeTrigger.create(), contents(), PassOn(), evictor, mergeable=True)
        return window_operator(spec, backend == "hashmap")

    steps = Steps(tmp_path, make, "windows", state_backend=backend).feed(RECORDS, TIMES)
    if watermark is not None:
        for task in steps.tasks:
            task.head.process_watermark(watermark)
    location = steps.store(savepoint=savepoint)
    steps.close()
    return LocalReader.at(location)


BACKENDS = pytest.mark.parametrize(
    ("backend", "savepoint"), [("hashmap", True), ("hashmap", False), ("rocksdb", True), ("rocksdb", False)]
)


def add(one, other):
    return one + other


@BACKENDS
def test_tumbling_windows_of_reduce(tmp_path, backend, savepoint):
    reader = stored(tmp_path, TUMBLING, lambda: ReducedContents(add), backend, savepoint=savepoint)
    assert reader.window(TUMBLING).reduce("windows", add) == [("a", 4), ("a", 4), ("b", 2), ("b", 6), ("c", 5)]
    found = reader.window(TUMBLING).reduce("windows", add, ReadWindow())
    assert [each[:3] for each in found] == [
        ("a", (0, 10_000), [4]),
        ("a", (10_000, 20_000), [4]),
        ("b", (0, 10_000), [2]),
        ("b", (20_000, 30_000), [6]),
        ("c", (20_000, 30_000), [5]),
    ]
    assert all(timers == {bounds[1] - 1} for _, bounds, _, timers in found)


@BACKENDS
def test_windows_of_aggregate_and_process(tmp_path, backend, savepoint):
    averages = stored(tmp_path / "1", TUMBLING, lambda: AggregatedContents(Average()), backend, savepoint=savepoint)
    assert averages.window(TUMBLING).aggregate("windows", Average())[0] == ("a", 2.0)
    lists = stored(tmp_path / "2", TUMBLING, ListContents, backend, savepoint=savepoint)
    assert lists.window(TUMBLING).process("windows", ReadWindow())[0][2] == [1, 3]


@BACKENDS
def test_sliding_windows_that_share_panes(tmp_path, backend, savepoint):
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
    reader = stored(tmp_path, sliding, lambda: ReducedContents(add), backend, savepoint=savepoint, watermark=4_999)
    found = reader.window(sliding).reduce("windows", add, ReadWindow())
    # The window from -5 s to 5 s has fired, although its panes are there for the next one.
    assert [(key, bounds, total) for key, bounds, [total], _ in found if key == "a"] == [
        ("a", (0, 10_000), 4),
        ("a", (5_000, 15_000), 4),
        ("a", (10_000, 20_000), 4),
    ]


@BACKENDS
def test_sessions_have_their_merged_bounds(tmp_path, backend, savepoint):
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(5))
    reader = stored(tmp_path, sessions, lambda: ReducedContents(add), backend, savepoint=savepoint)
    found = reader.window(sessions).reduce("windows", add, ReadWindow())
    assert [each[:3] for each in found if each[0] == "a"] == [("a", (1_000, 8_000), [4]), ("a", (12_000, 17_000), [4])]


class ReadTriggerState(WindowReaderFunction):
    def read_window(self, key, context, elements, out):
        count = context.trigger_state(ReducingStateDescriptor("count", add, Types.LONG()))
        yield key, count.get(), sorted(elements)


@BACKENDS
def test_the_state_of_a_trigger_is_read_too(tmp_path, backend, savepoint):
    assigner = GlobalWindows.create()
    reader = stored(tmp_path, assigner, ListContents, backend, CountTrigger.of(100), savepoint=savepoint)
    found = reader.window(assigner).process("windows", ReadTriggerState())
    assert found == [("a", 3, [1, 3, 4]), ("b", 2, [2, 6]), ("c", 1, [5])]


@BACKENDS
def test_windows_with_an_evictor_keep_all_records(tmp_path, backend, savepoint):
    reader = stored(
        tmp_path, TUMBLING, lambda: ReducedContents(add), backend, evictor=CountEvictor.of(1), savepoint=savepoint
    )
    assert reader.window(TUMBLING).evictor().reduce("windows", add)[:2] == [("a", 4), ("a", 4)]
    assert reader.window(TUMBLING).evictor().process("windows", ReadWindow())[0][2] == [1, 3]
    with pytest.raises(StateKindError, match="have an evictor: call evictor"):
        reader.window(TUMBLING).reduce("windows", add)


def test_ended_windows_are_read_with_the_lateness_of_the_job(tmp_path):
    def make():
        spec = WindowSpec(TUMBLING, EventTimeTrigger.create(), ListContents(), PassOn(), None, 60_000)
        return window_operator(spec)

    steps = Steps(tmp_path, make, "windows").feed(RECORDS, TIMES)
    for task in steps.tasks:
        task.head.process_watermark(15_000)
    reader = LocalReader.at(steps.store())
    steps.close()
    starts = [bounds[0] for _, bounds, *_ in reader.window(TUMBLING).process("windows", ReadWindow())]
    assert set(starts) == {10_000, 20_000}
    with_late = reader.window(TUMBLING).allowed_lateness(60_000).process("windows", ReadWindow())
    assert {bounds[0] for _, bounds, *_ in with_late} == {0, 10_000, 20_000}


def test_what_has_no_windows_is_refused(tmp_path):
    steps = Steps(tmp_path).feed(RECORDS)
    reader = LocalReader.at(steps.store())
    steps.close()
    with pytest.raises(StateKindError, match="has no windows; it has count, seen, by kind"):
        reader.window(TUMBLING).reduce("counts", add)
