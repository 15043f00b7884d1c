"""The harness itself: its life, its batching, its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.common import Row, Types
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.datastream.functions import (
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.stateless import MapOperator
from flintstream.testing import Idleness, OneInputOperatorHarness, TwoInputOperatorHarness, Watermark


class Sizes(Operator):
    """Emits the size of each batch it gets."""

    def process(self, batch: Batch) -> None:
        self.output.emit(Batch([len(batch)]))


class Counting(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.counter = runtime_context.get_int_counter("seen")
        self.greeting = runtime_context.get_job_parameter("greeting", "hello")

    def map(self, value: Any) -> Any:
        self.counter.add(1)
        return f"{self.greeting} {value}"


class TestBatching:
    @pytest.mark.parametrize("through_blocks", [False, True])
    @pytest.mark.parametrize(("size", "sizes"), [(None, [3, 1, 1]), (1, [1] * 5), (2, [2, 2, 1]), (10, [5])])
    def test_how_many_records_the_operator_gets_at_once(
        self, size: int | None, sizes: list[int], through_blocks: bool
    ) -> None:
        with OneInputOperatorHarness(Sizes(), batch_size=size, through_blocks=through_blocks) as harness:
            harness.process_elements("abc")
            harness.process_element("d")
            harness.process_element("e")
            assert harness.output == sizes

    def test_looking_at_the_output_processes_what_is_gathered(self) -> None:
        with OneInputOperatorHarness(Sizes(), batch_size=10) as harness:
            harness.process_element(1)
            assert harness.output == [1]
            harness.process_elements([2, 3])
            assert harness.output == [1, 2]

    def test_closing_processes_what_is_gathered(self) -> None:
        with OneInputOperatorHarness(Sizes(), batch_size=10) as harness:
            harness.process_element(1)
        assert harness.output == [1]

    def test_inputs_do_not_overtake_each_other(self) -> None:
        class Both:
            def map1(self, value: Any) -> Any:
                return 1, value

            def map2(self, value: Any) -> Any:
                return 2, value

        with TwoInputOperatorHarness(Both(), batch_size=10) as harness:
            harness.process_element1("a")
            harness.process_element2("b")
            harness.process_element1("c")
            assert harness.output == [(1, "a"), (2, "b"), (1, "c")]

    def test_through_blocks_records_are_copies(self) -> None:
        value = ["mutable"]
        for through_blocks in (False, True):
            with OneInputOperatorHarness(lambda v: True, kind="filter", through_blocks=through_blocks) as harness:
                harness.process_element(value)
                assert harness.output == [value]
                assert (harness.output[0] is value) is not through_blocks


class TestLife:
    def test_without_with(self) -> None:
        harness = OneInputOperatorHarness(lambda v: v, kind="map")
        with pytest.raises(RuntimeError, match=r"call open\(\) first"):
            harness.process_element(1)
        harness.open()
        harness.process_element(1)
        harness.close()
        harness.close()
        assert harness.output == [1]
        with pytest.raises(RuntimeError, match="closed"):
            harness.process_element(2)
        with pytest.raises(RuntimeError, match="opened only once"):
            harness.open()

    def test_a_failing_test_closes_the_function_and_keeps_its_own_error(self) -> None:
        closed: list[bool] = []

        class Failing(MapFunction):
            def map(self, value: Any) -> Any:
                return value

            def close(self) -> None:
                closed.append(True)
                raise ValueError("in close")

        with pytest.raises(ZeroDivisionError), OneInputOperatorHarness(Failing()):
            _ = 1 / 0
        assert closed == [True]
        with pytest.raises(Exception, match="in close"), OneInputOperatorHarness(Failing()):
            pass

    def test_nothing_follows_the_end(self) -> None:
        with OneInputOperatorHarness(lambda v: v, kind="map") as harness:
            harness.end_input()
            with pytest.raises(RuntimeError, match="input 1 has ended"):
                harness.process_watermark(1)


class TestWhatItShows:
    def test_clear_output(self) -> None:
        with OneInputOperatorHarness(lambda v: v, kind="map") as harness:
            harness.process_element(1)
            harness.process_watermark(1)
            harness.clear_output()
            harness.process_element(2)
            assert harness.records_and_watermarks == [(2, None)]

    def test_idleness(self) -> None:
        with OneInputOperatorHarness(lambda v: v, kind="map") as harness:
            harness.process_idleness()
            harness.process_idleness(False)
            harness.process_watermark(3)
            assert harness.records_and_watermarks == [Idleness(True), Idleness(False), Watermark(3)]

    def test_accumulators_and_job_parameters(self) -> None:
        with OneInputOperatorHarness(Counting(), job_parameters={"greeting": "hi"}) as harness:
            harness.process_elements("ab")
            assert harness.output == ["hi a", "hi b"]
            assert harness.accumulators == {"seen": 2}

    def test_keyed_state_needs_keys(self) -> None:
        harness = OneInputOperatorHarness(lambda v: v, kind="map")
        with harness, pytest.raises(RuntimeError, match="not keyed"):
            harness.keyed_state("x")


class TestChoice:
    def test_an_operator_as_it_is(self) -> None:
        with OneInputOperatorHarness(MapOperator(str)) as harness:
            harness.process_element(1)
            assert harness.output == ["1"]

    def test_key_selector_objects_are_opened(self) -> None:
        class ByLength(KeySelector):
            def open(self, runtime_context: Any) -> None:
                self.offset = runtime_context.get_index_of_this_subtask()

            def get_key(self, value: Any) -> int:
                return len(value) + self.offset

        with OneInputOperatorHarness(lambda v, ctx: [ctx.get_current_key()], ByLength(), kind="process") as harness:
            harness.process_element("abc")
            assert harness.output == [3]

    def test_a_declared_key_type(self) -> None:
        with OneInputOperatorHarness(
            lambda v, ctx: [ctx.get_current_key()],
            lambda v: (v, "x"),
            kind="process",
            key_type=Types.ROW([Types.INT(), Types.STRING()]),
        ) as harness:
            harness.process_element(1)
            assert harness.output == [Row(f0=1, f1="x")]

    def test_a_key_of_another_subtask_is_refused(self) -> None:
        keys = {owner: next(k for k in range(999) if self._owner(k) == owner) for owner in (0, 1)}
        with OneInputOperatorHarness(lambda v: v, lambda v: v, kind="map", parallelism=2, subtask=1) as harness:
            harness.process_element(keys[1])
            with pytest.raises(ValueError, match=f"key {keys[0]} is in key group .* belongs to subtask 0"):
                harness.process_element(keys[0])

    @staticmethod
    def _owner(key: int) -> int:
        return subtask_for_group(key_group(key, 128), 128, 2)

    @pytest.mark.parametrize(
        ("function", "options", "complaint"),
        [
            (len, {}, "plain callable: specify its kind"),
            (len, {"kind": "window"}, "kind must be one of 'map', 'filter'"),
            (object(), {}, "none of the methods map()"),
            (
                type("Two", (MapFunction, FlatMapFunction), {"map": len, "flat_map": len})(),
                {},
                "kind='map' or 'flat_map'",
            ),
            (
                type("Keyed", (KeyedProcessFunction,), {"process_element": len})(),
                {},
                "pass a key_selector to the harness",
            ),
            (len, {"kind": "map", "parallelism": 2, "subtask": 2}, "0 <= subtask < parallelism"),
            (len, {"kind": "map", "batch_size": 0}, "batch_size must be at least 1"),
        ],
    )
    def test_refusals(self, function: Any, options: dict[str, Any], complaint: str) -> None:
        with pytest.raises((TypeError, ValueError)) as caught:
            OneInputOperatorHarness(function, **options)
        assert complaint in str(caught.value)

    def test_the_wrong_number_of_inputs(self) -> None:
        with pytest.raises(TypeError, match="use a OneInputOperatorHarness"):
            TwoInputOperatorHarness(MapOperator(str))
        with pytest.raises(ValueError, match="both inputs or for neither"):
            TwoInputOperatorHarness(MapOperator(str), key_selector1=len)

    def test_timestamps_must_fit(self) -> None:
        harness = OneInputOperatorHarness(lambda v: v, kind="map")
        with harness, pytest.raises(ValueError, match="3 values need as many timestamps, got 1"):
            harness.process_elements("abc", timestamps=[1])


def test_batch_mode_groups_by_key() -> None:
    class Order(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    with OneInputOperatorHarness(Order(), lambda v: v[0], batch_mode=True) as harness:
        harness.process_elements(["a1", "b1", "a2", "b2"])
        assert harness.output == []
        harness.end_input()
        assert harness.output == ["a1", "a2", "b1", "b2"]
