"""The interval join: which pairs it finds, what is late, and how long records are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.common.output_tag import OutputTag
from flintstream.datastream.functions import ProcessJoinFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.batch import CHUNK, MAX_WATERMARK
from flintstream.runtime.operators.interval_join import LEFT_TABLE, RIGHT_TABLE, IntervalJoinOperator
from flintstream.runtime.windows.base import LATE_RECORDS
from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness, UserCodeError

SIDE = OutputTag("side")


class Pairs(ProcessJoinFunction):
    """The pairs as they come."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


class Does(ProcessJoinFunction):
    """What a test wants of a pair and its context."""

    def __init__(self, does: Any) -> None:
        self._does = does

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return self._does(left, right, ctx)


def first(value: Any) -> Any:
    return value[0]


def join(lower: int, upper: int, function: Any = None, tags: Any = (), **options: Any) -> TwoInputOperatorHarness:
    operator = IntervalJoinOperator(function or Pairs(), lower, upper, *tags)
    return TwoInputOperatorHarness(operator, first, first, **options)


def is_empty(harness: TwoInputOperatorHarness) -> bool:
    tables = harness.keyed_state(LEFT_TABLE), harness.keyed_state(RIGHT_TABLE)
    return not any(tables) and not harness.event_time_timers


def dropped(harness: TwoInputOperatorHarness) -> Any:
    return harness.operator.context.runtime_context.get_metrics_group().counter(LATE_RECORDS).get_count()


class TestPairs:
    @pytest.mark.parametrize("left_first", [True, False])
    @pytest.mark.parametrize(
        ("lower", "upper", "partners"),
        [(-2, 1, [8, 9, 10, 11]), (0, 0, [10]), (1, 3, [11, 12, 13]), (-3, -2, [7, 8]), (1, 0, [])],
    )
    def test_both_bounds_are_included(self, lower: int, upper: int, partners: list[int], left_first: bool) -> None:
        with join(lower, upper) as harness:
            if left_first:
                harness.process_element1("a", 10)
            for time in range(20):
                harness.process_element2(("a", time), time)
            if not left_first:
                harness.process_element1("a", 10)
            assert harness.output_with_timestamps == [(("a", ("a", time)), max(10, time)) for time in partners]
            harness.end_input()
            assert is_empty(harness)

    def test_keys_are_apart(self) -> None:
        with join(-5, 5) as harness:
            harness.process_elements1(["a1", "b1"], [1, 2])
            harness.process_elements2(["a2", "b2", "c2"], [1, 2, 3])
            assert harness.output == [("a1", "a2"), ("b1", "b2")]

    def test_partners_come_by_their_timestamps_and_equal_ones_as_they_came(self) -> None:
        with join(-5, 5) as harness:
            harness.process_elements1(["a1", "a2", "a3", "a4", "a5"], [3, 1, 3, 2, 1])
            harness.process_element2("a", 3)
            assert [left for left, _ in harness.output] == ["a2", "a5", "a4", "a1", "a3"]

    def test_the_context_knows_both_timestamps(self) -> None:
        def times(left: Any, right: Any, ctx: Any) -> Any:
            assert isinstance(ctx, ProcessJoinFunction.Context)
            return [(ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())]

        with join(-5, 5, Does(times)) as harness:
            harness.process_element1("a", 4)
            harness.process_element2("a", 2)
            harness.process_element1("a", 1)
            assert harness.output == [(4, 2, 4), (1, 2, 2)]

    def test_no_results_and_many(self) -> None:
        with join(0, 9, Does(lambda left, right, ctx: None if right == "a0" else [right] * CHUNK)) as harness:
            harness.process_element1("a", 0)
            harness.process_elements2(["a0", "a1", "a2"], [0, 1, 2])
            assert harness.output == ["a1"] * CHUNK + ["a2"] * CHUNK
            assert max(harness.batch_sizes) == CHUNK

    def test_side_outputs(self) -> None:
        with join(0, 9, Does(lambda left, right, ctx: [(SIDE, right), left])) as harness:
            harness.process_element1("a1", 1)
            harness.process_element2("a2", 5)
            assert harness.output_with_timestamps == [("a1", 5)]
            assert harness.side_output_with_timestamps(SIDE) == [("a2", 5)]

    def test_a_result_that_is_changed_later(self) -> None:
        shared: list[Any] = []

        def grow(left: Any, right: Any, ctx: Any) -> Any:
            shared.append(right)
            yield shared

        with join(0, 9, Does(grow)) as harness:
            harness.process_element1("a", 1)
            harness.process_elements2(["a1", "a2"], [1, 2])
            assert harness.output == [["a1"], ["a1", "a2"]]

    def test_the_function_has_state_of_the_key(self) -> None:
        class Number(ProcessJoinFunction):
            def open(self, runtime_context: Any) -> None:
                self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

            def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
                self.seen.update((self.seen.value() or 0) + 1)
                yield right, self.seen.value()

        with join(0, 9, Number()) as harness:
            harness.process_elements1(["a", "b"], [1, 1])
            harness.process_elements2(["a1", "b1", "a2"], [1, 1, 2])
            assert harness.output == [("a1", 1), ("b1", 1), ("a2", 2)]


class TestErrors:
    def test_of_the_function(self) -> None:
        with join(0, 9, Does(lambda left, right, ctx: 1 / 0), name="my join") as harness:
            harness.process_element1("a1", 1)
            with pytest.raises(UserCodeError, match="'my join'") as caught:
                harness.process_element2("a2", 1)
        assert caught.value.fault.record == "('a1', 'a2')"

    @pytest.mark.parametrize("times", [None, [1, -(2**63)]])
    def test_a_record_without_a_timestamp(self, times: Any) -> None:
        with join(0, 9) as harness, pytest.raises(UserCodeError, match="assign_timestamps_and_watermarks") as caught:
            harness.process_elements1(["a1", "a2"], times)
        assert caught.value.fault.record == ("'a1'" if times is None else "'a2'")

    @pytest.mark.parametrize("kind", [OneInputOperatorHarness, TwoInputOperatorHarness])
    def test_a_harness_needs_the_bounds(self, kind: Any) -> None:
        with pytest.raises(TypeError, match=r"pass IntervalJoinOperator\(Pairs\(\), lower, upper\)"):
            kind(Pairs(), *[first] * kind._inputs)


class TestTime:
    def test_late_is_what_comes_behind_the_watermark(self) -> None:
        with join(-5, 5, tags=("left", "right")) as harness:
            harness.process_watermark(10)
            harness.process_elements1(["a1", "a2", "a3"], [9, 10, 11])
            harness.process_elements2(["b1", "a4"], [8, 9])
            assert harness.output == []
            assert harness.side_output_with_timestamps("left") == [("a1", 9)]
            assert harness.side_output_with_timestamps("right") == [("b1", 8), ("a4", 9)]
            assert dropped(harness) == 0

    def test_late_records_are_counted(self) -> None:
        with join(-5, 5, tags=("left", None)) as harness:
            harness.process_watermark(10)
            harness.process_elements1(["a1", "a2"], [1, 2])
            harness.process_elements2(["a3", "a4", "a5"], [1, 2, 10])
            assert (harness.side_output("left"), dropped(harness)) == (["a1", "a2"], 2)

    def test_nothing_is_late_before_the_first_watermark(self) -> None:
        with join(0, 0) as harness:
            harness.process_element1("a", -(2**63) + 1)
            harness.process_element2("a", -(2**63) + 1)
            assert len(harness.output) == 1

    @pytest.mark.parametrize(
        ("lower", "upper", "left_until", "right_until"),
        [(-3, 5, 105, 103), (2, 5, 105, 100), (-5, -2, 100, 105), (0, 0, 100, 100)],
    )
    def test_how_long_records_are_kept(self, lower: int, upper: int, left_until: int, right_until: int) -> None:
        for send, table, until in (
            ("process_element1", LEFT_TABLE, left_until),
            ("process_element2", RIGHT_TABLE, right_until),
        ):
            with join(lower, upper) as harness:
                getattr(harness, send)("a", 100)
                assert harness.event_time_timers == [(until, "a")]
                harness.process_watermark(until - 1)
                assert list(harness.keyed_state(table)) == ["a"]
                harness.process_watermark(until)
                assert is_empty(harness)

    def test_one_timer_for_the_first_record_of_a_side(self) -> None:
        with join(-10, 20) as harness:
            harness.process_elements1(["a"] * 100, range(100, 200))
            harness.process_elements2(["a"] * 100, range(100, 200))
            assert harness.event_time_timers == [(110, "a"), (120, "a")]
            harness.process_watermark(150)
            assert harness.event_time_timers == [(151, "a")]  # of both sides
            assert harness.keyed_state(LEFT_TABLE)["a"][0] == list(range(131, 200))
            assert harness.keyed_state(RIGHT_TABLE)["a"][0] == list(range(141, 200))

    def test_a_record_before_the_first_one_has_its_own_timer(self) -> None:
        with join(0, 10) as harness:
            harness.process_elements1(["a1", "a2"], [5, 3])
            harness.process_watermark(13)
            assert harness.keyed_state(LEFT_TABLE) == {"a": ([5], ["a1"])}
            harness.process_watermark(15)
            assert is_empty(harness)

    def test_the_watermark_is_the_lesser_of_both(self) -> None:
        with join(0, 10) as harness:
            harness.process_element1("a", 5)
            harness.process_watermark1(100)
            assert not is_empty(harness)
            harness.process_watermark2(50)
            assert is_empty(harness)
            assert harness.watermarks == [50]

    def test_times_at_the_end_of_time(self) -> None:
        with join(-10, 10) as harness:
            harness.process_element1("a", MAX_WATERMARK - 1)
            harness.process_element2("a", MAX_WATERMARK)
            assert len(harness.output) == 1
            harness.end_input()
            assert is_empty(harness)

    def test_more_keys_than_a_chunk(self) -> None:
        with join(0, 10) as harness:
            keys = [(number,) for number in range(CHUNK + 5)]
            harness.process_elements1(keys, [1] * len(keys))
            harness.process_watermark(10)
            assert len(harness.keyed_state(LEFT_TABLE)) == len(keys)
            harness.process_watermark(11)
            assert is_empty(harness)


class TestBatchMode:
    def test_key_by_key(self) -> None:
        with join(-5, 5, batch_mode=True) as harness:
            harness.process_elements1(["a1", "b1", "a2"], [30, 1, 10])
            harness.process_watermark(1000)
            harness.process_elements2(["b2", "a3", "a4"], [5, 14, 31])
            harness.end_input()
            assert sorted(harness.output_with_timestamps) == [(("a1", "a4"), 31), (("a2", "a3"), 14), (("b1", "b2"), 5)]
            assert is_empty(harness)


class TestSnapshots:
    def test_restored_in_another_number_of_subtasks(self) -> None:
        with join(0, 10) as harness:
            harness.process_elements1([(key, 1) for key in range(50)], [1] * 50)
            taken = harness.snapshot()
        found = []
        for subtask in range(3):
            harness = join(0, 10, parallelism=3, subtask=subtask)
            harness.restore(taken)
            with harness:
                assert {key for _, key in harness.event_time_timers} == set(harness.keyed_state(LEFT_TABLE))
                own = sorted(harness.keyed_state(LEFT_TABLE))
                harness.process_elements2([(key, 2) for key in own], [5] * len(own))
                found.extend(harness.output)
                harness.process_watermark(11)
                assert harness.keyed_state(LEFT_TABLE) == {}
                harness.end_input()
                assert is_empty(harness)
        assert sorted(found) == [((key, 1), (key, 2)) for key in range(50)]


# --- properties ---

BOUNDS = st.tuples(st.integers(-12, 12), st.integers(-12, 12))
EVENTS = st.lists(st.tuples(st.sampled_from([1, 2]), st.sampled_from("ab"), st.integers(0, 40)), max_size=50)
SIZES = st.sampled_from([None, 1, 2, 7, 1000])


def feed(harness: TwoInputOperatorHarness, side: int, value: Any, time: int) -> None:
    (harness.process_element1 if side == 1 else harness.process_element2)(value, time)


@given(BOUNDS, EVENTS, SIZES, st.integers(0, 20), st.booleans())
def test_all_pairs_of_a_nested_loop(bounds: Any, events: Any, size: Any, disorder: int, batch_mode: bool) -> None:
    """However disordered the records are within what the watermark allows, and however they are cut into batches."""
    lower, upper = bounds
    ordered = sorted(enumerate(events), key=lambda event: event[1][2] + (event[0] * 7919) % (disorder + 1))
    with join(lower, upper, batch_size=size, batch_mode=batch_mode) as harness:
        for number, (side, key, time) in ordered:
            feed(harness, side, (key, number), time)
            # No record to come is earlier than this one by more than the disorder.
            harness.process_watermark(time - disorder - 1)
        harness.end_input()
        assert sorted(harness.output_with_timestamps) == sorted(
            (((key, i), (key, j)), max(left, right))
            for i, (side, key, left) in enumerate(events)
            for j, (other, same, right) in enumerate(events)
            if (side, other) == (1, 2) and key == same and left + lower <= right <= left + upper
        )
        assert dropped(harness) == 0
        assert is_empty(harness)


class Model:
    """The operator as Flink describes it: a bucket and a timer for each timestamp, looked through one by one."""

    def __init__(self, lower: int, upper: int) -> None:
        self.bounds = {1: (lower, upper), 2: (-upper, -lower)}
        self.kept: list[tuple[int, Any, int]] = []
        self.watermark = -(2**63)
        self.output: list[Any] = []
        self.late: list[Any] = []

    def record(self, side: int, value: Any, time: int) -> None:
        if time < self.watermark:
            self.late.append(value)
            return
        lower, upper = self.bounds[side]
        for other, partner, at in self.kept:
            if other != side and partner[0] == value[0] and time + lower <= at <= time + upper:
                pair = (value, partner) if side == 1 else (partner, value)
                self.output.append((pair, max(time, at)))
        self.kept.append((side, value, time))

    def advance(self, watermark: int) -> None:
        if watermark > self.watermark:
            self.watermark = watermark
            self.kept = [
                (side, value, time)
                for side, value, time in self.kept
                if time + max(self.bounds[side][1], 0) > watermark
            ]


WATERMARKS = st.tuples(st.just(0), st.just(""), st.integers(0, 40))


@given(BOUNDS, st.lists(EVENTS.map(lambda events: events[:4]) | st.lists(WATERMARKS, max_size=1), max_size=15), SIZES)
def test_late_records_and_cleaning_are_those_of_flink(bounds: Any, steps: Any, size: Any) -> None:
    model = Model(*bounds)
    with join(*bounds, tags=("late", "late"), batch_size=size) as harness:
        for number, (side, key, time) in enumerate(event for step in steps for event in step):
            if side:
                feed(harness, side, (key, number), time)
                model.record(side, (key, number), time)
            else:
                harness.process_watermark(time)
                model.advance(time)
        assert sorted(harness.output_with_timestamps) == sorted(model.output)
        assert harness.side_output("late") == model.late
        tables = harness.keyed_state(LEFT_TABLE), harness.keyed_state(RIGHT_TABLE)
        kept = [record for table in tables for _, records in table.values() for record in records]
        assert sorted(kept) == sorted(value for _, value, _ in model.kept)
        harness.end_input()
        assert is_empty(harness)


@given(BOUNDS, EVENTS, EVENTS, st.integers(0, 40))
def test_a_snapshot_in_between_changes_nothing(bounds: Any, before: Any, after: Any, watermark: int) -> None:
    with join(*bounds) as whole, join(*bounds) as former:
        latter = join(*bounds)
        for harness in (whole, former):
            for number, (side, key, time) in enumerate(before):
                feed(harness, side, (key, number), time)
            harness.process_watermark(watermark)
        latter.restore(former.snapshot())
        with latter:
            latter.process_watermark(watermark)
            for harness in (whole, latter):
                for number, (side, key, time) in enumerate(after, len(before)):
                    feed(harness, side, (key, number), time)
            assert whole.output == former.output + latter.output
            latter.end_input()
            assert is_empty(latter)
