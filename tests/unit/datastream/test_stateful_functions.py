"""map_with_state, flat_map_with_state and filter_with_state: a plain function of a record and the state of its key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.stateful_functions import FilterWithState, FlatMapWithState, MapWithState
from flintstream.graph import SinkTransformation, StreamGraphConfig, StreamGraphGenerator
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.testing import LocalJob, OneInputOperatorHarness, UserCodeError


def first(value: Any) -> Any:
    return value[0]


def harness(kind: Any, function: Any, **options: Any) -> OneInputOperatorHarness:
    return OneInputOperatorHarness(kind("with_state", function, None), first, name="my operator", **options)


def count(value: Any, seen: int | None) -> tuple[Any, int]:
    seen = (seen or 0) + 1
    return (value, seen), seen


RECORDS = ["a1", "b1", "a2", "a3", "b2"]


class TestMap:
    @pytest.mark.parametrize("batch_size", [1, 2, 100])
    def test_one_result_a_record(self, batch_size: int) -> None:
        with harness(MapWithState, count, batch_size=batch_size) as operator:
            operator.process_elements(RECORDS, timestamps=[1, 2, 3, 4, 5])
            assert operator.output_with_timestamps == [
                (("a1", 1), 1),
                (("b1", 1), 2),
                (("a2", 2), 3),
                (("a3", 3), 4),
                (("b2", 2), 5),
            ]
            assert operator.keyed_state("state") == {"a": 3, "b": 2}

    def test_none_forgets_the_state(self) -> None:
        def until_three(value: Any, seen: int | None) -> tuple[Any, int | None]:
            seen = (seen or 0) + 1
            return seen, None if seen == 3 else seen

        with harness(MapWithState, until_three) as operator:
            operator.process_elements(["a"] * 7)
            assert operator.output == [1, 2, 3, 1, 2, 3, 1]
            operator.process_elements(["a"] * 2)
            assert operator.keyed_state("state") == {}

    @pytest.mark.parametrize("state", [0, "", False, [], ()])
    def test_a_falsy_state_is_a_state(self, state: Any) -> None:
        with harness(MapWithState, lambda value, before: (before, state)) as operator:
            operator.process_elements(["a", "a"])
            assert operator.output == [None, state]

    def test_a_result_of_none_is_a_result(self) -> None:
        with harness(MapWithState, lambda value, before: (None, 1)) as operator:
            operator.process_elements(["a", "a"])
            assert operator.output == [None, None]

    def test_a_result_that_is_the_state_and_is_changed_later(self) -> None:
        def gather(value: Any, seen: list[Any] | None) -> tuple[Any, Any]:
            seen = [] if seen is None else seen
            seen.append(value)
            return seen, seen

        with harness(MapWithState, gather) as operator:
            operator.process_elements(["a1", "a2", "b1", "a3"])
            assert operator.output == [["a1"], ["a1", "a2"], ["b1"], ["a1", "a2", "a3"]]

    def test_a_list_is_a_pair_too(self) -> None:
        with harness(MapWithState, lambda value, seen: [value, 1]) as operator:
            operator.process_element("a")
            assert operator.output == ["a"]

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3))), st.integers(1, 5))
    def test_it_is_a_fold_by_key(self, records: list[tuple[str, int]], batch_size: int) -> None:
        def add(value: tuple[str, int], total: int | None) -> tuple[Any, int]:
            total = (total or 0) + value[1]
            return (value[0], total), total

        totals: dict[str, int] = {}
        expected = []
        for key, number in records:
            totals[key] = totals.get(key, 0) + number
            expected.append((key, totals[key]))
        with harness(MapWithState, add, batch_size=batch_size) as operator:
            operator.process_elements(records)
            assert operator.output == expected


class TestFlatMap:
    def test_any_number_of_results(self) -> None:
        def changes(value: str, last: str | None) -> tuple[Any, str]:
            return ([] if last is None else [last, value] if last != value else None), value

        with harness(FlatMapWithState, changes) as operator:
            operator.process_elements(["a1", "a1", "b1", "a2", "b3"], timestamps=[1, 2, 3, 4, 5])
            assert operator.output_with_timestamps == [("a1", 4), ("a2", 4), ("b1", 5), ("b3", 5)]

    def test_a_generator_as_the_result(self) -> None:
        with harness(FlatMapWithState, lambda value, seen: ((value + str(n) for n in range(2)), 1)) as operator:
            operator.process_element("a")
            assert operator.output == ["a0", "a1"]

    def test_a_generator_in_place_of_the_pair(self) -> None:
        def wrong(value: Any, seen: Any) -> Iterator[Any]:
            yield value
            yield value

        with (
            pytest.raises(UserCodeError, match="with_state: the function must return a pair"),
            harness(FlatMapWithState, wrong) as operator,
        ):
            operator.process_element("a")


class TestFilter:
    def test_the_first_of_each_key(self) -> None:
        with harness(FilterWithState, lambda value, seen: (seen is None, True)) as operator:
            operator.process_elements(RECORDS, timestamps=[1, 2, 3, 4, 5])
            assert operator.output_with_timestamps == [("a1", 1), ("b1", 2)]

    def test_anything_true(self) -> None:
        with harness(FilterWithState, lambda value, seen: (value[1:], None)) as operator:
            operator.process_elements(["a", "a1"])
            assert operator.output == ["a1"]


@pytest.mark.parametrize("kind", [MapWithState, FlatMapWithState, FilterWithState])
@pytest.mark.parametrize("given_back", [None, 5, "ab", (1,), (1, 2, 3), {1: 2, 3: 4}, {1, 2}], ids=repr)
def test_what_is_no_pair_is_refused(kind: Any, given_back: Any) -> None:
    with (
        pytest.raises(
            UserCodeError, match="with_state: the function must return a pair of the result and the new"
        ) as caught,
        harness(kind, lambda value, state: given_back) as operator,
    ):
        operator.process_elements(["a1"])
    assert caught.value.fault.operator == "my operator"
    assert caught.value.fault.record == "'a1'"


def test_an_error_leaves_the_state() -> None:
    def fail(value: str, seen: int | None) -> tuple[Any, int]:
        return 1 // int(value[1]), (seen or 0) + 1

    operator = harness(MapWithState, fail)
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught, operator:
        operator.process_elements(["a1", "a2", "a0"])
    assert caught.value.fault.record == "'a0'"
    assert operator._operator.context.keyed_state.table("state") == {"a": 2}  # type: ignore[union-attr]


class TestThroughTheApi:
    def collected(self, stream: Any, **options: Any) -> list[Any]:
        sink = SinkTransformation(stream._transformation, "collect", CollectOperator("c"))
        parallelism = stream.get_execution_environment().get_parallelism()
        graph = StreamGraphGenerator([sink], StreamGraphConfig(parallelism=parallelism)).generate()
        return LocalJob(graph, **options).run().collected.get("c", [])

    def keyed(self, parallelism: int = 1) -> Any:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        return env.from_collection(RECORDS).key_by(first)

    @pytest.mark.parametrize("records_per_epoch", [1, 2, 100])
    def test_over_epochs(self, records_per_epoch: int) -> None:
        options = {"records_per_epoch": records_per_epoch}
        expected = [("a1", 1), ("b1", 1), ("a2", 2), ("a3", 3), ("b2", 2)]
        assert self.collected(self.keyed().map_with_state(count), **options) == expected
        kept = self.keyed().filter_with_state(lambda value, seen: (seen is None, True))
        assert self.collected(kept, **options) == ["a1", "b1"]
        doubled = self.keyed().flat_map_with_state(lambda value, seen: ([value] * 2, 1))
        assert self.collected(doubled, **options) == [value for value in RECORDS for _ in range(2)]

    @pytest.mark.parametrize("batch_mode", [False, True])
    def test_in_parallel(self, batch_mode: bool) -> None:
        results = self.collected(self.keyed(3).map_with_state(count), batch_mode=batch_mode)
        assert sorted(results) == [("a1", 1), ("a2", 2), ("a3", 3), ("b1", 1), ("b2", 2)]

    def test_types(self) -> None:
        counted = self.keyed().map_with_state(
            lambda value, seen: ((seen or 0) + 1, (seen or 0) + 1), output_type=Types.LONG(), state_type=Types.LONG()
        )
        assert counted.get_type() == Types.LONG()
        assert self.collected(counted) == [1, 1, 2, 3, 2]
        kept = self.keyed().filter_with_state(lambda value, seen: (True, 1))
        assert kept.get_type() == self.keyed().get_type()

    @pytest.mark.parametrize("method", ["map_with_state", "flat_map_with_state", "filter_with_state"])
    def test_what_is_no_function_is_refused_at_once(self, method: str) -> None:
        with pytest.raises(TypeError, match=f"{method}: expected a function of a record and a state, got 5"):
            getattr(self.keyed(), method)(5)
