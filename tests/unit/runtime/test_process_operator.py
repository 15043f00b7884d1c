"""Process functions on one stream, keyed or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.common.output_tag import OutputTag
from flintstream.datastream.functions import KeyedProcessFunction, ProcessFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.batch import CHUNK, MIN_WATERMARK, NO_TIMESTAMP
from flintstream.testing import OneInputOperatorHarness, Watermark

pytestmark = pytest.mark.usefixtures("state_backend")

LATE = OutputTag("late")


class Split(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value < 0:
            yield LATE, value
        else:
            yield value


class CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class See(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.timestamp(), ctx.timer_service().current_watermark()


def test_side_outputs_keep_order_and_timestamps() -> None:
    with OneInputOperatorHarness(Split()) as harness:
        harness.process_elements([1, -2, 3, -4], timestamps=[10, 20, 30, 40])
        harness.process_elements([-5])
        assert harness.output_with_timestamps == [(1, 10), (3, 30)]
        assert harness.side_output_with_timestamps(LATE) == [(-2, 20), (-4, 40), (-5, None)]
        assert harness.side_output("late") == [-2, -4, -5]
        assert harness.side_output("unknown") == []


def test_side_outputs_leave_before_the_watermark_that_follows() -> None:
    with OneInputOperatorHarness(Split(), batch_size=10, through_blocks=True) as harness:
        sides_at_watermark: list[list[int]] = []
        main = harness._recorded.main
        main.process_watermark = lambda timestamp: sides_at_watermark.append(  # type: ignore[method-assign]
            [record.value for record in harness._recorded.sides["late"].records]
        )
        harness.process_elements([-1, 1])
        harness.process_watermark(5)
        harness.process_elements([-2])
        assert harness.side_output(LATE) == [-1, -2]
        assert sides_at_watermark == [[-1]]


@pytest.mark.parametrize("result", [(), (1, 2), (1, LATE), [LATE, 1]])
def test_only_a_pair_with_a_tag_is_a_side_output(result: Any) -> None:
    with OneInputOperatorHarness(lambda value, ctx: [result], kind="process") as harness:
        harness.process_element(1)
        assert harness.output == [result]


@pytest.mark.parametrize("key_selector", [None, lambda value: value], ids=["plain", "keyed"])
@pytest.mark.parametrize("timestamp", [None, 5])
def test_none_and_empty_results_mean_none(key_selector: Any, timestamp: int | None) -> None:
    answers = {1: None, 2: [], 3: (), 4: [None], 5: [0, ""]}
    with OneInputOperatorHarness(lambda v, ctx: answers[v], key_selector, kind="process") as harness:
        for value in answers:
            harness.process_element(value, timestamp)
        assert harness.output_with_timestamps == [(value, timestamp) for value in (None, 0, "")]


def test_the_context_tells_timestamp_and_watermark() -> None:
    with OneInputOperatorHarness(See(), through_blocks=True, batch_size=10) as harness:
        harness.process_element("a")
        harness.process_element("b", timestamp=7)
        harness.process_watermark(9)
        harness.process_element("c", timestamp=12)
        assert harness.output == [(NO_TIMESTAMP, MIN_WATERMARK), (7, MIN_WATERMARK), (12, 9)]
        assert harness.watermarks == [9]


def test_a_record_without_timestamp_behind_one_with() -> None:
    with OneInputOperatorHarness(See()) as harness:
        harness.process_element("a", timestamp=7)
        harness.process_element("b")
        assert [time for time, _ in harness.output] == [7, NO_TIMESTAMP]


@pytest.mark.parametrize("timestamp", [None, 3])
def test_huge_results_leave_in_chunks(timestamp: int | None) -> None:
    count = 2 * CHUNK + 1
    with OneInputOperatorHarness(lambda v, ctx: range(count), kind="process") as harness:
        harness.process_element(1, timestamp)
        assert harness.output_with_timestamps == [(i, timestamp) for i in range(count)]
        assert harness.batch_sizes == [CHUNK, CHUNK, 1]


class TestKeyed:
    def test_state_and_key_of_each_record(self) -> None:
        with OneInputOperatorHarness(CountPerKey(), key_selector=lambda v: v[0]) as harness:
            harness.process_elements(["a1", "b1", "a2", "a3", "b2"])
            assert harness.output == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]
            assert harness.keyed_state("count") == {"a": 3, "b": 2}

    @given(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30),
        st.integers(1, 7),
        st.booleans(),
    )
    def test_results_do_not_depend_on_batching(
        self, records: list[tuple[str, int]], batch_size: int, through_blocks: bool
    ) -> None:
        def run(**options: Any) -> list[Any]:
            with OneInputOperatorHarness(CountPerKey(), lambda v: v[0], **options) as harness:
                for record in records:
                    harness.process_element(record, timestamp=record[1])
                    if record[1] > 5:
                        harness.process_watermark(record[1])
                return harness.records_and_watermarks

        assert run(batch_size=batch_size, through_blocks=through_blocks) == run()

    def test_timers_need_a_key(self) -> None:
        def register(value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(5)

        with (
            pytest.raises(Exception, match="timers are only supported on a keyed stream"),
            OneInputOperatorHarness(register, kind="process") as harness,
        ):
            harness.process_element(1)

    def test_state_needs_a_key(self) -> None:
        class Plain(ProcessFunction):
            def open(self, runtime_context: Any) -> None:
                runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value: Any, ctx: Any) -> None: ...

        with pytest.raises(Exception, match="keyed state 'count' can only be used on a keyed stream"):
            OneInputOperatorHarness(Plain()).open()


def test_watermarks_pass() -> None:
    with OneInputOperatorHarness(Split()) as harness:
        harness.process_watermark(5)
        harness.process_watermark(4)
        harness.process_watermark(6)
        assert harness.records_and_watermarks == [Watermark(5), Watermark(6)]
