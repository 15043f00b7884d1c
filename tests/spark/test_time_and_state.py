"""Time, timers and state on local Spark: what needs real epochs, real slots or a real clock."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from flintstream.common import Configuration, Duration, Types, WatermarkStrategy
from flintstream.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeExecutionMode,
    SourceFunction,
)
from flintstream.datastream.connectors.source import PythonSource
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flintstream.jobmaster.errors import JobExecutionError
from flintstream.runtime.batch import MAX_WATERMARK

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def first(stream, wanted, seconds=30):
    """The results of an unbounded stream up to the first that is wanted."""
    seen = []
    with stream.execute_and_collect() as results:
        timer = threading.Timer(seconds, results.close)
        timer.start()
        for result in results:
            seen.append(result)
            if wanted(result):
                break
        timer.cancel()
    return seen


class Then(SourceFunction):
    """Emits some records, and then nothing until the job is cancelled."""

    def __init__(self, *records):
        self._records = records
        self._running = True

    def run(self, ctx):
        for record in self._records:
            ctx.collect(record)
        while self._running:
            time.sleep(0.02)

    def cancel(self):
        self._running = False


class Alarm(KeyedProcessFunction):
    """Rings once, so many milliseconds after the first record of a key."""

    def __init__(self, millis):
        self._millis = millis

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + self._millis)
        yield "record", ctx.get_current_key(), 0

    def on_timer(self, timestamp, ctx):
        late = ctx.timer_service().current_processing_time() - timestamp
        yield ctx.time_domain().name, ctx.get_current_key(), late


def test_processing_time_timers_fire_although_no_data_comes(env):
    seen = first(
        env.add_source(Then("a")).key_by(lambda v: v).process(Alarm(500)), lambda result: result[0] != "record"
    )
    assert [result[:2] for result in seen] == [("record", "a"), ("PROCESSING_TIME", "a")]
    assert seen[1][2] >= 0


def test_processing_time_timers_that_are_not_due_at_the_end_are_dropped(env):
    results = collect(env.from_collection(["a"]).key_by(lambda v: v).process(Alarm(3_600_000)))
    assert results == [("record", "a", 0)]


def test_a_slow_function_before_lets_timers_fire_in_time(env):
    def slow(value):
        time.sleep(0.4)
        return value

    env.set_parallelism(1)
    results = collect(env.from_collection(list(range(8))).map(slow).key_by(lambda v: v).process(Alarm(100)))
    kinds = [result[0] for result in results]
    assert kinds.count("record") == 8
    assert "PROCESSING_TIME" in kinds[: kinds.index("record", 5)], "not only at the end"


class Watermarks(KeyedProcessFunction):
    """Sets a timer for each record, and tells the watermark that lets it fire."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        return ()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_small_bounded_input_has_only_the_last_watermark(env, parallelism):
    env.set_parallelism(parallelism)
    records = [("a", 10), ("b", 5), ("a", 30)]
    timed = env.from_collection(records).assign_timestamps_and_watermarks(BY_TIME)
    results = collect(timed.key_by(lambda v: v[0]).process(Watermarks()))
    assert sorted(results) == [("a", 10, MAX_WATERMARK), ("a", 30, MAX_WATERMARK), ("b", 5, MAX_WATERMARK)]


class Quiet(PythonSource):
    """Two splits: one ends after a while in which it gives nothing, the other gives a record now and then until then."""

    bounded = False

    def splits(self, parallelism):
        return ["quiet", "busy"]

    def read(self, split, position):
        yield 1, (split, 1000)
        ends = time.monotonic() + 4
        second = 1
        while time.monotonic() < ends:
            yield None
            if split == "busy" and time.monotonic() > ends - 4 + second:
                second += 1
                yield second, (split, 1000 * second)


def test_an_idle_split_does_not_hold_the_others_back(env):
    strategy = BY_TIME.with_idleness(Duration.of_millis(700))
    timed = env.from_source(Quiet(), strategy, "quiet").key_by(lambda v: v[0]).process(Watermarks())
    seen = first(timed, lambda result: result[1] >= 2000)
    key, timestamp, watermark = seen[-1]
    assert (key, timestamp) == ("busy", 2000)
    assert 2000 <= watermark < 6000


class Clocked(PythonSource):
    """Twenty records a second apart; a slow one needs to be asked several times for each."""

    def __init__(self, name, slow):
        self._name = name
        self._slow = slow

    def splits(self, parallelism):
        return [self._name]

    def read(self, split, position):
        for second in range(position or 0, 20):
            for _ in range(2 if self._slow and second else 0):
                yield None
            yield second + 1, (self._name, second * 1000)


class Drift(ProcessFunction):
    """Tells how far one stream is ahead of the other."""

    def open(self, runtime_context):
        self._reached = {"fast": 0, "slow": 0}

    def process_element(self, value, ctx):
        self._reached[value[0]] = value[1]
        yield self._reached["fast"] - self._reached["slow"]


@pytest.mark.parametrize("aligned", [True, False])
def test_aligned_sources_keep_step(env, aligned):
    env.set_parallelism(1)
    strategy = BY_TIME
    if aligned:
        strategy = BY_TIME.with_watermark_alignment("sources", Duration.of_seconds(2), Duration.of_millis(100))
    fast, slow = (env.from_source(Clocked(name, name == "slow"), strategy, name) for name in ("fast", "slow"))
    drifts = collect(fast.union(slow).process(Drift()))
    assert len(drifts) == 40
    assert (max(drifts) <= 5_000) is aligned


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
COUNTS = ValueStateDescriptor("counts", Types.INT())


class Rules(KeyedBroadcastProcessFunction):
    """Counts by key; a rule named "reset" forgets all counts, another one is added to each count."""

    def open(self, runtime_context):
        self._count = runtime_context.get_state(COUNTS)

    def process_element(self, value, ctx):
        self._count.update((self._count.value() or 0) + 1)
        yield ctx.get_current_key(), self._count.value(), dict(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value, ctx):
        if value == "reset":
            ctx.apply_to_keyed_state(COUNTS, lambda key, count: count.clear())
        else:
            ctx.get_broadcast_state(RULES).put(*value)


def test_what_is_broadcast_reaches_every_subtask_first_in_batch_mode(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    rules = env.from_collection([("more", 1), ("less", 2)]).broadcast(RULES)
    keyed = env.from_collection(list(range(6)) * 2).key_by(lambda n: n)
    results = collect(keyed.connect(rules).process(Rules()))
    known = {"more": 1, "less": 2}
    assert sorted(results, key=lambda r: r[:2]) == [(key, count, known) for key in range(6) for count in (1, 2)]


class Story(SourceFunction):
    """Emits the steps that are no files; waits for those that are."""

    def __init__(self, *steps):
        self._steps = steps

    def run(self, ctx):
        for step in self._steps:
            if not isinstance(step, Path):
                ctx.collect(step)
                continue
            while not step.exists():
                time.sleep(0.02)

    def cancel(self):
        """It ends soon."""


class ToldRules(Rules):
    """Leaves a file behind each element of either side."""

    def __init__(self, directory):
        self._directory = directory

    def open(self, runtime_context):
        super().open(runtime_context)
        self._subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield from super().process_element(value, ctx)
        (self._directory / value).touch()

    def process_broadcast_element(self, value, ctx):
        super().process_broadcast_element(value, ctx)
        if self._subtask == 0:
            (self._directory / ("reset" if value == "reset" else value[0])).touch()


def test_rules_change_while_the_job_runs(env, tmp_path):
    env.set_parallelism(1)
    rules = env.add_source(Story(("a", 1), tmp_path / "x1", "reset", ("b", 2))).broadcast(RULES)
    elements = env.add_source(Story(tmp_path / "a", "x1", tmp_path / "b", "x2")).key_by(lambda v: v[0])
    results = collect(elements.connect(rules).process(ToldRules(tmp_path)))
    assert results == [("x", 1, {"a": 1}), ("x", 1, {"a": 1, "b": 2})]


def test_writing_on_the_wrong_side_fails_the_job_and_says_why(env):
    class Wrong(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put("mine", value)

        def process_broadcast_element(self, value, ctx):
            """Nothing to do."""

    stream = env.from_collection([1]).connect(env.from_collection([2]).broadcast(RULES)).process(Wrong()).name("wrong")
    with pytest.raises(JobExecutionError, match="broadcast state 'rules' is read-only here") as caught:
        collect(stream)
    assert "Operator 'wrong'" in str(caught.value)


class Payments(KeyedCoProcessFunction):
    """An order that is not paid within 100 ms of event time is told."""

    def open(self, runtime_context):
        self._due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element1(self, value, ctx):
        due = ctx.timestamp() + 100
        self._due.update(due)
        ctx.timer_service().register_event_time_timer(due)

    def process_element2(self, value, ctx):
        due = self._due.value()
        if due is not None and ctx.timestamp() <= due:
            ctx.timer_service().delete_event_time_timer(due)
            self._due.clear()
            yield "paid", value[0]

    def on_timer(self, timestamp, ctx):
        self._due.clear()
        yield "unpaid", ctx.get_current_key()


def test_timers_of_two_connected_streams_in_batch_mode(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    orders = env.from_collection([("a", 0), ("b", 10), ("c", 20)]).assign_timestamps_and_watermarks(BY_TIME)
    paid = env.from_collection([("a", 50), ("c", 500)]).assign_timestamps_and_watermarks(BY_TIME)
    matched = orders.connect(paid).key_by(lambda v: v[0], lambda v: v[0]).process(Payments())
    assert sorted(collect(matched)) == [("paid", "a"), ("unpaid", "b"), ("unpaid", "c")]


class Slowly(SourceFunction):
    """Waits long enough between two records for an epoch to end."""

    def __init__(self, records):
        self._records = records

    def run(self, ctx):
        for record in self._records:
            ctx.collect(record)
            time.sleep(1.5)

    def cancel(self):
        """It ends soon."""


def test_periodic_watermarks_can_be_switched_off(env):
    env.configure(Configuration().set_string("pipeline.auto-watermark-interval", "0 ms"))
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    records = env.add_source(Slowly([("a", 10), ("a", 20)])).assign_timestamps_and_watermarks(strategy)
    results = collect(records.key_by(lambda v: v[0]).process(Watermarks()))
    assert results == [("a", 10, MAX_WATERMARK), ("a", 20, MAX_WATERMARK)]
