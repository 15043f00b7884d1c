"""Patterns: how they are built, and what is refused, with Flink's messages and the stage's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flintstream.cep import (
    AfterMatchSkipStrategy,
    GroupPattern,
    IterativeCondition,
    MalformedPatternException,
    Pattern,
    Quantifier,
    RichIterativeCondition,
    SimpleCondition,
    WithinType,
)
from flintstream.cep.compiler import compile_pattern
from flintstream.common.time import Duration, Time

PROPERTY, STRATEGY = Quantifier.QuantifierProperty, Quantifier.ConsumingStrategy


def seconds(count: int) -> Duration:
    return Duration.of_seconds(count)


def a() -> Any:
    return Pattern.begin("a")


def group() -> Any:
    return Pattern.begin(Pattern.begin("a").followed_by("b"))


MALFORMED: list[tuple[Callable[[], Any], str]] = [
    (lambda: a().one_or_more().times(2), "'a'.*Already applied quantifier to this Pattern"),
    (lambda: a().times(2).one_or_more(), "Already applied quantifier"),
    (lambda: a().not_next("b").one_or_more(), "'b'.*Option not applicable to NOT pattern"),
    (lambda: a().not_next("b").greedy(), "'b'.*Option not applicable to NOT pattern"),
    (lambda: a().not_followed_by("b").optional(), "'b'.*NOT pattern cannot be optional"),
    (lambda: a().times(0), "You should give a positive number greater than 0."),
    (lambda: a().times_or_more(0), "The from should be a positive number greater than 0."),
    (lambda: a().times(-1, 2), "The from should be a positive number greater than 0."),
    (lambda: a().times(3, 2), "The to should be a number greater than or equal to from: 3."),
    (lambda: a().until(bool), "'a'.*The until condition is only applicable to looping states."),
    (lambda: a().times(2).until(bool), "The until condition is only applicable to looping states."),
    (lambda: a().one_or_more().until(bool).until(bool), "Only one until condition can be applied."),
    (lambda: a().greedy(), "'a'.*Option not applicable to singleton quantifier"),
    (lambda: group().one_or_more().greedy(), "group of stage 'a', stage 'b': Option not applicable to group pattern"),
    (lambda: group().times(2).times(3), "group of stage 'a', stage 'b': Already applied quantifier"),
    (lambda: group().consecutive(), "group of stage 'a', stage 'b': Consecutive not applicable"),
    (lambda: a().one_or_more().allow_combinations().greedy(), "Option not applicable to FollowedByAny pattern"),
    (lambda: a().optional().optional(), "'a'.*Optional already applied!"),
    (lambda: a().times(0, 2).optional(), "Optional already applied!"),
    (
        lambda: a().one_or_more().greedy().followed_by("b").optional(),
        "'b'.*Optional pattern cannot be preceded by greedy pattern",
    ),
    (lambda: a().consecutive(), "'a'.*Consecutive not applicable to"),
    (lambda: a().allow_combinations(), "Combinations not applicable to"),
    (lambda: a().times(2).consecutive().allow_combinations(), "either combinations or consecutive, not both!"),
    (lambda: a().times(2).allow_combinations().consecutive(), "either combinations or consecutive, not both!"),
    (lambda: a().times(2).consecutive().consecutive(), "Consecutive already applied!"),
    (lambda: a().times(2).allow_combinations().allow_combinations(), "Combinations already applied!"),
]

NOT_COMPILED: list[tuple[Callable[[], Any], str]] = [
    (lambda: a().followed_by("a"), "Duplicate pattern name: a. Names must be unique."),
    (lambda: a().followed_by(Pattern.begin("b").next("a")), "Duplicate pattern name: a. Names must be unique."),
    (
        lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("x")),
        "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern",
    ),
    (
        lambda: Pattern.begin(Pattern.begin("x"), AfterMatchSkipStrategy.skip_to_last("x")),
        "The pattern name specified in AfterMatchSkipStrategy can not be found",
    ),
    (
        lambda: a().not_followed_by("b"),
        "'b'.*NotFollowedBy is not supported without windowTime as a last part of a Pattern!",
    ),
    (
        lambda: a().next("b").within(seconds(9), WithinType.PREVIOUS_AND_CURRENT).within(seconds(3)),
        "'b'.*The window length between the previous and current event cannot be larger than",
    ),
    (
        lambda: a().next("b:c").within(seconds(9), WithinType.PREVIOUS_AND_CURRENT).within(seconds(3)),
        "'b:c'.*The window length between the previous and current event cannot be larger than",
    ),
    (
        lambda: Pattern.begin(Pattern.begin("a").optional().next("b").optional()).one_or_more().next("c"),
        "all its stages are optional .*'a', 'b'",
    ),
    (
        lambda: Pattern.begin(Pattern.begin("a").optional()).times_or_more(2),
        "all its stages are optional .*'a'",
    ),
]


@pytest.mark.parametrize(("build", "message"), MALFORMED, ids=[message for _, message in MALFORMED])
def test_a_call_that_contradicts_another_is_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(MalformedPatternException, match=message):
        build()


@pytest.mark.parametrize(("build", "message"), NOT_COMPILED, ids=[message for _, message in NOT_COMPILED])
def test_a_pattern_that_cannot_work_is_refused_when_it_is_compiled(build: Callable[[], Any], message: str) -> None:
    pattern = build()
    with pytest.raises(MalformedPatternException, match=message):
        compile_pattern(pattern)


def test_a_malformed_pattern_is_a_value_error() -> None:
    assert issubclass(MalformedPatternException, ValueError)


@pytest.mark.parametrize("method", ["not_next", "not_followed_by"])
def test_a_negation_behind_an_optional_stage_is_not_supported(method: str) -> None:
    with pytest.raises(NotImplementedError, match="'b'.*optional path to NOT condition is not supported yet"):
        getattr(a().optional(), method)("b")


@pytest.mark.parametrize(("method", "argument"), [("where", bool), ("or_", bool), ("subtype", int)])
def test_a_group_has_no_condition(method: str, argument: Any) -> None:
    clause = {"where": "where", "or_": "or", "subtype": "subtype"}[method]
    with pytest.raises(NotImplementedError, match=f"GroupPattern does not support {clause} clause."):
        getattr(group(), method)(argument)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pattern.begin(""), "begin: expected the name of a stage"),
        (lambda: Pattern.begin("a", "skip"), "begin: expected an AfterMatchSkipStrategy"),
        (lambda: a().next(3), "next: expected the name of a stage or a pattern, got 3"),
        (lambda: a().not_next(Pattern.begin("b")), "not_next: expected the name of a stage"),
        (lambda: a().where("x"), "where of stage 'a': expected a condition or a callable, got 'x'"),
        (lambda: a().where(SimpleCondition), "pass an instance, SimpleCondition\\(\\)"),
        (lambda: a().where(lambda x, y, z: True), "where of stage 'a': a condition takes one parameter"),
        (lambda: a().subtype(3), "subtype of stage 'a': expected a class, got 3"),
        (lambda: a().times("2"), "times of stage 'a': expected an integer, got '2'"),
        (lambda: a().within(3), "within of stage 'a': expected a Duration, got 3"),
        (lambda: a().within(seconds(3), "x"), "within of stage 'a': expected a WithinType, got 'x'"),
        (lambda: AfterMatchSkipStrategy.skip_to_first(""), "skip_to_first: expected the name of a stage"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


class TestGetters:
    def test_stages(self) -> None:
        last = a().followed_by("b").next("c")
        assert last.get_name() == "c"
        assert last.get_previous().get_name() == "b"
        assert last.get_previous().get_previous().get_previous() is None
        assert [stage.get_name() for stage in last.stages()] == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("method", "consuming"),
        [
            ("next", STRATEGY.STRICT),
            ("followed_by", STRATEGY.SKIP_TILL_NEXT),
            ("followed_by_any", STRATEGY.SKIP_TILL_ANY),
            ("not_next", STRATEGY.NOT_NEXT),
            ("not_followed_by", STRATEGY.NOT_FOLLOW),
        ],
    )
    def test_contiguity(self, method: str, consuming: Any) -> None:
        quantifier = getattr(a(), method)("b").get_quantifier()
        assert quantifier.get_consuming_strategy() is consuming
        assert quantifier.get_inner_consuming_strategy() is STRATEGY.SKIP_TILL_NEXT
        assert quantifier.has_property(PROPERTY.SINGLE)

    def test_quantifiers(self) -> None:
        loop = a().one_or_more().consecutive().greedy().optional()
        quantifier = loop.get_quantifier()
        assert [each for each in PROPERTY if quantifier.has_property(each)] == [
            PROPERTY.LOOPING,
            PROPERTY.OPTIONAL,
            PROPERTY.GREEDY,
        ]
        assert quantifier.get_inner_consuming_strategy() is STRATEGY.STRICT
        times = a().times(2, 4, seconds(3)).get_times()
        assert (times.get_from(), times.get_to(), times.get_window_size()) == (2, 4, 3000)
        assert a().times(2, seconds(3)).get_times() == Quantifier.Times(2, 2, 3000)
        assert a().get_times() is None

    def test_zero_times_is_optional(self) -> None:
        stage = a().times(0, 3)
        assert stage.get_times() == Quantifier.Times(1, 3)
        assert stage.get_quantifier().has_property(PROPERTY.OPTIONAL)

    def test_windows(self) -> None:
        stage = a().within(seconds(3)).within(Time.seconds(2), WithinType.PREVIOUS_AND_CURRENT).within(None)
        assert stage.get_window_size() == seconds(3)
        assert stage.get_window_size(WithinType.PREVIOUS_AND_CURRENT) == seconds(2)
        assert a().get_window_size(WithinType.FIRST_AND_LAST) is None

    def test_skip_strategy_is_that_of_begin(self) -> None:
        skip = AfterMatchSkipStrategy.skip_to_last("a")
        assert Pattern.begin("a", skip).followed_by("b").next(group()).get_after_match_skip_strategy() == skip
        assert a().get_after_match_skip_strategy() == AfterMatchSkipStrategy.no_skip()

    def test_group(self) -> None:
        found = group()
        assert isinstance(found, GroupPattern)
        assert found.get_raw_pattern().get_name() == "b"


class TestConditions:
    def test_without_a_condition_every_event_fits(self) -> None:
        assert a().get_condition().filter(None)

    def test_where_or_and_subtype(self) -> None:
        condition = a().where(lambda x: x > 2).or_(lambda x: x < 0).subtype(int).get_condition()
        assert [x for x in (-1, 0, 1.5, 3, 3.5) if condition.filter(x, None)] == [-1, 3]

    def test_or_as_the_first_call_is_the_condition(self) -> None:
        condition = a().or_(lambda x: x > 2).get_condition()
        assert [x for x in (1, 3) if condition.filter(x)] == [3]

    def test_a_callable_with_a_default_is_simple(self) -> None:
        assert isinstance(a().where(lambda x, limit=3: x > limit).get_condition(), SimpleCondition)
        assert not isinstance(a().where(lambda x, ctx: x).get_condition(), SimpleCondition)
        assert isinstance(a().where(bool).get_condition(), SimpleCondition)

    def test_objects(self) -> None:
        class Even(SimpleCondition):
            def filter(self, value: int) -> bool:
                return value % 2 == 0

        class Iterative(IterativeCondition):
            def filter(self, value: int, ctx: Any) -> bool:
                return bool(ctx == value)

        assert a().where(Even()).get_condition().filter(2)
        assert a().where(Iterative()).get_condition().filter(2, 2)
        assert SimpleCondition.of(lambda x: x == 1).filter(1)

    def test_a_rich_condition_has_a_context_once_it_is_open(self) -> None:
        class Rich(RichIterativeCondition):
            def filter(self, value: int, ctx: Any) -> bool:
                return True

        with pytest.raises(RuntimeError, match="The runtime context has not been initialized"):
            Rich().get_runtime_context()

    def test_until_of_a_loop(self) -> None:
        assert a().one_or_more().until(bool).get_until_condition().filter(1)
        assert a().get_until_condition() is None


def test_strategies_show_themselves() -> None:
    strategies = AfterMatchSkipStrategy
    assert repr(strategies.skip_past_last_event()) == "AfterMatchSkipStrategy.skip_past_last_event()"
    shown = repr(strategies.skip_to_first("a").throw_exception_on_miss())
    assert shown == "AfterMatchSkipStrategy.skip_to_first('a').throw_exception_on_miss()"
