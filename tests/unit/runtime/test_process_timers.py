"""Timers of process functions: when they fire, in which order, and with what around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.common.output_tag import OutputTag
from flintstream.datastream.functions import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.time_domain import TimeDomain
from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.slot import key_grouping
from flintstream.testing import (
    Idleness,
    OneInputOperatorHarness,
    Record,
    TwoInputOperatorHarness,
    UserCodeError,
    Watermark,
)

pytestmark = pytest.mark.usefixtures("state_backend")

SIDE = OutputTag("side")


def first(value: Any) -> Any:
    return value[0]


class Alarm(KeyedProcessFunction):
    """Registers what records ask for: `(key, call, time)`, e.g. `("a", "event", 5)`; tells of each timer."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        do(ctx, *value[1:])
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp


def do(ctx: Any, call: str = "", *times: int) -> None:
    timers = ctx.timer_service()
    calls = {
        "event": timers.register_event_time_timer,
        "processing": timers.register_processing_time_timer,
        "no event": timers.delete_event_time_timer,
        "no processing": timers.delete_processing_time_timer,
    }
    for time in times:
        calls[call](time)


def alarm(**options: Any) -> OneInputOperatorHarness:
    return OneInputOperatorHarness(Alarm(), first, processing_time=1000, **options)


def timers_of(harness: Any) -> list[tuple[Any, int]]:
    """The timers that have fired, as key and time; forgets them."""
    found = [value[1:] for value in harness.output if value[0] == "timer"]
    harness.clear_output()
    return found


class TestEventTime:
    @pytest.mark.parametrize("through_blocks", [False, True])
    def test_all_fire_before_the_watermark_is_passed_on(self, through_blocks: bool) -> None:
        with alarm(through_blocks=through_blocks) as harness:
            harness.process_elements([("a", "event", 5, 7), ("b", "event", 5, 20)], timestamps=[1, 2])
            harness.clear_output()
            harness.process_watermark(4)
            harness.process_watermark(10)
            assert harness.records_and_watermarks == [
                Watermark(4),
                Record(("timer", "a", 5), 5),
                Record(("timer", "b", 5), 5),
                Record(("timer", "a", 7), 7),
                Watermark(10),
            ]
            assert harness.event_time_timers == [(20, "b")]

    def test_the_time_itself_counts_as_reached(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "event", 10))
            harness.process_watermark(9)
            assert timers_of(harness) == []
            harness.process_watermark(10)
            assert timers_of(harness) == [("a", 10)]

    def test_a_passed_time_fires_when_the_watermark_next_advances(self) -> None:
        with alarm() as harness:
            harness.process_watermark(99)
            harness.process_element(("a", "event", 50, 105, 99))
            harness.end_epoch()
            harness.process_watermark(99)
            assert timers_of(harness) == []
            harness.process_watermark(199)
            assert timers_of(harness) == [("a", 50), ("a", 99), ("a", 105)]

    def test_within_a_block_each_record_stands_before_or_behind_the_watermark(self) -> None:
        with alarm(through_blocks=True, batch_size=100) as harness:
            harness.process_element(("a", "event", 5), timestamp=5)
            harness.process_watermark(10)
            harness.process_element(("a", "event", 6), timestamp=6)
            harness.process_watermark(11)
            harness.process_element(("a",), timestamp=7)
            assert harness.records_and_watermarks == [
                Record(("a", "event", 5), 5),
                Record(("timer", "a", 5), 5),
                Watermark(10),
                Record(("a", "event", 6), 6),
                Record(("timer", "a", 6), 6),
                Watermark(11),
                Record(("a",), 7),
            ]

    def test_deleted_and_registered_again(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "event", 5, 6, 7))
            harness.process_element(("b", "no event", 5))
            harness.process_element(("a", "no event", 6, 7, 8))
            harness.process_element(("a", "event", 7))
            harness.process_watermark(10)
            assert timers_of(harness) == [("a", 5), ("a", 7)]
            harness.process_element(("a", "event", 5))
            harness.process_watermark(11)
            assert timers_of(harness) == [("a", 5)]

    def test_no_timer_of_event_time_fires_by_the_clock(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "event", 1001))
            harness.set_processing_time(5000)
            assert timers_of(harness) == []

    def test_the_end_of_the_input_fires_all(self) -> None:
        with alarm() as harness:
            harness.process_elements([("a", "event", 10**15, MAX_WATERMARK), ("b", "event", 5)])
            harness.clear_output()
            harness.end_input()
            assert harness.records_and_watermarks == [
                Record(("timer", "b", 5), 5),
                Record(("timer", "a", 10**15), 10**15),
                Record(("timer", "a", MAX_WATERMARK), MAX_WATERMARK),
                Watermark(MAX_WATERMARK),
            ]
            assert harness.finished

    def test_idleness_passes(self) -> None:
        with alarm() as harness:
            harness.process_idleness()
            harness.process_idleness(False)
            assert harness.records_and_watermarks == [Idleness(True), Idleness(False)]

    def test_many_timers_leave_in_chunks(self) -> None:
        count = 2 * CHUNK + 1
        with OneInputOperatorHarness(Alarm(), first) as harness:
            harness.process_elements([(key, "event", 5) for key in range(count)])
            harness.clear_output()
            harness.process_watermark(5)
            assert harness.batch_sizes == [CHUNK, CHUNK, 1]
            assert timers_of(harness) == [(key, 5) for key in range(count)]


class Chain(KeyedProcessFunction):
    """Each timer registers others: `plan` maps a time to what to do then."""

    def __init__(self, plan: dict[int, tuple[Any, ...]]) -> None:
        self.plan = plan

    def process_element(self, value: Any, ctx: Any) -> None:
        do(ctx, *value[1:])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        do(ctx, *self.plan.get(timestamp, ()))
        yield "timer", ctx.get_current_key(), timestamp


class TestInOnTimer:
    def run(self, plan: dict[int, tuple[Any, ...]], *times: int, watermark: int = 100) -> list[int]:
        with OneInputOperatorHarness(Chain(plan), first) as harness:
            harness.process_element(("a", "event", *times))
            harness.process_watermark(watermark)
            return [time for _, time in timers_of(harness)]

    def test_a_passed_time_fires_in_the_same_advance(self) -> None:
        assert self.run({5: ("event", 3, 10), 3: ("event", 8)}, 5) == [5, 3, 8, 10]

    def test_a_later_time_waits(self) -> None:
        assert self.run({5: ("event", 100, 101)}, 5) == [5, 100]

    def test_a_series(self) -> None:
        assert self.run({time: ("event", time + 10) for time in range(0, 1000, 10)}, 0, watermark=45) == [
            0,
            10,
            20,
            30,
            40,
        ]

    def test_a_deleted_one_does_not_fire(self) -> None:
        assert self.run({5: ("no event", 6, 8)}, 5, 6, 7, 8) == [5, 7]

    def test_between_the_domains(self) -> None:
        plan = {5: ("processing", 2000, 900), 900: ("event", 4, 200)}
        with OneInputOperatorHarness(Chain(plan), first, processing_time=1000) as harness:
            harness.process_element(("a", "event", 5))
            harness.process_watermark(10)
            assert timers_of(harness) == [("a", 5)]
            harness.end_epoch()
            assert timers_of(harness) == [("a", 900)]
            assert harness.event_time_timers == [(4, "a"), (200, "a")]
            harness.process_watermark(11)
            assert timers_of(harness) == [("a", 4)]


class See(KeyedProcessFunction):
    """What a timer sees."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value[-1])
        do(ctx, *value[1:-1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        assert isinstance(ctx, KeyedProcessFunction.OnTimerContext)
        timers = ctx.timer_service()
        seen = (ctx.get_current_key(), timestamp, self.last.value(), ctx.time_domain())
        yield (*seen, timers.current_watermark(), timers.current_processing_time())
        self.last.clear()


class TestWhatATimerSees:
    def test_key_state_domain_and_time(self) -> None:
        with OneInputOperatorHarness(See(), first, processing_time=1000) as harness:
            harness.process_elements(
                [("a", "event", 5, "of a"), ("b", "event", 6, "of b"), ("c", "processing", 1500, "of c")], [1, 2, 3]
            )
            harness.process_watermark(7)
            harness.set_processing_time(1600)
            event, processing = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
            assert harness.output_with_timestamps == [
                (("a", 5, "of a", event, 7, 1000), 5),
                (("b", 6, "of b", event, 7, 1000), 6),
                (("c", 1500, "of c", processing, 7, 1600), 1500),
            ]
            assert harness.keyed_state("last") == {}

    def test_a_record_behind_a_timer_has_its_own_timestamp_and_key(self) -> None:
        class Both(Alarm):
            def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
                do(ctx, *value[1:])
                yield ctx.get_current_key(), ctx.timestamp()

        with OneInputOperatorHarness(Both(), first) as harness:
            harness.process_element(("a", "event", 5), timestamp=1)
            harness.process_watermark(5)
            harness.process_element(("b",), timestamp=9)
            harness.process_element(("c",))
            assert harness.output == [("a", 1), ("timer", "a", 5), ("b", 9), ("c", MIN_WATERMARK)]


class TestResults:
    def test_side_outputs_with_the_timers_time(self) -> None:
        class Sides(Alarm):
            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield SIDE, timestamp
                yield "main"

        with OneInputOperatorHarness(Sides(), first, processing_time=0) as harness:
            harness.process_elements([("a", "event", 5, 6), ("a", "processing", 50)])
            harness.clear_output()
            harness.process_watermark(5)
            harness.set_processing_time(60)
            harness.process_watermark(7)
            assert harness.side_output_with_timestamps(SIDE) == [(5, 5), (50, 50), (6, 6)]
            assert harness.records_and_watermarks == [
                Record("main", 5),
                Watermark(5),
                Record("main", 50),
                Record("main", 6),
                Watermark(7),
            ]

    def test_side_outputs_leave_before_the_watermark(self) -> None:
        class Sides(Alarm):
            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield SIDE, timestamp

        with OneInputOperatorHarness(Sides(), first) as harness:
            at_watermark: list[Any] = []
            harness._recorded.main.process_watermark = lambda timestamp: at_watermark.append(  # type: ignore[method-assign]
                harness.side_output(SIDE)
            )
            harness.process_element(("a", "event", 5))
            harness.process_watermark(5)
            assert at_watermark == [[5]]

    @pytest.mark.parametrize("result", [None, [], (), iter(()), [1, 2]])
    def test_any_iterable_or_none(self, result: Any) -> None:
        class Returns(Alarm):
            def on_timer(self, timestamp: int, ctx: Any) -> Any:
                return result

        harness = OneInputOperatorHarness(Returns.__new__(Returns), first)
        with harness:
            harness.process_element(("a", "event", 5))
            harness.clear_output()
            harness.process_watermark(5)
            assert harness.output == ([] if result is None else list(result))

    def test_a_function_without_on_timer_of_its_own(self) -> None:
        class Silent(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: Any) -> None:
                ctx.timer_service().register_event_time_timer(5)

        with OneInputOperatorHarness(Silent(), first) as harness:
            harness.process_element("a")
            harness.process_watermark(5)
            assert harness.records_and_watermarks == [Watermark(5)]

    def test_a_result_that_is_changed_later_stays_as_it_was(self) -> None:
        class Grows(Alarm):
            def open(self, runtime_context: Any) -> None:
                self.seen: list[int] = []

            def process_element(self, value: Any, ctx: Any) -> None:
                do(ctx, *value[1:])

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                self.seen.append(timestamp)
                yield self.seen

        with OneInputOperatorHarness(Grows(), first) as harness:
            harness.process_element(("a", "event", 1, 2, 3))
            harness.process_watermark(5)
            assert harness.output == [[1], [1, 2], [1, 2, 3]]


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "shown"),
        [("event", "<event-time timer 500 of key 'a'>"), ("processing", "<processing-time timer 500 of key 'a'>")],
    )
    def test_they_name_the_operator_the_key_and_the_time(self, call: str, shown: str) -> None:
        class Fails(Alarm):
            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield 1
                raise KeyError("gone")

        with (
            pytest.raises(
                UserCodeError, match=r"Operator 'my timers' \(subtask 1\) failed: KeyError: 'gone'"
            ) as caught,
            OneInputOperatorHarness(Fails(), first, name="my timers", processing_time=0) as harness,
        ):
            harness.process_elements([("a", call, 500), ("b", call, 501)])
            harness.process_watermark(501)
            harness.set_processing_time(501)
        assert caught.value.fault.record == shown
        assert "on_timer" in caught.value.fault.traceback
        assert isinstance(caught.value.fault.load_exception(), KeyError)

    def test_a_function_that_cannot_take_timers(self) -> None:
        class NoTimers(CoProcessFunction):
            def process_element1(self, value: Any, ctx: Any) -> None:
                ctx.timer_service().register_event_time_timer(5)

            def process_element2(self, value: Any, ctx: Any) -> None: ...

        with (
            pytest.raises(UserCodeError, match=r"NoTimers has no on_timer\(\)") as caught,
            TwoInputOperatorHarness(NoTimers(), first, first, name="my join") as harness,
        ):
            harness.process_element1("a")
            harness.process_watermark(5)
        assert caught.value.fault.operator == "my join"


class TestProcessingTime:
    def test_they_fire_by_the_clock(self) -> None:
        with alarm() as harness:
            harness.process_elements([("a", "processing", 1500, 2000), ("b", "processing", 1500)])
            harness.clear_output()
            harness.set_processing_time(1499)
            assert timers_of(harness) == []
            harness.set_processing_time(1999)
            assert harness.output_with_timestamps == [(("timer", "a", 1500), 1500), (("timer", "b", 1500), 1500)]
            assert harness.processing_time_timers == [(2000, "a")]

    def test_no_watermark_fires_them(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "processing", 1500))
            harness.process_watermark(10**15)
            assert timers_of(harness) == []

    def test_those_of_passed_times_fire_before_the_next_records_and_at_the_end_of_the_epoch(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "processing", 900))
            harness.process_element(("b", "processing", 800))
            assert harness.output == [("a", "processing", 900), ("timer", "a", 900), ("b", "processing", 800)]
            harness.end_epoch()
            assert harness.output[3:] == [("timer", "b", 800)]

    def test_when_the_operator_wants_an_epoch(self) -> None:
        with alarm() as harness:
            task = harness.task
            assert task.next_due() is None
            harness.process_element(("a", "event", 5))
            assert task.next_due() is None
            harness.process_element(("a", "processing", 3000, 2000))
            assert task.next_due() == 2.0
            harness.set_processing_time(2000)
            assert task.next_due() == 3.0

    def test_a_deleted_one_does_not_make_epochs_for_ever(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "processing", 2000))
            harness.process_element(("a", "no processing", 2000))
            harness.set_processing_time(2500)
            assert timers_of(harness) == []
            assert harness.task.next_due() is None

    def test_at_the_end_of_the_input_those_due_fire_and_the_others_are_dropped(self) -> None:
        with alarm() as harness:
            harness.process_element(("a", "processing", 900, 1000, 1001, 10**15))
            harness.clear_output()
            harness.end_input()
            assert harness.records_and_watermarks == [
                Record(("timer", "a", 900), 900),
                Record(("timer", "a", 1000), 1000),
                Watermark(MAX_WATERMARK),
            ]
            assert harness.finished

    def test_on_timer_at_the_end_sees_the_last_watermark(self) -> None:
        with OneInputOperatorHarness(See(), first, processing_time=1000) as harness:
            harness.process_element(("a", "processing", 900, "x"))
            harness.end_input()
            assert [value[4] for value in harness.output] == [MAX_WATERMARK]


class TestRestored:
    def test_timers_come_back_and_fire(self) -> None:
        with alarm() as harness:
            harness.process_watermark(50)
            harness.process_elements([("a", "event", 5, 100), ("b", "event", 100), ("a", "processing", 2000)])
            taken = harness.snapshot()
        again = OneInputOperatorHarness(Alarm(), first, processing_time=1500)
        again.restore(taken)
        with again:
            assert sorted(again.event_time_timers) == [(5, "a"), (100, "a"), (100, "b")]
            assert again.task.next_due() == 2.0
            again.process_element(("a", "no event", 100))
            again.process_watermark(100)
            assert timers_of(again) == [("a", 5), ("b", 100)]
            again.set_processing_time(2000)
            assert timers_of(again) == [("a", 2000)]

    def test_each_subtask_gets_those_of_its_keys(self) -> None:
        keys = [f"k{number}" for number in range(40)]
        with alarm() as harness:
            harness.process_elements([(key, "event", number) for number, key in enumerate(keys)])
            taken = harness.snapshot()
        fired: list[Any] = []
        for subtask in range(3):
            again = OneInputOperatorHarness(Alarm(), first, parallelism=3, subtask=subtask)
            again.restore(taken)
            with again:
                again.process_watermark(100)
                mine = timers_of(again)
                assert 0 < len(mine) < len(keys)
                fired += mine
        assert sorted(fired) == sorted((key, number) for number, key in enumerate(keys))


class Match(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        do(ctx, *value[1:])
        yield "left", value[0], ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        do(ctx, *value[1:])
        yield "right", value[0], ctx.timestamp(), ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp


class TestTwoInputs:
    def test_both_sides_share_the_timers_of_a_key(self) -> None:
        with TwoInputOperatorHarness(Match(), first, first) as harness:
            harness.process_element1(("a", "event", 5, 6))
            harness.process_element2(("a", "no event", 5))
            harness.process_element2(("a", "event", 6, 7))
            harness.clear_output()
            harness.process_watermark1(10)
            assert harness.records_and_watermarks == []
            harness.process_watermark2(6)
            assert harness.records_and_watermarks == [Record(("timer", "a", 6), 6), Watermark(6)]

    def test_by_the_clock_before_records_of_either_side(self) -> None:
        with TwoInputOperatorHarness(Match(), first, first, processing_time=1000) as harness:
            harness.process_element1(("a", "processing", 900))
            harness.process_element2(("b",))
            assert [value[:2] for value in harness.output] == [("left", "a"), ("timer", "a"), ("right", "b")]

    def test_an_idle_side_does_not_hold_them(self) -> None:
        with TwoInputOperatorHarness(Match(), first, first) as harness:
            harness.process_element1(("a", "event", 5))
            harness.process_watermark1(10)
            harness.clear_output()
            harness.process_idleness2()
            assert harness.records_and_watermarks == [Record(("timer", "a", 5), 5), Watermark(10)]

    def test_an_ended_side_does_not_hold_them(self) -> None:
        with TwoInputOperatorHarness(Match(), first, first) as harness:
            harness.process_element1(("a", "event", 5))
            harness.process_watermark1(10)
            harness.clear_output()
            harness.end_input2()
            assert harness.records_and_watermarks == [Record(("timer", "a", 5), 5), Watermark(10)]


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("record"), st.sampled_from("abc"), st.integers(0, 30), st.sampled_from(["event", "no event"])
        ),
        st.tuples(st.just("watermark"), st.integers(0, 30)),
        st.tuples(st.just("idle"), st.booleans()),
    ),
    max_size=30,
)


class Busy(KeyedProcessFunction):
    """Counts by key, and lets timers register and delete others."""

    registers = True

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, time, call = value
        self.count.update(self.count.value() + 1)
        do(ctx, call, time)
        yield key, self.count.value(), ctx.timestamp(), ctx.timer_service().current_watermark()
        if time % 3 == 0:
            yield SIDE, (key, time)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        count = self.count.value()
        yield "timer", ctx.get_current_key(), timestamp, count, ctx.timer_service().current_watermark()
        if timestamp % 2:
            yield SIDE, timestamp
        if self.registers and timestamp % 5 == 0 and timestamp:
            do(ctx, "event", timestamp - 3, timestamp + 4)
        if timestamp % 7 == 0:
            do(ctx, "no event", timestamp + 1, timestamp + 2)


class Calm(Busy):
    registers = False


@given(steps, st.integers(1, 9))
def test_results_do_not_depend_on_batching(sequence: list[Any], batch_size: int) -> None:
    def run(**options: Any) -> tuple[list[Any], list[Any], list[Any]]:
        with OneInputOperatorHarness(Busy(), first, processing_time=0, **options) as harness:
            for kind, *rest in sequence:
                if kind == "record":
                    harness.process_element(tuple(rest), timestamp=rest[1])
                elif kind == "watermark":
                    harness.process_watermark(rest[0])
                else:
                    harness.process_idleness(rest[0])
            left = harness.event_time_timers
            return harness.records_and_watermarks, harness.side_output_with_timestamps(SIDE), left

    expected = run()
    assert run(batch_size=batch_size) == expected
    assert run(batch_size=batch_size, through_blocks=True) == expected
    assert run(through_blocks=True) == expected


@given(steps)
def test_every_timer_fires_once_and_in_order(sequence: list[Any]) -> None:
    """Against a plain dict of timers."""
    pending: set[tuple[int, str]] = set()
    watermark = MIN_WATERMARK
    with OneInputOperatorHarness(Alarm(), first) as harness:
        for kind, *rest in sequence:
            if kind == "record":
                key, time, call = rest
                harness.process_element((key, call, time))
                (pending.add if call == "event" else pending.discard)((time, key))
            elif kind == "watermark" and rest[0] > watermark:
                watermark = rest[0]
                harness.clear_output()
                harness.process_watermark(watermark)
                due = {timer for timer in pending if timer[0] <= watermark}
                pending -= due
                fired = [(time, key) for key, time in timers_of(harness)]
                assert set(fired) == due
                assert len(fired) == len(due)
                assert [time for time, _ in fired] == sorted(time for time, _ in fired)
        assert set(harness.event_time_timers) == pending


class TestBatchMode:
    def run(self, function: Any, records: list[Any], times: list[int] | None = None, **options: Any) -> Any:
        with OneInputOperatorHarness(function, first, batch_mode=True, processing_time=1000, **options) as harness:
            harness.process_elements(records, timestamps=times)
            harness.process_watermark(50)
            assert harness.records_and_watermarks == []
            harness.end_input()
            assert harness.finished
            return harness

    def test_the_records_of_a_key_come_by_timestamp_and_then_its_timers(self) -> None:
        records = [("a", "event", 5), ("b", "event", 1), ("a", "event", 3), ("b",)]
        harness = self.run(Alarm(), records, [200, 20, 90, 10])
        assert harness.records_and_watermarks == [
            Record(("a", "event", 3), 90),
            Record(("a", "event", 5), 200),
            Record(("timer", "a", 3), 3),
            Record(("timer", "a", 5), 5),
            Record(("b",), 10),
            Record(("b", "event", 1), 20),
            Record(("timer", "b", 1), 1),
            Watermark(MAX_WATERMARK),
        ]

    def test_equal_timestamps_keep_their_order(self) -> None:
        records = [("a", 1), ("a", 2), ("a", 3)]
        echo = lambda value, ctx: [value[1]]  # noqa: E731
        with OneInputOperatorHarness(echo, first, kind="process", batch_mode=True) as harness:
            harness.process_elements(records, timestamps=[5, 5, 4])
            harness.end_input()
            assert harness.output == [3, 1, 2]

    def test_all_processing_time_timers_fire_at_the_end_of_the_key(self) -> None:
        harness = self.run(Alarm(), [("a", "processing", 10**14, 900), ("b",)])
        assert harness.output == [
            ("a", "processing", 10**14, 900),
            ("timer", "a", 900),
            ("timer", "a", 10**14),
            ("b",),
        ]

    def test_the_watermark_is_the_least_for_records_and_the_last_for_timers(self) -> None:
        class Marks(Alarm):
            def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
                do(ctx, *value[1:])
                yield ctx.timer_service().current_watermark()

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield ctx.timer_service().current_watermark()

        harness = self.run(Marks(), [("a", "event", 5), ("b", "event", 5), ("a",)], [1, 2, 3])
        low, high = MIN_WATERMARK, MAX_WATERMARK
        assert harness.output == [low, low, high, low, high]

    @pytest.mark.parametrize("kind", ["event", "processing"])
    def test_timers_that_timers_register_are_ignored(
        self, kind: str, state_backend: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Again(Alarm):
            """A heartbeat: would never end where all timers fire at once."""

            calls = 0

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                self.calls += 1
                assert self.calls < 100, "it does not end"
                do(ctx, "event", timestamp + 1000, timestamp - 1)
                do(ctx, "processing", timestamp + 1000, timestamp - 1)
                yield "timer", ctx.get_current_key(), timestamp

        function = Again()
        name = f"heartbeat of {kind} with {state_backend}"
        harness = self.run(function, [("a", kind, 5, 6), ("b", kind, 5)], name=name)
        assert timers_of(harness) == [("a", 5), ("a", 6), ("b", 5)]
        assert (harness.event_time_timers, harness.processing_time_timers) == ([], [])
        (told,) = (record.getMessage() for record in caplog.records)
        assert told.startswith(f"operator '{name}': timers that on_timer() registers are ignored in batch mode")

    def test_a_timer_deleted_by_another_does_not_fire(self) -> None:
        harness = self.run(
            Chain({5: ("no event", 6), 7: ("no processing", 9)}), [("a", "event", 5, 6, 7), ("a", "processing", 9)]
        )
        assert timers_of(harness) == [("a", 5), ("a", 7)]

    def test_no_timer_fires_between_two_records_of_its_key(self) -> None:
        records = [("a", "processing", 900), ("a", "processing", 1), ("a",), ("a",)]
        harness = self.run(Alarm(), records, [1, 2, 3, 4])
        assert harness.output == [*records, ("timer", "a", 1), ("timer", "a", 900)]
        with TwoInputOperatorHarness(Match(), first, first, batch_mode=True, processing_time=1000) as two:
            two.process_elements1([("a", "processing", 1), ("a",)], [1, 3])
            two.process_elements2([("a",)], [2])
            two.end_input()
            assert [value[0] for value in two.output] == ["left", "right", "left", "timer"]

    def test_no_records_at_all(self) -> None:
        assert self.run(Alarm(), []).records_and_watermarks == [Watermark(MAX_WATERMARK)]

    def test_more_records_than_fit_into_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(key_grouping, "_MEMORY_RECORDS", 4)
        records = [(f"k{number % 5}", "event", number) for number in range(40)]
        times = [1000 - number for number in range(40)]
        harness = self.run(Alarm(), records, times, batch_size=3)
        by_key: dict[str, list[Any]] = {}
        order: list[str] = []
        for value, _ in harness.output_with_timestamps:
            key = value[1] if value[0] == "timer" else value[0]
            if not order or order[-1] != key:
                order.append(key)
            by_key.setdefault(key, []).append(value)
        assert sorted(order) == [f"k{number}" for number in range(5)], "each key in one run"
        assert by_key["k2"] == [
            *(("k2", "event", number) for number in range(37, 0, -5)),
            *(("timer", "k2", number) for number in range(2, 40, 5)),
        ]

    def test_two_inputs_by_timestamp_then_the_timers(self) -> None:
        with TwoInputOperatorHarness(Match(), first, first, batch_mode=True) as harness:
            harness.process_elements1([("a", "event", 3), ("a",), ("b",)], [30, 10, 5])
            harness.process_elements2([("a", "event", 2), ("c",)], [20, 7])
            harness.process_element2(("a",), 10)
            harness.end_input2()
            assert harness.output == []
            harness.end_input1()
            low = MIN_WATERMARK
            assert harness.output == [
                ("left", "a", 10, low),
                ("right", "a", 10, low),
                ("right", "a", 20, low),
                ("left", "a", 30, low),
                ("timer", "a", 2),
                ("timer", "a", 3),
                ("left", "b", 5, low),
                ("right", "c", 7, low),
            ]
            assert harness.watermarks == [MAX_WATERMARK]

    @given(
        st.lists(st.tuples(st.integers(1, 2), st.sampled_from("ab"), st.integers(0, 6)), max_size=20),
        st.sampled_from([3, 1000]),
    )
    def test_two_inputs_are_merged_by_timestamp(self, records: list[tuple[int, str, int]], memory: int) -> None:
        class Echo(KeyedCoProcessFunction):
            def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
                yield ctx.get_current_key(), ctx.timestamp(), 1, value[1]

            def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
                yield ctx.get_current_key(), ctx.timestamp(), 2, value[1]

        with pytest.MonkeyPatch.context() as patch, TwoInputOperatorHarness(Echo(), first, first, batch_mode=True) as h:
            patch.setattr(key_grouping, "_MEMORY_RECORDS", memory)
            for number, (side, key, time) in enumerate(records):
                (h.process_element1 if side == 1 else h.process_element2)((key, number), time)
            h.end_input()
            for key in "ab":
                mine = [(key, time, side, number) for number, (side, k, time) in enumerate(records) if k == key]
                assert [value for value in h.output if value[0] == key] == sorted(mine)
            assert len(h.output) == len(records)

    def test_two_inputs_without_timestamps(self) -> None:
        with TwoInputOperatorHarness(Match(), first, first, batch_mode=True) as harness:
            harness.process_elements2([("a", "event", 2)])
            harness.process_elements1([("a", "event", 3), ("a",)])
            harness.end_input()
            assert [value[:2] for value in harness.output] == [
                ("left", "a"),
                ("left", "a"),
                ("right", "a"),
                ("timer", "a"),
                ("timer", "a"),
            ]

    @given(
        st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20)), max_size=25),
        st.integers(1, 6),
        st.sampled_from([3, 1000]),
    )
    def test_grouped_is_streamed_key_by_key(self, records: list[Any], batch_size: int, memory: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(key_grouping, "_MEMORY_RECORDS", memory)
            values = [(key, time, "event") for key, time in records]
            grouped = self.run(Calm(), values, [time for _, time in records] or None, batch_size=batch_size)
        expected: dict[str, list[Any]] = {}
        for key in {key for key, _ in records}:
            with OneInputOperatorHarness(Calm(), first) as single:
                mine = sorted((value for value in values if value[0] == key), key=lambda value: value[1])
                single.process_elements(mine, timestamps=[value[1] for value in mine])
                single.end_input()
                expected[key] = single.output
        assert sorted(map(repr, grouped.output)) == sorted(repr(v) for part in expected.values() for v in part)
        position = 0
        while position < len(grouped.output):
            value = grouped.output[position]
            part = expected.pop(value[1] if value[0] == "timer" else value[0])
            assert grouped.output[position : position + len(part)] == part
            position += len(part)
