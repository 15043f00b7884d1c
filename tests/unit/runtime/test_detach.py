"""What a function emits stays as it was, even if the function keeps it and changes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import pytest

from flintstream.common import Row, Types
from flintstream.datastream import FlatMapFunction, KeyedProcessFunction, MapFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.detach import detached, is_plain
from flintstream.runtime.operators.keyed import ReduceOperator
from flintstream.testing import LocalJob, OneInputOperatorHarness


class Gather(KeyedProcessFunction):
    """Emits the list it keeps in its state."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LIST(Types.INT())))

    def process_element(self, value, ctx):
        seen = self.seen.value() or []
        seen.append(value)
        self.seen.update(seen)
        yield seen


class Flush(FlatMapFunction):
    """Emits its buffer, then clears it."""

    def __init__(self):
        self.buffer = []

    def flat_map(self, value):
        self.buffer.append(value)
        if len(self.buffer) == 2:
            yield ("full", self.buffer)
            self.buffer.clear()


class Running(MapFunction):
    """Always returns the same dict."""

    def __init__(self):
        self.totals = {}

    def map(self, value):
        self.totals["sum"] = self.totals.get("sum", 0) + value
        return self.totals


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize(
    ("function", "key_selector", "expected"),
    [
        (Gather, lambda value: 0, [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]),
        (Flush, None, [("full", [1, 2]), ("full", [3, 4])]),
        (Running, None, [{"sum": 1}, {"sum": 3}, {"sum": 6}, {"sum": 10}]),
    ],
)
def test_results_do_not_depend_on_how_records_are_batched(function, key_selector, expected, batch_size):
    with OneInputOperatorHarness(function(), key_selector, batch_size=batch_size) as harness:
        harness.process_elements([1, 2, 3, 4])
        harness.end_input()
        assert harness.output == expected


@pytest.mark.parametrize("batch_size", [1, 100])
def test_a_reduce_may_change_its_first_argument(batch_size):
    def add(total, value):
        total[1] += value[1]
        return total

    with OneInputOperatorHarness(ReduceOperator(add), lambda row: row[0], batch_size=batch_size) as harness:
        harness.process_elements([Row("a", 1), Row("a", 2), Row("a", 3)])
        harness.end_input()
        assert harness.output == [Row("a", 1), Row("a", 3), Row("a", 6)]


def test_a_branch_does_not_see_what_another_does_to_a_record():
    from flintstream.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    records = env.from_collection([{"n": 1}, {"n": 2}])

    def change(record):
        record["n"] *= 100
        return record

    records.map(change).print("changed")
    records.key_by(lambda record: 0).map(lambda record: record).print("kept")
    records.map(lambda record: record).print("seen")
    job = LocalJob(env.generate_stream_graph())
    job.run()
    assert sorted(job.printed) == [
        "changed> {'n': 100}",
        "changed> {'n': 200}",
        "kept> {'n': 1}",
        "kept> {'n': 2}",
        "seen> {'n': 1}",
        "seen> {'n': 2}",
    ]


def test_what_cannot_change_is_not_copied():
    value = ("a", (1, 2.5), None, b"x")
    assert is_plain(value)
    assert detached(value) is value
    assert not is_plain(("a", [1]))
    assert not is_plain(Row(1))


class Point(NamedTuple):
    x: int
    names: object


@dataclass(frozen=True)
class Frozen:
    x: int
    names: object


@dataclass
class Thawed:
    x: int


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize("kind", [Point, Frozen])
def test_objects_that_cannot_change_need_no_copy(kind):
    plain, holding = kind(1, ("a", Colour.RED)), kind(1, ["a"])
    assert detached(plain) is plain
    copied = detached(holding)
    assert copied == holding and copied is not holding and copied.names is not holding.names


def test_objects_that_can_change_are_copied():
    thawed = Thawed(1)
    assert not is_plain(thawed) and detached(thawed) is not thawed
