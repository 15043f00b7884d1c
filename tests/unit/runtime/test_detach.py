"""What a function emits stays as it was, even if the function keeps it and changes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from typing import NamedTuple

import pytest

from flintstream.common import Row, RowKind, Types
from flintstream.datastream import FlatMapFunction, KeyedProcessFunction, MapFunction
from flintstream.datastream.connectors.datagen import DataGeneratorSource
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.detach import all_plain, detached, is_plain, set_object_reuse
from flintstream.runtime.operators.keyed import ReduceOperator, element_operator
from flintstream.runtime.operators.source_context import SourceContext
from flintstream.runtime.results import ResultEmitter
from flintstream.testing import LocalJob, OneInputOperatorHarness
from flintstream.testing.recording import RecordingOutput


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


class ThawedAgain(Frozen):
    """No dataclass itself: only the fields of its base are frozen."""


class Colour(Enum):
    RED = 1


GATHERED = []


def gather_for_all(value):
    GATHERED.append(value)
    return GATHERED


def unrelated(value):
    return value + 1


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


@pytest.mark.parametrize("late", [0, 1, 5])
def test_a_branch_does_not_see_it_either_if_other_records_cannot_change(late):
    """Every record of a block is looked at, not the first one for all."""
    from flintstream.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    values = [*range(late), [1], 7]
    records = env.from_collection(values).map(lambda value: value)

    def change(value):
        if isinstance(value, list):
            value.append(2)
        return value

    records.map(change).print("changed")
    records.map(lambda value: value).print("kept")
    job = LocalJob(env.generate_stream_graph())
    job.run()
    kept = [line for line in job.printed if line.startswith("kept")]
    assert kept == [f"kept> {value}" for value in values]


def seldom_lists(kept, value):
    """Plain results, and in between the list that is kept."""
    if not 103 <= value <= 105:
        return value
    kept.append(value)
    return kept


class SeldomLists(KeyedProcessFunction):
    def __init__(self):
        self.kept = []

    def process_element(self, value, ctx):
        yield seldom_lists(self.kept, value)


class SeldomListsMapped(MapFunction):
    def __init__(self):
        self.kept = []

    def map(self, value):
        return seldom_lists(self.kept, value)


class SeldomListsFlatMapped(FlatMapFunction):
    def __init__(self):
        self.kept = []

    def flat_map(self, value):
        return [seldom_lists(self.kept, value)]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize(
    ("function", "key_selector"),
    [(SeldomLists, lambda value: 0), (SeldomListsMapped, None), (SeldomListsFlatMapped, None)],
)
def test_each_result_is_looked_at(function, key_selector, timed):
    """However many plain results came before: neither those of earlier batches nor those around tell about one."""
    with OneInputOperatorHarness(function(), key_selector, batch_size=50) as harness:
        numbers = list(range(200))
        harness.process_elements(numbers, numbers if timed else None)
        harness.end_input()
        expected = [*range(103), [103], [103, 104], [103, 104, 105], *range(106, 200)]
        assert harness.output == expected


def test_each_result_of_a_reduce_is_looked_at():
    def gather(left, right):
        if right[1] < 100:
            return (left[0], right[1])
        kept = left[1] if isinstance(left[1], list) else []
        kept.append(right[1])
        return (left[0], kept)

    with OneInputOperatorHarness(ReduceOperator(gather), lambda row: row[0], batch_size=50) as harness:
        harness.process_elements([("a", n) for n in range(103)])
        harness.end_input()
        assert harness.output[-4:] == [("a", 99), ("a", [100]), ("a", [100, 101]), ("a", [100, 101, 102])]


def test_a_named_tuple_that_holds_a_list():
    class Keep(MapFunction):
        def __init__(self):
            self.kept = []

        def map(self, value):
            self.kept.append(value)
            return Point(value, self.kept if value > 60 else None)

    with OneInputOperatorHarness(Keep(), batch_size=30) as harness:
        harness.process_elements(range(90))
        assert [len(point.names) for point in harness.output[61:]] == list(range(62, 91))


class Attributed:
    seen: list = []


class Called:
    def __init__(self):
        self.seen = []

    def __call__(self, value):
        self.seen.append(value)
        return self.seen


def in_a_global_that_is_none_at_first():
    global LATE
    LATE = None

    def gather(value):
        global LATE
        if LATE is None:
            LATE = []
        LATE.append(value)
        return LATE

    return gather


def in_a_cell_that_is_none_at_first():
    seen = None

    def gather(value):
        nonlocal seen
        seen = seen or []
        seen.append(value)
        return seen

    return gather


def in_a_cell():
    seen = []
    return lambda value: seen.append(value) or seen


def in_a_global():
    GATHERED.clear()
    return gather_for_all


def in_an_attribute_of_a_class():
    Attributed.seen = []

    def gather(value):
        Attributed.seen.append(value)
        return Attributed.seen

    return gather


def in_an_attribute_of_itself():
    def gather(value):
        gather.__dict__.setdefault("seen", []).append(value)
        return gather.seen

    return gather


def in_an_attribute_of_a_module():
    json.seen_by_a_test = []

    def gather(value):
        json.seen_by_a_test.append(value)
        return json.seen_by_a_test

    return gather


def in_a_helper_that_is_defined_later():
    globals().pop("late_helper", None)
    return lambda value: late_helper(value)


def define_the_late_helper():
    global late_helper
    late_helper = in_a_cell()


def in_a_default_argument():
    return lambda value, seen=[]: seen.append(value) or seen


def in_an_argument_of_a_partial():
    return partial(lambda seen, value: seen.append(value) or seen, [])


def in_the_wrapper_of_a_decorator():
    seen = []

    @wraps(unrelated)
    def wrapper(value):
        seen.append(unrelated(value) - 1)
        return seen

    return wrapper


KEEPERS = [
    in_a_global,
    in_a_global_that_is_none_at_first,
    in_a_cell,
    in_a_cell_that_is_none_at_first,
    in_an_attribute_of_a_class,
    in_an_attribute_of_itself,
    in_an_attribute_of_a_module,
    in_a_helper_that_is_defined_later,
    in_a_default_argument,
    in_an_argument_of_a_partial,
    in_the_wrapper_of_a_decorator,
    Called,
    lambda: Called().__call__,
]


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("timed", [True, False])
class TestPlainFunctions:
    """Also a plain function may keep what it emits, in more places than could be known before it is called."""

    NUMBERS = (1, 4, 1)
    EXPECTED = ([1], [1, 4], [1, 4, 1])

    def outcome(self, operator, timed):
        define_the_late_helper()
        with OneInputOperatorHarness(operator, batch_size=100) as harness:
            harness.process_elements(self.NUMBERS, self.NUMBERS if timed else None)
            harness.end_input()
            return harness.output

    def test_map(self, keeper, timed):
        assert self.outcome(element_operator("map", keeper(), False), timed) == [*self.EXPECTED]

    def test_map_to_tuples(self, keeper, timed):
        kept = keeper()
        operator = element_operator("map", lambda value: ("all", kept(value)), False)
        assert self.outcome(operator, timed) == [("all", seen) for seen in self.EXPECTED]

    def test_flat_map_to_a_list(self, keeper, timed):
        kept = keeper()
        operator = element_operator("flat_map", lambda value: [kept(value)], False)
        assert self.outcome(operator, timed) == [*self.EXPECTED]

    def test_flat_map_by_a_generator(self, keeper, timed):
        kept = keeper()

        def each(value):
            yield value
            yield (kept(value),)

        operator = element_operator("flat_map", each, False)
        assert self.outcome(operator, timed)[1::2] == [(seen,) for seen in self.EXPECTED]


@pytest.mark.parametrize("keeper", KEEPERS)
def test_the_function_of_a_generator_source(keeper):
    source = DataGeneratorSource(keeper(), 3)
    [split] = source.discover(1, frozenset())
    reader = source.create_reader(split, None)
    define_the_late_helper()
    assert reader.read(10).values == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize("timed", [True, False])
def test_a_generator_that_changes_what_it_has_yielded(timed):
    def growing(value):
        found = []
        for number in range(value):
            found.append(number)
            yield found

    with OneInputOperatorHarness(element_operator("flat_map", growing, False)) as harness:
        harness.process_elements([2, 3], [1, 2] if timed else None)
        assert harness.output == [[0], [0, 1], [0], [0, 1], [0, 1, 2]]


def test_what_says_to_be_of_another_class_is_copied():
    """The class of an object is what Python says, not the object."""

    class Disguised:
        __class__ = int

    value = Disguised()
    assert not is_plain(value)
    assert not all_plain([value])


class Hiding(NamedTuple):
    """Its own iteration leaves out what can change."""

    name: str
    items: list

    def __iter__(self):
        return iter((self.name,))

    def __getnewargs_ex__(self):
        return tuple.__getitem__(self, slice(None)), {}


def test_what_a_named_tuple_holds_does_not_depend_on_how_it_iterates():
    value = Hiding("a", [1])
    assert not all_plain([value])
    assert detached(value) is not value
    assert detached(value).items == [1]


class TestSources:
    def test_a_source_function_may_change_what_it_has_collected(self):
        context = SourceContext(lambda: None)
        kept = []
        for value in (1, 4, 1):
            kept.append(value)
            context.collect(kept)
            context.collect_with_timestamp(kept, 5)
        assert [element[0] for element in context._elements][::2] == [[1], [1, 4], [1, 4, 1]]
        assert [element[0] for element in context._elements][1::2] == [[1], [1, 4], [1, 4, 1]]


def test_results_of_windows_that_share_an_object():
    """`get_result` gives the same list for all keys."""
    kept = []

    def results():
        for number in range(3):
            kept.append(number)
            yield kept

    output = RecordingOutput("windows", 0, None, False)
    emitter = ResultEmitter(output)
    emitter.add_all(results(), 5)
    emitter.flush()
    assert [record.value for record in output.main.records] == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ([], True),
        ([1, 2.0, "a", None], True),
        ([(1, (2, "a")), (3,), ()], True),
        ([1, (2, (3,))], True),
        ([1, []], False),
        ([(1, ("a", [2]))], False),
        ([{}], False),
        ([Point(1, "a"), Point(2, (3, None))], True),
        ([Point(1, "a"), (2, "b"), 3, Point(1, Point(2, "c"))], True),
        ([Point(1, "a"), Point(2, [])], False),
        ([Point(1, Point(2, {}))], False),
        ([Point(1, Frozen(2, "a"))], True),
        ([Point(1, "a"), Frozen(2, [])], False),
        ([Point(1, "a"), Thawed(2)], False),
    ],
)
def test_all_plain(values, plain):
    assert all_plain(values) is plain


def test_what_cannot_change_is_not_copied():
    value = ("a", (1, 2.5), None, b"x")
    assert is_plain(value)
    assert detached(value) is value
    assert not is_plain(("a", [1]))
    assert not is_plain(Row(1))


@pytest.mark.parametrize("kind", [Point, Frozen])
def test_objects_that_cannot_change_need_no_copy(kind):
    plain, holding = kind(1, ("a", Colour.RED)), kind(1, ["a"])
    assert detached(plain) is plain
    copied = detached(holding)
    assert copied == holding and copied is not holding and copied.names is not holding.names


def test_objects_that_can_change_are_copied():
    thawed = Thawed(1)
    assert not is_plain(thawed) and detached(thawed) is not thawed
    again = ThawedAgain(1, "a")
    again.seen = 1
    emitted = detached(again)
    again.seen = 2
    assert not is_plain(again) and emitted.seen == 1


@pytest.mark.parametrize("inner", [1, "a", (1, 2), [1], {"b": 2}, Row(1), Thawed(1)])
@pytest.mark.parametrize(
    "outer",
    [
        lambda inner: [1, inner],
        lambda inner: {"a": 1, "b": inner},
        lambda inner: Row(a=1, b=inner),
        lambda inner: Row.of_kind(RowKind.DELETE, 1, inner),
        lambda inner: [inner, inner],
    ],
)
def test_collections_are_copied_with_all_that_can_change_in_them(outer, inner):
    value = outer(inner)
    copied = detached(value)
    assert copied == value and type(copied) is type(value) and copied is not value
    before, after = (list(each.values()) if isinstance(each, dict) else list(each) for each in (value, copied))
    assert after[1] is not before[1] or is_plain(inner)
    assert (after[0] is after[1]) is (before[0] is before[1])


def test_the_copy_of_a_row_is_one_of_its_own():
    row = Row(a=1, b="x")
    copied = detached(row)
    row.set_row_kind(RowKind.DELETE)
    row["a"] = 2
    row.set_field_names(["c", "d"])
    assert copied == Row(a=1, b="x")


def test_a_key_that_can_change_is_copied():
    class Key:
        pass

    key = Key()
    [copied] = detached({key: 1})
    assert copied is not key


def test_with_object_reuse_nothing_is_copied() -> None:
    values = [[1], {"a": [1]}, ([1], 2), Row(1, [2])]
    try:
        set_object_reuse(True)
        assert all(detached(value) is value for value in values)
    finally:
        set_object_reuse(False)
    assert not any(detached(value) is value for value in values)


def test_a_failure_behind_a_process_function_is_not_blamed_on_it():
    def full(batch):
        raise OSError(28, "no space left")

    class Same(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value

    with OneInputOperatorHarness(Same(), lambda value: value) as harness:
        harness._operator.output.emit = full
        with pytest.raises(OSError, match="no space left"):
            harness.process_element(1, 0)
