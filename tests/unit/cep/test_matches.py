"""Matches of small patterns: contiguity, quantifiers, groups, negation, skip strategies and windows, event by event."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.cep import AfterMatchSkipStrategy, Pattern, WithinType
from flintstream.cep.compiler import compile_pattern
from flintstream.common.time import Duration
from flintstream.runtime.cep.computation import NFAState
from flintstream.runtime.cep.nfa import NFA, FilterFailure
from flintstream.runtime.cep.shared_buffer import SharedBuffer

Skip = AfterMatchSkipStrategy


class Machine:
    """An NFA with the state of one key. Events are words; the first letter is what conditions look at."""

    def __init__(self, pattern: Pattern[Any]) -> None:
        self.nfa = NFA(compile_pattern(pattern), lambda: 0)
        self.state = NFAState()
        self.buffer = SharedBuffer({})
        self.timed_out: list[tuple[str, int]] = []

    def feed(self, events: str, start: int = 1) -> list[str]:
        """Feeds events, a millisecond apart; returns the matches as the words taken."""
        found = []
        for time, event in enumerate(events.split(), start):
            found += self.advance(time)
            found += [words(match) for match in self.nfa.process(self.state, self.buffer, event, time)[0]]
        return found

    def advance(self, time: int) -> list[str]:
        matches, timed_out = self.nfa.advance_time(self.state, self.buffer, time)
        self.timed_out += [(words(match), end) for match, end in timed_out]
        return [words(match) for match in matches]


def words(match: dict[str, list[str]]) -> str:
    return " ".join(event for events in match.values() for event in events)


def stage(pattern: Any, letters: str) -> Any:
    return pattern.where(lambda event: event[0] in letters)


def begin(letters: str, skip: AfterMatchSkipStrategy | None = None) -> Any:
    return stage(Pattern.begin(letters, skip), letters)


def run(pattern: Any, events: str) -> list[str]:
    return Machine(pattern).feed(events)


def millis(count: int) -> Duration:
    return Duration.of_millis(count)


@pytest.mark.parametrize(
    ("method", "matches"), [("next", []), ("followed_by", ["a b1"]), ("followed_by_any", ["a b1", "a b2"])]
)
def test_contiguity(method: str, matches: list[str]) -> None:
    assert run(stage(getattr(begin("a"), method)("b"), "b"), "a c b1 b2") == matches


class TestLoops:
    EVENTS = "a b1 d1 b2 d2 b3 c"
    RELAXED = {"a b1 c", "a b1 b2 c", "a b1 b2 b3 c", "a b2 c", "a b2 b3 c", "a b3 c"}

    def loop(self) -> Any:
        return stage(begin("a").followed_by_any("b"), "b").one_or_more()

    def test_relaxed(self) -> None:
        found = run(stage(self.loop().followed_by("c"), "c"), self.EVENTS)
        assert set(found) == self.RELAXED and len(found) == 6

    def test_combinations(self) -> None:
        found = run(stage(self.loop().allow_combinations().followed_by("c"), "c"), self.EVENTS)
        assert set(found) == self.RELAXED | {"a b1 b3 c"} and len(found) == 7

    def test_consecutive(self) -> None:
        assert run(stage(self.loop().consecutive().next("c"), "c"), self.EVENTS) == ["a b3 c"]

    def test_a_match_at_every_length(self) -> None:
        assert run(stage(begin("a").next("b"), "b").one_or_more(), "a b1 b2") == ["a b1", "a b1 b2"]
        greedy = stage(begin("a").next("b"), "b").one_or_more().greedy()
        assert run(greedy, "a b1 b2") == ["a b1", "a b1 b2"]

    def test_greedy_keeps_events_from_the_next_stage(self) -> None:
        loop = stage(begin("a").followed_by("b"), "b").one_or_more().consecutive()
        assert set(run(stage(loop.followed_by("bc"), "bc"), "a b1 b2 c")) == {"a b1 b2", "a b1 b2 c"}
        loop = stage(begin("a").followed_by("b"), "b").one_or_more().consecutive().greedy()
        assert run(stage(loop.followed_by("bc"), "bc"), "a b1 b2 c") == ["a b1 b2 c"]

    def test_until_is_not_taken(self) -> None:
        loop = begin("ab").one_or_more().until(lambda event: event == "b")
        assert run(loop, "a1 b a2") == ["a1", "a2"]

    def test_optional_at_the_beginning(self) -> None:
        assert run(stage(begin("a").optional().next("b"), "b"), "b1 a b2") == ["b1", "a b2", "b2"]

    def test_no_empty_match(self) -> None:
        assert run(begin("a").optional(), "b c") == []

    def test_times(self) -> None:
        assert run(begin("a").times(2), "a1 a2 a3") == ["a1 a2", "a2 a3"]
        assert set(run(begin("a").times(2, 3).consecutive(), "a1 a2 a3")) == {"a1 a2", "a1 a2 a3", "a2 a3"}


class TestGroups:
    def test_a_group_repeats(self) -> None:
        pair = stage(begin("a").followed_by("b"), "b")
        assert run(stage(Pattern.begin(pair).times(2).next("c"), "c"), "a1 b1 a2 b2 c") == ["a1 a2 b1 b2 c"]

    def test_an_optional_group(self) -> None:
        pair = stage(begin("a").next("b"), "b")
        assert set(run(stage(Pattern.begin(pair).optional().next("c"), "c"), "a b c")) == {"a b c", "c"}


class TestNegation:
    def test_not_next(self) -> None:
        pattern = stage(stage(begin("a").not_next("b"), "b").followed_by("c"), "c")
        assert run(pattern, "a b c") == []
        assert run(pattern, "a d c") == ["a d c".replace("d ", "")]

    def test_not_next_at_the_end_needs_one_more_event(self) -> None:
        machine = Machine(stage(begin("a").not_next("b"), "b"))
        assert machine.feed("a") == []
        assert machine.feed("c") == ["a"]

    def test_not_followed_by(self) -> None:
        pattern = stage(stage(begin("a").not_followed_by("b"), "b").followed_by("c"), "c")
        assert run(pattern, "a d c") == ["a c"]
        assert run(pattern, "a d b c") == []

    def test_not_followed_by_at_the_end_waits_for_the_window(self) -> None:
        machine = Machine(stage(begin("c").one_or_more().not_followed_by("a"), "a").within(millis(10)))
        assert machine.feed("c1 c2") == []
        assert machine.advance(20) == ["c1"]
        assert machine.timed_out == [("c1 c2", 11), ("c2", 12)]
        assert machine.state.is_empty() and not machine.buffer.entries


class TestSkipping:
    def all_strategies(self, name: str) -> list[AfterMatchSkipStrategy]:
        return [
            Skip.no_skip(),
            Skip.skip_to_next(),
            Skip.skip_past_last_event(),
            Skip.skip_to_first(name),
            Skip.skip_to_last(name),
        ]

    def test_a_greedy_loop_at_the_beginning(self) -> None:
        every = ["b1 b2 b3 c", "b2 b3 c", "b3 c"]
        expected = [every, every, every[:1], every, [every[0], every[2]]]
        for skip, matches in zip(self.all_strategies("b"), expected):
            pattern = stage(begin("b", skip).one_or_more().consecutive().greedy().next("c"), "c")
            assert run(pattern, "b1 b2 b3 c") == matches, skip

    def test_overlapping_stages(self) -> None:
        every = ["a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"]
        expected = [every, every, every[:1], [every[0], every[2]], every[:1]]
        for skip, matches in zip(self.all_strategies("c"), expected):
            pattern = stage(begin("abc", skip).next("bc"), "bc")
            pattern = stage(stage(pattern.next("c"), "c").one_or_more().greedy().next("d"), "d")
            assert run(pattern, "a b c1 c2 c3 d") == matches, skip

    def test_a_loop_at_the_end(self) -> None:
        for skip, matches in ((Skip.no_skip(), 3), (Skip.skip_to_next(), 1)):
            found = run(stage(begin("a", skip).next("b"), "b").one_or_more(), "a b1 b2 b3")
            assert found == ["a b1", "a b1 b2", "a b1 b2 b3"][:matches]

    def test_a_match_is_held_back_while_an_earlier_one_may_come(self) -> None:
        pattern = stage(begin("b", Skip.skip_to_first("b")).one_or_more().greedy().followed_by("c"), "c")
        assert run(pattern, "b1 b2 b3 c") == ["b1 b2 b3 c"]
        machine = Machine(pattern.within(millis(10)))
        assert machine.feed("b1 b2 b3 c") == ["b1 b2 b3 c"]
        assert [match for time in range(5, 30) for match in machine.advance(time)] == ["b2 b3 c", "b3 c"]
        assert machine.state.is_empty() and not machine.buffer.entries

    def test_events_of_a_match_need_not_be_in_the_order_of_their_times(self) -> None:
        # Timestamps and ids. After a restore events are taken that were late before. What is kept is as in Flink.
        loop = [("a", (21, 1)), ("a", (10, 2))]
        assert Skip.skip_to_next().first_kept(loop) == (21, 2)
        assert Skip.skip_past_last_event().first_kept(loop) == (10, 3)
        pair = [("a", (21, 1)), ("b", (10, 2))]
        assert Skip.skip_to_next().first_kept(pair) == (10, 3)
        assert Skip.skip_past_last_event().first_kept(pair) == (21, 2)

    def test_a_stage_that_is_not_there(self) -> None:
        skip = Skip.skip_to_first("x")
        pattern = stage(stage(begin("a", skip).next("x"), "x").optional().next("c"), "c")
        assert run(pattern, "a c") == ["a c"]
        strict = stage(stage(begin("a", skip.throw_exception_on_miss()).next("x"), "x").optional().next("c"), "c")
        with pytest.raises(RuntimeError, match="Could not skip to x. No such element in the found match"):
            run(strict, "a c")
        first = stage(begin("a", Skip.skip_to_first("a").throw_exception_on_miss()).next("c"), "c")
        with pytest.raises(RuntimeError, match="Could not skip to first element of a match."):
            run(first, "a c")


class TestWindows:
    def test_an_event_at_the_end_of_the_window_is_outside(self) -> None:
        pattern = stage(begin("a").followed_by("b"), "b").within(millis(3))
        assert run(pattern, "a c b") == ["a b"]
        machine = Machine(pattern)
        assert machine.feed("a c c b") == []
        assert machine.timed_out == [("a", 4)]

    def test_the_smallest_window_counts_wherever_it_stands(self) -> None:
        pattern = stage(begin("a").within(millis(3)).followed_by("b"), "b").within(millis(30))
        assert run(pattern, "a c c b") == []

    def test_between_two_events(self) -> None:
        pattern = stage(begin("a").followed_by("b"), "b").within(millis(2), WithinType.PREVIOUS_AND_CURRENT)
        machine = Machine(stage(pattern.followed_by("c"), "c"))
        assert machine.feed("a b d d c") == ["a b c"]
        assert machine.feed("a d b", 10) == [] and machine.timed_out == [("a", 12)]


class TestConditions:
    def test_a_condition_sees_its_own_partial_match(self) -> None:
        seen: list[Any] = []

        def condition(event: str, ctx: Any) -> bool:
            seen.append((event, ctx.get_events_for_pattern("a"), ctx.get_events_for_pattern("?"), ctx.timestamp()))
            return True

        assert run(begin("a").followed_by("b").where(condition), "a1 a2 c") == ["a1 a2", "a2 c"]
        assert ("a2", ["a1"], [], 2) in seen and ("c", ["a2"], [], 3) in seen

    def test_a_simple_condition_is_asked_once_for_all_partial_matches(self) -> None:
        asked: list[str] = []
        last = begin("a").followed_by("b").where(lambda event: asked.append(event) or event == "b")
        assert len(run(last, "a a a a b")) == 4
        assert asked.count("b") <= 2  # taken, or ignored

    def test_a_failing_condition(self) -> None:
        with pytest.raises(FilterFailure, match="Failure happened in filter function.") as raised:
            run(begin("a").next("b").where(lambda event: event.no_such), "a b")
        assert isinstance(raised.value.__cause__, AttributeError)


class TestSharedBuffer:
    def test_branches_share_their_events(self) -> None:
        loop = stage(begin("a").followed_by("b"), "b").one_or_more().allow_combinations()
        machine = Machine(stage(loop.followed_by("c"), "c"))
        machine.feed("a " + "b " * 8)
        assert len(machine.state.partial) > 2**7
        events = [entry for entry in machine.buffer.entries.values() if len(entry) == 3]
        assert len(events) == 9
        nodes = len(machine.buffer.entries) - len(events)
        assert nodes <= len(machine.state.partial)  # not one for every event of every partial match

    def test_a_long_loop_costs_a_node_an_event(self) -> None:
        loop = stage(begin("a", Skip.skip_past_last_event()).followed_by("b"), "b").one_or_more()
        machine = Machine(stage(loop.followed_by("c"), "c"))
        machine.feed("a " + "b " * 200)
        assert len(machine.buffer.entries) == 2 * 201
        assert machine.feed("c", 300) == ["a " + "b " * 200 + "c"]
        assert machine.state.is_empty() and not machine.buffer.entries

    def test_what_ends_leaves_nothing(self) -> None:
        machine = Machine(stage(begin("a").next("b"), "b"))
        machine.feed("a a b a c")
        assert machine.state.is_empty() and not machine.buffer.entries
