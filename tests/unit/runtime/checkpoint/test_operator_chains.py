"""Operators that go on from a chain of snapshots: their results are those of a run without a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common import Time, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import ProcessJoinFunction
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness

FADING = ValueStateDescriptor("fading", Types.LONG())
FADING.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(40)).build())


def first(value: Any) -> Any:
    return value[0]


class Everything(KeyedProcessFunction):
    """Keeps state of all kinds, changes it in place, and lets some of it go by timers."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_digit = runtime_context.get_map_state(MapStateDescriptor("digits", Types.LONG(), Types.LONG()))
        self.box = runtime_context.get_state(ValueStateDescriptor("box", Types.PICKLED_BYTE_ARRAY()))
        self.fading = runtime_context.get_state(FADING)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = value[1]
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(number)
        self.by_digit.put(number % 3, number)
        box = self.box.value()
        if box is None:
            self.box.update([number])
        else:
            box.append(number)
        yield value, self.count.value(), self.box.value()[:], self.fading.value()
        self.fading.update(number)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 15)
        if number % 4 == 0:
            ctx.timer_service().delete_event_time_timer(ctx.timestamp() + 15)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield timestamp, ctx.get_current_key(), list(self.seen), sorted(self.by_digit.items())
        self.seen.clear()
        self.by_digit.remove(timestamp % 3)
        if timestamp % 5 == 0:
            self.count.clear()
            self.box.clear()


class OnlyTimers(KeyedProcessFunction):
    """Has timers, and no state."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield timestamp, ctx.get_current_key()


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def windowed(assigner: Any, call: Callable[[Any], Any]) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = call(env.from_collection([("a", 1)]).key_by(first).window(assigner))
    return OneInputOperatorHarness(stream._transformation.operator, first)


def total(left: Any, right: Any) -> Any:
    return left[0], left[1] + right[1]


def joined() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (env.from_collection([("a", 1)]).key_by(first) for _ in range(2))
    stream = left.interval_join(right).between(Time.milliseconds(-10), Time.milliseconds(10)).process(Pairs())
    return TwoInputOperatorHarness(stream._transformation.operator, first, first)


HARNESSES: dict[str, Callable[[], Any]] = {
    "state and timers": lambda: OneInputOperatorHarness(Everything(), first, processing_time=0),
    "only timers": lambda: OneInputOperatorHarness(OnlyTimers(), first),
    "reduce": lambda: OneInputOperatorHarness(total, first, kind="reduce"),
    "interval join": joined,
    "tumbling windows": lambda: windowed(TumblingEventTimeWindows(10, 0), lambda windows: windows.reduce(total)),
    "sliding windows": lambda: windowed(SlidingEventTimeWindows(20, 5, 0), lambda windows: windows.reduce(total)),
    "late windows": lambda: windowed(
        TumblingEventTimeWindows(10, 0), lambda windows: windows.allowed_lateness(20).reduce(total)
    ),
    "sessions": lambda: windowed(
        EventTimeSessionWindows.with_gap(Time.milliseconds(8)), lambda windows: windows.reduce(total)
    ),
}

RECORDS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 50), st.integers(-12, 12)), max_size=8)
PHASES = st.lists(st.tuples(RECORDS, st.booleans()), min_size=2, max_size=6)


def feed(harness: Any, now: int, records: list[Any]) -> None:
    """Records around a time, then the watermark of a little before."""
    if harness._processing_time is not None:
        harness.set_processing_time(now)
    for key, number, offset in records:
        record = ((key, number), max(0, now + offset))
        if isinstance(harness, OneInputOperatorHarness):
            harness.process_element(*record)
        elif number % 2:
            harness.process_element1(*record)
        else:
            harness.process_element2(*record)
    harness.process_watermark(max(0, now - 5))


@pytest.mark.parametrize("kind", HARNESSES)
@settings(max_examples=40)
@given(phases=PHASES, last=RECORDS)
def test_an_operator_goes_on_from_a_chain_as_if_nothing_had_happened(kind, phases, last):
    whole: dict[int, list[Any]] = {}
    with HARNESSES[kind]() as harness:
        for number, (records, completes) in enumerate(phases, 1):
            feed(harness, 10 * number, records)
            taken = harness.snapshot(number)
            whole[number] = [*(whole[taken.base] if taken.base is not None else ()), taken]
            if completes:
                harness.notify_checkpoint_complete(number)
        end = 10 * (len(phases) + 1)
        harness.clear_output()
        feed(harness, end, last)
        harness.end_input()
        expected = harness.output
    again = HARNESSES[kind]()
    again.task.restore(lambda operator_id, groups: [whole[len(phases)]])
    with again:
        # The watermark comes again with the first records.
        again.process_watermark(max(0, end - 15))
        again.clear_output()
        feed(again, end, last)
        again.end_input()
        assert sorted(map(repr, again.output)) == sorted(map(repr, expected))
