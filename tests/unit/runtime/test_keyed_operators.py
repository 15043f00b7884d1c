"""Rich functions on keyed streams, and the rolling reduce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.datastream.functions import FilterFunction, FlatMapFunction, MapFunction, ReduceFunction
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.testing import OneInputOperatorHarness, Record, UserCodeError, Watermark

pytestmark = pytest.mark.usefixtures("state_backend")


class _Counting:
    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def count(self) -> int:
        count = (self.state.value() or 0) + 1
        self.state.update(count)
        return count


class CountingMap(_Counting, MapFunction):
    def map(self, value: str) -> Any:
        return value, self.count()


class FirstOnly(_Counting, FilterFunction):
    def filter(self, value: str) -> bool:
        return self.count() == 1


class Seen(FlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def flat_map(self, value: str) -> Iterator[Any]:
        self.seen.add(value)
        if value.endswith("!"):
            yield from self.seen.get()


def first(value: Any) -> Any:
    return value[0]


@pytest.mark.parametrize("batch_size", [None, 1, 2, 100])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (CountingMap, [(("a1", 1), 10), (("b1", 1), 20), (("a2", 2), 30), (("b!", 2), 40)]),
        (FirstOnly, [("a1", 10), ("b1", 20)]),
        (Seen, [("b1", 40), ("b!", 40)]),
    ],
)
def test_each_record_sees_the_state_of_its_key(function: Any, expected: Any, batch_size: int | None) -> None:
    with OneInputOperatorHarness(function(), first, batch_size=batch_size) as harness:
        harness.process_elements(["a1", "b1", "a2", "b!"], timestamps=[10, 20, 30, 40])
        assert harness.output_with_timestamps == expected


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class RememberingSum(ReduceFunction):
    """Uses keyed state of its own beside the result."""

    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.LONG()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1]


RECORDS = [("a", 1), ("b", 10), ("a", 2), ("a", 3), ("b", 20)]


class TestReduce:
    @pytest.mark.parametrize("batch_size", [None, 1, 2])
    @pytest.mark.parametrize("through_blocks", [False, True])
    def test_rolling_results(self, batch_size: int | None, through_blocks: bool) -> None:
        with OneInputOperatorHarness(Sum(), first, batch_size=batch_size, through_blocks=through_blocks) as harness:
            harness.process_elements(RECORDS, timestamps=[1, 2, 3, 4, 5])
            assert harness.output_with_timestamps == [
                (("a", 1), 1),
                (("b", 10), 2),
                (("a", 3), 3),
                (("a", 6), 4),
                (("b", 30), 5),
            ]

    def test_a_plain_callable(self) -> None:
        with OneInputOperatorHarness(lambda a, b: a if a > b else b, lambda v: v % 2, kind="reduce") as harness:
            harness.process_elements([1, 4, 3, 2])
            assert harness.output == [1, 4, 3, 4]

    @pytest.mark.parametrize("none_like", [None, 0, ""])
    def test_a_result_of_none_is_a_result(self, none_like: Any) -> None:
        pairs: list[Any] = []

        def reduce(a: Any, b: Any) -> Any:
            pairs.append((a, b))
            return none_like

        with OneInputOperatorHarness(reduce, lambda v: "k", kind="reduce") as harness:
            harness.process_elements([1, 2, 3])
            assert harness.output == [1, none_like, none_like]
        assert pairs == [(1, 2), (none_like, 3)]

    def test_batch_mode_gives_the_last_result_of_each_key_before_the_last_watermark(self) -> None:
        with OneInputOperatorHarness(Sum(), first, batch_mode=True) as harness:
            harness.process_elements(RECORDS, timestamps=[1, 2, 3, 4, 5])
            assert harness.output == []
            harness.end_input()
            *results, last = harness.records_and_watermarks
            assert sorted(results) == [Record(("a", 6), MAX_WATERMARK), Record(("b", 30), MAX_WATERMARK)]
            assert last == Watermark(MAX_WATERMARK)
            assert harness.finished

    @pytest.mark.parametrize(("timestamps", "expected"), [(None, ["a123", "b12"]), ([5, 2, 1, 3, 2], ["a231", "b12"])])
    def test_batch_mode_reduces_the_records_of_a_key_by_their_timestamps(self, timestamps: Any, expected: Any) -> None:
        with OneInputOperatorHarness(lambda a, b: a + b[1:], first, kind="reduce", batch_mode=True) as harness:
            harness.process_elements(["a1", "b1", "a2", "a3", "b2"], timestamps=timestamps)
            harness.end_input()
            assert sorted(harness.output) == expected

    def test_state_of_the_function_belongs_to_the_key(self) -> None:
        with OneInputOperatorHarness(RememberingSum(), first) as harness:
            harness.process_elements(RECORDS)
            assert harness.keyed_state("calls") == {"a": 2, "b": 1}

    def test_needs_keys(self) -> None:
        with pytest.raises(TypeError, match="key_selector"):
            OneInputOperatorHarness(Sum())

    def test_the_record_at_fault_is_the_new_one(self) -> None:
        with (
            pytest.raises(UserCodeError) as error,
            OneInputOperatorHarness(lambda a, b: a / b, lambda v: "k", kind="reduce") as harness,
        ):
            harness.process_elements([8, 2, 0, 1])
        assert error.value.fault.record == "0"
