"""Functions over two connected streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.common.output_tag import OutputTag
from flintstream.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.testing import Idleness, Record, TwoInputOperatorHarness, UserCodeError, Watermark

pytestmark = pytest.mark.usefixtures("state_backend")


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return f"left {value}" if value is not None else None

    def map2(self, value: Any) -> Any:
        return f"right {value}" if value is not None else None


class Spread(CoFlatMapFunction):
    def flat_map1(self, value: int) -> list[int] | None:
        return [value] * value if value else None

    def flat_map2(self, value: int) -> Iterator[int]:
        yield -value


class Tagging(CoProcessFunction):
    side = OutputTag("side")

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 1, value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.side, (2, value)


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.STRING()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.order.update(value[1])

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.order.value(), value[1]


class KeyedSpread(CoFlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def flat_map1(self, value: Any) -> None:
        self.seen.add(value)

    def flat_map2(self, value: Any) -> list[Any]:
        return list(self.seen)


def first(value: Any) -> Any:
    return value[0]


MODES = pytest.mark.parametrize("through_blocks", [False, True])


@MODES
@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_co_map_drops_none_and_keeps_timestamps(through_blocks: bool, batch_size: int | None) -> None:
    with TwoInputOperatorHarness(Both(), through_blocks=through_blocks, batch_size=batch_size) as harness:
        harness.process_elements1([1, None, 2], timestamps=[10, 20, 30])
        harness.process_elements2(["x", None], timestamps=[40, 50])
        assert harness.output_with_timestamps == [("left 1", 10), ("left 2", 30), ("right x", 40)]


def test_co_map_drops_none_without_timestamps_and_on_keyed_streams() -> None:
    with TwoInputOperatorHarness(Both(), lambda v: 1, lambda v: 1) as harness:
        harness.process_elements1([None, 1])
        assert harness.output == ["left 1"]


@MODES
def test_co_flat_map(through_blocks: bool) -> None:
    with TwoInputOperatorHarness(Spread(), through_blocks=through_blocks) as harness:
        harness.process_elements1([0, 2], timestamps=[1, 2])
        harness.process_element2(5, timestamp=3)
        assert harness.output_with_timestamps == [(2, 2), (2, 2), (-5, 3)]


@MODES
def test_co_process_sees_time_and_writes_to_sides(through_blocks: bool) -> None:
    with TwoInputOperatorHarness(Tagging(), through_blocks=through_blocks) as harness:
        harness.process_watermark1(10)
        harness.process_watermark2(5)
        harness.process_element1("a", timestamp=20)
        harness.process_element2("b", timestamp=21)
        assert harness.output == [(1, "a", 20, 5)]
        assert harness.side_output_with_timestamps(Tagging.side) == [((2, "b"), 21)]


@MODES
@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_both_sides_share_the_state_of_a_key(through_blocks: bool, batch_size: int | None) -> None:
    options: Any = {"through_blocks": through_blocks, "batch_size": batch_size}
    with TwoInputOperatorHarness(Match(), first, first, **options) as harness:
        harness.process_elements1([("a", "tea"), ("b", "milk")])
        harness.process_elements2([("b", 1), ("a", 2), ("c", 3)])
        assert harness.output == [("b", "milk", 1), ("a", "tea", 2), ("c", None, 3)]
    with TwoInputOperatorHarness(KeyedSpread(), first, first, **options) as harness:
        harness.process_elements1(["a1", "b1", "a2"])
        harness.process_elements2(["b?", "a?"])
        assert harness.output == ["b1", "a1", "a2"]


@MODES
class TestTime:
    def test_the_lesser_watermark_of_both_inputs_counts(self, through_blocks: bool) -> None:
        with TwoInputOperatorHarness(Both(), through_blocks=through_blocks) as harness:
            harness.process_watermark1(10)
            assert harness.watermarks == []
            harness.process_watermark2(7)
            harness.process_watermark2(12)
            assert harness.watermarks == [7, 10]

    def test_an_idle_input_is_not_waited_for(self, through_blocks: bool) -> None:
        with TwoInputOperatorHarness(Both(), through_blocks=through_blocks) as harness:
            harness.process_watermark1(10)
            harness.process_idleness2()
            harness.process_idleness1()
            harness.process_idleness1(False)
            harness.process_element1(1, timestamp=11)
            assert harness.records_and_watermarks == [
                Watermark(10),
                Idleness(True),
                Idleness(False),
                Record("left 1", 11),
            ]

    def test_one_ended_input_does_not_end_the_operator(self, through_blocks: bool) -> None:
        with TwoInputOperatorHarness(Both(), through_blocks=through_blocks) as harness:
            harness.process_watermark2(5)
            harness.end_input1()
            assert harness.watermarks == [5]
            assert not harness.finished
            harness.process_element2("late", timestamp=6)
            harness.end_input2()
            assert harness.finished
            assert harness.records_and_watermarks[-2:] == [Record("right late", 6), Watermark(MAX_WATERMARK)]
            with pytest.raises(RuntimeError, match="input 2 has ended"):
                harness.process_element2("more")


@pytest.mark.parametrize(
    ("function", "keyed"),
    [(Both, False), (Spread, False), (Tagging, False), (Match, True), (KeyedSpread, True)],
)
def test_one_and_two_inputs_are_told_apart(function: Any, keyed: bool) -> None:
    from flintstream.testing import OneInputOperatorHarness

    with pytest.raises(TypeError, match="none of the methods"):
        OneInputOperatorHarness(function())
    if function is Match:
        with pytest.raises(TypeError, match="key_selector"):
            TwoInputOperatorHarness(function())


def test_the_fault_names_the_record_of_the_right_input() -> None:
    class Failing(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        def map2(self, value: Any) -> Any:
            return 1 // value

    with pytest.raises(UserCodeError) as error, TwoInputOperatorHarness(Failing(), name="Co") as harness:
        harness.process_elements1([0, 0])
        harness.process_elements2([1, 0, 2])
    assert (error.value.fault.operator, error.value.fault.record) == ("Co", "0")
