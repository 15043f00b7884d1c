"""What a program is told when its windows are wrong, and when its functions fail."""

from __future__ import annotations

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
    WindowFunction,
)
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TriggerResult,
    TumblingEventTimeWindows,
)
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.testing import OneInputOperatorHarness, UserCodeError

TEN = TumblingEventTimeWindows(10, 0)
SLIDING = SlidingEventTimeWindows(20, 10, 0)
GAP = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


def windows(assigner: Any = TEN) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)]).key_by(lambda value: value[0]).window(assigner)


def all_windows(assigner: Any = TEN) -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)]).window_all(assigner)


class Process(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [1 // elements[0][1]]


class Apply(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield 1 // inputs[0][1]


class ProcessAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Any) -> Any: ...


class ApplyAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any: ...


class TestPrograms:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: windows(5), "window: expected a WindowAssigner, got 5"),
            (lambda: all_windows(5), "window_all: expected a WindowAssigner, got 5"),
            (lambda: windows().trigger(5), "trigger: expected a Trigger, got 5"),
            (lambda: windows().evictor(5), "evictor: expected an Evictor, got 5"),
            (
                lambda: windows().side_output_late_data("late"),
                "side_output_late_data: expected an OutputTag, got 'late'",
            ),
            (lambda: windows().allowed_lateness(True), "allowed_lateness: time_ms: True is not a length of time"),
            (lambda: windows().reduce(5), "reduce: "),
            (lambda: windows().reduce(max, 5), "reduce: window_function must be a WindowFunction or a ProcessWindow"),
            (lambda: windows().reduce(max, ProcessAll()), "reduce: window_function must be"),
            (lambda: windows().aggregate(max), "aggregate: expected an AggregateFunction"),
            (lambda: windows().aggregate(SumOfSecond(), max), "aggregate: window_function must be"),
            (lambda: windows().fold(0, 5), "fold: expected a function"),
            (lambda: windows(GAP).fold(0, max), r"fold: the windows of EventTimeSessionWindows\(10\) merge"),
            (lambda: windows().apply(Process()), "apply: expected a WindowFunction, got"),
            (lambda: windows().process(Apply()), "process: expected a ProcessWindowFunction, got"),
            (lambda: windows().process(ProcessAll()), "process: expected a ProcessWindowFunction, got"),
            (lambda: all_windows().process(Process()), "process: expected a ProcessAllWindowFunction, got"),
            (lambda: all_windows().apply(Apply()), "apply: expected an AllWindowFunction, got"),
            (lambda: all_windows().reduce(max, Apply()), "reduce: window_function must be"),
        ],
    )
    def test_wrong_kinds(self, make: Any, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            make()

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: TumblingEventTimeWindows.of("5s"), "TumblingEventTimeWindows: size: '5s' is not a length"),
            (lambda: TumblingEventTimeWindows(5.5, 0), "TumblingEventTimeWindows: size must be an integer, got 5.5"),
            (
                lambda: SlidingProcessingTimeWindows.of(Time.seconds(1), None),
                "SlidingProcessingTimeWindows: slide: None is not a length",
            ),
            (lambda: EventTimeSessionWindows("x"), "EventTimeSessionWindows: session_gap must be an integer, got 'x'"),
            (
                lambda: ProcessingTimeSessionWindows.with_dynamic_gap(max),
                "DynamicProcessingTimeSessionWindows: expected a SessionWindowTimeGapExtractor, got",
            ),
            (lambda: CountTrigger.of(2.5), "CountTrigger: window_size must be an integer, got 2.5"),
            (lambda: ContinuousEventTimeTrigger.of(None), "ContinuousEventTimeTrigger: interval: None is not a length"),
            (lambda: DeltaTrigger.of(1, 5), "DeltaTrigger: delta_function must be a function of two records, got 5"),
            (lambda: PurgingTrigger.of(CountTrigger), "PurgingTrigger: expected a Trigger, got"),
            (lambda: CountEvictor.of("a"), "CountEvictor: max_count must be an integer, got 'a'"),
            (lambda: TimeEvictor.of("a"), "TimeEvictor: window_size: 'a' is not a length"),
            (lambda: DeltaEvictor.of(1, 5), "DeltaEvictor: delta_function must be a function of two records, got 5"),
            (
                lambda: CountTumblingWindowAssigner.of("a"),
                "CountTumblingWindowAssigner: window_size must be an integer",
            ),
        ],
    )
    def test_wrong_options(self, make: Any, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            make()

    @pytest.mark.parametrize("lateness", [-1, Time.milliseconds(-5)])
    def test_lateness(self, lateness: Any) -> None:
        with pytest.raises(ValueError, match="allowed_lateness: the time must not be negative"):
            windows().allowed_lateness(lateness)

    @pytest.mark.parametrize(
        "trigger", [DeltaTrigger.of(1, max), NeverTrigger(), PurgingTrigger.of(DeltaTrigger.of(1, max))], ids=repr
    )
    def test_triggers_that_cannot_merge(self, trigger: Any) -> None:
        with pytest.raises(TypeError, match=r"trigger: the windows of EventTimeSessionWindows\(10\) merge, which"):
            windows(GAP).trigger(trigger)

    def test_a_default_trigger_that_cannot_merge(self) -> None:
        class Sessions(EventTimeSessionWindows[Any]):
            def get_default_trigger(self, env: Any) -> Any:
                return NeverTrigger()

        with pytest.raises(TypeError, match="NeverTrigger.*does not support"):
            windows(Sessions(10)).process(Process())

    def test_a_good_one(self) -> None:
        late = OutputTag("late")
        made = windows().trigger(CountTrigger.of(1)).evictor(CountEvictor.of(1)).side_output_late_data(late)
        assert made.allowed_lateness(Time.seconds(1)).process(Process()).get_name() == "TumblingEventTimeWindows"


def harness_for(stream: Any, general: bool = False) -> OneInputOperatorHarness:
    operator = stream._transformation.operator
    operator = WindowOperator(operator.function) if general else operator
    return OneInputOperatorHarness(operator, lambda value: value[0], name="mine")


def fails(harness: Any, call: Any, *arguments: Any) -> str:
    with pytest.raises(UserCodeError) as caught:
        call(*arguments)
    text = str(caught.value)
    assert text.startswith("Operator 'mine' (subtask 1) failed: ")
    return text


@pytest.mark.parametrize("general", [False, True])
class TestFailures:
    @pytest.mark.parametrize("timestamps", [[None, None, None], [1, None, 2]])
    def test_records_without_timestamps(self, timestamps: Any, general: bool) -> None:
        with harness_for(windows().reduce(max), general) as harness:
            pending = [(("a", number), time) for number, time in enumerate(timestamps)]
            text = fails(harness, harness._records, 0, pending)
            assert "the record has no timestamp, and event-time windows need one" in text
            assert "call assign_timestamps_and_watermarks() before the window" in text
            assert f"Record at fault: ('a', {0 if timestamps[0] is None else 1})" in text

    @pytest.mark.parametrize("function", [Process(), Apply()])
    @pytest.mark.parametrize("assigner", [TEN, SLIDING, GAP], ids=repr)
    def test_a_window_function_names_key_and_window(self, function: Any, assigner: Any, general: bool) -> None:
        made = windows(assigner)
        stream = made.process(function) if isinstance(function, Process) else made.apply(function)
        with harness_for(stream, general and assigner is not GAP) as harness:
            harness.process_elements([("b", 1), ("a", 0)], [12, 13])
            text = fails(harness, harness.process_watermark, 100)
            assert "ZeroDivisionError" in text
            ends = {TEN: "10, end=20", SLIDING: "0, end=20", GAP: "13, end=23"}
            assert f"Record at fault: <TimeWindow(start={ends[assigner]}) of key 'a'>" in text
            assert "1 // " in text

    def test_a_window_that_fires_again(self, general: bool) -> None:
        with harness_for(windows().allowed_lateness(50).process(Process()), general) as harness:
            harness.process_watermark(20)
            text = fails(harness, harness.process_element, ("a", 0), 5)
            assert "<TimeWindow(start=0, end=10) of key 'a'>" in text

    @pytest.mark.parametrize("assigner", [TEN, SLIDING], ids=repr)
    def test_reducing_names_the_record(self, assigner: Any, general: bool) -> None:
        with harness_for(
            windows(assigner).reduce(lambda left, right: (left[0], left[1] // right[1])), general
        ) as harness:
            records = [("a", 8), ("b", 2), ("a", 2), ("a", 0), ("b", 1)]
            text = fails(harness, harness.process_elements, records, [1, 2, 3, 4, 5])
            assert "Record at fault: ('a', 0)" in text

    def test_aggregating_names_the_record(self, general: bool) -> None:
        with harness_for(windows().aggregate(SumOfSecond()), general) as harness:
            records = [("a", 8), ("b", None), ("b", 1)]
            assert "Record at fault: ('b', None)" in fails(harness, harness.process_elements, records, [1, 25, 5])

    @pytest.mark.parametrize("assigner", [TEN, SLIDING], ids=repr)
    @pytest.mark.parametrize("get_result", [lambda accumulator: 1 // accumulator, lambda accumulator: next(iter(()))])
    def test_a_result_names_key_and_window(self, assigner: Any, general: bool, get_result: Any) -> None:
        class Inverse(SumOfSecond):
            def get_result(self, accumulator: Any) -> Any:
                return accumulator if accumulator else get_result(accumulator)

        with harness_for(windows(assigner).aggregate(Inverse()), general) as harness:
            harness.process_elements([("b", 1), ("a", 0), ("c", 1)], [12, 13, 14])
            text = fails(harness, harness.process_watermark, 100)
            assert "of key 'a'>" in text
            assert "<TimeWindow(start=" in text

    def test_clearing(self, general: bool) -> None:
        class Bad(ProcessWindowFunction):
            def process(self, key: Any, context: Any, elements: Any) -> Any: ...

            def clear(self, context: Any) -> None:
                raise ValueError("cannot clear")

        with harness_for(windows().process(Bad()), general) as harness:
            harness.process_element(("a", 1), 5)
            text = fails(harness, harness.process_watermark, 9)
            assert "cannot clear" in text
            assert "<TimeWindow(start=0, end=10) of key 'a'>" in text

    def test_opening(self, general: bool) -> None:
        class Bad(Process):
            def open(self, runtime_context: Any) -> None:
                raise ValueError("cannot open")

        assert "cannot open" in fails(None, harness_for(windows().process(Bad()), general).open)

    def test_state_without_a_key(self, general: bool) -> None:
        class Bad(Process):
            def open(self, runtime_context: Any) -> None:
                from flintstream.common.typeinfo import Types
                from flintstream.datastream.state import ValueStateDescriptor

                runtime_context.get_state(ValueStateDescriptor("v", Types.INT())).value()

        text = fails(None, harness_for(windows().process(Bad()), general).open)
        assert "there is no current key" in text


class TestTriggersAndEvictors:
    def test_a_trigger_names_the_record_or_the_window(self) -> None:
        class Bad(NeverTrigger[Any]):
            def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
                ctx.register_event_time_timer(5)
                return TriggerResult.CONTINUE if element[1] else 1 // 0

            def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
                raise ValueError("bad timer")

        with harness_for(windows().trigger(Bad()).process(Process())) as harness:
            harness.process_element(("a", 1), 1)
            assert "Record at fault: ('a', 0)" in fails(harness, harness.process_element, ("a", 0), 1)
            text = fails(harness, harness.process_watermark, 5)
            assert "bad timer" in text
            assert "<TimeWindow(start=0, end=10) of key 'a'>" in text

    def test_a_continuous_trigger_without_timestamps(self) -> None:
        trigger = ContinuousEventTimeTrigger.of(Time.seconds(1))
        with harness_for(windows(GlobalWindows.create()).trigger(trigger).process(Process())) as harness:
            text = fails(harness, harness.process_element, ("a", 1))
            assert "ContinuousEventTimeTrigger(1000): the record has no timestamp" in text

    def test_an_evictor(self) -> None:
        class Bad(Evictor[Any, Any]):
            def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
                raise ValueError("bad evictor")

            def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any: ...

        with harness_for(windows().evictor(Bad()).process(Process())) as harness:
            harness.process_element(("a", 1), 1)
            text = fails(harness, harness.process_watermark, 9)
            assert "bad evictor" in text
            assert "<TimeWindow(start=0, end=10) of key 'a'>" in text

    def test_an_evictor_that_gives_nothing_back(self) -> None:
        class Bad(CountEvictor[Any, Any]):
            def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
                del elements[0]

        with harness_for(windows().evictor(Bad(3)).process(Process())) as harness:
            harness.process_element(("a", 1), 1)
            text = fails(harness, harness.process_watermark, 9)
            assert "evict_after() of Bad returned None: it must return the records that stay in the window" in text

    @pytest.mark.parametrize("gap", [0, None, 1.5])
    def test_a_gap(self, gap: Any) -> None:
        class Gap(SessionWindowTimeGapExtractor):
            def extract(self, element: Any) -> Any:
                return gap

        with harness_for(windows(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Process())) as harness:
            text = fails(harness, harness.process_element, ("a", 1), 1)
            assert (
                f"DynamicEventTimeSessionWindows(Gap): a session gap must be an integer greater than 0, got {gap!r}"
                in text
            )

    def test_states_of_one_name(self) -> None:
        class Bad(NeverTrigger[Any]):
            def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
                ctx.get_partitioned_state(ValueStateDescriptor("state", Types.LONG())).update(1)
                ctx.get_partitioned_state(ListStateDescriptor("state", Types.LONG())).add(1)

        with harness_for(windows().trigger(Bad()).process(Process())) as harness:
            text = fails(harness, harness.process_element, ("a", 1), 1)
            assert "state 'state' is already value state, and cannot be list state too" in text

    def test_merging_into_the_past(self) -> None:
        class Shrinking(EventTimeSessionWindows[Any]):
            def merge_windows(self, windows: Any, callback: Any) -> None:
                found = list(windows)
                if len(found) > 1:
                    callback.merge(found, type(found[0])(0, 1))

        with harness_for(windows(Shrinking(100)).process(Process())) as harness:
            harness.process_element(("a", 1), 1)
            harness.process_watermark(50)
            text = fails(harness, harness.process_element, ("a", 1), 40)
            assert "merge into TimeWindow(start=0, end=1), which ended before the watermark 50" in text
