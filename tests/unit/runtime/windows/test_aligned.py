"""The fast operator beside the general one, panes that are shared beside those that are not, and what is left in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common.output_tag import OutputTag
from flintstream.common.typeinfo import Types
from flintstream.datastream import StreamExecutionEnvironment, WindowedStream
from flintstream.datastream.functions import AggregateFunction, ProcessWindowFunction
from flintstream.datastream.window import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.runtime.detach import set_object_reuse
from flintstream.runtime.windows.aligned import AlignedWindowOperator
from flintstream.runtime.windows.contents import MISSING, AggregatedContents, ReducedContents
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.runtime.windows.panes import SharedPanes
from flintstream.testing import OneInputOperatorHarness

LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())
Step = tuple[str, Any]


def operator(assigner: Any, call: Callable[[Any], Any], lateness: int = 0) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    windows = env.from_collection([("a", 1)]).key_by(lambda value: value[0]).window(assigner)
    windows = windows.allowed_lateness(lateness).side_output_late_data(LATE)
    found = call(windows)._transformation.operator
    assert isinstance(found, AlignedWindowOperator)
    return found


def general(assigner: Any, call: Callable[[Any], Any], lateness: int = 0) -> Any:
    return WindowOperator(operator(assigner, call, lateness).function)


def run(made: Any, steps: Iterable[Step], **options: Any) -> dict[Any, list[Any]]:
    """The results of each key, in order, with their timestamps, and the late records."""
    results: dict[Any, list[Any]] = {}
    with OneInputOperatorHarness(made, lambda value: value[0], **options) as harness:
        drive(harness, steps)
        harness.process_watermark(MAX_WATERMARK)
        for value, timestamp in harness.output_with_timestamps:
            results.setdefault(value[0], []).append((value, timestamp))
        results["late"] = harness.side_output_with_timestamps(LATE)
        assert not made.stored_timers()[0]
        assert not any(made.context.keyed_state._tables.values())
    return results


def drive(harness: Any, steps: Iterable[Step]) -> None:
    for step, argument in steps:
        if step == "records":
            harness.process_elements([value for value, _ in argument], [time for _, time in argument])
        else:
            harness.process_watermark(argument)


def stream(seed: int, keys: int = 7, records: int = 400, disorder: int = 30, negative: bool = False) -> list[Step]:
    """Records in some disorder, in batches of many sizes; most watermarks lag behind, some are rash."""
    rng = random.Random(seed)
    steps: list[Step] = []
    time, watermark, batch = -300 if negative else 0, -(2**40), []
    for number in range(records):
        time += rng.choice([0, 0, 1, 1, 2, 9, 40 if rng.random() < 0.05 else 1])
        back = rng.randrange(disorder) + (200 if rng.random() < 0.03 else 0)
        batch.append(((f"k{rng.randrange(keys)}", number % 11), time - back))
        if rng.random() < 0.2:
            steps.append(("records", batch))
            batch = []
            watermark = max(watermark, time - rng.choice([disorder, disorder, disorder // 2, 0]))
            steps.append(("watermark", watermark))
    return [*steps, ("records", batch)] if batch else steps


# --- functions ---


def plus(left: Any, right: Any) -> Any:
    return (left[0], left[1] + right[1])


class Tuples(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ("", 0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], accumulator[1] + value[1], accumulator[2] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2])


class Changed(AggregateFunction):
    """A dict that is changed in place by everyone: add, merge (which reuses the second) and the result."""

    def create_accumulator(self) -> Any:
        return {"key": None, "values": []}

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator["key"] = value[0]
        accumulator["values"].append(value[1])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        accumulator["values"].sort()
        result = (accumulator["key"], list(accumulator["values"]))
        accumulator["values"].append("spoilt")
        return result

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_b["values"].extend(acc_a["values"])
        acc_a["values"].clear()
        return acc_b


class ChangedFirst(Changed):
    def get_result(self, accumulator: Any) -> Any:
        return (accumulator["key"], sorted(accumulator["values"]))

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a["values"] += acc_b["values"]
        acc_b.clear()
        return acc_a


class Greatest(Tuples):
    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], max(value[1], accumulator[1]), 0)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return max(acc_a, acc_b)


class Show(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        found = list(elements)
        elements.clear()
        yield key, context.window(), found


CALLS = {
    "reduce": lambda windows: windows.reduce(plus),
    "aggregate": lambda windows: windows.aggregate(Tuples()),
    "greatest": lambda windows: windows.aggregate(Greatest()),
    "changed in place": lambda windows: windows.aggregate(ChangedFirst()),
    "aggregate, process": lambda windows: windows.aggregate(Tuples(), Show()),
    "process": lambda windows: windows.process(Show()),
    "fold": lambda windows: windows.fold(("", 0), lambda total, value: (value[0], total[1] + value[1])),
}
MERGEABLE = {
    "reduce": lambda windows: windows.reduce(plus, mergeable=True),
    "aggregate": lambda windows: windows.aggregate(Tuples(), mergeable=True),
    "greatest": lambda windows: windows.aggregate(Greatest(), mergeable=True),
    "changed in place": lambda windows: windows.aggregate(ChangedFirst(), mergeable=True),
    "aggregate, process": lambda windows: windows.aggregate(Tuples(), Show(), mergeable=True),
}
"""Those whose functions are."""
ASSIGNERS = [
    TumblingEventTimeWindows(20, 3),
    SlidingEventTimeWindows(60, 5, 0),
    SlidingEventTimeWindows(60, 25, -7),
    SlidingEventTimeWindows(30, 15, 2),
    SlidingEventTimeWindows(10, 25, 4),
]


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lateness", [0, 35])
def test_as_the_general_operator(name: str, assigner: Any, lateness: int) -> None:
    steps = stream(len(name) + lateness, negative=lateness > 0)
    expected = run(general(assigner, CALLS[name], lateness), steps)
    assert len(expected) == 8
    assert expected["late"]
    for options in ({}, {"batch_size": 1}, {"batch_size": 50, "through_blocks": True}):
        assert run(operator(assigner, CALLS[name], lateness), steps, **options) == expected
        if name in MERGEABLE:
            assert run(operator(assigner, MERGEABLE[name], lateness), steps, **options) == expected


def add_in_place(total: list[Any], value: Any) -> list[Any]:
    total[:] = (value[0], total[1] + value[1])
    return total


def lists(steps: list[Step]) -> list[Step]:
    return [
        (kind, [(list(value), time) for value, time in each] if kind == "records" else each) for kind, each in steps
    ]


@pytest.mark.parametrize("make", [operator, general])
@pytest.mark.parametrize(
    "call",
    [
        CALLS["changed in place"],
        MERGEABLE["changed in place"],
        lambda windows: windows.fold(["", 0], add_in_place),
        lambda windows: windows.reduce(add_in_place),
    ],
    ids=["aggregate", "mergeable", "fold", "reduce"],
)
def test_with_object_reuse_keys_and_windows_have_contents_of_their_own(make: Any, call: Any) -> None:
    expected = run(make(ASSIGNERS[1], call), lists(stream(1)))
    try:
        set_object_reuse(True)
        assert run(make(ASSIGNERS[1], call), lists(stream(1))) == expected
    finally:
        set_object_reuse(False)


class TestSharing:
    ASSIGNER = SlidingEventTimeWindows(60, 10, 0)

    @pytest.mark.parametrize("name", ["reduce", "aggregate", "greatest", "changed in place", "aggregate, process"])
    def test_only_at_the_users_word(self, name: str) -> None:
        for seed in range(3):
            steps = stream(seed)
            expected = run(general(self.ASSIGNER, CALLS[name], 20), steps)
            for call, shares in ((CALLS[name], False), (MERGEABLE[name], True)):
                made = operator(self.ASSIGNER, call, 20)
                assert run(made, steps) == expected
                assert (made._shared_from == float("-inf")) is shares

    def test_a_merge_that_is_wrong_for_a_rare_field_is_never_called(self) -> None:
        """Nothing that records show is taken for a proof."""

        class Errors(AggregateFunction):
            def create_accumulator(self) -> Any:
                return ("", 0, 0)

            def add(self, value: Any, accumulator: Any) -> Any:
                return (value[0], accumulator[1] + 1, accumulator[2] + (value[1] == 99))

            def get_result(self, accumulator: Any) -> Any:
                return accumulator

            def merge(self, acc_a: Any, acc_b: Any) -> Any:
                return (acc_a[0], acc_a[1] + acc_b[1], 0)

        steps: list[Step] = [("records", [(("a", n), n * 5) for n in range(8)])]
        steps += [("records", [(("a", 99 if n in (9, 11) else n), n * 5) for n in range(8, 17)])]
        found = run(operator(SlidingEventTimeWindows(100, 20, 0), lambda windows: windows.aggregate(Errors())), steps)
        assert (("a", 17, 2), 99) in found["a"]

    def test_functions_run_as_often_as_in_flink_and_in_its_order(self) -> None:
        """Once for each record and window, record by record, the latest window first."""
        calls: list[Any] = []

        def reduce(left: Any, right: Any) -> Any:
            calls.append((left[1], right[1]))
            return (left[0], [*left[1], *right[1]])

        steps = [("records", [(("a", [n]), n) for n in range(3)])]
        results = []
        for make in (general, operator):
            calls.clear()
            results.append(run(make(SlidingEventTimeWindows(20, 10, 0), lambda windows: windows.reduce(reduce)), steps))
            assert calls == [([0], [1]), ([0], [1]), ([0, 1], [2]), ([0, 1], [2])]
        assert results[0] == results[1]

    def test_at_the_users_word_functions_run_once_a_record(self) -> None:
        calls = []

        def reduce(left: Any, right: Any) -> Any:
            calls.append(1)
            return plus(left, right)

        steps = [("records", [(("a", n), n) for n in range(10)])]
        made = operator(self.ASSIGNER, lambda windows: windows.reduce(reduce, mergeable=True))
        assert len(run(made, steps)["a"]) == 6
        assert len(calls) == 9

    @pytest.mark.parametrize(
        ("name", "declared", "shares"),
        [
            *((name, Types.LONG(), True) for name in ("sum", "min", "max", "min_by", "max_by")),
            *((name, Types.STRING(), name != "sum") for name in ("sum", "min", "max", "min_by", "max_by")),
            ("sum", Types.DOUBLE(), False),
            ("min", Types.DOUBLE(), False),
            ("max", None, False),
            ("sum", Types.TUPLE([Types.LONG(), Types.LONG()]), False),
        ],
    )
    def test_aggregates_of_a_field_where_they_are_known_to_be_mergeable(
        self, name: str, declared: Any, shares: bool
    ) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        records = env.from_collection([], declared) if declared is not None else env.from_collection([1])
        windows = records.key_by(lambda value: 0).window(self.ASSIGNER)
        found = getattr(windows, name)()._transformation.operator
        assert found._shares is shares

    @pytest.mark.parametrize(
        "call",
        [
            lambda windows: windows.reduce(plus, mergeable="yes"),
            lambda windows: windows.aggregate(Tuples(), mergeable=1),
        ],
    )
    def test_the_word_is_true_or_false(self, call: Any) -> None:
        with pytest.raises(TypeError, match="(reduce|aggregate): mergeable must be True or False, got"):
            operator(self.ASSIGNER, call)

    def test_everything_changed_in_place(self) -> None:
        """As `get_result` spoils the accumulator, windows are compared that fire once."""
        steps = [("records", [(("a", n), n) for n in range(0, 200, 3)]), ("watermark", 150)]
        for mergeable in (True, False):
            call = partial(WindowedStream.aggregate, aggregate_function=Changed(), mergeable=mergeable)
            found = run(operator(self.ASSIGNER, call), steps)
            for value, timestamp in found["a"]:
                assert value == ("a", [n for n in range(0, 200, 3) if timestamp - 59 <= n <= timestamp])

    @pytest.mark.parametrize("mergeable", [True, False])
    def test_records_changed_by_a_reduce_function(self, mergeable: bool) -> None:
        def change(left: Any, right: Any) -> Any:
            right[1].extend(left[1])
            left[1].clear()
            return right

        for make in (operator, general):
            steps = [("records", [(["a", [n]], n) for n in range(0, 100, 7)])]
            found = run(make(self.ASSIGNER, lambda windows: windows.reduce(change, mergeable=mergeable)), steps)
            sums = [(sorted(value[1]), timestamp) for value, timestamp in found["a"]]
            assert sums[-1] == ([n for n in range(0, 100, 7) if n >= 90], 149)
            for values, timestamp in sums:
                assert values == [n for n in range(0, 100, 7) if timestamp - 59 <= n <= timestamp]

    @pytest.mark.parametrize(("before", "after"), [(False, True), (True, False), (True, True)])
    def test_a_word_that_comes_or_goes_with_a_restore(self, before: bool, after: bool) -> None:
        """Windows that have contents of their own keep them; those of panes get contents of their own."""
        calls = {True: MERGEABLE["aggregate"], False: CALLS["aggregate"]}
        steps = stream(4, disorder=1)
        with OneInputOperatorHarness(operator(self.ASSIGNER, calls[before]), lambda value: value[0]) as harness:
            drive(harness, steps[:-40])
            first = harness.output_with_timestamps
            taken = harness.snapshot()
        restored = OneInputOperatorHarness(operator(self.ASSIGNER, calls[after]), lambda value: value[0])
        restored.restore(taken)
        with restored:
            drive(restored, steps[-40:])
            restored.process_watermark(MAX_WATERMARK)
            made: Any = restored.operator
            assert (made._shared_from < float("inf")) is after
            found = sorted(first + restored.output_with_timestamps)
        expected = run(general(self.ASSIGNER, CALLS["aggregate"]), steps)
        assert found == sorted(each for key, some in expected.items() if key != "late" for each in some)

    def test_subtasks_that_shared_and_did_not(self) -> None:
        """One shares and one does not; both are restored into one."""
        keys = [f"k{n}" for n in range(20)]
        for after in (CALLS["greatest"], MERGEABLE["greatest"]):
            taken, records = [], {}
            for subtask, call in enumerate((CALLS["greatest"], MERGEABLE["greatest"])):
                options = {"parallelism": 2, "subtask": subtask}
                harness = OneInputOperatorHarness(operator(self.ASSIGNER, call), lambda value: value[0], **options)
                with harness:
                    mine = [key for key in keys if owner(key) == subtask]
                    values = [((key, (n * 7) % 5 if subtask else 3), n * 9) for n in range(4) for key in mine]
                    records[subtask] = values
                    harness.process_elements([value for value, _ in values], [time for _, time in values])
                    taken.append(harness.snapshot())
            whole = OneInputOperatorHarness(operator(self.ASSIGNER, after), lambda value: value[0])
            whole.restore(*taken)
            with whole:
                whole.process_watermark(MAX_WATERMARK)
                found = sorted(whole.output_with_timestamps)
            steps = [("records", records[0] + records[1])]
            expected = run(general(self.ASSIGNER, CALLS["greatest"]), steps)
            assert found == sorted(each for key, each_of in expected.items() if key != "late" for each in each_of)


def owner(key: str) -> int:
    from flintstream.common.keys import key_group, subtask_for_group

    return subtask_for_group(key_group(key, 128), 128, 2)


class TestPanes:
    @settings(max_examples=60)
    @given(
        st.sampled_from([(12, 3, 3), (12, 4, 4), (10, 4, 2), (9, 6, 3)]),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(1, 9)), max_size=25),
        st.data(),
    )
    def test_merges_as_from_all_panes(self, shape: Any, records: Any, data: Any) -> None:
        """Also when records come between two windows into panes that have been merged already."""
        size, slide, pane = shape
        panes = SharedPanes(ReducedContents(lambda left, right: left + right), size, slide, pane)
        kept: list[Any] = []

        def add(some: Any) -> None:
            for key, time, value in some:
                panes.add(time // pane * pane, key, value)
                kept.append((key, time, value))

        for start in range(-size // slide * slide, 45, slide):
            some = data.draw(st.lists(st.sampled_from(records), max_size=4)) if records else []
            add([record for record in some if record[1] >= start])
            if data.draw(st.booleans()):
                expected: dict[str, int] = {}
                for key, time, value in kept:
                    if start <= time < start + size:
                        expected[key] = expected.get(key, 0) + value
                assert panes.of_window(start) == expected
                for key in "ab":
                    assert panes.of_key(start, key) == expected.get(key, MISSING)
            panes.drop(start)
            kept = [record for record in kept if record[1] >= start + slide]

    def test_contents_of_several_kinds(self) -> None:
        """Numbers, until a key has so many records that a list is made of them."""

        class Grows(Changed):
            def create_accumulator(self) -> Any:
                return None

            def add(self, value: Any, accumulator: Any) -> Any:
                if accumulator is None:
                    return value
                return self.merge(accumulator, value)

            def merge(self, acc_a: Any, acc_b: Any) -> Any:
                parts = [part if isinstance(part, list) else [part] for part in (acc_a, acc_b)]
                parts[0].extend(parts[1])
                return parts[0]

        panes = SharedPanes(AggregatedContents(Grows()), 30, 10, 10)
        for start in range(0, 200, 10):
            for low in range(start, start + 30, 10):
                if low not in panes.cells:
                    panes.add(low, "a", low)
                    panes.add(low, "b", low)
                    if low % 40 == 0:
                        panes.add(low, "b", low + 1)
            found = panes.of_window(start)
            expected = [
                low + more for low in range(start, start + 30, 10) for more in (0, 1) if low % 40 == 0 or not more
            ]
            assert sorted(found["a"]) == [start, start + 10, start + 20]
            assert sorted(found["b"]) == expected
            panes.drop(start)

    def test_few_merges(self) -> None:
        calls = []

        def add(left: Any, right: Any) -> Any:
            calls.append(1)
            return left + right

        panes = SharedPanes(ReducedContents(add), 120, 10, 10)
        for start in range(0, 2400, 10):
            for low in range(start, start + 120, 10):
                panes.cell(low).setdefault("a", 1)
            assert panes.of_window(start) == {"a": 12}
            panes.drop(start)
        assert len(calls) < 3 * 240


class TestMemory:
    """Proportional to what is open."""

    @pytest.mark.parametrize("name", ["reduce", "process", "aggregate"])
    @pytest.mark.parametrize(
        "assigner", [TumblingEventTimeWindows(10, 0), SlidingEventTimeWindows(60, 10, 0)], ids=repr
    )
    @pytest.mark.parametrize("make", [operator, general])
    def test_windows_that_are_over_are_dropped(self, make: Any, assigner: Any, name: str) -> None:
        made = make(assigner, CALLS[name], 20)
        sizes = []
        with OneInputOperatorHarness(made, lambda value: value[0]) as harness:
            for start in range(0, 2000, 10):
                harness.process_elements([(f"k{n}", start) for n in range(5)], [start + n for n in range(5)])
                harness.process_watermark(start + 4)
                harness.clear_output()
                sizes.append(contents(made))
        assert max(sizes[20:]) == min(sizes[20:]) <= 5 * 15
        if make is operator:
            assert len(made._known) + len(made._panes._plain) + len(made._panes._front) < 25

    def test_a_snapshot_is_not_kept(self) -> None:
        made = operator(TumblingEventTimeWindows(10, 0), CALLS["reduce"])
        with OneInputOperatorHarness(made, lambda value: value[0]) as harness:
            harness.process_element(("a", 1), 1)
            harness.snapshot()
            harness.process_element(("a", 1), 2)
            assert not made._stored


def contents(made: Any) -> int:
    """How many contents an operator keeps."""
    if isinstance(made, AlignedWindowOperator):
        places = [*made._windows.values(), *made._panes.cells.values(), *made._panes._front.values(), made._panes._back]
        return max(map(len, places)) * len(made._panes.cells or made._windows)
    return sum(map(len, made._stored.values()))


def test_windows_by_the_clock() -> None:
    assigner = SlidingProcessingTimeWindows(10, 5, 0)
    made = operator(assigner, CALLS["reduce"])
    with OneInputOperatorHarness(made, lambda value: value[0], processing_time=100) as harness:
        assert made.next_due() is None
        harness.process_elements([("a", 1), ("a", 2)])
        assert made.next_due() == 0.105
        harness.set_processing_time(104)
        assert harness.output == []
        harness.set_processing_time(105)
        assert harness.output_with_timestamps == [(("a", 3), 104)]
        harness.process_element(("a", 4))
        harness.process_watermark(MAX_WATERMARK)
        assert made.next_due() == 0.11
        harness.set_processing_time(200)
        assert harness.output_with_timestamps[1:] == [(("a", 7), 109), (("a", 4), 114)]


def test_no_window_is_left_behind_by_the_last_watermark() -> None:
    """What the clock has ended fires before the job does."""
    for make in (operator, general):
        made = make(SlidingProcessingTimeWindows(10, 5, 0), CALLS["reduce"])
        harness = OneInputOperatorHarness(made, lambda value: value[0], processing_time=100)
        with harness:
            harness.process_element(("a", 1))
            harness._processing_time = 107
            harness.end_input()
            assert harness.output_with_timestamps == [(("a", 1), 104)]


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_batch_mode(name: str, assigner: Any) -> None:
    """Key by key, in order of time, and nothing is late."""
    records = [record for step, some in stream(5, records=150) if step == "records" for record in some]
    found = []
    for make in (operator, general):
        harness = OneInputOperatorHarness(make(assigner, CALLS[name], 20), lambda value: value[0], batch_mode=True)
        with harness:
            harness.process_elements([value for value, _ in records], [time for _, time in records])
            harness.end_input()
            found.append(harness.output_with_timestamps)
            assert harness.side_output(LATE) == []
    assert found[0] == found[1]
    keys = [value[0] for value, _ in found[0]]
    assert sum(left != right for left, right in pairwise(keys)) == 6
