"""Keyed state: every kind of state on every kind of function, against plain Python objects."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates import Mean

from flintstream.common import Types
from flintstream.common.canonical_keys import canonical_key
from flintstream.common.types import Row
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream import state as public
from flintstream.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.graph import SinkTransformation, StreamGraphConfig, StreamGraphGenerator
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.testing import (
    LocalJob,
    OneInputOperatorHarness,
    OperatorHarness,
    TwoInputOperatorHarness,
    UserCodeError,
)
from flintstream.testing.backends import make_backend

pytestmark = pytest.mark.usefixtures("state_backend")


LONG, STRING = Types.LONG(), Types.STRING()
VALUE = ValueStateDescriptor("value", LONG)
LIST = ListStateDescriptor("list", LONG)
MAP = MapStateDescriptor("map", STRING, LONG)
REDUCING = ReducingStateDescriptor("reducing", lambda a, b: a + b, LONG)
AGGREGATING = AggregatingStateDescriptor("aggregating", Mean(), Types.PICKLED_BYTE_ARRAY())


class UsesAll:
    """Writes to all five kinds of state, and gives all that they hold."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(VALUE)
        self.list = runtime_context.get_list_state(LIST)
        self.map_state = runtime_context.get_map_state(MAP)
        self.reducing = runtime_context.get_reducing_state(REDUCING)
        self.aggregating = runtime_context.get_aggregating_state(AGGREGATING)
        assert isinstance(self.value, public.ValueState)
        assert isinstance(self.list, public.ListState)
        assert isinstance(self.map_state, public.MapState)
        assert isinstance(self.reducing, public.ReducingState)
        assert isinstance(self.aggregating, public.AggregatingState)

    def use(self, record: tuple[str, int]) -> Any:
        key, number = record
        before = (self.value.value(), self.reducing.get(), self.aggregating.get())
        self.value.update(number)
        self.list.add(number)
        self.map_state.put(f"{key}{number}", number)
        self.reducing.add(number)
        self.aggregating.add(number)
        after = list(self.list), sorted(self.map_state.items()), self.reducing.get(), self.aggregating.get()
        self.log.append((key, before, after))
        return self.log[-1]


class Mapping(UsesAll, MapFunction):
    def map(self, value: Any) -> Any:
        return self.use(value)


class FlatMapping(UsesAll, FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[Any]:
        yield self.use(value)


class Filtering(UsesAll, FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(self.use(value))


class Reducing(UsesAll, ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        self.use(value2)
        return value2


class Processing(UsesAll, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        assert ctx.get_current_key() == value[0]
        yield self.use(value)


class CoMapping(UsesAll, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return self.use(value)

    def map2(self, value: Any) -> Any:
        return self.use(value)


class CoFlatMapping(UsesAll, CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield self.use(value)

    def flat_map2(self, value: Any) -> Iterator[Any]:
        yield self.use(value)


class CoProcessing(UsesAll, KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.use(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.use(value)


ONE_INPUT = [Mapping, FlatMapping, Filtering, Reducing, Processing]
TWO_INPUTS = [CoMapping, CoFlatMapping, CoProcessing]


def first(value: Any) -> Any:
    return value[0]


def harness_for(function: Any, **options: Any) -> Any:
    if isinstance(function, tuple(TWO_INPUTS)):
        return TwoInputOperatorHarness(function, first, first, **options)
    return OneInputOperatorHarness(function, first, **options)


def feed(harness: Any, records: Iterable[Any]) -> None:
    """To the two inputs in turn, where there are two."""
    for number, record in enumerate(records):
        if isinstance(harness, TwoInputOperatorHarness):
            (harness.process_element1, harness.process_element2)[number % 2](record)
        else:
            harness.process_element(record)


RECORDS = [("a", 1), ("b", 10), ("a", 2), ("a", 6), ("b", 30)]


def expected_log(records: list[tuple[str, int]]) -> list[Any]:
    seen: dict[str, list[int]] = {}
    log = []
    for key, number in records:
        before = seen.setdefault(key, [])
        old = (before[-1], sum(before), sum(before) / len(before)) if before else (None, None, None)
        before.append(number)
        items = sorted((f"{key}{each}", each) for each in set(before))
        log.append((key, old, (list(before), items, sum(before), sum(before) / len(before))))
    return log


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"batch_size": 100, "through_blocks": True}], ids=str)
@pytest.mark.parametrize("kind", [*ONE_INPUT, *TWO_INPUTS], ids=lambda kind: kind.__name__)
def test_every_state_on_every_function(kind: Any, options: dict[str, Any]) -> None:
    function = kind()
    with harness_for(function, **options) as harness:
        feed(harness, RECORDS)
        output = harness.output
    # A reduce function is first called with the second record of a key.
    records = [record for record in RECORDS if record not in [("a", 1), ("b", 10)]] if kind is Reducing else RECORDS
    assert function.log == expected_log(records)
    if kind in (Filtering, Reducing):
        assert output == RECORDS
    else:
        assert output == function.log


@pytest.mark.parametrize("kind", [*ONE_INPUT, *TWO_INPUTS], ids=lambda kind: kind.__name__)
class TestWithoutAKey:
    def test_in_open(self, kind: Any) -> None:
        class Early(kind):  # type: ignore[misc]
            def open(self, runtime_context: Any) -> None:
                super().open(runtime_context)
                self.value.update(1)

        with pytest.raises(
            UserCodeError, match=r"operator 'my state': there is no current key.*none is being processed"
        ):
            harness_for(Early(), name="my state").open()

    def test_in_close_after_records(self, kind: Any) -> None:
        class Late(kind):  # type: ignore[misc]
            def close(self) -> None:
                self.list.add(1)

        harness = harness_for(Late(), name="my state")
        harness.open()
        feed(harness, RECORDS)
        before = harness.keyed_state("list")
        with pytest.raises(UserCodeError, match="operator 'my state': there is no current key"):
            harness.operator.close()
        assert harness.operator.context.keyed_state.table("list") == before


def call_all(states: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    yield states["value"].value
    yield lambda: states["value"].update(1)
    yield states["list"].get
    yield lambda: states["list"].add(1)
    yield lambda: states["list"].add_all([1])
    yield lambda: states["list"].update([1])
    yield lambda: states["map"].get("a")
    yield lambda: states["map"].put("a", 1)
    yield lambda: states["map"].put_all({"a": 1})
    yield lambda: states["map"].remove("a")
    yield lambda: states["map"].contains("a")
    for call in ("items", "keys", "values", "is_empty"):
        yield getattr(states["map"], call)
    yield states["reducing"].get
    yield lambda: states["reducing"].add(1)
    yield states["aggregating"].get
    yield lambda: states["aggregating"].add(1)
    for state in states.values():
        yield state.clear


def backend(**options: Any) -> KeyedStateBackend:
    return make_backend(OperatorHarness.default_state_backend, "my operator", 128, lambda: 0, **options)


def states_of(keyed: KeyedStateBackend) -> dict[str, Any]:
    return {each.name: keyed.state_of(each) for each in (VALUE, LIST, MAP, REDUCING, AGGREGATING)}


def test_every_call_needs_a_key() -> None:
    keyed = backend()
    for call in call_all(states_of(keyed)):
        with pytest.raises(RuntimeError, match="operator 'my operator': there is no current key"):
            call()
    assert all(not table for _, table in keyed.entries())


# --- against plain objects ---

numbers = st.integers(-5, 5)
names = st.sampled_from("xyz")
pairs = st.dictionaries(names, numbers, max_size=3)
operations = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.one_of(
            st.tuples(st.just("value"), st.just("update"), st.none() | numbers),
            st.tuples(st.just("value"), st.just("value")),
            st.tuples(st.just("list"), st.sampled_from(["update", "add_all"]), st.lists(numbers, max_size=3)),
            st.tuples(st.just("list"), st.just("add"), numbers),
            st.tuples(st.just("map"), st.just("put"), names, numbers),
            st.tuples(st.just("map"), st.just("put_all"), pairs),
            st.tuples(st.just("map"), st.sampled_from(["remove", "get", "contains"]), names),
            st.tuples(st.sampled_from(["reducing", "aggregating"]), st.just("add"), numbers),
            st.tuples(st.sampled_from(["value", "list", "map", "reducing", "aggregating"]), st.just("clear")),
        ),
    ),
    max_size=40,
)


class Plain:
    """The five states of a key as a person would write them."""

    def __init__(self) -> None:
        self.value: Any = None
        self.list: list[int] = []
        self.map: dict[str, int] = {}
        self.added: dict[str, list[int]] = {"reducing": [], "aggregating": []}

    def call(self, state: str, method: str, *arguments: Any) -> Any:
        if method == "clear":
            empty = Plain()
            if state in self.added:
                self.added[state] = []
            else:
                setattr(self, state, getattr(empty, state))
        elif state in self.added:
            self.added[state].append(*arguments)
        elif state == "value":
            if method == "update":
                self.value = arguments[0]
            return self.value if method == "value" else None
        elif state == "list":
            given = [arguments[0]] if method == "add" else list(arguments[0])
            self.list = given if method == "update" else self.list + given
        elif method == "put":
            self.map[arguments[0]] = arguments[1]
        elif method == "put_all":
            self.map.update(arguments[0])
        elif method == "remove":
            self.map.pop(arguments[0], None)
        elif method == "contains":
            return arguments[0] in self.map
        else:
            return self.map.get(arguments[0])
        return None

    def all(self) -> list[Any]:
        reduced, aggregated = self.added["reducing"], self.added["aggregating"]
        return [
            self.value,
            self.list,
            self.map,
            sum(reduced) if reduced else None,
            sum(aggregated) / len(aggregated) if aggregated else None,
        ]


def all_of(states: dict[str, Any]) -> list[Any]:
    found = dict(states["map"].items())
    assert list(states["map"].keys()) == list(found) == list(states["map"])
    assert list(states["map"].values()) == list(found.values())
    assert states["map"].is_empty() == (not found)
    assert all(name in states["map"] and states["map"][name] == number for name, number in found.items())
    assert list(states["list"]) == list(states["list"].get())
    return [
        states["value"].value(),
        list(states["list"]),
        found,
        states["reducing"].get(),
        states["aggregating"].get(),
    ]


@given(operations)
def test_any_calls_equal_those_on_plain_objects(calls: list[tuple[str, tuple[Any, ...]]]) -> None:
    keyed = backend()
    states = states_of(keyed)
    plain = {"a": Plain(), "b": Plain()}
    for key, (state, method, *arguments) in calls:
        keyed.current_key = key
        result = getattr(states[state], method)(*arguments)
        assert result == plain[key].call(state, method, *arguments)
        for each, expected in plain.items():
            keyed.current_key = each
            assert all_of(states) == expected.all()
    # What holds nothing is not stored: memory, snapshots and apply_to_keyed_state depend on it.
    for key, expected in plain.items():
        assert (key in keyed.table("value")) == (expected.value is not None)
        assert (key in keyed.table("list")) == bool(expected.list)
        assert (key in keyed.table("map")) == bool(expected.map)
        assert (key in keyed.table("reducing")) == bool(expected.added["reducing"])


# --- corners ---


class TestValue:
    def test_a_default(self) -> None:
        keyed = backend()
        state = keyed.value_state(ValueStateDescriptor("v", LONG, default_value=7))
        keyed.current_key = "a"
        assert state.value() == 7
        state.update(0)
        assert state.value() == 0
        state.update(None)
        assert state.value() == 7
        assert keyed.table("v") == {}

    @pytest.mark.parametrize("default", [[], {}, set(), Row(x=[])], ids=repr)
    def test_a_default_that_can_change_is_not_shared(self, default: Any) -> None:
        keyed = backend()
        state = keyed.value_state(ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY(), default))
        before = repr(default)
        for key in ("a", "b"):
            keyed.current_key = key
            mine = state.value()
            assert repr(mine) == before
            (mine.x if isinstance(mine, Row) else mine).__init__([(key, 1)])
        assert repr(default) == before
        keyed.current_key = "a"
        assert repr(state.value()) == before, "without an update nothing is stored"

    def test_a_change_in_place_is_seen_by_later_reads(self) -> None:
        keyed = backend()
        state = keyed.value_state(ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()))
        keyed.current_key = "a"
        state.update([1])
        state.value().append(2)
        assert state.value() == [1, 2]

    @pytest.mark.parametrize("value", [0, "", [], (), False])
    def test_falsy_values_are_values(self, value: Any) -> None:
        keyed = backend()
        state = keyed.value_state(ValueStateDescriptor("v", LONG, default_value=5))
        keyed.current_key = "a"
        state.update(value)
        assert state.value() == value


class TestList:
    def test_adding_while_reading_ends(self) -> None:
        keyed = backend()
        state = keyed.list_state(LIST)
        keyed.current_key = "a"
        state.update([1, 2])
        for number in state:
            state.add(number * 10)
        assert list(state) == [1, 2, 10, 20]

    def test_what_was_given_and_what_was_got_are_not_the_state(self) -> None:
        keyed = backend()
        state = keyed.list_state(LIST)
        keyed.current_key = "a"
        given = [1]
        state.update(given)
        given.append(2)
        assert list(state) == [1]
        state.clear()
        state.add_all(given)
        given.append(3)
        assert list(state) == [1, 2]
        reading = state.get()
        state.clear()
        assert list(reading) == [1, 2]

    def test_any_iterable(self) -> None:
        keyed = backend()
        state = keyed.list_state(LIST)
        keyed.current_key = "a"
        state.update(iter((1, 2)))
        state.add_all(number for number in (3,))
        state.add_all(state)
        assert list(state) == [1, 2, 3, 1, 2, 3]

    def test_none_is_an_element(self) -> None:
        keyed = backend()
        state = keyed.list_state(LIST)
        keyed.current_key = "a"
        state.add(None)
        assert list(state) == [None]


class TestMap:
    def test_as_a_python_mapping(self) -> None:
        keyed = backend()
        state = keyed.map_state(MAP)
        keyed.current_key = "a"
        state["x"] = 1
        state["y"] = None
        assert (state["x"], state["y"], state["z"]) == (1, None, None)
        assert "y" in state
        assert "z" not in state
        assert list(state) == ["x", "y"]
        del state["x"]
        del state["unknown"]
        assert dict(state.items()) == {"y": None}

    def test_changing_while_reading(self) -> None:
        keyed = backend()
        state = keyed.map_state(MAP)
        keyed.current_key = "a"
        state.put_all({"x": 1, "y": 2})
        for name, number in state.items():
            state.put(name * 2, number)
            state.remove(name)
        for name in state:
            state.put(name, 0)
        names_now = state.keys()
        for name in names_now:
            state.remove(name)
        assert state.is_empty()
        assert keyed.table("map") == {}

    def test_pairs_and_other_maps(self) -> None:
        keyed = backend()
        state = keyed.map_state(MAP)
        keyed.current_key = "a"
        state.put_all([("x", 1)])
        state.put_all(iter([("y", 2)]))
        state.put_all({})
        state.put_all(state)
        assert dict(state.items()) == {"x": 1, "y": 2}


class TestReducingAndAggregating:
    def test_none_and_zero_are_results(self) -> None:
        keyed = backend()
        state = keyed.reducing_state(ReducingStateDescriptor("r", lambda a, b: 0, LONG))
        keyed.current_key = "a"
        assert state.get() is None
        state.add(1)
        state.add(2)
        assert state.get() == 0
        state.add(3)
        assert state.get() == 0

    def test_accumulators_of_keys_are_apart(self) -> None:
        keyed = backend()
        state = keyed.aggregating_state(AGGREGATING)
        for key, number in (("a", 1), ("b", 10), ("a", 3)):
            keyed.current_key = key
            state.add(number)
        keyed.current_key = "a"
        assert state.get() == 2
        state.clear()
        assert state.get() is None
        keyed.current_key = "b"
        assert state.get() == 10

    def test_a_failing_function_leaves_what_was_there(self) -> None:
        keyed = backend()
        state = keyed.reducing_state(ReducingStateDescriptor("r", lambda a, b: a // b, LONG))
        keyed.current_key = "a"
        state.add(7)
        with pytest.raises(ZeroDivisionError):
            state.add(0)
        assert state.get() == 7


class TestNames:
    def test_the_same_descriptor_twice_is_the_same_state(self) -> None:
        keyed = backend()
        one, two = keyed.value_state(VALUE), keyed.value_state(ValueStateDescriptor("value", LONG))
        keyed.current_key = "a"
        one.update(5)
        assert two.value() == 5

    def test_the_same_name_for_another_kind_is_refused(self) -> None:
        descriptors: list[Any] = [
            ValueStateDescriptor("s", LONG),
            ListStateDescriptor("s", LONG),
            MapStateDescriptor("s", STRING, LONG),
            ReducingStateDescriptor("s", max, LONG),
            AggregatingStateDescriptor("s", Mean(), LONG),
        ]
        for known in descriptors:
            for other in descriptors:
                keyed = backend()
                keyed.state_of(known)
                if other is known:
                    keyed.state_of(other)
                    continue
                with pytest.raises(ValueError, match=r"operator 'my operator': state 's' is already \w+ state"):
                    keyed.state_of(other)

    def test_a_descriptor_of_another_kind_is_refused(self) -> None:
        keyed = backend()
        with pytest.raises(TypeError, match=r"operator 'my operator': a value state .* ListStateDescriptor\('list'"):
            keyed.value_state(LIST)
        with pytest.raises(TypeError, match="a reducing state was requested with ValueStateDescriptor"):
            keyed.reducing_state(VALUE)
        with pytest.raises(TypeError, match="expected a state descriptor, got 'count'"):
            keyed.state_of("count")
        assert keyed.states == {}

    def test_a_derived_descriptor(self) -> None:
        class Counter(ValueStateDescriptor):
            def __init__(self) -> None:
                super().__init__("counter", LONG, 0)

        keyed = backend()
        state = keyed.state_of(Counter())
        keyed.current_key = "a"
        assert state.value() == 0
        assert keyed.states["counter"].kind == "value"

    def test_the_name_of_the_engines_own_table_is_refused(self) -> None:
        class Clash(ReduceFunction):
            def open(self, runtime_context: Any) -> None:
                runtime_context.get_state(ValueStateDescriptor("_reduce", LONG))

            def reduce(self, value1: Any, value2: Any) -> Any:
                return value1

        with pytest.raises(UserCodeError, match="state '_reduce' is already engine state"):
            OneInputOperatorHarness(Clash(), first).open()


# --- keys ---


@dataclass(frozen=True)
class Point:
    x: int
    y: str


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Pair(NamedTuple):
    left: int
    right: str


KEYS: list[tuple[Any, Any]] = [
    ((1, "a"), (1, "b")),
    ((1, (2, (3,))), (1, (2, (4,)))),
    (Row(name="a", number=1), Row(name="a", number=2)),
    (Point(1, "a"), Point(1, "b")),
    (Pair(1, "a"), Pair(1, "b")),
    (b"a", b"b"),
    (Colour.RED, Colour.BLUE),
    (Level.LOW, 2),
    (Decimal("1.10"), Decimal("1.2")),
    (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
    (datetime.datetime(2024, 1, 1, 12), datetime.datetime(2024, 1, 1, 13)),
    (datetime.time(1), datetime.time(2)),
    (datetime.timedelta(1), datetime.timedelta(2)),
    (UUID(int=1), UUID(int=2)),
    (frozenset({1, 2}), frozenset({1})),
    (0.5, -0.5),
    (False, True),
    ("", "a"),
    (0, 1),
    ((), ((),)),
]


@dataclass
class Loose:
    x: int


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", LONG, 0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value()


@pytest.mark.parametrize("options", [{}, {"through_blocks": True}, {"batch_mode": True}], ids=str)
@pytest.mark.parametrize("keys", KEYS, ids=repr)
def test_keys_of_many_types(keys: tuple[Any, Any], options: dict[str, Any]) -> None:
    one, two = keys
    with OneInputOperatorHarness(Count(), lambda value: value, **options) as harness:
        harness.process_elements([one, two, one])
        harness.process_elements([one])
        harness.end_input()
        assert harness.output == [(one, 3), (two, 1)]


@pytest.mark.parametrize(
    "same", [[1, 1.0, True, Decimal(1), Level.LOW], [(1, "a"), Pair(1, "a"), (True, "a")]], ids=repr
)
def test_equal_keys_share_their_state(same: list[Any]) -> None:
    with OneInputOperatorHarness(Count(), lambda value: value) as harness:
        harness.process_elements(same)
        harness.end_input()
        assert harness.output == [(same[0], len(same))]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (lambda value: None, "A key cannot be None"),
        (lambda value: (1, object()), "A key cannot be or contain an object"),
        (lambda value: [range(3)], "A key cannot be or contain a range"),
        (lambda value: memoryview(b"a"), "A key cannot be or contain a memoryview"),
        (lambda value: Loose(1), "declare it with @dataclass\\(frozen=True\\)"),
        (lambda value: complex("nan"), "A key cannot be or contain this NaN"),
        (lambda value: Point(1, float("nan")), "A key cannot be or contain this NaN"),
    ],
)
def test_what_cannot_be_a_key_is_blamed_on_key_by(select: Any, message: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    stream = env.from_collection([3, 4]).map(lambda value: value + 4).name("my map").key_by(select).process(Count())
    sink = SinkTransformation(stream._transformation, "collect", CollectOperator("c"))
    graph = StreamGraphGenerator([sink], StreamGraphConfig(parallelism=1)).generate()
    with pytest.raises(UserCodeError, match=message) as caught:
        LocalJob(graph).run()
    fault = caught.value.fault
    assert fault.operator is not None
    assert re.fullmatch(r"key_by at test_keyed_state\.py:\d+", fault.operator)
    assert fault.record == "7"
    assert fault.traceback.strip() == fault.summary, "nothing of how it was found out"


def nan() -> float:
    """Another object each time, as from data."""
    return float("nan")


VALUES = {
    "NaN": lambda: nan(),
    "-NaN": lambda: -nan(),
    "NaN of NumPy": lambda: np.float32("nan"),
    "NaN of decimals": lambda: Decimal("NaN"),
    "NaN in a tuple": lambda: ("a", (nan(), 1)),
    "NaN in a named tuple": lambda: Pair(1, nan()),
    "NaN in a row": lambda: Row(1, nan()),
    "NaN in a frozenset": lambda: frozenset((1, nan())),
    "dict": lambda: {"a": [1], "b": nan()},
    "set in a list": lambda: [{1, 2}, bytearray(b"a")],
    "list": lambda: [1, "a", nan()],
    "list in a tuple": lambda: ("a", [[1], [2]]),
    "list in a row": lambda: Row("a", [1]),
}


class Stored(Count):
    """With a map besides, whose entries RocksDB stores by themselves."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", LONG, LONG))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        super().process_element(value, ctx)
        self.seen.put(self.count.value(), 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value(), len(list(self.seen.keys()))


class TestKeysKnownByValue:
    """NaN, which does not equal itself, lists and dicts, which have no hash: one key each, as in PyFlink."""

    @pytest.mark.parametrize("options", [{}, {"through_blocks": True, "batch_size": 1}, {"batch_mode": True}], ids=str)
    @pytest.mark.parametrize("name", VALUES)
    def test_state_and_timers(self, name: str, options: dict[str, Any]) -> None:
        with OneInputOperatorHarness(Stored(), lambda value: value, **options) as harness:
            harness.process_elements([VALUES[name]() for _ in range(3)] + [7])
            harness.process_element(VALUES[name]())
            harness.end_input()
            ((key, *counts), other) = harness.output
            assert counts == [4, 4] and other == (7, 1, 1)
            # The elements of a set have no order: that of a NaN follows from where it lies in memory.
            assert sorted(repr(key).lower()) == sorted(repr(canonical_key(VALUES[name]())).lower())

    @pytest.mark.parametrize("name", VALUES)
    def test_after_a_restore(self, name: str) -> None:
        with OneInputOperatorHarness(Stored(), lambda value: value) as harness:
            harness.process_elements([VALUES[name](), VALUES[name]()])
            taken = harness.snapshot()
        restored = OneInputOperatorHarness(Stored(), lambda value: value)
        restored.restore(taken)
        with restored:
            restored.process_element(VALUES[name]())
            restored.process_watermark(5)
            assert [counts for _, *counts in restored.output] == [[3, 3]]

    @pytest.mark.parametrize("parallelism", [1, 3])
    @pytest.mark.parametrize("name", VALUES)
    def test_a_whole_job(self, name: str, parallelism: int) -> None:
        """From blocks to windows: all of them meet in one subtask."""
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        values = [(n, VALUES[name]() if n % 2 else n) for n in range(600)]
        keyed = env.from_collection(values).key_by(lambda value: value[1])
        counts = keyed.count_window(300).reduce(lambda left, right: (left[0] + right[0], right[1]))
        counts.map(lambda value: value[0]).print()
        job = LocalJob(env.generate_stream_graph())
        job.run()
        assert [line.rpartition("> ")[2] for line in job.printed] == [str(sum(range(1, 600, 2)))]
