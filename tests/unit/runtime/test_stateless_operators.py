"""map, filter and flat_map without keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.datastream.functions import FilterFunction, FlatMapFunction, MapFunction
from flintstream.runtime.batch import CHUNK
from flintstream.testing import OneInputOperatorHarness, Record, UserCodeError, Watermark


class Life(MapFunction):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        self.calls.append(("open", runtime_context.get_index_of_this_subtask()))

    def map(self, value: Any) -> Any:
        self.calls.append(value)
        return value

    def close(self) -> None:
        self.calls.append("close")


class Odd(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


class Repeat(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[int]:
        return iter([value] * value)


def repeat(value: int) -> list[int] | None:
    return [value] * value if value else None


@pytest.fixture(params=[None, 1, 3, 1000])
def batch_size(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[False, True], ids=["direct", "blocks"])
def through_blocks(request: pytest.FixtureRequest) -> Any:
    return request.param


CASES: list[tuple[Any, str, list[Any], list[int]]] = [
    (lambda v: v * 2, "map", [0, 2, 4, 6, 8], [0, 10, 20, 30, 40]),
    (lambda v: None, "map", [None] * 5, [0, 10, 20, 30, 40]),
    (Odd(), "filter", [1, 3], [10, 30]),
    (lambda v: v in (0, 4), "filter", [0, 4], [0, 40]),
    (Repeat(), "flat_map", [1, 2, 2, 3, 3, 3, 4, 4, 4, 4], [10, 20, 20, 30, 30, 30, 40, 40, 40, 40]),
    (repeat, "flat_map", [1, 2, 2, 3, 3, 3, 4, 4, 4, 4], [10, 20, 20, 30, 30, 30, 40, 40, 40, 40]),
]


@pytest.mark.parametrize(("function", "kind", "values", "times"), CASES)
@pytest.mark.parametrize("key_selector", [None, lambda value: "key"], ids=["plain", "keyed"])
class TestResults:
    def test_with_timestamps(
        self,
        function: Any,
        kind: str,
        values: list[Any],
        times: list[int],
        key_selector: Any,
        batch_size: int | None,
        through_blocks: bool,
    ) -> None:
        with OneInputOperatorHarness(
            function, key_selector, kind=kind, batch_size=batch_size, through_blocks=through_blocks
        ) as harness:
            harness.process_elements(range(5), timestamps=range(0, 50, 10))
            assert harness.output_with_timestamps == list(zip(values, times, strict=True))

    def test_without_timestamps(
        self, function: Any, kind: str, values: list[Any], times: list[int], key_selector: Any
    ) -> None:
        with OneInputOperatorHarness(function, key_selector, kind=kind) as harness:
            harness.process_elements(range(5))
            assert harness.output_with_timestamps == [(value, None) for value in values]


@pytest.mark.parametrize("key_selector", [None, lambda value: "key"], ids=["plain", "keyed"])
@pytest.mark.parametrize("timed", [False, True])
def test_huge_results_of_flat_map_leave_in_chunks(key_selector: Any, timed: bool) -> None:
    count = 3 * CHUNK + 5

    def huge(value: int) -> range:
        return range(count)

    with OneInputOperatorHarness(huge, key_selector, kind="flat_map") as harness:
        harness.process_element(1, timestamp=7 if timed else None)
        assert harness.output == list(range(count))
        assert max(harness.batch_sizes) <= CHUNK
        assert len(harness.batch_sizes) == 4
        assert {time for _, time in harness.output_with_timestamps} == {7 if timed else None}


def test_an_endless_result_is_passed_on_while_it_is_made() -> None:
    def endless(value: int) -> Iterator[int]:
        while True:
            yield value

    class EnoughError(Exception):
        pass

    with pytest.raises(EnoughError), OneInputOperatorHarness(endless, kind="flat_map") as harness:
        taken: list[int] = []

        def take(batch: Any) -> None:
            taken.append(len(batch))
            if len(taken) == 3:
                raise EnoughError

        harness._recorded.main.process = take  # type: ignore[method-assign]
        harness.process_element(1)


def test_an_empty_result_is_passed_on_to_nobody() -> None:
    with OneInputOperatorHarness(lambda value: False, kind="filter") as harness:
        harness.process_elements([1, 2])
        assert harness.batch_sizes == []


def test_open_records_close() -> None:
    function = Life()
    with OneInputOperatorHarness(function, parallelism=3, subtask=2) as harness:
        harness.process_elements("ab")
    assert function.calls == [("open", 2), "a", "b", "close"]


def test_watermarks_stay_between_the_records() -> None:
    with OneInputOperatorHarness(Odd(), through_blocks=True, batch_size=100) as harness:
        harness.process_elements([1, 2, 3], timestamps=[1, 2, 3])
        harness.process_watermark(3)
        harness.process_elements([4, 5], timestamps=[4, 5])
        assert harness.records_and_watermarks == [Record(1, 1), Record(3, 3), Watermark(3), Record(5, 5)]


def test_a_declared_output_type_changes_the_values() -> None:
    row = Types.ROW([Types.INT(), Types.STRING()])
    with OneInputOperatorHarness(lambda v: (v, "x"), kind="map", output_type=row) as harness:
        harness.process_element(1, timestamp=5)
        assert type(harness.output[0]).__name__ == "Row"
        assert harness.output_with_timestamps[0][1] == 5


def test_a_value_that_does_not_fit_the_declared_type_names_the_operator() -> None:
    with (
        pytest.raises(UserCodeError, match="'x'") as error,
        OneInputOperatorHarness(lambda v: v, kind="map", output_type=Types.INT(), name="Typed") as harness,
    ):
        harness.process_elements([1, "x"])
    assert error.value.fault.operator == "Typed"


@pytest.mark.parametrize("function", [5, "text", None])
def test_what_is_no_function_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="map"):
        OneInputOperatorHarness(function, kind="map").open()
