"""Triggers, evictors, state, lateness, sessions and checkpoints of windows, case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.aggregates import SumOfSecond

from flintstream.common import Time
from flintstream.common.output_tag import OutputTag
from flintstream.common.typeinfo import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.runtime.windows.base import LATE_RECORDS
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.testing import OneInputOperatorHarness

pytestmark = pytest.mark.usefixtures("state_backend")

LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())
SIDE = OutputTag("side", Types.PICKLED_BYTE_ARRAY())
TEN = TumblingEventTimeWindows(10, 0)
GAP = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


def first(value: Any) -> Any:
    return value[0]


def windows(assigner: Any) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)]).key_by(first).window(assigner)


def harness_for(stream: Any, general: bool = False, **options: Any) -> OneInputOperatorHarness:
    operator = stream._transformation.operator
    return OneInputOperatorHarness(WindowOperator(operator.function) if general else operator, first, **options)


def feed(harness: OneInputOperatorHarness, *records: Any) -> list[Any]:
    """Feeds `(key, value, timestamp)`; a number is a watermark. Returns what came out since the last time."""
    for record in records:
        if isinstance(record, int):
            harness.process_watermark(record)
        else:
            harness.process_element(record[:2], record[2])
    found = harness.output
    harness.clear_output()
    return found


def left_over(harness: OneInputOperatorHarness) -> dict[str, Any]:
    """All that the operator still has stored, but for what the functions keep of a key."""
    operator: Any = harness.operator
    tables = {name: dict(table) for name, table in operator.context.keyed_state._tables.items() if table}
    timers = {"event": harness.event_time_timers, "processing": harness.processing_time_timers}
    return tables | {name: found for name, found in timers.items() if found}


class Show(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        bounds = (window.start, window.end) if isinstance(window, TimeWindow) else ()
        yield key, *bounds, [value for _, value in elements]


class Told(Trigger[Any, Any]):
    """Does what records say, and writes down each call."""

    calls: list[Any] = []

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        return getattr(TriggerResult, element[1])  # type: ignore[no-any-return]

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        self.calls.append(("time", time, window))
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        self.calls.append(("merge", window))

    def clear(self, window: Any, ctx: Any) -> None:
        self.calls.append(("clear", window))


class TestTriggers:
    @pytest.fixture(autouse=True)
    def _fresh(self) -> None:
        Told.calls.clear()

    def test_the_four_results(self) -> None:
        with harness_for(windows(TEN).trigger(Told()).process(Show())) as harness:
            assert feed(harness, ("a", "CONTINUE", 1)) == []
            assert feed(harness, ("a", "FIRE", 2)) == [("a", 0, 10, ["CONTINUE", "FIRE"])]
            assert feed(harness, ("a", "FIRE_AND_PURGE", 3)) == [("a", 0, 10, ["CONTINUE", "FIRE", "FIRE_AND_PURGE"])]
            assert feed(harness, ("a", "CONTINUE", 4), ("a", "PURGE", 5)) == []
            assert feed(harness, ("a", "FIRE", 6)) == [("a", 0, 10, ["FIRE"])]
            assert feed(harness, 9) == []
            operator: Any = harness.operator
            assert operator._spec.trigger.calls == [("time", 9, TimeWindow(0, 10)), ("clear", TimeWindow(0, 10))]
            assert left_over(harness) == {}

    def test_a_purged_window_is_still_cleared(self) -> None:
        with harness_for(windows(TEN).trigger(Told()).process(Show())) as harness:
            feed(harness, ("a", "PURGE", 1))
            assert harness.event_time_timers
            feed(harness, 9)
            assert left_over(harness) == {}

    def test_merging(self) -> None:
        with harness_for(windows(GAP).trigger(Told()).process(Show())) as harness:
            feed(harness, ("a", "CONTINUE", 0), ("a", "CONTINUE", 15), ("b", "CONTINUE", 5))
            assert feed(harness, ("a", "FIRE", 8)) == [("a", 0, 25, ["CONTINUE", "CONTINUE", "FIRE"])]
            operator: Any = harness.operator
            calls = operator._spec.trigger.calls
            assert calls[0] == ("merge", TimeWindow(0, 25))
            assert sorted(calls[1:]) == [("clear", TimeWindow(0, 10)), ("clear", TimeWindow(15, 25))]
            # Within its session: nothing merges.
            assert feed(harness, ("a", "CONTINUE", 3)) == []
            assert len(calls) == 3
            feed(harness, 100)
            assert left_over(harness) == {}

    @pytest.mark.parametrize(
        ("descriptor", "add", "shown"),
        [
            (ListStateDescriptor("kept", Types.INT()), lambda s, v: s.add(v), lambda s: sorted(s.get())),
            (ReducingStateDescriptor("kept", max, Types.INT()), lambda s, v: s.add(v), lambda s: s.get()),
        ],
        ids=["list", "reducing"],
    )
    def test_state_and_timers_of_merging_windows(self, descriptor: Any, add: Any, shown: Any) -> None:
        class Keeps(Told):
            def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
                add(ctx.get_partitioned_state(descriptor), element[1])
                ctx.register_event_time_timer(window.end + 3)
                return TriggerResult.CONTINUE

            def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
                self.calls.append((time, shown(ctx.get_partitioned_state(descriptor))))
                return TriggerResult.FIRE if time == window.end + 3 else TriggerResult.CONTINUE

            def on_merge(self, window: Any, ctx: Any) -> None:
                ctx.merge_partitioned_state(descriptor)
                ctx.register_event_time_timer(window.end + 3)

            def clear(self, window: Any, ctx: Any) -> None:
                ctx.get_partitioned_state(descriptor).clear()
                ctx.delete_event_time_timer(window.end + 3)

        stream = windows(GAP).allowed_lateness(50).trigger(Keeps()).process(Show())
        with harness_for(stream) as harness:
            assert feed(harness, ("a", 1, 0), ("a", 3, 15), ("a", 2, 8), ("b", 9, 0), 27) == [("b", 0, 10, [9])]
            assert feed(harness, 28) == [("a", 0, 25, [1, 3, 2])]
            operator: Any = harness.operator
            both = [1, 2, 3] if isinstance(descriptor, ListStateDescriptor) else 3
            assert operator._spec.trigger.calls[-1] == (28, both)
            feed(harness, 200)
            assert left_over(harness) == {}

    @pytest.mark.parametrize(
        "descriptor", [ValueStateDescriptor("kept", Types.INT()), MapStateDescriptor("kept", Types.INT(), Types.INT())]
    )
    def test_state_that_cannot_be_merged(self, descriptor: Any) -> None:
        class Keeps(Told):
            def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
                state = ctx.get_partitioned_state(descriptor)
                if isinstance(descriptor, ValueStateDescriptor):
                    state.update(1)
                else:
                    state.put(1, 1)
                return TriggerResult.CONTINUE

            def on_merge(self, window: Any, ctx: Any) -> None:
                ctx.merge_partitioned_state(descriptor)

        with harness_for(windows(GAP).trigger(Keeps()).process(Show()), name="mine") as harness:
            feed(harness, ("a", 1, 0), ("a", 1, 15))
            with pytest.raises(
                Exception, match="operator 'mine': state 'kept' is a (value|map) state, which cannot be"
            ):
                feed(harness, ("a", 1, 8))

    def test_a_continuous_trigger_ends_with_the_stream(self) -> None:
        trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(10))
        with harness_for(windows(GlobalWindows.create()).trigger(trigger).process(Show())) as harness:
            assert feed(harness, ("a", 1, 3), 9) == []
            assert feed(harness, 10, ("a", 2, 12), 25) == [("a", [1]), ("a", [1, 2])]
            harness.end_input()
            assert feed(harness) == [("a", [1, 2])] * 2

    def test_a_continuous_trigger_by_the_clock_behind_the_end(self) -> None:
        trigger = ContinuousProcessingTimeTrigger.of(Time.milliseconds(10))
        with harness_for(windows(TEN).trigger(trigger).process(Show()), processing_time=1000) as harness:
            feed(harness, ("a", 1, 3))
            harness.set_processing_time(1005)
            assert feed(harness) == [("a", 0, 10, [1])]
            harness.set_processing_time(2000)
            assert feed(harness, 9) == []
            assert left_over(harness) == {}

    @pytest.mark.parametrize("trigger", [ContinuousEventTimeTrigger(10), ContinuousProcessingTimeTrigger(10)])
    def test_continuous_triggers_in_batch_mode(self, trigger: Any) -> None:
        """Timers that fire at the end of a key set no others, as in Flink."""
        stream = windows(GlobalWindows.create()).trigger(trigger).process(Show())
        with harness_for(stream, batch_mode=True, processing_time=1000) as harness:
            harness.process_elements([("a", 1), ("b", 2), ("a", 3)], [5, 17, 32])
            harness.end_input()
            assert {tuple(map(str, found)) for found in harness.output} == {("a", "[1, 3]"), ("b", "[2]")}

    def test_a_purging_trigger_on_sessions(self) -> None:
        trigger: Any = PurgingTrigger.of(CountTrigger.of(2))
        with harness_for(windows(GAP).trigger(trigger).process(Show())) as harness:
            assert feed(harness, ("a", 1, 0), ("a", 2, 5)) == [("a", 0, 15, [1, 2])]
            assert feed(harness, ("a", 3, 30), ("a", 4, 14)) == []
            # Two sessions with a record each become one.
            assert sorted(feed(harness, ("a", 5, 21))[0][3]) == [3, 4, 5]
            feed(harness, 100)
            assert left_over(harness) == {}


class TestEvictors:
    def run(self, evictor: Any, call: Callable[[Any], Any], *records: Any) -> list[Any]:
        stream = call(windows(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(evictor))
        with harness_for(stream) as harness:
            return feed(harness, *records)

    RECORDS = (("a", 1, 1), ("a", 2, 2), ("a", 3, 30), ("a", 4, 31), ("a", 9, 32), ("a", 5, 33))

    @pytest.mark.parametrize(
        ("evictor", "expected"),
        [
            (CountEvictor.of(3), [[1, 2], [2, 3, 4], [4, 9, 5]]),
            (CountEvictor.of(1, True), [[1, 2], [2, 3, 4], [4, 9, 5]]),
            (TimeEvictor.of(Time.milliseconds(2)), [[1, 2], [3, 4], [9, 5]]),
            (TimeEvictor.of(Time.milliseconds(2), True), [[1, 2], [1, 2, 3, 4], [3, 4, 9, 5]]),
            (DeltaEvictor.of(3, lambda old, new: abs(new[1] - old[1])), [[1, 2], [2, 3, 4], [3, 4, 5]]),
            (CountEvictor.of(0), [[], [], []]),
        ],
    )
    def test_before_and_after(self, evictor: Any, expected: Any) -> None:
        found = self.run(evictor, lambda made: made.process(Show()), *self.RECORDS)
        assert found == [("a", values) for values in expected]

    def test_reducing_what_is_left(self) -> None:
        def plus(left: Any, right: Any) -> Any:
            return (left[0], left[1] + right[1])

        found = self.run(CountEvictor.of(3), lambda made: made.reduce(plus), *self.RECORDS)
        assert found == [("a", 3), ("a", 9), ("a", 18)]
        found = self.run(CountEvictor.of(3), lambda made: made.reduce(plus, Show()), *self.RECORDS)
        assert found == [("a", [3]), ("a", [9]), ("a", [18])]
        found = self.run(CountEvictor.of(3), lambda made: made.aggregate(SumOfSecond()), *self.RECORDS)
        assert found == [3, 9, 18]

    def test_where_no_record_is_left(self) -> None:
        """A function is called all the same, with what an aggregate function or fold starts with."""

        def run(call: Any) -> list[Any]:
            return self.run(CountEvictor.of(0), call, *self.RECORDS[:3])

        assert run(lambda made: made.process(Show())) == [("a", [])]
        assert run(lambda made: made.aggregate(SumOfSecond())) == [0]
        assert run(lambda made: made.fold(7, max)) == [7]
        assert run(lambda made: made.reduce(max)) == []

    def test_ones_own(self) -> None:
        class Own(Evictor[Any, Any]):
            def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
                assert len(elements) == size
                assert ctx.get_current_processing_time() > 0
                assert ctx.get_current_watermark() < 0
                ctx.get_metric_group().counter("evictions").inc()
                return [(value, time) for value, time in elements if value[1] % 2 == 0]

            def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
                assert len(elements) == size
                elements.clear()
                return elements

        assert self.run(Own(), lambda made: made.process(Show()), *self.RECORDS) == [("a", [2]), ("a", [4]), ("a", [])]

    def test_on_sessions_that_merge(self) -> None:
        with harness_for(windows(GAP).evictor(CountEvictor.of(2)).process(Show())) as harness:
            feed(harness, ("a", 1, 0), ("a", 2, 18), ("a", 3, 9))
            assert feed(harness, 50) == [("a", 0, 28, [2, 3])]
            assert left_over(harness) == {}


class TotalOver(SumOfSecond):
    """None, as long as the total is not greater than three."""

    def get_result(self, accumulator: Any) -> Any:
        return accumulator if accumulator > 3 else None


class Elements(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, list(elements)


class TestNone:
    """What comes to None is no result, and the window function is not called for it."""

    RECORDS = (("a", 1, 0), ("b", 2, 1), ("a", 1, 2), ("b", 2, 3))

    @pytest.mark.parametrize("general", [False, True])
    @pytest.mark.parametrize("assigner", [TEN, SlidingEventTimeWindows(10, 10, 0)])
    def test_of_an_aggregate(self, assigner: Any, general: bool) -> None:
        with harness_for(windows(assigner).aggregate(TotalOver()), general) as harness:
            assert feed(harness, *self.RECORDS, 9) == [4]
        made = windows(assigner).allowed_lateness(10).aggregate(TotalOver(), Elements())
        with harness_for(made, general) as harness:
            assert feed(harness, *self.RECORDS, 9) == [("b", [4])]
            assert feed(harness, ("a", 1, 5)) == []
            assert feed(harness, ("a", 5, 6)) == [("a", [8])]

    @pytest.mark.parametrize("general", [False, True])
    def test_of_a_reduce_which_starts_again_behind_it(self, general: bool) -> None:
        made = windows(TEN).reduce(lambda left, right: (left[0], left[1] + right[1]) if left[0] == "b" else None)
        with harness_for(made, general) as harness:
            assert feed(harness, *self.RECORDS, 9) == [("b", 4)]
            assert feed(harness, ("a", 1, 10), ("a", 2, 11), ("a", 3, 12), 19) == [("a", 3)]

    def test_of_a_fold(self) -> None:
        made = windows(TEN).fold(0, lambda total, value: total + value[1] if value[0] == "b" else None)
        with harness_for(made) as harness:
            assert feed(harness, ("a", 1, 0), ("b", 2, 1), ("b", 2, 3), 9) == [4]

    def test_of_records_that_an_evictor_has_left(self) -> None:
        made = windows(TEN).evictor(CountEvictor.of(1)).aggregate(TotalOver(), Elements())
        with harness_for(made) as harness:
            assert feed(harness, ("a", 3, 0), ("b", 3, 1), ("b", 4, 2), 9) == [("b", [4])]


class Stateful(ProcessWindowFunction):
    """Counts firings of the window and of the key, in all kinds of state."""

    def states(self, store: Any) -> list[Any]:
        return [
            store.get_state(ValueStateDescriptor("v", Types.INT())),
            store.get_list_state(ListStateDescriptor("l", Types.INT())),
            store.get_map_state(MapStateDescriptor("m", Types.INT(), Types.INT())),
            store.get_reducing_state(ReducingStateDescriptor("r", lambda left, right: left + right, Types.INT())),
            store.get_aggregating_state(AggregatingStateDescriptor("g", SumOfSecond(), Types.INT())),
        ]

    def open(self, runtime_context: Any) -> None:
        self.states(runtime_context)
        runtime_context.get_state(ValueStateDescriptor("cleared", Types.INT()))

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        found = []
        for store in (context.window_state(), context.global_state()):
            value, items, entries, reduced, aggregated = self.states(store)
            value.update((value.value() or 0) + 1)
            items.add(1)
            entries.put(len(list(entries.keys())), 1)
            reduced.add(1)
            aggregated.add((key, 1))
            counts = {value.value(), len(list(items.get())), len(list(entries.keys())), reduced.get(), aggregated.get()}
            assert len(counts) == 1
            found += counts
        yield key, context.window().start, *found, context.current_watermark()

    def clear(self, context: Any) -> None:
        for state in self.states(context.window_state()):
            state.clear()
        cleared = context.global_state().get_state(ValueStateDescriptor("cleared", Types.INT()))
        cleared.update((cleared.value() or 0) + 1)


@pytest.mark.parametrize("general", [False, True])
class TestState:
    @pytest.mark.parametrize("reduced", [False, True])
    @pytest.mark.parametrize("assigner", [TEN, SlidingEventTimeWindows(10, 5, 0)], ids=repr)
    def test_of_the_window_and_of_the_key(self, assigner: Any, reduced: bool, general: bool) -> None:
        made = windows(assigner).allowed_lateness(20)
        stream = made.aggregate(SumOfSecond(), Stateful()) if reduced else made.process(Stateful())
        with harness_for(stream, general) as harness:
            found = feed(harness, ("a", 1, 5), ("b", 1, 6), ("a", 2, 12), ("a", 7, 7), 9)
            starts = [start for start in (-5, 0) if start % assigner._size == 0 or assigner is not TEN]
            assert [result for result in found if result[0] == "b"] == [
                ("b", start, 1, number + 1, 9) for number, start in enumerate(starts[-1:])
            ]
            feed(harness, ("a", 3, 8), ("a", 4, 8))
            again = feed(harness, ("a", 5, 9))
            assert again[0][:3] == ("a", 0, 4)
            assert any(name.startswith("_window:") for name in left_over(harness))
            feed(harness, 1000)
            tables = left_over(harness)
            assert set(tables) == {"v", "l", "m", "r", "g", "cleared"}
            assert tables["cleared"] == ({"a": 2, "b": 1} if assigner is TEN else {"a": 3, "b": 2})

    def test_side_outputs(self, general: bool) -> None:
        class Aside(ProcessWindowFunction):
            def process(self, key: Any, context: Any, elements: Any) -> Any:
                yield SIDE, (key, len(elements))
                yield key

        with harness_for(windows(TEN).process(Aside()), general) as harness:
            assert feed(harness, ("a", 1, 1), ("b", 1, 2), ("a", 1, 3)) == []
            harness.process_watermark(9)
            assert harness.output == ["a", "b"]
            assert harness.side_output_with_timestamps(SIDE) == [(("a", 2), 9), (("b", 1), 9)]

    def test_functions_that_give_nothing_and_change_what_they_get(self, general: bool) -> None:
        class Rough(ProcessWindowFunction):
            def process(self, key: Any, context: Any, elements: Any) -> Any:
                if len(elements) == 1:
                    return None
                elements.sort(reverse=True)
                found = list(elements)
                elements.clear()
                return [found]

        with harness_for(windows(TEN).allowed_lateness(10).process(Rough()), general) as harness:
            assert feed(harness, ("a", 1, 1), 9) == []
            assert feed(harness, ("a", 2, 1)) == [[("a", 2), ("a", 1)]]
            assert feed(harness, ("a", 0, 1)) == [[("a", 2), ("a", 1), ("a", 0)]]

    def test_results_that_are_changed_later(self, general: bool) -> None:
        """A result stays as it was when it was emitted."""

        class Lists(SumOfSecond):
            def create_accumulator(self) -> Any:
                return []

            def add(self, value: Any, accumulator: Any) -> Any:
                accumulator.append(value[1])
                return accumulator

        with harness_for(windows(TEN).allowed_lateness(10).aggregate(Lists()), general) as harness:
            harness.process_element(("a", 1), 1)
            harness.process_watermark(9)
            harness.process_elements([("a", 2), ("a", 3)], [2, 3])
            assert harness.output == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("general", [False, True])
class TestFields:
    """Aggregates of one field."""

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            (lambda made: made.sum(1), ("a", 9, "x")),
            (lambda made: made.min(1), ("a", 1, "x")),
            (lambda made: made.max(1), ("a", 5, "x")),
            (lambda made: made.min_by(1), ("a", 1, "y")),
            (lambda made: made.max_by(1), ("a", 5, "z")),
        ],
    )
    def test_aggregates(self, general: bool, call: Callable[[Any], Any], expected: Any) -> None:
        with harness_for(call(windows(TEN)), general) as harness:
            records = [("a", 3, "x"), ("a", 1, "y"), ("a", 5, "z"), ("a", 0, "late")]
            harness.process_elements(records, [1, 2, 3, 11])
            harness.process_watermark(9)
            assert harness.output == [expected]

    def test_a_wrong_field(self, general: bool) -> None:
        with pytest.raises(
            TypeError, match=r"max: the field must be a position \(int\) or a field name \(str\), got 1.5"
        ):
            windows(TEN).max(1.5)


@pytest.mark.parametrize("general", [False, True])
class TestLateness:
    def test_refires_until_it_is_over(self, general: bool) -> None:
        stream = windows(TEN).allowed_lateness(5).side_output_late_data(LATE).process(Show())
        with harness_for(stream, general) as harness:
            assert feed(harness, ("a", 1, 1), 8) == []
            assert feed(harness, 9) == [("a", 0, 10, [1])]
            assert feed(harness, ("a", 2, 2), ("b", 3, 3)) == [("a", 0, 10, [1, 2]), ("b", 0, 10, [3])]
            assert feed(harness, 13, ("a", 4, 4)) == [("a", 0, 10, [1, 2, 4])]
            harness.process_watermark(14)
            harness.process_element(("a", 5), 5)
            assert harness.output == []
            assert harness.side_output_with_timestamps(LATE) == [(("a", 5), 5)]
            assert left_over(harness) == {}

    def test_a_first_record_that_is_late_already(self, general: bool) -> None:
        stream = windows(TEN).allowed_lateness(5).process(Show())
        with harness_for(stream, general) as harness:
            assert feed(harness, 12, ("a", 1, 1)) == [("a", 0, 10, [1])]
            assert feed(harness, 14, 100) == []
            assert left_over(harness) == {}

    def test_dropped_records_are_counted(self, general: bool) -> None:
        with harness_for(windows(TEN).process(Show()), general) as harness:
            feed(harness, 9, ("a", 1, 1), ("a", 1, 10), ("a", 1, 9))
            counter = harness.operator.context.runtime_context.get_metrics_group().counter(LATE_RECORDS)
            assert counter.get_count() == 2

    def test_late_for_some_windows_only(self, general: bool) -> None:
        stream = windows(SlidingEventTimeWindows(20, 10, 0)).side_output_late_data(LATE).process(Show())
        with harness_for(stream, general) as harness:
            feed(harness, 15, ("a", 1, 5))
            assert feed(harness, ("a", 2, 12), 19) == [("a", 0, 20, [1, 2])]
            assert feed(harness, ("a", 3, 5), 100) == [("a", 10, 30, [2])]
            harness.process_element(("a", 3), 5)
            assert harness.side_output(LATE) == [("a", 3)]

    def test_between_two_windows_nobody_is_late_unless_by_time(self, general: bool) -> None:
        stream = windows(SlidingEventTimeWindows(2, 10, 0)).allowed_lateness(3).side_output_late_data(LATE)
        with harness_for(stream.process(Show()), general) as harness:
            harness.process_elements([("a", 1), ("a", 2)], [5, 15])
            harness.process_watermark(9)
            harness.process_elements([("a", 3), ("a", 4), ("a", 5)], [6, 7, 15])
            assert harness.side_output(LATE) == [("a", 3)]
            harness.process_watermark(MAX_WATERMARK)
            assert harness.output == []
            assert left_over(harness) == {}

    def test_endless(self, general: bool) -> None:
        stream = windows(TEN).allowed_lateness(2**63).process(Show())
        with harness_for(stream, general) as harness:
            assert feed(harness, ("a", 1, 1), 10**12, ("a", 2, 1)) == [("a", 0, 10, [1]), ("a", 0, 10, [1, 2])]


class TestSessions:
    def test_a_late_record_that_joins_two(self) -> None:
        stream = windows(GAP).allowed_lateness(100).side_output_late_data(LATE).process(Show())
        with harness_for(stream) as harness:
            feed(harness, ("a", 1, 0), ("a", 2, 15), ("b", 9, 0))
            assert sorted(feed(harness, 24)) == [("a", 0, 10, [1]), ("a", 15, 25, [2]), ("b", 0, 10, [9])]
            assert feed(harness, ("a", 3, 8)) == [("a", 0, 25, [1, 2, 3])]
            assert feed(harness, ("a", 4, 30)) == []
            assert feed(harness, ("a", 5, 24)) == []
            assert feed(harness, 39) == [("a", 0, 40, [1, 2, 3, 4, 5])]
            feed(harness, 138)
            assert list(left_over(harness)["_windows"]) == ["a"]
            feed(harness, 139)
            assert left_over(harness) == {}

    def test_a_session_that_is_over_takes_no_part(self) -> None:
        stream = windows(GAP).allowed_lateness(5).side_output_late_data(LATE).process(Show())
        with harness_for(stream) as harness:
            assert feed(harness, ("a", 1, 0), 9) == [("a", 0, 10, [1])]
            # Its own session would be over, but it reaches one that is not.
            assert feed(harness, 13, ("a", 2, -8)) == [("a", -8, 10, [1, 2])]
            feed(harness, 14, ("a", 3, 10))
            assert feed(harness, 19) == [("a", 10, 20, [3])]
            harness.process_element(("a", 4), -50)
            assert harness.side_output(LATE) == [("a", 4)]

    def test_a_window_equal_to_a_merged_one(self) -> None:
        """Its contents are kept under another name."""

        class Gaps(EventTimeSessionWindows[Any]):
            def _gap(self, element: Any) -> int:
                return int(element[1])

        with harness_for(windows(Gaps(1)).process(Show())) as harness:
            feed(harness, ("a", 5, 0), ("a", 10, 3), ("a", 13, 0), ("a", 2, 4))
            assert feed(harness, 12) == [("a", 0, 13, [5, 10, 13, 2])]
            assert left_over(harness) == {}

    def test_by_the_clock(self) -> None:
        stream = windows(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(10))).process(Show())
        with harness_for(stream, processing_time=100) as harness:
            harness.process_element(("a", 1))
            harness.set_processing_time(109)
            harness.process_element(("a", 2))
            harness.set_processing_time(118)
            assert harness.output == []
            harness.set_processing_time(119)
            assert harness.output == [("a", 100, 119, [1, 2])]
            assert left_over(harness) == {}

    def test_a_gap_of_a_millisecond_and_a_clock_that_goes_on_within_a_batch(self) -> None:
        stream = windows(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(1))).process(Show())
        harness = harness_for(stream, processing_time=100)
        times = iter(range(100, 200))
        harness._clock = lambda: next(times)  # type: ignore[method-assign]
        harness._services.clock = harness._clock
        with harness:
            harness.process_elements([("a", n) for n in range(3)])
            harness.end_epoch()
            harness.end_epoch()
            assert [value for *_, values in harness.output for value in values] == [0, 1, 2]


class TestAllRecords:
    def harness(self, stream: Any) -> OneInputOperatorHarness:
        transformation = stream._transformation
        assert transformation.parallelism == 1
        selector = transformation.inputs[0].partitioner.key_selector if hasattr(transformation, "inputs") else None
        return OneInputOperatorHarness(transformation.operator, selector or (lambda value: 0))

    def test_functions(self) -> None:
        class Size(AllWindowFunction):
            def apply(self, window: Any, inputs: Any) -> Any:
                yield window.start, len(inputs)

        class Last(ProcessAllWindowFunction):
            def process(self, context: Any, elements: Any) -> Any:
                yield context.window().end, elements[-1]

        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(4)
        source = env.from_collection([("a", 1)])
        for stream, expected in [
            (source.window_all(TEN).apply(Size()), [(0, 2), (10, 1)]),
            (source.window_all(TEN).process(Last()), [(10, ("b", 2)), (20, ("c", 3))]),
            (source.window_all(TEN).aggregate(SumOfSecond(), Size()), [(0, 1), (10, 1)]),
            (source.window_all(TEN).aggregate(SumOfSecond()), [3, 3]),
        ]:
            with self.harness(stream) as harness:
                assert feed(harness, ("a", 1, 1), ("b", 2, 2), ("c", 3, 13), 30) == expected


class TestTheEndOfTheInput:
    @pytest.mark.parametrize("batch_mode", [False, True])
    def test_fires_global_windows(self, batch_mode: bool) -> None:
        stream = windows(GlobalWindows.create_with_end_of_stream_trigger()).process(Show())
        with harness_for(stream, batch_mode=batch_mode) as harness:
            harness.process_elements([("a", 1), ("b", 2), ("a", 3)], [1, 2, 3])
            harness.process_watermark(10**15)
            assert harness.output == []
            harness.end_input()
            assert sorted(harness.output) == [("a", [1, 3]), ("b", [2])]
            assert left_over(harness) == {}

    def test_is_known_after_a_restore(self) -> None:
        assigner = GlobalWindows.create_with_end_of_stream_trigger()
        with harness_for(windows(assigner).process(Show())) as harness:
            harness.process_element(("a", 1))
            taken = harness.snapshot()
        harness = harness_for(windows(assigner).process(Show()))
        harness.restore(taken)
        with harness:
            harness.end_input()
            assert harness.output == [("a", [1])]


class TestBatchMode:
    @pytest.mark.parametrize(
        ("assigner", "expected"),
        [
            (TEN, [("a", 0, 10, [3, 1]), ("a", 20, 30, [5]), ("b", 0, 10, [2, 4])]),
            (GAP, [("a", 0, 18, [3, 1]), ("a", 25, 35, [5]), ("b", 2, 18, [2, 4])]),
        ],
        ids=repr,
    )
    def test_all_windows_fire_at_the_end_of_a_key(self, assigner: Any, expected: Any) -> None:
        stream = windows(assigner).side_output_late_data(LATE).process(Show())
        with harness_for(stream, batch_mode=True) as harness:
            harness.process_elements([("a", 1), ("b", 2)], [8, 2])
            harness.process_watermark(1000)
            harness.process_elements([("a", 3), ("b", 4), ("a", 5)], [0, 8, 25])
            assert harness.output == []
            harness.end_input()
            assert sorted(harness.output, key=str) == expected
            assert harness.side_output(LATE) == []
            assert left_over(harness) == {}

    def test_windows_by_the_clock(self) -> None:
        for general in (False, True):
            stream = windows(TumblingProcessingTimeWindows(10, 0)).process(Show())
            with harness_for(stream, general, batch_mode=True, processing_time=105) as harness:
                harness.process_elements([("a", 1), ("b", 2), ("a", 3)])
                harness.end_input()
                assert harness.output == [("a", 100, 110, [1, 3]), ("b", 100, 110, [2])]


def windows_by_count(size: int) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)]).key_by(first).count_window(size)


def test_count_windows_keep_nothing_that_is_full() -> None:
    with harness_for(windows_by_count(3).process(Show())) as harness:
        for number in range(30):
            feed(harness, ("a", number, 0))
        assert set(left_over(harness)) == {"tumble-count-assigner"}
