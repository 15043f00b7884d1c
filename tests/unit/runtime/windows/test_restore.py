"""A windowed job that is stopped, and goes on from its checkpoint in other subtasks, gives what one gives that is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from flintstream.common import Time
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.common.output_tag import OutputTag
from flintstream.common.typeinfo import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import (
    AggregateFunction,
    ProcessAllWindowFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from flintstream.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.runtime.state.backend import StateMigrationException
from flintstream.runtime.windows.aligned import AlignedWindowOperator
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness

LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())
KEYS = [f"k{number}" for number in range(9)]
START = 1000
"""What the clock shows at first."""


# --- functions, and a trigger ---


class Show(ProcessWindowFunction):
    """The window's records, how often it has fired, and how often all windows of the key."""

    fired = ValueStateDescriptor("fired", Types.LONG())
    cleared: list[str] = []
    """The windows that were cleared, of all subtasks."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(self.fired)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, repr(context.window()), list(elements), counts

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.fired).clear()
        self.cleared.append(repr(context.window()))


class Plain(ProcessWindowFunction):
    """For sessions: the state of windows that merge is not merged."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, repr(context.window()), sorted(elements)


class ShowAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield repr(context.window()), list(elements)


class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ("", 0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], accumulator[1] + value[1], accumulator[2] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (max(acc_a[0], acc_b[0]), acc_a[1] + acc_b[1], acc_a[2] + acc_b[2])


class Alarm(Trigger[Any, Any]):
    """Fires, and empties the window, some time after the first record; and with a sum of numbers."""

    def __init__(self, event_time: bool) -> None:
        self.event_time = event_time
        self.sum = ReducingStateDescriptor("sum", lambda left, right: left + right, Types.LONG())
        self.set = ValueStateDescriptor("set", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        alarm, total = ctx.get_partitioned_state(self.set), ctx.get_partitioned_state(self.sum)
        if alarm.value() is None:
            now = timestamp if self.event_time else ctx.get_current_processing_time()
            register = ctx.register_event_time_timer if self.event_time else ctx.register_processing_time_timer
            alarm.update(now + 23)
            register(now + 23)
        total.add(element[1])
        if total.get() < 200:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE

    def _ring(self, time: int, ctx: Any) -> TriggerResult:
        alarm = ctx.get_partitioned_state(self.set)
        if alarm.value() != time:
            return TriggerResult.CONTINUE
        alarm.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return self._ring(time, ctx)

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return self._ring(time, ctx)

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise AssertionError

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.sum).clear()


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp()


def plus(left: Any, right: Any) -> Any:
    return (left[0], left[1] + right[1])


# --- jobs ---


@dataclass
class Job:
    """What makes the stream whose operator is tested, and what its records are."""

    make: Callable[[], Any]
    by_clock: bool = False
    tagged: bool = False
    """Whether they are pairs, with a 0 or 1 that says which of two joined streams they are of."""
    two_inputs: bool = False
    keyed: bool = True

    def harness(self, parallelism: int = 1, subtask: int = 0, general: bool = False) -> Any:
        operator = self.make()._transformation.operator
        if general:
            operator = WindowOperator(operator.function, TimeWindow)
        options: dict[str, Any] = {"parallelism": parallelism, "subtask": subtask}
        if self.by_clock:
            options["processing_time"] = START
        if self.two_inputs:
            return TwoInputOperatorHarness(operator, key_of, key_of, **options)
        selector = (lambda record: record[1][0]) if self.tagged else key_of
        return OneInputOperatorHarness(operator, selector if self.keyed else lambda record: "all", **options)

    def owner(self, key: str, parallelism: int) -> int:
        return subtask_for_group(key_group(key if self.keyed else "all", 128), 128, parallelism)


def key_of(record: Any) -> Any:
    return record[0]


def source() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])


def windows(assigner: Any, lateness: int = 0) -> Any:
    stream = source().key_by(key_of).window(assigner).side_output_late_data(LATE)
    return stream.allowed_lateness(lateness) if lateness else stream


def all_windows(assigner: Any) -> Any:
    return source().window_all(assigner).side_output_late_data(LATE).allowed_lateness(15)


def joined(kind: str, assigner: Any) -> Any:
    first = source()
    second = first._env.from_collection([("a", 1)])
    return getattr(first, kind)(second).where(key_of).equal_to(key_of).window(assigner).side_output_late_data(LATE)


def interval_join() -> Any:
    first = source()
    second = first._env.from_collection([("a", 1)])
    return (
        first.key_by(key_of).interval_join(second.key_by(key_of)).between(Time.milliseconds(-9), Time.milliseconds(6))
    )


TEN, SLIDING = TumblingEventTimeWindows(10, 3), SlidingEventTimeWindows(30, 10, 0)
GAP = EventTimeSessionWindows(7)
CLOCK, CLOCK_SLIDING = TumblingProcessingTimeWindows(10, 0), SlidingProcessingTimeWindows(30, 10, 0)
ALIGNED = {
    "tumbling, stateful": Job(lambda: windows(TEN, 15).process(Show())),
    "tumbling, reduced": Job(lambda: windows(TEN, 15).reduce(plus)),
    "tumbling, no lateness": Job(lambda: windows(TEN).process(Show())),
    "sliding, shared": Job(lambda: windows(SLIDING, 15).aggregate(Total(), mergeable=True)),
    "sliding, shared, stateful": Job(lambda: windows(SLIDING, 15).aggregate(Total(), Show(), mergeable=True)),
    "sliding, shared, no lateness": Job(
        lambda: windows(SlidingEventTimeWindows(30, 9, 0)).aggregate(Total(), mergeable=True)
    ),
    "sliding, listed": Job(lambda: windows(SLIDING, 15).process(Show())),
    "with gaps": Job(lambda: windows(SlidingEventTimeWindows(7, 10, 0), 15).process(Show())),
    "clock, tumbling": Job(lambda: windows(CLOCK).process(Show()), by_clock=True),
    "clock, sliding, shared": Job(
        lambda: windows(CLOCK_SLIDING).aggregate(Total(), Show(), mergeable=True), by_clock=True
    ),
}
JOBS = ALIGNED | {
    "purged": Job(lambda: windows(TEN, 15).trigger(PurgingTrigger.of(EventTimeTrigger())).process(Show())),
    "continuous": Job(lambda: windows(SLIDING, 15).trigger(ContinuousEventTimeTrigger(7)).process(Show())),
    "sessions": Job(lambda: windows(GAP, 15).process(Plain())),
    "sessions, aggregated": Job(lambda: windows(GAP, 15).aggregate(Total())),
    "sessions, counted": Job(lambda: windows(GAP, 15).trigger(CountTrigger.of(3)).process(Plain())),
    "sessions, continuous": Job(lambda: windows(GAP, 15).trigger(ContinuousEventTimeTrigger(5)).process(Plain())),
    "count": Job(lambda: source().key_by(key_of).count_window(4).process(Show())),
    "count, sliding": Job(lambda: source().key_by(key_of).count_window(5, 2).aggregate(Total(), Show())),
    "global, alarm": Job(lambda: windows(GlobalWindows()).trigger(Alarm(True)).process(Show())),
    "global, delta": Job(
        lambda: windows(GlobalWindows()).trigger(DeltaTrigger.of(30, lambda a, b: b[1] - a[1])).reduce(plus)
    ),
    "evicted": Job(
        lambda: windows(GlobalWindows()).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3, True)).process(Show())
    ),
    "evicted, sessions": Job(lambda: windows(GAP, 15).evictor(TimeEvictor.of(Time.milliseconds(9))).aggregate(Total())),
    "all": Job(lambda: all_windows(TEN).process(ShowAll()), keyed=False),
    "all, sliding, shared": Job(lambda: all_windows(SLIDING).aggregate(Total(), mergeable=True), keyed=False),
    "all, sessions": Job(lambda: all_windows(EventTimeSessionWindows(2)).process(ShowAll()), keyed=False),
    "join": Job(lambda: joined("join", SLIDING).apply(lambda a, b: (a, b)), tagged=True),
    "co-group, sessions": Job(lambda: joined("co_group", GAP).apply(lambda a, b: [(a, b)]), tagged=True),
    "interval join": Job(lambda: interval_join().side_output_left_late_data(LATE).process(Pair()), two_inputs=True),
    "clock, sessions": Job(lambda: windows(ProcessingTimeSessionWindows(7)).process(Plain()), by_clock=True),
    "clock, continuous": Job(
        lambda: windows(CLOCK_SLIDING).trigger(ContinuousProcessingTimeTrigger(7)).process(Show()), by_clock=True
    ),
    "clock, global, alarm": Job(lambda: windows(GlobalWindows()).trigger(Alarm(False)).process(Show()), by_clock=True),
}


# --- steps ---

Record = tuple[int, str, int, int]
"""Which stream, key, number, timestamp."""
Step = tuple[str, Any]


def steps_of(seed: int, first: int = 0, records: int = 160) -> list[Step]:
    """Records in some disorder, some of them late, and times (watermarks, or the clock) that only grow."""
    rng = random.Random(seed)
    steps: list[Step] = []
    now = reached = first
    for number in range(records):
        now += rng.choice([0, 0, 1, 1, 2, 3])
        late = 30 if rng.random() < 0.05 else 0
        time = now - rng.randrange(8) - late
        steps.append(("record", (rng.randrange(2), rng.choice(KEYS), number, time)))
        if rng.random() < 0.2:
            reached = max(reached, now - rng.choice([10, 4, 0]))
            steps.append(("time", reached))
    return steps


@dataclass
class Part:
    """What is done between two checkpoints. At the end some subtasks are ahead in time of the others."""

    steps: list[Step]
    ahead_to: int | None
    parallelism: int

    def is_ahead(self, subtask: int) -> bool:
        return self.ahead_to is not None and subtask % 2 == 1


def fragments_of(steps: list[Step], parallelisms: tuple[int, ...]) -> list[Part]:
    """Cuts the steps. A part begins with the time that the subtasks ahead have come to: then none is any more.

    Between two parts there is one in which nothing happens.
    """
    bounds = [len(steps) * number // len(parallelisms) for number in range(len(parallelisms) + 1)]
    parts: list[Part] = []
    for (low, high), parallelism in zip(pairwise(bounds), parallelisms):
        own = steps[low:high]
        if parts:
            reached = max(time for kind, time in steps[:low] if kind == "time")
            parts[-1].ahead_to = reached + 12
            parts.append(Part([], None, parallelism))
            own = [(kind, max(it, reached + 12) if kind == "time" else it) for kind, it in own]
            own = [("time", reached + 5), ("time", reached + 12), *own]
        parts.append(Part(own, None, parallelism))
    return parts


def feed(job: Job, harness: Any, step: Step) -> None:
    kind, argument = step
    if kind == "time" and job.by_clock:
        if argument >= harness._clock():
            harness.set_processing_time(argument)
    elif kind == "time":
        harness.process_watermark(argument)
    else:
        side, key, number, time = argument
        if job.two_inputs:
            (harness.process_element2 if side else harness.process_element1)((key, number), time)
        else:
            harness.process_element((side, (key, number)) if job.tagged else (key, number), time)


def results(harness: Any) -> list[Any]:
    late = [("late", value, time) for value, time in harness.side_output_with_timestamps(LATE)]
    return [*harness.output_with_timestamps, *late]


def finish(job: Job, harness: Any) -> None:
    if job.by_clock:
        harness.set_processing_time(START + 10_000)
    harness.process_watermark(MAX_WATERMARK)


def never_stopped(job: Job, parts: list[Part], general: bool = False) -> list[Any]:
    """Each key by itself, in time with the subtasks that it would be in."""
    found: list[Any] = []
    Show.cleared.clear()
    for keys in [[key] for key in KEYS] if job.keyed else [KEYS]:
        with job.harness(general=general) as harness:
            for part in parts:
                for step in part.steps:
                    if step[0] == "time" or step[1][1] in keys:
                        feed(job, harness, step)
                if part.is_ahead(job.owner(keys[0], part.parallelism)):
                    feed(job, harness, ("time", part.ahead_to))
            finish(job, harness)
            found += results(harness)
    return sorted([*found, *Show.cleared], key=repr)


def stopped(job: Job, parts: list[Part], of_changes: bool = False, general_from: int = 9) -> list[Any]:
    """With a checkpoint behind each part but the last, which new subtasks go on from.

    From that part on it is the general operator that does so.
    """
    found: list[Any] = []
    Show.cleared.clear()
    chains: list[list[Any]] = []
    for number, part in enumerate(parts):
        left, chains = chains, []
        for subtask in range(part.parallelism):
            harness = job.harness(part.parallelism, subtask, number >= general_from)
            if left:
                harness.task.restore(lambda operator_id, groups, left=left: left)
            with harness:
                chain = []
                for done, step in enumerate(part.steps):
                    if step[0] == "time" or job.owner(step[1][1], part.parallelism) == subtask:
                        feed(job, harness, step)
                    if of_changes and done == len(part.steps) // 2:
                        chain.append(harness.snapshot(1))
                        harness.notify_checkpoint_complete(1)
                if part.is_ahead(subtask):
                    feed(job, harness, ("time", part.ahead_to))
                if part is parts[-1]:
                    finish(job, harness)
                else:
                    last = harness.snapshot(2)
                    chains.append([*chain, last] if last.only_changes else [last])
                found += results(harness)
    return sorted([*found, *Show.cleared], key=repr)


# --- tests ---

PARALLELISMS = [(1, 1, 1), (2, 1, 3), (2, 2, 2), (3, 2, 1)]


@pytest.mark.parametrize("parallelisms", PARALLELISMS, ids=str)
@pytest.mark.parametrize("name", JOBS)
def test_goes_on_as_if_it_had_not_stopped(name: str, parallelisms: tuple[int, ...]) -> None:
    job = JOBS[name]
    for seed in range(2):
        parts = fragments_of(steps_of(seed, START if job.by_clock else 0), parallelisms)
        expected = never_stopped(job, parts)
        assert len(expected) > 10
        assert stopped(job, parts, of_changes=seed == 1) == expected


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned_windows_as_the_general_operator(name: str) -> None:
    job = JOBS[name]
    assert isinstance(job.make()._transformation.operator, AlignedWindowOperator)
    for seed, restored in enumerate((1, 2, 3)):
        parts = fragments_of(steps_of(seed + 10, START if job.by_clock else 0), (2, restored))
        expected = stopped(job, parts, general_from=0)
        assert expected == never_stopped(job, parts, general=True)
        assert stopped(job, parts) == expected


def restored(job: Job, *chain: Any) -> Any:
    harness = job.harness()
    harness.task.restore(lambda operator_id, groups: [list(chain)])
    return harness


def feed_all(job: Job, harness: Any, *steps: Any) -> list[Any]:
    """Feeds `(key, number, timestamp)`; a number is a time. Gives the keys and numbers of what comes out."""
    for step in steps:
        feed(job, harness, ("time", step) if isinstance(step, int) else ("record", (0, *step)))
    found = [value[:2] if isinstance(value[1], int) else (value[0], value[2]) for value in harness.output]
    harness.clear_output()
    return found


@pytest.mark.parametrize("general", [False, True])
class TestChanges:
    """A checkpoint of what has changed since the last one."""

    JOB = JOBS["tumbling, stateful"]

    def run(self, general: bool, before: list[Any], between: list[Any]) -> Any:
        with self.JOB.harness(general=general) as harness:
            feed_all(self.JOB, harness, *before)
            first = harness.snapshot(1)
            harness.notify_checkpoint_complete(1)
            feed_all(self.JOB, harness, *between)
            second = harness.snapshot(2)
        assert second.only_changes
        restored = self.JOB.harness(general=general)
        restored.task.restore(lambda operator_id, groups: [[first, second]])
        return restored

    def test_contains_that_a_window_has_fired(self, general: bool) -> None:
        with self.run(general, [("k0", 1, 5), ("k1", 2, 15)], [12]) as harness:
            assert feed_all(self.JOB, harness, 12) == []
            assert feed_all(self.JOB, harness, ("k0", 3, 6)) == [("k0", [("k0", 1), ("k0", 3)])]
            assert feed_all(self.JOB, harness, 22) == [("k1", [("k1", 2)])]

    def test_contains_that_a_window_is_over(self, general: bool) -> None:
        with self.run(general, [("k0", 1, 5), ("k1", 2, 15), 12], [27]) as harness:
            assert feed_all(self.JOB, harness, 11, ("k0", 3, 6), 12) == [("k0", [("k0", 3)])]


class TestOtherWindows:
    """A program that was changed between two runs."""

    def restore(self, before: Job, after: Job, apart: int = 0) -> Any:
        with before.harness() as harness:
            feed_all(before, harness, *[("k0", number, 15 + number * apart) for number in range(20)])
            taken = harness.snapshot()
        return restored(after, taken)

    @pytest.mark.parametrize(
        ("after", "message"),
        [
            (
                Job(lambda: windows(SlidingEventTimeWindows(40, 10, 0)).aggregate(Total())),
                "was taken with windows of size 30, slide 10, offset 0, but the program now has windows of size 40",
            ),
            (Job(lambda: windows(SlidingEventTimeWindows(30, 15, 0)).aggregate(Total())), ".* slide 10, .* slide 15"),
            (
                Job(lambda: windows(SLIDING).evictor(CountEvictor.of(3)).aggregate(Total())),
                "was taken with time windows with their default trigger .*, but the program now has windows with an ev",
            ),
            (
                Job(lambda: windows(GAP).aggregate(Total())),
                "was taken with time windows with their default trigger .*, but the program now has other windows",
            ),
        ],
        ids=["size", "slide", "evictor", "sessions"],
    )
    def test_are_refused(self, after: Job, message: str) -> None:
        with (
            pytest.raises(StateMigrationException, match=f"operator 'operator under test': the checkpoint {message}"),
            self.restore(JOBS["sliding, shared"], after, apart=5),
        ):
            pass

    @pytest.mark.parametrize("name", [name for name in ALIGNED if "tumbling" in name or "sliding" in name])
    def test_a_trigger_is_fine(self, name: str) -> None:
        """The general operator goes on from a checkpoint of aligned windows."""
        job = JOBS[name]
        for seed in range(3):
            parts = fragments_of(steps_of(seed + 20, START if job.by_clock else 0), (2, 3))
            assert stopped(job, parts, general_from=1) == never_stopped(job, parts)

    def test_aligned_ones_after_others(self) -> None:
        message = "was taken with other windows .*, but the program now has time windows with their default trigger"
        with (
            pytest.raises(StateMigrationException, match=message),
            self.restore(JOBS["purged"], JOBS["tumbling, stateful"]),
        ):
            pass

    def test_another_start_is_fine(self) -> None:
        after = Job(lambda: windows(TumblingEventTimeWindows(10, 0), 15).process(Show()))
        with self.restore(JOBS["tumbling, stateful"], after) as harness:
            feed_all(after, harness, ("k0", 99, 15))
            assert [len(elements) for _, elements in feed_all(after, harness, 30)] == [1, 20]


class TestBeforeTheFirstWatermark:
    """What comes right after a restore, when aligned windows know only from their keys how far time had come."""

    def test_a_window_that_has_fired_fires_again_at_once(self) -> None:
        job = JOBS["tumbling, reduced"]
        with job.harness() as harness:
            assert feed_all(job, harness, ("k0", 1, 4), ("k1", 2, 4), 12) == [("k0", 1), ("k1", 2)]
            taken = harness.snapshot()
        with restored(job, taken) as harness:
            assert feed_all(job, harness, ("k2", 4, 4), ("k0", 8, 4)) == [("k0", 9)]
            assert feed_all(job, harness, 12) == [("k2", 4)]

    def test_a_window_of_shared_panes_that_has_fired_fires_again_at_once(self) -> None:
        job = JOBS["sliding, shared"]
        with job.harness() as harness:
            feed_all(job, harness, *[(key, number, number) for number in range(40) for key in ("k0", "k1")])
            assert harness.operator._shared_from <= 10
            feed_all(job, harness, 45)
            taken = harness.snapshot()
        total = sum(range(10, 40))
        with restored(job, taken) as harness:
            assert feed_all(job, harness, ("k2", 4, 15), ("k0", 1000, 15)) == [("k0", total + 1000)]
            assert feed_all(job, harness, 39) == [("k2", 4), ("k2", 4), ("k2", 4)]
            assert feed_all(job, harness, ("k1", 1, 15)) == [("k1", total + 1)]

    def test_a_record_is_late_for_a_window_that_is_over_for_its_key(self) -> None:
        job = JOBS["sliding, shared, no lateness"]
        with job.harness() as harness:
            feed_all(job, harness, *[("k0", number, number) for number in range(40)])
            assert harness.operator._shared_from < float("inf")
            feed_all(job, harness, 29)
            taken = harness.snapshot()
        with restored(job, taken) as harness:
            assert feed_all(job, harness, ("k0", 1000, 20), 29) == []
            assert feed_all(job, harness, 38) == [("k0", sum(range(9, 39)) + 1000)]

    def test_a_clock_that_is_behind_loses_no_record(self) -> None:
        job = JOBS["clock, sliding, shared"]
        with job.harness() as harness:
            feed_all(job, harness, ("k0", 1, 0), START + 500, ("k0", 2, 0))
            taken = harness.snapshot()
        with restored(job, taken) as harness:
            assert feed_all(job, harness, ("k0", 4, 0), START + 1000) == [("k0", [("k0", 6, 2)])] * 3
