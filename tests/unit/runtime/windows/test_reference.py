"""Windows against a slow reference: every record is kept, and each step asks by the definition what fires and with what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintstream.common import Time
from flintstream.common.output_tag import OutputTag
from flintstream.common.typeinfo import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from flintstream.datastream.state import ReducingStateDescriptor
from flintstream.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.windows.aligned import AlignedWindowOperator
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.testing import OneInputOperatorHarness

LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())
EVENT, CLOCK = "event", "clock"
START = 100  # what the clock shows at first

# --- the reference ---


class RefWindow:
    """A window of a key: all its records, what its trigger remembers, and its alarms."""

    def __init__(self, window: Any) -> None:
        self.window = window
        self.records: list[Any] = []
        self.memory: dict[str, Any] = {}
        self.alarms: set[tuple[str, int]] = set()

    @property
    def last(self) -> int:
        return self.window.max_timestamp()  # type: ignore[no-any-return]


class Reference:
    def __init__(self, kind: Kind, model: Model, result: Callable[..., list[Any]], lateness: int) -> None:
        self.kind, self.model, self.result = kind, model, result
        self.lateness = lateness if kind.event_time else 0
        self.windows: dict[str, dict[Any, RefWindow]] = defaultdict(dict)
        self.counts: dict[str, int] = defaultdict(int)
        self.watermark, self.clock = MIN_WATERMARK, START
        self.fired: list[tuple[str, Any, int]] = []
        self.late: list[Any] = []
        self.rang = False

    def over(self, window: Any) -> int:
        return min(window.max_timestamp() + self.lateness, MAX_WATERMARK)  # type: ignore[no-any-return]

    def record(self, value: Any, timestamp: int) -> None:
        key = value[0]
        count = self.counts[key]
        self.counts[key] += 1
        taken = False
        for window in self.kind.windows_of(value, timestamp if self.kind.event_time else self.clock, count):
            held = self.merged(key, window) if self.kind.merges else self.windows[key].get(window) or RefWindow(window)
            if self.kind.event_time and self.over(held.window) <= self.watermark:
                continue
            taken = True
            self.windows[key][held.window] = held
            held.records.append(value)
            decision = self.model.on_record(self, held, value, timestamp)
            self.decide(key, held, decision, timestamp)
        if not taken and self.kind.event_time and timestamp + self.lateness <= self.watermark:
            self.late.append((value, timestamp))

    def merged(self, key: str, window: Any) -> RefWindow:
        """The session that a new one becomes part of."""
        touching = [w for w in self.windows[key].values() if window.intersects(w.window)]
        cover = reduce(lambda left, right: left.cover(right.window), touching, window)
        if [held.window for held in touching] == [cover]:
            return touching[0]
        result = RefWindow(cover)
        for held in touching:
            result.records += held.records
            del self.windows[key][held.window]
        if touching:
            self.model.on_merge(self, result, touching)
        return result

    def decide(self, key: str, held: RefWindow, decision: TriggerResult, time: int) -> None:
        """Results carry the time of the record or alarm that made the window fire: mostly that is its end."""
        fire, purge = decision.value
        if fire and held.records:
            self.fired += [(key, value, time) for value in self.result(key, held.window, held.records)]
        if purge:
            held.records = []

    def records(self, records: list[Any], batch_size: int) -> None:
        for index, (value, timestamp) in enumerate(records):
            if index % batch_size == 0:
                # An alarm may be set for a time that has passed: it rings before the next batch.
                self.ring(CLOCK, self.clock - 1)
            self.record(value, timestamp)

    def move_watermark(self, time: int) -> None:
        if time > self.watermark:
            self.watermark = time
            self.ring(EVENT, time)
        if time == MAX_WATERMARK:
            self.ring(CLOCK, self.clock - 1)

    def move_clock(self, time: int) -> None:
        self.clock = time
        self.ring(CLOCK, time - 1)

    def ring(self, domain: str, until: int) -> None:
        """Rings all alarms up to a time, the earliest first; a window's own end comes behind its trigger's alarm."""
        while True:
            due = []
            for key, windows in self.windows.items():
                for held in windows.values():
                    times = {time for kind, time in held.alarms if kind == domain}
                    if domain == (EVENT if self.kind.event_time else CLOCK) and self.over(held.window) < MAX_WATERMARK:
                        times.add(self.over(held.window))
                    due += [(time, key, held) for time in times if time <= until]
            if not due:
                return
            self.rang = True
            time, key, held = min(due, key=lambda each: each[0])
            held.alarms.discard((domain, time))
            self.decide(key, held, self.model.on_alarm(self, held, domain, time), time)
            if domain == (EVENT if self.kind.event_time else CLOCK) and time == self.over(held.window):
                del self.windows[key][held.window]


# --- assigners, and what windows a record has by definition ---


class Kind:
    def __init__(
        self,
        assigner: Any,
        windows_of: Callable[[Any, int, int], list[Any]],
        merges: bool = False,
        endless: bool = False,
    ) -> None:
        self.assigner, self.windows_of, self.merges, self.endless = assigner, windows_of, merges, endless
        self.event_time = assigner.is_event_time()

    def __repr__(self) -> str:
        return repr(self.assigner)


def spans(size: int, slide: int, offset: int) -> Callable[[Any, int, int], list[Any]]:
    def windows_of(value: Any, time: int, count: int) -> list[Any]:
        starts = [start for start in range(time, time - size, -1) if (start - offset) % slide == 0]
        return [TimeWindow(start, start + size) for start in starts]

    return windows_of


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 + abs(element[1]) % 7


class Mixed(WindowAssigner[Any, TimeWindow]):
    """A short window and, for even values, a long one that starts at the record."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return mixed(element, timestamp, 0)

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def mixed(value: Any, time: int, count: int) -> list[TimeWindow]:
    short = TimeWindow(time // 4 * 4, time // 4 * 4 + 4)
    return [short] if value[1] % 2 else [short, TimeWindow(time, time + 11)]


def counted(size: int, slide: int) -> Callable[[Any, int, int], list[Any]]:
    def windows_of(value: Any, time: int, count: int) -> list[Any]:
        return [CountWindow(n) for n in range(count, -1, -1) if n * slide <= count < n * slide + size]

    return windows_of


SIZES = st.integers(1, 12)


@st.composite
def aligned(draw: Any, event_time: bool) -> Kind:
    size, slide = draw(SIZES), draw(st.one_of(st.none(), SIZES))
    offset = draw(st.integers(1 - (slide or size), (slide or size) - 1))
    if slide is None:
        kind: Any = TumblingEventTimeWindows if event_time else TumblingProcessingTimeWindows
        return Kind(kind(size, offset), spans(size, size, offset))
    kind = SlidingEventTimeWindows if event_time else SlidingProcessingTimeWindows
    return Kind(kind(size, slide, offset), spans(size, slide, offset))


@st.composite
def sessions(draw: Any, event_time: bool) -> Kind:
    kind: Any = EventTimeSessionWindows if event_time else ProcessingTimeSessionWindows
    if draw(st.booleans()):
        dynamic = kind.with_dynamic_gap(Gap())
        return Kind(dynamic, lambda value, time, _: [TimeWindow(time, time + Gap().extract(value))], merges=True)
    gap = draw(st.integers(1, 8))
    static = kind.with_gap(Time.milliseconds(gap))
    return Kind(static, lambda value, time, _: [TimeWindow(time, time + gap)], merges=True)


@st.composite
def counts(draw: Any) -> Kind:
    size, slide = draw(st.integers(1, 5)), draw(st.one_of(st.none(), st.integers(1, 5)))
    if slide is None:
        return Kind(CountTumblingWindowAssigner(size), counted(size, size), endless=True)
    return Kind(CountSlidingWindowAssigner(size, slide), counted(size, slide), endless=True)


GLOBAL = st.just(Kind(GlobalWindows.create(), lambda *_: [GlobalWindow()], endless=True))
MIXED = st.just(Kind(Mixed(), mixed))


# --- triggers, and what they do by definition ---


class Model:
    """What a trigger does: never anything."""

    def __init__(self, trigger: Any) -> None:
        self.trigger = trigger

    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_alarm(self, at: Reference, held: RefWindow, domain: str, time: int) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, at: Reference, held: RefWindow, parts: list[RefWindow]) -> None: ...

    def __repr__(self) -> str:
        return repr(self.trigger)


class AtTheEnd(Model):
    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        if held.last <= at.watermark:
            return TriggerResult.FIRE
        held.alarms.add((EVENT, held.last))
        return TriggerResult.CONTINUE

    def on_alarm(self, at: Reference, held: RefWindow, domain: str, time: int) -> TriggerResult:
        return TriggerResult.FIRE if (domain, time) == (EVENT, held.last) else TriggerResult.CONTINUE

    def on_merge(self, at: Reference, held: RefWindow, parts: list[RefWindow]) -> None:
        if held.last > at.watermark:
            held.alarms.add((EVENT, held.last))


class AtTheEndByClock(Model):
    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        held.alarms.add((CLOCK, held.last))
        return TriggerResult.CONTINUE

    def on_alarm(self, at: Reference, held: RefWindow, domain: str, time: int) -> TriggerResult:
        return TriggerResult.FIRE if domain == CLOCK else TriggerResult.CONTINUE

    def on_merge(self, at: Reference, held: RefWindow, parts: list[RefWindow]) -> None:
        if held.last > at.clock:
            held.alarms.add((CLOCK, held.last))


class Every(Model):
    """CountTrigger."""

    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        held.memory["n"] = held.memory.get("n", 0) + 1
        if held.memory["n"] < self.trigger._window_size:
            return TriggerResult.CONTINUE
        held.memory["n"] = 0
        return TriggerResult.FIRE

    def on_merge(self, at: Reference, held: RefWindow, parts: list[RefWindow]) -> None:
        held.memory["n"] = sum(part.memory.get("n", 0) for part in parts)


class Again(Model):
    """ContinuousEventTimeTrigger, or by the clock."""

    def __init__(self, trigger: Any, domain: str) -> None:
        super().__init__(trigger)
        self.domain = domain

    def next(self, held: RefWindow, time: int) -> None:
        held.memory["next"] = min(time + self.trigger.interval, held.last)
        held.alarms.add((self.domain, held.memory["next"]))

    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        time = timestamp
        if self.domain == CLOCK:
            time = at.clock
        elif held.last <= at.watermark:
            return TriggerResult.FIRE
        else:
            held.alarms.add((EVENT, held.last))
        if held.memory.get("next") is None:
            self.next(held, time // self.trigger.interval * self.trigger.interval)
        return TriggerResult.CONTINUE

    def on_alarm(self, at: Reference, held: RefWindow, domain: str, time: int) -> TriggerResult:
        if domain != self.domain:
            return TriggerResult.CONTINUE
        if domain == EVENT and time == held.last:
            return TriggerResult.FIRE
        if held.memory.get("next") != time:
            return TriggerResult.CONTINUE
        held.memory["next"] = None
        if time < held.last and (held.last < MAX_WATERMARK or domain == CLOCK or at.watermark < MAX_WATERMARK):
            self.next(held, time)
        return TriggerResult.FIRE

    def on_merge(self, at: Reference, held: RefWindow, parts: list[RefWindow]) -> None:
        times = [part.memory["next"] for part in parts if part.memory.get("next") is not None]
        if times:
            held.memory["next"] = min(times)
            held.alarms.add((self.domain, min(times)))


class Jumps(Model):
    """DeltaTrigger, with a threshold of 5."""

    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        last = held.memory.get("last")
        if last is None or abs(value[1] - last[1]) > 5:
            held.memory["last"] = value
        return TriggerResult.CONTINUE if last is None or held.memory["last"] is not value else TriggerResult.FIRE


class Purged(Model):
    def __init__(self, inner: Model) -> None:
        super().__init__(PurgingTrigger.of(inner.trigger))
        self.inner = inner
        self.on_merge = inner.on_merge  # type: ignore[method-assign]

    def on_record(self, *args: Any) -> TriggerResult:
        return self.purged(self.inner.on_record(*args))

    def on_alarm(self, *args: Any) -> TriggerResult:
        return self.purged(self.inner.on_alarm(*args))

    def purged(self, decision: TriggerResult) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if decision is TriggerResult.FIRE else decision


ALL_RESULTS = [TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE]


class Scripted(Trigger[Any, Any]):
    """A user's own: records decide themselves; one millisecond before the end it fires if it saw an odd number of them."""

    seen = ReducingStateDescriptor("seen", lambda left, right: left + right, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(self.seen).add(1)
        if element[1] % 3 == 0:
            ctx.register_event_time_timer(window.max_timestamp() - 1)
        return ALL_RESULTS[element[1] % 4]

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        odd = (ctx.get_partitioned_state(self.seen).get() or 0) % 2
        return TriggerResult.FIRE if odd and time == window.max_timestamp() - 1 else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.seen)
        ctx.register_event_time_timer(window.max_timestamp() - 1)

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.seen).clear()
        ctx.delete_event_time_timer(window.max_timestamp() - 1)

    def __repr__(self) -> str:
        return "Scripted()"


class ScriptedModel(Model):
    def on_record(self, at: Reference, held: RefWindow, value: Any, timestamp: int) -> TriggerResult:
        held.memory["seen"] = held.memory.get("seen", 0) + 1
        if value[1] % 3 == 0:
            held.alarms.add((EVENT, held.last - 1))
        return ALL_RESULTS[value[1] % 4]

    def on_alarm(self, at: Reference, held: RefWindow, domain: str, time: int) -> TriggerResult:
        odd = held.memory.get("seen", 0) % 2
        fires = odd and (domain, time) == (EVENT, held.last - 1)
        return TriggerResult.FIRE if fires else TriggerResult.CONTINUE

    def on_merge(self, at: Reference, held: RefWindow, parts: list[RefWindow]) -> None:
        held.memory["seen"] = sum(part.memory.get("seen", 0) for part in parts)
        held.alarms.add((EVENT, held.last - 1))


def jump(old: Any, new: Any) -> float:
    return abs(new[1] - old[1])


INTERVALS = st.integers(1, 9)
AT_THE_END = st.just(AtTheEnd(EventTimeTrigger()))
AT_THE_END_BY_CLOCK = st.just(AtTheEndByClock(ProcessingTimeTrigger()))
MERGING_MODELS = st.one_of(
    AT_THE_END,
    AT_THE_END_BY_CLOCK,
    st.integers(1, 4).map(lambda n: Every(CountTrigger.of(n))),
    INTERVALS.map(lambda n: Again(ContinuousEventTimeTrigger.of(Time.milliseconds(n)), EVENT)),
    INTERVALS.map(lambda n: Again(ContinuousProcessingTimeTrigger.of(Time.milliseconds(n)), CLOCK)),
    st.just(ScriptedModel(Scripted())),
)
PLAIN_MODELS = st.one_of(MERGING_MODELS, st.just(Jumps(DeltaTrigger.of(5, jump))), st.just(Model(NeverTrigger())))


def models(merging: bool) -> st.SearchStrategy[Model]:
    plain = MERGING_MODELS if merging else PLAIN_MODELS
    return st.one_of(plain, plain.map(Purged))


# --- functions, and what they give by definition ---


class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ("", 0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], accumulator[1] + value[1], accumulator[2] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return (*accumulator, "total")

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        assert acc_a[0] == acc_b[0]
        return (acc_a[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2])


class Show(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, context.window(), sorted(elements)


class ShowApplied(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, window, sorted(inputs)), (key, "end")]


class Function:
    def __init__(self, name: str, call: Callable[[Any], Any], result: Callable[..., list[Any]]) -> None:
        self.name, self.call, self.result = name, call, result

    def __repr__(self) -> str:
        return self.name


def plus(left: Any, right: Any) -> Any:
    return (left[0], left[1] + right[1])


def total(records: list[Any]) -> Any:
    return sum(value for _, value in records)


REDUCE = Function("reduce", lambda w: w.reduce(plus), lambda k, w, records: [(k, total(records))])
AGGREGATE = Function(
    "aggregate", lambda w: w.aggregate(Total()), lambda k, w, records: [(k, total(records), len(records), "total")]
)
FOLD = Function(
    "fold",
    lambda w: w.fold(("", 7), lambda acc, value: (value[0], acc[1] + value[1])),
    lambda k, w, records: [(k, 7 + total(records))],
)
PROCESS = Function("process", lambda w: w.process(Show()), lambda k, w, records: [(k, w, sorted(records))])
APPLY = Function("apply", lambda w: w.apply(ShowApplied()), lambda k, w, records: [(k, w, sorted(records)), (k, "end")])
REDUCE_PROCESS = Function(
    "reduce, process", lambda w: w.reduce(plus, Show()), lambda k, w, records: [(k, w, [(k, total(records))])]
)
AGGREGATE_APPLY = Function(
    "aggregate, apply",
    lambda w: w.aggregate(Total(), ShowApplied()),
    lambda k, w, records: [(k, w, [(k, total(records), len(records), "total")]), (k, "end")],
)
SHARED_REDUCE = Function("reduce, mergeable", lambda w: w.reduce(plus, mergeable=True), REDUCE.result)
SHARED_AGGREGATE = Function("aggregate, mergeable", lambda w: w.aggregate(Total(), mergeable=True), AGGREGATE.result)
FUNCTIONS = [REDUCE, AGGREGATE, FOLD, PROCESS, APPLY, REDUCE_PROCESS, AGGREGATE_APPLY, SHARED_REDUCE, SHARED_AGGREGATE]


# --- runs ---

RECORDS = st.lists(
    st.tuples(st.tuples(st.sampled_from("abc"), st.integers(-4, 20)), st.integers(-30, 60)), min_size=1, max_size=6
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("records"), RECORDS),
        st.tuples(st.just("watermark"), st.integers(-35, 80)),
        st.tuples(st.just("clock"), st.integers(0, 12)),
        st.tuples(st.just("again"), st.just(0)),
    ),
    max_size=14,
)
LATENESS = st.one_of(st.just(0), st.integers(1, 25))


def operator_for(kind: Kind, model: Model, function: Function, lateness: int, general: bool = False) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    windows = env.from_collection([("a", 1)]).key_by(lambda value: value[0]).window(kind.assigner)
    windows = windows.trigger(model.trigger).allowed_lateness(lateness).side_output_late_data(LATE)
    operator = function.call(windows)._transformation.operator
    return WindowOperator(operator.function) if general else operator


def open_harness(make: Callable[[], Any], snapshots: Any, clock: int, **options: Any) -> OneInputOperatorHarness:
    harness = OneInputOperatorHarness(make(), lambda value: value[0], processing_time=clock, **options)
    if snapshots:
        harness.restore(*snapshots)
    harness.open()
    return harness


def check(make: Callable[[], Any], reference: Reference, steps: Any, **options: Any) -> None:
    """Feeds the same to both and compares after each step, key by key."""
    harness = open_harness(make, None, START, **options)
    for step, argument in [*steps, ("watermark", MAX_WATERMARK)]:
        reference.rang = False
        harness = feed(make, harness, reference, step, argument, options)
        for key in "abc":
            found = [result for result in harness.output_with_timestamps if result[0][0] == key]
            wanted = [(value, timestamp) for owner, value, timestamp in reference.fired if owner == key]
            if reference.rang:
                # Windows that are due at the same moment may come in any order.
                found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
            assert found == wanted, (step, argument, key)
        assert len(harness.output) == len(reference.fired)
        assert harness.side_output_with_timestamps(LATE) == reference.late
        harness.clear_output()
        reference.fired.clear()
        reference.late.clear()
    check_empty(harness, reference)
    harness.close()


def feed(make: Any, harness: Any, reference: Reference, step: str, argument: Any, options: Any) -> Any:
    if step == "records":
        reference.records(argument, options.get("batch_size", 100))
        harness.process_elements([value for value, _ in argument], [timestamp for _, timestamp in argument])
    elif step == "watermark":
        reference.move_watermark(argument)
        harness.process_watermark(argument)
    elif step == "clock":
        reference.move_clock(reference.clock + argument)
        harness.set_processing_time(reference.clock)
    else:
        taken = harness.snapshot()
        harness.close()
        harness = open_harness(make, [taken], reference.clock, **options)
        harness.process_watermark(reference.watermark)
        # Alarms that were set for a time that had passed.
        reference.ring(EVENT, reference.watermark)
    return harness


def check_empty(harness: OneInputOperatorHarness, reference: Reference) -> None:
    """Nothing is left of windows that are over."""
    if reference.kind.endless or not reference.kind.event_time:
        return
    operator: Any = harness.operator
    assert harness.event_time_timers == []
    for name, table in operator.context.keyed_state._tables.items():
        assert not table, name
    if isinstance(operator, AlignedWindowOperator):
        assert not operator._known
        assert not operator._windows
        assert not operator._panes.cells


slow = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def run(data: Any, kind: Kind, model: Model, function: Function, general: bool = False, **options: Any) -> None:
    lateness, steps = data.draw(LATENESS, "lateness"), data.draw(STEPS, "steps")
    reference = Reference(kind, model, function.result, lateness)
    check(lambda: operator_for(kind, model, function, lateness, general), reference, steps, **options)


BATCHES = st.sampled_from([{}, {"batch_size": 1}, {"batch_size": 3, "through_blocks": True}])


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
class TestTimeWindows:
    @slow
    @given(data=st.data(), options=BATCHES)
    def test_that_fire_at_their_end(self, data: Any, function: Function, general: bool, options: Any) -> None:
        event_time = data.draw(st.booleans())
        model = data.draw(AT_THE_END if event_time else AT_THE_END_BY_CLOCK)
        run(data, data.draw(aligned(event_time), "windows"), model, function, general, **options)


@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
class TestAllKinds:
    @slow
    @given(data=st.data(), options=BATCHES)
    def test_with_any_trigger(self, data: Any, function: Function, options: Any) -> None:
        kinds = st.one_of(aligned(True), aligned(False), counts(), GLOBAL, MIXED)
        run(data, data.draw(kinds, "windows"), data.draw(models(False), "trigger"), function, **options)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not FOLD], ids=repr)
class TestSessions:
    @slow
    @given(data=st.data(), options=BATCHES)
    def test_by_event_time(self, data: Any, function: Function, options: Any) -> None:
        run(data, data.draw(sessions(True), "windows"), data.draw(models(True), "trigger"), function, **options)

    @slow
    @given(data=st.data(), options=BATCHES)
    def test_by_the_clock(self, data: Any, function: Function, options: Any) -> None:
        run(data, data.draw(sessions(False), "windows"), data.draw(models(True), "trigger"), function, **options)


@given(data=st.data(), kind=counts())
def test_count_windows_by_default(data: Any, kind: Kind) -> None:
    model = Purged(Every(CountTrigger.of(kind.assigner._window_size)))
    run(data, kind, model, PROCESS)
