"""Streams connected with a broadcast one: broadcast states, keyed state of all keys, timers, batch mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aggregates import Sum

from flintstream.common import Types
from flintstream.common.output_tag import OutputTag
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    BroadcastState,
    ListStateDescriptor,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.graph import SinkTransformation, StreamGraphConfig, StreamGraphGenerator
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.testing import LocalJob, Record, TwoInputOperatorHarness, UserCodeError, Watermark

pytestmark = pytest.mark.usefixtures("state_backend")

LONG, STRING = Types.LONG(), Types.STRING()
RULES = MapStateDescriptor("rules", STRING, LONG)
NAMES = MapStateDescriptor("names", STRING, STRING)
SIDE = OutputTag("side")


class BroadcastHarness(TwoInputOperatorHarness):
    """The first input has the records, keyed where a selector is given; the second is broadcast."""

    def __init__(
        self, function: Any, key_selector: Any = None, *, states: Any = (RULES, NAMES), **options: Any
    ) -> None:
        super().__init__(function, key_selector, broadcast_states=states, name="my rules", **options)


def first(value: Any) -> Any:
    return value[0]


class Apply(BroadcastProcessFunction):
    """Rules are `(name, number)`; a record is told the number of its name."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        name, number = value
        if number is None:
            ctx.get_broadcast_state(RULES).remove(name)
        else:
            ctx.get_broadcast_state(RULES).put(name, number)
        yield "rule", name


class Does(BroadcastProcessFunction):
    """Calls what it was given: one function a side."""

    def __init__(self, element: Any = None, broadcast: Any = None) -> None:
        self.element = element
        self.broadcast = broadcast

    def process_element(self, value: Any, ctx: Any) -> Any:
        return None if self.element is None else [self.element(value, ctx)]

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return None if self.broadcast is None else [self.broadcast(value, ctx)]


class KeyedDoes(Does, KeyedBroadcastProcessFunction):
    pass


BOTH = pytest.mark.parametrize(("kind", "selector"), [(Does, None), (KeyedDoes, first)], ids=["plain", "keyed"])


class TestPlain:
    @pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "through_blocks": True}], ids=str)
    def test_records_see_the_rules_so_far(self, options: dict[str, Any]) -> None:
        with BroadcastHarness(Apply(), **options) as harness:
            harness.process_element1("a")
            harness.process_element2(("a", 1), timestamp=3)
            harness.process_elements1(["a", "b"], timestamps=[5, 6])
            harness.process_elements2([("b", 2), ("a", None)])
            harness.process_elements1(["a", "b"])
            assert harness.output_with_timestamps == [
                (("a", None), None),
                (("rule", "a"), 3),
                (("a", 1), 5),
                (("b", None), 6),
                (("rule", "b"), None),
                (("rule", "a"), None),
                (("a", None), None),
                (("b", 2), None),
            ]

    def test_side_outputs_of_both_sides(self) -> None:
        function = Does(lambda value, ctx: (SIDE, value), lambda value, ctx: (SIDE, value * 10))
        with BroadcastHarness(function) as harness:
            harness.process_element1(1, timestamp=5)
            harness.process_element2(2, timestamp=6)
            assert harness.side_output_with_timestamps(SIDE) == [(1, 5), (20, 6)]
            assert harness.output == []

    def test_no_results(self) -> None:
        with BroadcastHarness(Does()) as harness:
            harness.process_element1(1)
            harness.process_element2(2)
            assert harness.output == []

    def test_watermarks_are_the_lesser_of_both(self) -> None:
        see = lambda value, ctx: (ctx.current_watermark(), ctx.timestamp())  # noqa: E731
        with BroadcastHarness(Does(see, see)) as harness:
            harness.process_watermark1(9)
            harness.process_watermark2(7)
            harness.process_element1(1, timestamp=8)
            harness.process_element2(1, timestamp=8)
            harness.process_element2(1)
            assert harness.output == [(7, 8), (7, 8), (7, MIN_WATERMARK)]
            assert harness.watermarks == [7]

    def test_no_timers_without_keys(self) -> None:
        function = Does(lambda value, ctx: ctx.timer_service().register_event_time_timer(5))
        with (
            pytest.raises(UserCodeError, match="timers are only supported on a keyed stream"),
            BroadcastHarness(function) as harness,
        ):
            harness.process_element1(1)

    def test_errors_name_the_record_of_the_broadcast_side(self) -> None:
        with (
            pytest.raises(UserCodeError, match="Operator 'my rules' .* ZeroDivisionError") as caught,
            BroadcastHarness(Does(broadcast=lambda value, ctx: 1 // value)) as harness,
        ):
            harness.process_elements2([1, 0])
        assert caught.value.fault.record == "0"


@BOTH
class TestStates:
    def test_several_states_are_apart(self, kind: Any, selector: Any) -> None:
        def write(value: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(RULES).put(value, 1)
            ctx.get_broadcast_state(NAMES)[value] = "x"
            ctx.get_broadcast_state(NAMES).put_all({value * 2: "y"})

        def read(value: Any, ctx: Any) -> Any:
            return dict(ctx.get_broadcast_state(RULES).items()), dict(ctx.get_broadcast_state(NAMES).items())

        with BroadcastHarness(kind(read, write), selector) as harness:
            harness.process_element2("a")
            harness.clear_output()
            harness.process_element1("r")
            assert harness.output == [({"a": 1}, {"a": "x", "aa": "y"})]

    def test_all_that_can_be_called(self, kind: Any, selector: Any) -> None:
        def use(value: Any, ctx: Any) -> Any:
            state = ctx.get_broadcast_state(RULES)
            assert isinstance(state, BroadcastState)
            state.put_all({"a": 1, "b": 2, "c": 3})
            del state["a"]
            state.remove("unknown")
            seen = (
                list(state.keys()),
                list(state.values()),
                list(state),
                "b" in state,
                state.contains("a"),
                state["c"],
            )
            state.clear()
            return (*seen, state.is_empty(), state.get("b"))

        with BroadcastHarness(kind(broadcast=use), selector) as harness:
            harness.process_element2("x")
            assert harness.output == [(["b", "c"], [2, 3], ["b", "c"], True, False, 3, True, None)]

    def test_the_same_name_is_the_same_state(self, kind: Any, selector: Any) -> None:
        again = MapStateDescriptor("rules", STRING, LONG)
        read = lambda value, ctx: ctx.get_broadcast_state(again).get("a")  # noqa: E731
        with BroadcastHarness(kind(read, lambda value, ctx: ctx.get_broadcast_state(RULES).put("a", 5)), selector) as h:
            h.process_element2("x")
            h.clear_output()
            h.process_element1("r")
            assert h.output == [5]

    @pytest.mark.parametrize("side", [1, 2])
    def test_an_undeclared_descriptor(self, kind: Any, selector: Any, side: int) -> None:
        other = MapStateDescriptor("other", STRING, LONG)
        ask = lambda value, ctx: ctx.get_broadcast_state(other)  # noqa: E731
        message = r"operator 'my rules': there is no broadcast state 'other' \(there is 'rules', 'names'\)"
        with pytest.raises(UserCodeError, match=message), BroadcastHarness(kind(ask, ask), selector) as harness:
            (harness.process_element1 if side == 1 else harness.process_element2)("r")

    @pytest.mark.parametrize(
        ("call", "change"),
        [
            ("put", lambda state: state.put("a", 1)),
            ("put", lambda state: state.__setitem__("a", 1)),
            ("put_all", lambda state: state.put_all({"a": 1})),
            ("remove", lambda state: state.remove("a")),
            ("remove", lambda state: state.__delitem__("a")),
            ("clear", lambda state: state.clear()),
        ],
    )
    def test_the_other_side_only_reads(self, kind: Any, selector: Any, call: str, change: Any) -> None:
        def read(value: Any, ctx: Any) -> None:
            state = ctx.get_broadcast_state(RULES)
            assert isinstance(state, ReadOnlyBroadcastState)
            change(state)

        put = lambda value, ctx: ctx.get_broadcast_state(RULES).put("a", 7)  # noqa: E731
        message = rf"operator 'my rules': {call}\(\): broadcast state 'rules' is read-only here"
        harness = BroadcastHarness(kind(read, put), selector)
        with pytest.raises(UserCodeError, match=message), harness:
            harness.process_element2("x")
            harness.process_element1("r")
        state = harness.operator.context.operator_state.get_broadcast_state(RULES)
        assert dict(state.items()) == {"a": 7}

    def test_changing_while_reading(self, kind: Any, selector: Any) -> None:
        def use(value: Any, ctx: Any) -> Any:
            state = ctx.get_broadcast_state(RULES)
            state.put_all({"a": 1, "b": 2})
            for name, number in state.items():
                state.put(name * 2, number)
                state.remove(name)
            for name in state:
                state.put(name + "!", 0)
            return sorted(state)

        with BroadcastHarness(kind(broadcast=use), selector) as harness:
            harness.process_element2("x")
            assert harness.output == [["aa", "aa!", "bb", "bb!"]]

    def test_the_contexts_are_the_public_ones(self, kind: Any, selector: Any) -> None:
        def element(value: Any, ctx: Any) -> bool:
            return isinstance(ctx, kind.ReadOnlyContext) and ctx.current_processing_time() == 42

        def broadcast(value: Any, ctx: Any) -> bool:
            return isinstance(ctx, kind.Context) and ctx.current_processing_time() == 42

        with BroadcastHarness(kind(element, broadcast), selector, processing_time=42) as harness:
            harness.process_element1("r")
            harness.process_element2("x")
            assert harness.output == [True, True]

    def test_the_broadcast_side_has_no_key(self, kind: Any, selector: Any) -> None:
        with (
            pytest.raises(UserCodeError, match="a record of the broadcast side has no key"),
            BroadcastHarness(kind(broadcast=lambda value, ctx: ctx.get_current_key()), selector) as harness,
        ):
            harness.process_element1("r")
            harness.process_element2("x")


# --- keyed ---


DESCRIPTORS: dict[str, Any] = {
    "value": ValueStateDescriptor("value", LONG),
    "list": ListStateDescriptor("list", LONG),
    "map": MapStateDescriptor("map", STRING, LONG),
    "reducing": ReducingStateDescriptor("reducing", lambda a, b: a + b, LONG),
    "aggregating": AggregatingStateDescriptor("aggregating", Sum(), LONG),
}
GET = {"value": "get_state", **{kind: f"get_{kind}_state" for kind in ("list", "map", "reducing", "aggregating")}}
READ: dict[str, Any] = {
    "value": lambda state: state.value(),
    "list": lambda state: list(state),
    "map": lambda state: dict(state.items()),
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
}


def write(kind: str, state: Any, number: int) -> None:
    if kind == "value":
        state.update(number)
    elif kind == "map":
        state.put(str(number), number)
    else:
        state.add(number)


class Keeps(KeyedBroadcastProcessFunction):
    """Writes the number of each record into one kind of state; broadcast records run a function over all keys."""

    def __init__(self, kind: str, over_all: Any = None) -> None:
        self.kind = kind
        self.over_all = over_all

    def open(self, runtime_context: Any) -> None:
        self.state = getattr(runtime_context, GET[self.kind])(DESCRIPTORS[self.kind])

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        assert ctx.get_current_key() == value[0]
        if len(value) > 1:
            write(self.kind, self.state, value[1])
        yield value[0], READ[self.kind](self.state)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        if self.over_all is None:
            return READ[self.kind](self.state)
        seen: list[Any] = []
        ctx.apply_to_keyed_state(DESCRIPTORS[self.kind], lambda key, state: seen.append(self.over_all(key, state)))
        return [seen]


@pytest.mark.parametrize("kind", DESCRIPTORS)
class TestKeyedState:
    def test_each_key_sees_its_own(self, kind: str) -> None:
        with BroadcastHarness(Keeps(kind, lambda key, state: None), first) as harness:
            harness.process_elements1([("a", 1), ("b", 2), ("a", 3)])
            expected: dict[str, Any] = {
                "value": [1, 2, 3],
                "list": [[1], [2], [1, 3]],
                "map": [{"1": 1}, {"2": 2}, {"1": 1, "3": 3}],
                "reducing": [1, 2, 4],
                "aggregating": [1, 2, 4],
            }
            assert [value for _, value in harness.output] == expected[kind]

    def test_it_is_refused_on_the_broadcast_side(self, kind: str) -> None:
        message = (
            r"operator 'my rules': there is no current key.*a record of the broadcast side has no key; "
            r"ctx.apply_to_keyed_state\(\) visits all keys"
        )
        with pytest.raises(UserCodeError, match=message), BroadcastHarness(Keeps(kind), first) as harness:
            harness.process_element1(("a", 1))
            harness.process_element2("x")

    def test_over_all_keys(self, kind: str) -> None:
        with BroadcastHarness(Keeps(kind, lambda key, state: (key, READ[kind](state))), first) as harness:
            harness.process_element2("x")
            harness.process_elements1([("a", 1), ("b", 2), ("c",), ("a", 3)])
            alone = dict(harness.output[1:])
            harness.clear_output()
            harness.process_element2("x")
            assert [sorted(each) for each in harness.output] == [[("a", alone["a"]), ("b", alone["b"])]], (
                "c has nothing stored"
            )

    def test_writing_over_all_keys(self, kind: str) -> None:
        with BroadcastHarness(Keeps(kind, lambda key, state: write(kind, state, 10)), first) as harness:
            harness.process_elements1([("a", 1), ("b", 2)])
            harness.process_element2("x")
            harness.clear_output()
            harness.process_elements1([("a",), ("b",), ("c",)])
            expected: dict[str, Any] = {
                "value": [10, 10, None],
                "list": [[1, 10], [2, 10], []],
                "map": [{"1": 1, "10": 10}, {"2": 2, "10": 10}, {}],
                "reducing": [11, 12, None],
                "aggregating": [11, 12, None],
            }
            assert [value for _, value in harness.output] == expected[kind]

    def test_clearing_over_all_keys(self, kind: str) -> None:
        def clear_but_b(key: str, state: Any) -> None:
            if key != "b":
                state.clear()

        with BroadcastHarness(Keeps(kind, clear_but_b), first) as harness:
            harness.process_elements1([("a", 1), ("b", 2), ("c", 3)])
            harness.process_element2("x")
            assert list(harness.keyed_state(kind)) == ["b"]

    def test_a_failure_over_all_keys(self, kind: str) -> None:
        class Survives(Keeps):
            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                if value == "bad":
                    try:
                        ctx.apply_to_keyed_state(DESCRIPTORS[kind], lambda key, state: 1 // 0)
                    except ZeroDivisionError:
                        return READ[kind](self.state)
                return None

        with (
            pytest.raises(UserCodeError, match="has no key"),
            BroadcastHarness(Survives(kind), first) as harness,
        ):
            harness.process_element1(("a", 1))
            harness.process_element2("bad")


def test_over_all_keys_with_a_state_of_another_kind() -> None:
    class Wrong(Keeps):
        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.apply_to_keyed_state(ListStateDescriptor("value", LONG), lambda key, state: None)

    with (
        pytest.raises(UserCodeError, match="state 'value' is already value state, and cannot be list state too"),
        BroadcastHarness(Wrong("value"), first) as harness,
    ):
        harness.process_element2("x")


class Timed(KeyedBroadcastProcessFunction):
    """Timers of the keyed side that read the rules when they fire."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        if len(value) > 1:
            {"event": timers.register_event_time_timer, "processing": timers.register_processing_time_timer}[value[1]](
                value[2]
            )
        yield "record", value[0], sorted(ctx.get_broadcast_state(RULES)), ctx.current_watermark()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put(value, 1)
        yield "rule", value, ctx.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        assert isinstance(ctx, KeyedBroadcastProcessFunction.OnTimerContext)
        assert ctx.timestamp() == timestamp
        yield "timer", ctx.get_current_key(), timestamp, sorted(ctx.get_broadcast_state(RULES)), ctx.time_domain().name


class TestTimers:
    def test_of_event_time_with_the_rules_of_that_moment(self) -> None:
        with BroadcastHarness(Timed(), first) as harness:
            harness.process_element1(("a", "event", 5))
            harness.process_element2("r1")
            harness.process_watermark1(10)
            harness.clear_output()
            harness.process_watermark2(6)
            assert harness.records_and_watermarks == [
                Record(("timer", "a", 5, ["r1"], "EVENT_TIME"), 5),
                Watermark(6),
            ]

    def test_of_processing_time_before_records_of_the_broadcast_side(self) -> None:
        with BroadcastHarness(Timed(), first, processing_time=1000) as harness:
            harness.process_element1(("a", "processing", 900))
            harness.process_element2("r1")
            assert [value[0] for value in harness.output] == ["record", "timer", "rule"]
            assert harness.output[1][3] == []

    def test_the_broadcast_side_behind_a_timer_has_no_key(self) -> None:
        class Both(Timed):
            def open(self, runtime_context: Any) -> None:
                self.state = runtime_context.get_state(DESCRIPTORS["value"])

            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                self.state.update(1)

        with (
            pytest.raises(UserCodeError, match="has no key"),
            BroadcastHarness(Both(), first, processing_time=1000) as harness,
        ):
            harness.process_element1(("a", "processing", 900))
            harness.process_element2("r1")

    @pytest.mark.parametrize("call", ["register", "delete"])
    @pytest.mark.parametrize("domain", ["event", "processing"])
    def test_none_on_the_broadcast_side(self, call: str, domain: str) -> None:
        class Registers(Timed):
            def process_broadcast_element(self, value: Any, ctx: Any) -> None:
                getattr(ctx.timer_service(), f"{call}_{domain}_time_timer")(5)

        with (
            pytest.raises(UserCodeError, match="there is no current key, so keyed state and timers cannot be used"),
            BroadcastHarness(Registers(), first, processing_time=0) as harness,
        ):
            harness.process_element1(("a", domain, 5))
            harness.process_element2("r1")

    def test_rules_cannot_be_written_in_on_timer(self) -> None:
        class Writes(Timed):
            def on_timer(self, timestamp: int, ctx: Any) -> None:
                ctx.get_broadcast_state(RULES).put("a", 1)

        with (
            pytest.raises(UserCodeError, match="broadcast state 'rules' is read-only here") as caught,
            BroadcastHarness(Writes(), first) as harness,
        ):
            harness.process_element1(("a", "event", 5))
            harness.process_watermark(5)
        assert caught.value.fault.record == "<event-time timer 5 of key 'a'>"


class TestRestored:
    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_every_subtask_has_the_rules_and_its_keys(self, parallelism: int) -> None:
        keys = [f"k{number}" for number in range(20)]
        with BroadcastHarness(Timed(), first) as harness:
            harness.process_elements2(["r1", "r2"])
            harness.process_elements1([(key, "event", 5) for key in keys])
            taken = harness.snapshot()
        fired = []
        for subtask in range(parallelism):
            again = BroadcastHarness(Timed(), first, parallelism=parallelism, subtask=subtask)
            again.restore(taken)
            with again:
                again.process_element2("r3")
                again.clear_output()
                again.process_watermark(5)
                assert all(value[3] == ["r1", "r2", "r3"] for value in again.output)
                fired += [value[1] for value in again.output]
        assert sorted(fired) == sorted(keys)


class TestBatchMode:
    def test_plain_the_rules_come_first(self) -> None:
        with BroadcastHarness(Apply(), batch_mode=True) as harness:
            harness.process_elements1(["a", "b"], timestamps=[2, 1])
            harness.process_element2(("a", 1))
            harness.process_elements1(["a"])
            harness.process_elements2([("b", 2)])
            harness.end_input1()
            assert [value[0] for value in harness.output] == ["rule", "rule"]
            harness.end_input2()
            assert harness.output[2:] == [("a", 1), ("b", 2), ("a", 1)]
            assert harness.output_with_timestamps[2:4] == [(("a", 1), 2), (("b", 2), 1)]
            assert harness.watermarks == [MAX_WATERMARK]
            assert harness.finished

    def test_keyed_the_rules_come_first_then_key_by_key_with_its_timers(self) -> None:
        with BroadcastHarness(Timed(), first, batch_mode=True) as harness:
            harness.process_elements1([("a", "event", 5), ("b",)], timestamps=[20, 1])
            harness.process_element2("r1")
            harness.process_elements1([("a", "processing", 10**15), ("c",)], timestamps=[10, 1])
            harness.process_element2("r2")
            harness.end_input()
            rules = ["r1", "r2"]
            low = MIN_WATERMARK
            assert harness.output == [
                ("rule", "r1", low),
                ("rule", "r2", low),
                ("record", "a", rules, low),
                ("record", "a", rules, low),
                ("timer", "a", 5, rules, "EVENT_TIME"),
                ("timer", "a", 10**15, rules, "PROCESSING_TIME"),
                ("record", "b", rules, low),
                ("record", "c", rules, low),
            ]
            assert harness.watermarks == [MAX_WATERMARK]

    @pytest.mark.parametrize("selector", [None, first], ids=["plain", "keyed"])
    def test_no_records_on_either_side(self, selector: Any) -> None:
        kind = Does if selector is None else KeyedDoes
        with BroadcastHarness(kind(), selector, batch_mode=True) as harness:
            harness.end_input()
            assert harness.records_and_watermarks == [Watermark(MAX_WATERMARK)]
            assert harness.finished


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just(1), st.tuples(st.sampled_from("ab"), st.just("event"), st.integers(0, 20))),
            st.tuples(st.just(2), st.sampled_from("xyz")),
            st.tuples(st.just(3), st.integers(0, 25)),
        ),
        max_size=25,
    ),
    st.integers(1, 5),
)
def test_results_do_not_depend_on_batching(steps: list[Any], batch_size: int) -> None:
    def run(**options: Any) -> Any:
        with BroadcastHarness(Timed(), first, processing_time=0, **options) as harness:
            for kind, value in steps:
                (None, harness.process_element1, harness.process_element2, harness.process_watermark)[kind](value)
            return harness.records_and_watermarks

    expected = run()
    assert run(batch_size=batch_size) == expected
    assert run(batch_size=batch_size, through_blocks=True) == expected


class TestWholeJobs:
    def job(self, parallelism: int, keyed: bool, **options: Any) -> list[Any]:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        records: Any = env.from_collection([(f"k{number}",) for number in range(8)])
        rules = env.from_collection(["r1", "r2", "r3"]).broadcast(RULES, NAMES)
        if keyed:
            stream = records.key_by(first).connect(rules).process(Timed())
        else:
            stream = records.connect(rules).process(
                Does(lambda value, ctx: sorted(ctx.get_broadcast_state(RULES)), _put)
            )
        sink = SinkTransformation(stream._transformation, "collect", CollectOperator("c"))
        graph = StreamGraphGenerator([sink], StreamGraphConfig(parallelism=parallelism)).generate()
        return LocalJob(graph, **options).run().collected["c"]

    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_every_subtask_has_every_rule(self, parallelism: int) -> None:
        results = self.job(parallelism, keyed=True, batch_mode=True)
        assert sorted(value[1] for value in results if value[0] == "record") == [f"k{number}" for number in range(8)]
        assert all(value[2] == ["r1", "r2", "r3"] for value in results if value[0] == "record")
        assert sum(value[0] == "rule" for value in results) == 3 * parallelism

    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_without_keys(self, parallelism: int) -> None:
        results = self.job(parallelism, keyed=False, batch_mode=True)
        assert [value for value in results if value is not None] == [["r1", "r2", "r3"]] * 8

    @pytest.mark.parametrize("records_per_epoch", [1, 100])
    def test_streaming_gives_as_many_results(self, records_per_epoch: int) -> None:
        results = self.job(2, keyed=True, records_per_epoch=records_per_epoch)
        assert len(results) == 8 + 2 * 3


def _put(value: Any, ctx: Any) -> None:
    ctx.get_broadcast_state(RULES).put(value, 1)
