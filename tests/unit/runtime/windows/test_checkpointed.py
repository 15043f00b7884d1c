"""The objects of a windowed job that have state of their own, or want to know of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from flintstream.common.typeinfo import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ListCheckpointed,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from flintstream.datastream.state import ListStateDescriptor
from flintstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness

TEN = TumblingEventTimeWindows(10, 0)


class Counting(CheckpointedFunction, CheckpointListener):
    """Counts calls, and writes down what it is told."""

    def __init__(self) -> None:
        self.count = 0
        self.told: list[Any] = []

    def initialize_state(self, context: Any) -> None:
        self.told.append(("initialize_state", context.is_restored()))
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.state.get())

    def open(self, runtime_context: Any) -> None:
        self.told.append("open")

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.count])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.told.append(("aborted", checkpoint_id))

    def counted(self) -> int:
        self.count += 1
        return self.count


class Listed(ListCheckpointed):
    def __init__(self) -> None:
        self.count = 0

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.count]

    def restore_state(self, state: list[Any]) -> None:
        self.count = sum(state)

    def counted(self) -> int:
        self.count += 1
        return self.count


def key_of(record: Any) -> Any:
    return record[0]


def source() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])


def windows(assigner: Any = TEN) -> Any:
    return source().key_by(key_of).window(assigner)


def harness_for(stream: Any, selector: Any = key_of, **options: Any) -> OneInputOperatorHarness:
    return OneInputOperatorHarness(stream._transformation.operator, selector, **options)


class Numbered(Counting, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, self.counted()


class NumberedList(Listed, ProcessWindowFunction):
    process = Numbered.process


def evicted(function: Any) -> Any:
    return windows().evictor(CountEvictor.of(5)).process(function)


def reduced(function: Any) -> Any:
    return windows().evictor(CountEvictor.of(5)).reduce(lambda left, right: left, function)


def general(function: Any) -> Any:
    return windows().trigger(PurgingTrigger.of(EventTimeTrigger())).process(function)


@pytest.mark.parametrize("kind", [Numbered, NumberedList])
@pytest.mark.parametrize("make", [lambda function: windows().process(function), general, evicted, reduced])
def test_window_functions(make: Any, kind: Any) -> None:
    with harness_for(make(kind())) as harness:
        harness.process_elements([("a", 1), ("b", 1)], [1, 2])
        harness.process_watermark(9)
        assert harness.output == [("a", 1), ("b", 2)]
        taken = harness.snapshot()
    harness = harness_for(make(kind()))
    harness.restore(taken)
    with harness:
        harness.process_element(("a", 1), 11)
        harness.process_watermark(19)
        assert harness.output == [("a", 3)]


def test_calls_and_their_order() -> None:
    function = Numbered()
    with harness_for(windows().process(function)) as harness:
        taken = harness.snapshot(7)
        harness.notify_checkpoint_complete(7)
        harness.notify_checkpoint_aborted(8)
    assert function.told == [("initialize_state", False), "open", ("complete", 7), ("aborted", 8)]
    function = Numbered()
    harness = harness_for(windows().process(function))
    harness.restore(taken)
    with harness:
        assert function.told == [("initialize_state", True), "open"]


def test_a_failure_names_the_operator() -> None:
    class Broken(Numbered):
        def snapshot_state(self, context: Any) -> None:
            raise OSError("no room")

    with (
        pytest.raises(UserCodeError, match=r"(?s)'my windows'.*no room"),
        harness_for(windows().process(Broken()), name="my windows") as harness,
    ):
        harness.snapshot()


class CountedTotal(Listed, AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        self.counted()
        return accumulator + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator, self.count

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def test_an_aggregate_function_is_called_for_each_record_and_window() -> None:
    with harness_for(windows(SlidingEventTimeWindows(20, 10, 0)).aggregate(CountedTotal())) as harness:
        harness.process_elements([("a", number) for number in range(30)], [5] * 30)
        harness.process_watermark(9)
        assert harness.output == [(435, 60)]


class Nth(Listed, CountTrigger[Any]):
    """Fires with every third record of the subtask, whatever its key."""

    def __init__(self) -> None:
        Listed.__init__(self)
        CountTrigger.__init__(self, 1)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        decision = super().on_element(element, timestamp, window, ctx)
        return decision if self.counted() % 3 == 0 else type(decision).CONTINUE


class EverySecondTime(Listed, CountEvictor[Any, Any]):
    """Drops a record."""

    def __init__(self) -> None:
        Listed.__init__(self)
        CountEvictor.__init__(self, 4)

    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return elements[self.counted() % 2 :]


class Sized(NumberedList):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield self.counted(), [value for _, value in elements]


@pytest.mark.parametrize("wrap", [lambda trigger: trigger, PurgingTrigger.of], ids=["bare", "nested"])
def test_each_object_has_a_state_of_its_own(wrap: Any) -> None:
    def make() -> Any:
        triggered = windows(GlobalWindows.create()).trigger(wrap(Nth())).evictor(EverySecondTime())
        return triggered.aggregate(CountedTotal(), Sized())

    with harness_for(make()) as whole, harness_for(make()) as before:
        for harness in (whole, before):
            harness.process_elements([("a", number) for number in range(10)])
        taken = before.snapshot()
        after = harness_for(make())
        after.restore(taken)
        with after:
            for harness in (whole, after):
                harness.clear_output()
                harness.process_elements([("a", number) for number in range(10, 20)])
            assert len(whole.output) == 3
            assert whole.output == after.output


class Sum(Counting, AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield self.counted()


class Joined(Counting, JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return self.counted()


class FlatJoined(Counting, FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterable[Any]:
        yield self.counted()


class Grouped(Listed, CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield self.counted()


def joined(method: str, function: Any) -> Any:
    first = source()
    second = first._env.from_collection([("a", 1)])
    return getattr(first, method)(second).where(key_of).equal_to(key_of).window(TEN).apply(function)


@pytest.mark.parametrize(
    "make",
    [
        lambda: source().window_all(TEN).apply(Sum()),
        lambda: joined("join", Joined()),
        lambda: joined("join", FlatJoined()),
        lambda: joined("co_group", Grouped()),
    ],
    ids=["window_all", "join", "flat join", "co_group"],
)
def test_joins_and_windows_without_keys(make: Any) -> None:
    taken: list[Any] = []
    for start in (0, 10):
        harness = harness_for(make(), lambda record: 0)
        harness.restore(*taken)
        with harness:
            harness.process_elements([(0, ("a", 1)), (1, ("a", 2))], [start, start])
            harness.process_watermark(start + 9)
            assert harness.output == [1 + start // 10]
            taken = [harness.snapshot()]


class Paired(Counting, ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        yield self.counted()


def test_interval_joins() -> None:
    first = source()
    second = first._env.from_collection([("a", 1)])
    taken: list[Any] = []
    for number in (1, 2):
        bounded = first.key_by(key_of).interval_join(second.key_by(key_of)).between(0, 1)
        operator = bounded.process(Paired())._transformation.operator
        harness = TwoInputOperatorHarness(operator, key_of, key_of)
        harness.restore(*taken)
        with harness:
            harness.process_element1(("a", number), number * 10)
            harness.process_element2(("a", number), number * 10)
            assert harness.output == [number]
            taken = [harness.snapshot()]
