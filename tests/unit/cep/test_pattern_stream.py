"""CEP.pattern and PatternStream: programs with patterns as whole jobs, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from flintstream.cep import (
    CEP,
    EventComparator,
    MalformedPatternException,
    Pattern,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    RichPatternFlatSelectFunction,
    RichPatternSelectFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.output_tag import OutputTag
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import SourceFunction
from flintstream.graph.stream_graph import StreamGraph
from flintstream.testing import LocalJob

UNPAID, LATE = OutputTag("unpaid", Types.STRING()), OutputTag("late")
EVENTS = [
    ("x", "order", 1),
    ("y", "order", 2),
    ("x", "pay", 5),
    ("z", "order", 6),
    ("y", "pay", 15),
    ("z", "pay", 9),
]
BY_TIME = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20)).with_timestamp_assigner(
    lambda event, _: event[2]
)
PAID, NOT_PAID = ["x 5", "z 9"], ["y 12"]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def orders(env: StreamExecutionEnvironment) -> Any:
    stream = env.from_collection(EVENTS).assign_timestamps_and_watermarks(BY_TIME)
    return stream.key_by(lambda event: event[0], Types.STRING())


def order_then_pay() -> Any:
    return without_a_window().within(Duration.of_millis(10))


def without_a_window() -> Any:
    pattern = Pattern.begin("order").where(lambda event: event[1] == "order")
    return pattern.next("pay").where(lambda event: event[1] == "pay")


def run(stream: Any) -> tuple[list[Any], list[Any]]:
    """The results and the side output of a job."""
    stream.print("main")
    stream.get_side_output(UNPAID).print("unpaid")
    job = LocalJob(graph_of(stream), records_per_epoch=2)
    job.run()
    lines = [line.partition("> ") for line in job.printed]
    main = sorted(line for name, _, line in lines if name.startswith("main"))
    return main, sorted(line for name, _, line in lines if name.startswith("unpaid"))


def graph_of(stream: Any) -> StreamGraph:
    found: StreamGraph = stream._env.generate_stream_graph()
    return found


class Process(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match: Any, ctx: Any) -> Any:
        yield f"{match['pay'][0][0]} {ctx.timestamp()}"

    def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
        yield UNPAID, f"{match['order'][0][0]} {ctx.timestamp()}"


class Select(PatternSelectFunction):
    def select(self, match: Any) -> str:
        return f"{match['pay'][0][0]} {match['pay'][0][2]}"


class RichSelect(RichPatternSelectFunction):
    def open(self, runtime_context: Any) -> None:
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def select(self, match: Any) -> str:
        assert self.subtasks == self.get_runtime_context().get_number_of_parallel_subtasks() == 2
        return Select().select(match)


class FlatSelect(PatternFlatSelectFunction):
    def flat_select(self, match: Any) -> Any:
        yield Select().select(match)


class RichFlatSelect(RichPatternFlatSelectFunction):
    def flat_select(self, match: Any) -> Any:
        return [Select().select(match)]


class Timeout(PatternTimeoutFunction):
    def timeout(self, match: Any, timeout_timestamp: int) -> str:
        return f"{match['order'][0][0]} {timeout_timestamp}"


class FlatTimeout(PatternFlatTimeoutFunction):
    def timeout(self, match: Any, timeout_timestamp: int) -> Any:
        yield Timeout().timeout(match, timeout_timestamp)


@pytest.mark.parametrize(
    ("finish", "timeouts"),
    [
        (lambda matches: matches.process(Process(), output_type=Types.STRING()), True),
        (lambda matches: matches.select(lambda match: Select().select(match), output_type=Types.STRING()), False),
        (lambda matches: matches.select(Select(), Types.STRING()), False),
        (lambda matches: matches.select(RichSelect()), False),
        (lambda matches: matches.flat_select(FlatSelect()), False),
        (lambda matches: matches.flat_select(RichFlatSelect()), False),
        (lambda matches: matches.flat_select(lambda match: [Select().select(match)]), False),
        (lambda matches: matches.select(UNPAID, Timeout(), Select()), True),
        (lambda matches: matches.select(UNPAID, lambda match, end: Timeout().timeout(match, end), Select()), True),
        (lambda matches: matches.flat_select(UNPAID, FlatTimeout(), FlatSelect(), Types.STRING()), True),
    ],
)
def test_what_happens_with_matches(
    env: StreamExecutionEnvironment, finish: Callable[[Any], Any], timeouts: bool
) -> None:
    stream = finish(CEP.pattern(orders(env), order_then_pay()).in_event_time())
    assert run(stream) == (PAID, NOT_PAID if timeouts else [])


def test_a_stream_without_keys_runs_in_one_subtask(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(EVENTS).assign_timestamps_and_watermarks(BY_TIME)
    pattern = Pattern.begin("one").next("two").next("three")
    matches = CEP.pattern(stream, pattern).select(lambda match: "".join(events[0][0] for events in match.values()))
    assert matches.get_name() == "GlobalCepOperator"
    assert run(matches)[0] == sorted(["xyx", "yxz", "xzz", "zzy"])
    node = next(node for node in graph_of(matches).nodes.values() if node.name == "GlobalCepOperator")
    assert node.parallelism == 1


def test_the_keyed_operator_has_its_name(env: StreamExecutionEnvironment) -> None:
    assert CEP.pattern(orders(env), order_then_pay()).select(Select()).get_name() == "CepOperator"


def test_processing_time(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(EVENTS).set_parallelism(1).key_by(lambda event: event[0])
    matches = CEP.pattern(stream, without_a_window()).in_processing_time().select(Select())
    assert run(matches)[0] == ["x 5", "y 15", "z 9"]


def test_a_comparator(env: StreamExecutionEnvironment) -> None:
    class ByName(EventComparator):
        def compare(self, left: Any, right: Any) -> int:
            return (left[1] > right[1]) - (left[1] < right[1])

    events = [("x", "pay", 5), ("x", "order", 5)]
    stream = env.from_collection(events).assign_timestamps_and_watermarks(BY_TIME).key_by(lambda event: event[0])
    matches = CEP.pattern(stream, order_then_pay(), ByName()).select(Select())
    assert run(matches)[0] == ["x 5"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda stream: CEP.pattern([], order_then_pay()), "expected a stream, got \\[\\]"),
        (lambda stream: CEP.pattern(stream, "a"), "expected a Pattern, got 'a'"),
        (lambda stream: CEP.pattern(stream, order_then_pay(), 3), "expected an EventComparator or a callable"),
        (lambda stream: CEP.pattern(stream, order_then_pay()).process(print), "process: expected a PatternProcessF"),
        (lambda stream: CEP.pattern(stream, order_then_pay()).select(3), "select: expected a PatternSelectFunction"),
        (lambda stream: CEP.pattern(stream, order_then_pay()).select(Select), "pass an instance, Select\\(\\)"),
        (lambda stream: CEP.pattern(stream, order_then_pay()).select(UNPAID, Select()), "got 2 arguments"),
        (lambda stream: CEP.pattern(stream, order_then_pay()).flat_select(), "got 0 arguments"),
        (lambda stream: CEP.pattern(stream, order_then_pay()).side_output_late_data("x"), "expected an OutputTag"),
    ],
)
def test_wrong_arguments(env: StreamExecutionEnvironment, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(orders(env))


def test_a_malformed_pattern_is_refused_before_the_job_runs(env: StreamExecutionEnvironment) -> None:
    twice = Pattern.begin("a").next("a")
    with pytest.raises(MalformedPatternException, match="Duplicate pattern name: a"):
        CEP.pattern(orders(env), twice).select(Select())


class Endless(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect(("x", "order", 1))

    def cancel(self) -> None:
        """Nothing to do."""


class TestWarning:
    def test_an_endless_stream_without_a_window(self, env: StreamExecutionEnvironment) -> None:
        stream = env.add_source(Endless()).key_by(lambda event: event[0])
        endless = Pattern.begin("a").next("b")
        with pytest.warns(UserWarning, match="'a', stage 'b' has no within.*for ever") as told:
            CEP.pattern(stream, endless).select(Select())
        assert len(told) == 1 and told[0].filename == __file__

    def test_a_window_between_two_events_ends_by_another_event_only(self, env: StreamExecutionEnvironment) -> None:
        stream = env.add_source(Endless()).key_by(lambda event: event[0])
        pattern = Pattern.begin(Pattern.begin("a").next("b")).next("c")
        pattern = pattern.within(Duration.of_millis(5), WithinType.PREVIOUS_AND_CURRENT)
        with pytest.warns(UserWarning, match="the group of stage 'a', stage 'b', stage 'c' has only windows between"):
            CEP.pattern(stream, pattern).select(Select())

    def test_no_warning_where_nothing_stays(self, env: StreamExecutionEnvironment) -> None:
        endless = env.add_source(Endless()).key_by(lambda event: event[0])
        bounded = env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CEP.pattern(endless, order_then_pay()).select(Select())
            CEP.pattern(endless, Pattern.begin("single")).select(Select())
            CEP.pattern(bounded, Pattern.begin("a").next("b")).select(Select())
