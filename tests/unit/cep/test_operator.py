"""The operator: time, late events, side outputs, metrics, checkpoints, and what is left in the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.cep import (
    AfterMatchSkipStrategy,
    CepRuntimeContext,
    Pattern,
    PatternProcessFunction,
    RichIterativeCondition,
    TimedOutPartialMatchHandler,
    WithinType,
)
from flintstream.cep.compiler import compile_pattern
from flintstream.common.output_tag import OutputTag
from flintstream.common.time import Duration
from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, Batch
from flintstream.runtime.cep import operator as operator_module
from flintstream.runtime.cep.operator import BUFFER_TABLE, NFA_TABLE, PARTIAL_MATCHES, WAITING_TABLE, CepOperator
from flintstream.runtime.cep.spec import CepSpec
from flintstream.runtime.cep.waiting import WaitingEvents
from flintstream.runtime.operators.base import LATE_RECORDS
from flintstream.runtime.state.backend import StateMigrationException
from flintstream.runtime.state.rocksdb.segments import SegmentedMap
from flintstream.testing import OneInputOperatorHarness, OperatorHarness, UserCodeError

TIMED_OUT = OutputTag("timed out")
pytestmark = pytest.mark.usefixtures("state_backend")


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def state_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The backend of all harnesses that do not choose one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OperatorHarness, "default_state_backend", request.param)
        yield request.param


class Words(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Matches as strings; partial matches too, to a side output."""

    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield words(match)

    def process_timed_out_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield TIMED_OUT, words(match)


class Does(PatternProcessFunction):
    """What a test wants of a match."""

    def __init__(self, does: Any) -> None:
        self._does = does

    def process_match(self, match: Any, ctx: Any) -> Any:
        return self._does(match, ctx)


def words(match: dict[str, list[tuple[str, str]]]) -> str:
    return " ".join(word for events in match.values() for _, word in events)


def named(letters: str) -> Any:
    return lambda event: event[1][0] in letters


def a_then_b(window: int | None = 10, skip: AfterMatchSkipStrategy | None = None) -> Any:
    pattern = Pattern.begin("a", skip).where(named("a")).followed_by("b").where(named("b"))
    return pattern.within(None if window is None else Duration.of_millis(window))


def cep(pattern: Any, function: Any = None, event_time: bool = True, **options: Any) -> OneInputOperatorHarness:
    function = Words() if function is None else function
    timeouts = isinstance(function, TimedOutPartialMatchHandler)
    settings = {name: options.pop(name) for name in ("compare", "late_tag") if name in options}
    spec = CepSpec(compile_pattern(pattern), function, timeouts, event_time, **settings)
    return OneInputOperatorHarness(CepOperator(spec), lambda event: event[0], **options)


def feed(harness: OneInputOperatorHarness, key: str, events: str, start: int = 1) -> None:
    for time, word in enumerate(events.split(), start):
        harness.process_element((key, word), time)


def feed_all(harness: OneInputOperatorHarness, events: list[tuple[Any, int]]) -> None:
    harness.process_elements([event for event, _ in events], [time for _, time in events])


def metric(harness: OneInputOperatorHarness, name: str) -> Any:
    return harness.operator.context.runtime_context.get_metrics_group().snapshot()[name]


def waiting(harness: OneInputOperatorHarness, key: str) -> list[tuple[int, str]]:
    """The stored events of a key that wait: timestamps and words, in order."""
    groups = dict(harness.keyed_state(WAITING_TABLE)[key]).values()
    return [(time, word) for time, _, (_, word) in sorted(event for group in groups for event in group)]


def stored(harness: OneInputOperatorHarness) -> list[int]:
    return [len(harness.keyed_state(table)) for table in (NFA_TABLE, BUFFER_TABLE, WAITING_TABLE)]


class TestEventTime:
    def test_events_wait_for_the_watermark_and_are_sorted(self) -> None:
        with cep(a_then_b()) as harness:
            harness.process_element(("k", "b"), 3)
            harness.process_element(("k", "a"), 2)
            assert harness.output == []
            harness.process_watermark(2)
            assert harness.output == []
            harness.process_watermark(5)
            assert harness.output_with_timestamps == [("a b", 3)]
            assert harness.watermarks == [2, 5]

    def test_keys_are_apart(self) -> None:
        with cep(a_then_b()) as harness:
            feed_all(harness, [(("x", "a1"), 1), (("y", "a2"), 2), (("y", "b1"), 3), (("x", "b2"), 4)])
            harness.process_watermark(10)
            assert sorted(harness.output) == ["a1 b2", "a2 b1"]

    @pytest.mark.parametrize("tag", [None, "late"])
    def test_late_events(self, tag: str | None) -> None:
        with cep(a_then_b(), late_tag=tag) as harness:
            harness.process_watermark(5)
            feed_all(harness, [(("k", "a0"), 5), (("k", "a1"), 6), (("k", "b0"), 2), (("k", "b1"), 7)])
            harness.process_watermark(9)
            assert harness.output == ["a1 b1"]
            if tag is None:
                assert metric(harness, LATE_RECORDS) == 2
            else:
                assert harness.side_output_with_timestamps(tag) == [(("k", "a0"), 5), (("k", "b0"), 2)]
                assert metric(harness, LATE_RECORDS) == 0

    def test_a_comparator_orders_events_of_one_time(self) -> None:
        def by_word(left: Any, right: Any) -> int:
            return (left[1] > right[1]) - (left[1] < right[1])

        with cep(a_then_b(), compare=by_word) as harness:
            feed_all(harness, [(("k", "b"), 3), (("k", "a"), 3)])
            harness.process_watermark(3)
            assert harness.output == ["a b"]

    def test_time_outs(self) -> None:
        with cep(a_then_b(10)) as harness:
            feed(harness, "k", "a")
            harness.process_watermark(10)
            assert harness.side_output(TIMED_OUT) == []
            harness.process_watermark(11)
            assert harness.side_output_with_timestamps(TIMED_OUT) == [("a", 11)]
            assert stored(harness) == [0, 0, 0] and not harness.event_time_timers

    def test_a_window_between_two_events_has_no_timer(self) -> None:
        pattern = a_then_b(None).within(Duration.of_millis(2), WithinType.PREVIOUS_AND_CURRENT)
        with cep(pattern) as harness:
            feed(harness, "k", "a")
            harness.process_watermark(MAX_WATERMARK - 1)
            assert harness.side_output(TIMED_OUT) == ["a"]  # by the event's own round
        with cep(pattern) as harness:
            feed(harness, "k", "a")
            harness.process_watermark(1)
            harness.process_watermark(50)
            assert harness.side_output(TIMED_OUT) == []
            harness.process_element(("k", "c"), 51)
            harness.process_watermark(51)
            assert harness.side_output(TIMED_OUT) == ["a"]

    def test_events_behind_the_beginning_of_a_match_end_windows_between_two_events(self) -> None:
        # As in Flink: once a match has begun, each further event up to the same watermark sets a timer as well.
        pattern = a_then_b(None).followed_by("c").where(named("c")).within(Duration.of_millis(6))
        with cep(pattern.within(Duration.of_millis(3), WithinType.PREVIOUS_AND_CURRENT)) as harness:
            feed_all(harness, [(("k", "a1"), 8), (("k", "d"), 10), (("k", "a2"), 11), (("k", "b"), 12)])
            harness.process_watermark(14)
            harness.process_watermark(15)
            assert harness.side_output_with_timestamps(TIMED_OUT) == [("a1 b", 14)]
            harness.process_watermark(16)
            assert harness.side_output_with_timestamps(TIMED_OUT) == [("a1 b", 14), ("a2 b", 15)]

    def test_the_end_of_the_input_lets_everything_through(self) -> None:
        with cep(a_then_b(10)) as harness:
            feed(harness, "k", "a1 b1 a2")
            harness.end_input()
            assert harness.output == ["a1 b1"] and harness.side_output(TIMED_OUT) == ["a2"]

    def test_an_event_without_a_timestamp(self) -> None:
        with cep(a_then_b()) as harness, pytest.raises(UserCodeError, match="a record has none.*in_processing_time"):
            harness.process_element(("k", "a"))

    def test_more_events_than_a_chunk(self) -> None:
        with cep(a_then_b(None)) as harness:
            letters = ("a", "b") * CHUNK
            feed_all(harness, [((str(i // 2), word), i + 1) for i, word in enumerate(letters)])
            harness.process_watermark(MAX_WATERMARK)
            assert len(harness.output) == CHUNK


class TestProcessingTime:
    def test_events_are_taken_at_once_and_results_have_no_timestamp(self) -> None:
        with cep(a_then_b(), event_time=False, processing_time=100) as harness:
            harness.process_element(("k", "a"))
            harness.process_element(("k", "b"))
            assert harness.output_with_timestamps == [("a b", None)]

    def test_a_window_ends_by_the_clock(self) -> None:
        with cep(a_then_b(10), event_time=False, processing_time=100) as harness:
            harness.process_element(("k", "a"))
            assert harness.operator.next_due() == 0.111
            harness.set_processing_time(110)
            assert harness.side_output(TIMED_OUT) == []
            harness.set_processing_time(111)
            assert harness.side_output(TIMED_OUT) == ["a"]
            assert stored(harness) == [0, 0, 0] and not harness.processing_time_timers

    def test_with_a_comparator_a_millisecond_waits_for_its_end(self) -> None:
        def by_word(left: Any, right: Any) -> int:
            return (left[1] > right[1]) - (left[1] < right[1])

        with cep(a_then_b(), event_time=False, compare=by_word, processing_time=100) as harness:
            harness.process_elements([("k", "b"), ("k", "a")])
            assert harness.output == [] and harness.operator.next_due() == 0.101
            harness.set_processing_time(101)
            assert harness.output == ["a b"]
            harness.process_elements([("k", "b"), ("k", "a")])
            harness.end_input()
            assert harness.output == ["a b", "a b"]

    def test_events_that_wait_in_a_checkpoint_come_at_the_end_of_the_input(self) -> None:
        with cep(a_then_b(), event_time=False, compare=lambda left, right: 0, processing_time=100) as harness:
            harness.process_elements([("k", "a"), ("k", "b")])
            harness.snapshot(1)
            harness.end_input()
            assert harness.output == ["a b"] and stored(harness) == [0, 0, 0]


class TestFunctions:
    def test_side_outputs_and_the_context(self) -> None:
        def report(match: Any, ctx: Any) -> Iterator[Any]:
            yield TIMED_OUT, ctx.timestamp()
            yield ctx.current_processing_time()

        with cep(a_then_b(), Does(report), processing_time=77) as harness:
            feed(harness, "k", "a b")
            harness.process_watermark(9)
            assert harness.side_output(TIMED_OUT) == [2] and harness.output == [77]

    def test_stages_stand_in_the_order_in_which_they_were_taken(self) -> None:
        with cep(a_then_b(), Does(lambda match, ctx: [list(match.items())])) as harness:
            feed(harness, "k", "a b")
            harness.process_watermark(9)
            assert harness.output == [[("a", [("k", "a")]), ("b", [("k", "b")])]]

    def test_a_bare_value_for_a_partial_match_is_an_error(self) -> None:
        class Wrong(Words):
            def process_timed_out_match(self, match: Any, ctx: Any) -> Iterator[Any]:
                yield "bare"

        with (
            cep(a_then_b(), Wrong()) as harness,
            pytest.raises(UserCodeError, match="only write to side outputs.*bare"),
        ):
            feed(harness, "k", "a")
            harness.process_watermark(100)

    @pytest.mark.parametrize("stage", ["a", "b"])
    def test_a_failing_condition_names_the_event(self, stage: str) -> None:
        def fails(event: Any) -> bool:
            return event[1] == stage and event.no_such_field

        pattern = Pattern.begin("a").where(fails if stage == "a" else named("a")).next("b").where(fails)
        with cep(pattern) as harness, pytest.raises(UserCodeError) as raised:
            feed(harness, "k", "a b")
            harness.process_watermark(9)
        text = str(raised.value)
        assert "Failure happened in filter function." in text and "no_such_field" in text
        assert f"Record at fault: ('k', '{stage}')" in text
        assert f"offered to stage '{stage}'" in text

    def test_a_condition_that_raises_stop_iteration_fails_as_any_other(self) -> None:
        def fails(event: Any) -> bool:
            return bool(next(letter for letter in event[1] if letter == "a"))

        with cep(Pattern.begin("a").where(fails).next("b").where(named("b"))) as harness:
            feed(harness, "k", "a b a b")
            with pytest.raises(UserCodeError, match="Record at fault: .'k', 'b'"):
                harness.process_watermark(9)

    def test_a_failing_condition_of_a_stage_that_must_not_match(self) -> None:
        pattern = Pattern.begin("a").where(named("a")).not_next("no").where(lambda event: event.no_such_field)
        with cep(pattern.followed_by("b")) as harness, pytest.raises(UserCodeError, match="offered to stage 'no'"):
            feed(harness, "k", "a b")
            harness.process_watermark(9)

    def test_a_failing_function_names_the_match(self) -> None:
        with cep(a_then_b(), Does(lambda match, ctx: 1 // 0)) as harness:
            feed(harness, "k", "a b")
            with pytest.raises(UserCodeError, match="ZeroDivisionError[^$]*the match .* of key 'k'"):
                harness.process_watermark(9)

    def test_rich_conditions_and_functions_are_opened_and_closed(self) -> None:
        life: list[str] = []

        class Above(RichIterativeCondition):
            def open(self, runtime_context: CepRuntimeContext) -> None:
                life.append(f"condition in {runtime_context.get_job_parameter('where', '?')}")

            def filter(self, value: Any, ctx: Any) -> bool:
                return self.get_runtime_context().get_index_of_this_subtask() == 0

            def close(self) -> None:
                life.append("condition closed")

        class Report(Words):
            def open(self, runtime_context: CepRuntimeContext) -> None:
                for refused in (runtime_context.get_state, runtime_context.get_map_state):
                    with pytest.raises(NotImplementedError, match="State is not supported."):
                        refused(None)
                with pytest.raises(NotImplementedError, match="Accumulators are not supported."):
                    runtime_context.get_int_counter("n")
                life.append(self.get_runtime_context().get_task_name())

        with cep(Pattern.begin("a").where(Above()), Report(), job_parameters={"where": "x"}) as harness:
            feed(harness, "k", "a")
            harness.process_watermark(5)
            assert harness.output == ["a"]
        assert life == ["condition in x", "operator under test", "condition closed"]

    def test_all_are_closed_though_one_fails(self) -> None:
        life: list[str] = []

        class Fails(RichIterativeCondition):
            def filter(self, value: Any, ctx: Any) -> bool:
                return True

            def close(self) -> None:
                raise OSError("cannot be closed")

        class Closes(Words):
            def close(self) -> None:
                life.append("closed")

        with pytest.raises(UserCodeError, match="cannot be closed"), cep(Pattern.begin("a").where(Fails()), Closes()):
            pass
        assert life == ["closed"]


class TestState:
    def test_a_key_that_is_over_keeps_nothing(self) -> None:
        with cep(a_then_b(10)) as harness:
            feed(harness, "x", "c c c")
            feed(harness, "y", "a b c")
            harness.process_watermark(5)
            assert metric(harness, PARTIAL_MATCHES) == 0
            assert stored(harness) == [0, 0, 0]
            feed(harness, "x", "a a", 6)
            harness.process_watermark(9)
            assert metric(harness, PARTIAL_MATCHES) == 2
            assert stored(harness) == [1, 1, 0]
            harness.process_watermark(30)
            assert metric(harness, PARTIAL_MATCHES) == 0
            assert stored(harness) == [0, 0, 0]

    def test_a_checkpoint_in_the_middle_of_a_match_and_with_events_waiting(self, state_backend: str) -> None:
        pattern = a_then_b(100)
        with cep(pattern) as harness:
            feed(harness, "x", "a1 c b1 b2")
            feed(harness, "y", "a2 c c b3", 2)
            harness.process_watermark(2)
            snapshot = harness.snapshot()
            feed(harness, "x", "a9", 50)
            harness.process_watermark(60)
            expected = harness.output
        other = "hashmap" if state_backend == "rocksdb" else "rocksdb"
        for backend in (state_backend, other):
            with restored(pattern, snapshot, state_backend=backend) as harness:
                assert metric(harness, PARTIAL_MATCHES) == 2
                harness.process_watermark(2)
                feed(harness, "x", "a9", 50)
                harness.process_watermark(60)
                assert harness.output == expected == ["a1 b1", "a2 b3"]
                harness.process_watermark(1000)
                assert harness.side_output(TIMED_OUT) == ["a9"]
                assert stored(harness) == [0, 0, 0]

    @pytest.mark.parametrize(
        ("window", "skip", "matches", "timed_out"),
        [
            (10, AfterMatchSkipStrategy.no_skip(), ["a100 b75"], [("a50", 60)]),
            (30, AfterMatchSkipStrategy.skip_to_next(), ["a50 b75", "a100 b75"], []),
            (30, AfterMatchSkipStrategy.skip_past_last_event(), ["a50 b75", "a100 b75"], []),
            (30, AfterMatchSkipStrategy.skip_to_first("b"), ["a50 b75", "a100 b75"], []),
        ],
    )
    def test_what_began_earlier_is_decided_by_time_though_it_came_after_a_restore(
        self, window: int, skip: AfterMatchSkipStrategy, matches: list[str], timed_out: list[tuple[str, int]]
    ) -> None:
        # The watermark is not restored, so that events come that would have been late. The results are Flink's.
        pattern = a_then_b(window, skip)
        with cep(pattern) as harness:
            harness.process_element(("k", "a100"), 100)
            harness.process_watermark(100)
            snapshot = harness.snapshot()
        with restored(pattern, snapshot) as harness:
            feed_all(harness, [(("k", "a50"), 50), (("k", "b75"), 75)])
            harness.process_watermark(80)
            assert harness.output == matches
            assert harness.side_output_with_timestamps(TIMED_OUT) == timed_out
            assert stored(harness) == [0, 0, 0]

    def test_an_event_is_written_once_while_it_waits(self) -> None:
        with cep(a_then_b()) as harness:
            feed(harness, "k", "a b")
            harness.snapshot(1)
            assert waiting(harness, "k") == [(1, "a"), (2, "b")]
            feed(harness, "k", "a2 b2", 3)
            harness.snapshot(2)
            assert waiting(harness, "k") == [(1, "a"), (2, "b"), (3, "a2"), (4, "b2")]
            harness.process_watermark(3)
            assert harness.output == ["a b"] and stored(harness)[2] == 0
            harness.process_watermark(9)
            assert harness.output == ["a b", "a2 b2"]

    def test_events_of_one_time_keep_their_order_over_a_checkpoint(self) -> None:
        with cep(a_then_b()) as harness:
            harness.process_element(("k", "a"), 5)
            harness.snapshot(1)
            harness.process_element(("k", "b"), 5)
            harness.process_watermark(9)
            assert harness.output == ["a b"]

    def test_events_of_one_time_keep_their_order_though_they_were_written_with_others(self) -> None:
        def order(match: Any, ctx: Any) -> list[str]:
            return [words(match)]

        every = Pattern.begin("all").times(5).consecutive()
        with cep(every, Does(order)) as harness:
            feed_all(harness, [(("k", "first"), 10), (("k", "1"), 30)])
            harness.snapshot(1)
            feed_all(harness, [(("k", "second"), 25), (("k", "2"), 30)])
            harness.snapshot(2)
            harness.process_watermark(12)
            harness.process_element(("k", "3"), 30)
            harness.process_watermark(26)
            snapshot = harness.snapshot(3)
            harness.process_watermark(30)
            assert harness.output == ["first second 1 2 3"]
        with restored(every, snapshot) as harness:
            harness.process_element(("k", "4"), 30)
            harness.process_watermark(30)
            assert harness.output == ["first second 1 2 3", "second 1 2 3 4"]

    def test_of_many_events_on_disk_only_those_that_are_due_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operator_module, "_MOST_WAITING", 50)
        with cep(a_then_b(), state_backend="rocksdb") as harness:
            feed_all(harness, [(("k", f"c{number}"), number) for number in range(1, 10_001)])
            harness.snapshot(1)
            for watermark in (10, 20, 5_000, 9_950):
                harness.process_watermark(watermark)
                assert harness.operator._waiting.size == 0
                left = waiting(harness, "k")
                assert len(left) == 10_000 - watermark and left[0][0] == watermark + 1
            assert len(harness.event_time_timers) == 2  # one for each group
            harness.process_watermark(9_951)
            assert stored(harness)[2] == 0 and harness.operator._waiting.size == 49  # not many any more
            harness.process_watermark(10_000)
            assert stored(harness) == [0, 0, 0] and not harness.event_time_timers

    def test_stored_events_are_read_in_rounds(self, state_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operator_module, "_MOST_GROUPS", 20)
        monkeypatch.setattr(operator_module, "_MOST_WAITING", 1499)
        most = 0

        class Watched(WaitingEvents):
            def add(self, *args: Any, **options: Any) -> None:
                nonlocal most
                super().add(*args, **options)
                most = max(most, self.size)

        def fed(words: str, start: int) -> list[tuple[Any, int]]:
            return [
                ((f"key {key}", word), start + place) for place, word in enumerate(words.split()) for key in range(500)
            ]

        with cep(a_then_b(None)) as harness:
            feed_all(harness, fed("c a c", 1))
            harness.snapshot(1)
            feed_all(harness, fed("b a", 4))
            harness.operator._waiting.__class__ = Watched
            harness.process_watermark(MAX_WATERMARK)
            assert harness.output == ["a b"] * 500 and metric(harness, PARTIAL_MATCHES) == 500
            assert most <= 20 * 5 if state_backend == "rocksdb" else most == 2500
            assert stored(harness)[2] == 0

    def test_other_parallelism(self) -> None:
        pattern = a_then_b(100)
        keys = [f"key {number}" for number in range(40)]
        with cep(pattern) as harness:
            for key in keys:
                feed(harness, key, "a c b")
            harness.process_watermark(1)
            snapshot = harness.snapshot()
        found = []
        for subtask in range(3):
            with restored(pattern, snapshot, parallelism=3, subtask=subtask) as harness:
                assert 0 < metric(harness, PARTIAL_MATCHES) < 40
                harness.process_watermark(50)
                found += harness.output
        assert found == ["a b"] * 40

    def test_a_changed_condition_or_window_is_taken_over(self) -> None:
        with cep(a_then_b(100)) as harness:
            feed(harness, "k", "a")
            harness.process_watermark(1)
            snapshot = harness.snapshot()
        changed = Pattern.begin("a").where(named("x")).followed_by("b").where(named("c"))
        with restored(changed.within(Duration.of_millis(20)), snapshot) as harness:
            harness.process_watermark(21)
            assert harness.side_output_with_timestamps(TIMED_OUT) == [("a", 21)]

    def test_a_changed_pattern_is_refused_if_it_has_partial_matches(self) -> None:
        with cep(a_then_b(100)) as harness:
            feed(harness, "k", "a")
            harness.process_watermark(1)
            open_match = harness.snapshot()
            feed(harness, "k", "b", 5)
            harness.process_watermark(5)
            nothing_open = harness.snapshot(2)
        changed = a_then_b(100).next("c")
        refusal = "the pattern has changed.*1 partial matches of 1 keys cannot be continued.*'?c.*set another uid"
        with pytest.raises(StateMigrationException, match=refusal), restored(changed, open_match):
            pass
        as_a_loop = a_then_b(100).one_or_more()
        states = "there: none; new ones: b:0 \\(normal\\), b:1 \\(normal\\); states with other transitions: b .*, a "
        with pytest.raises(StateMigrationException, match=states), restored(as_a_loop, open_match):
            pass
        strict = Pattern.begin("a").where(named("a")).next("b").where(named("b")).within(Duration.of_millis(100))
        states = "no longer there: none; new ones: none; states with other transitions: b \\(normal\\)\\."
        with pytest.raises(StateMigrationException, match=states), restored(strict, open_match):
            pass
        with restored(changed, nothing_open) as harness:
            feed(harness, "k", "a b c", 10)
            harness.process_watermark(20)
            assert harness.output == ["a b c"]

    def test_matches_that_a_former_strategy_held_back_come_without_it(self) -> None:
        def b_then_c(skip: AfterMatchSkipStrategy) -> Any:
            pattern = Pattern.begin("b", skip).where(named("b")).one_or_more().greedy()
            return pattern.followed_by("c").where(named("c")).within(Duration.of_millis(100))

        with cep(b_then_c(AfterMatchSkipStrategy.skip_to_first("b"))) as harness:
            feed(harness, "k", "b1 b2 c")
            harness.process_watermark(3)
            assert harness.output == ["b1 b2 c"]
            snapshot = harness.snapshot()
        with restored(b_then_c(AfterMatchSkipStrategy.no_skip()), snapshot) as harness:
            feed(harness, "k", "x", 4)
            harness.process_watermark(4)
            assert harness.output == ["b2 c"]
            harness.process_watermark(MAX_WATERMARK)
            assert harness.output == ["b2 c"] and stored(harness) == [0, 0, 0]

    @pytest.mark.parametrize("event_time", [True, False])
    @pytest.mark.parametrize("watermark", [0, 1], ids=["an event waits", "a partial match"])
    def test_another_time_is_refused_if_there_is_something_to_take_over(self, event_time: bool, watermark: int) -> None:
        def by_word(left: Any, right: Any) -> int:
            return (left[1] > right[1]) - (left[1] < right[1])

        with cep(a_then_b(100), event_time=event_time, compare=by_word) as harness:
            empty = harness.snapshot(1)
            harness.process_element(("k", "a"), *([1] if event_time else []))
            harness.process_watermark(watermark) if event_time else harness.set_processing_time(watermark)
            snapshot = harness.snapshot(2)
        with restored(a_then_b(100), empty, event_time=not event_time):
            pass  # There is nothing to take over.
        times = ("event", "processing") if event_time else ("processing", "event")
        refusal = "taken in {} time and the pattern is now in {} time".format(*times)
        with (
            pytest.raises(StateMigrationException, match=refusal),
            restored(a_then_b(100), snapshot, event_time=not event_time),
        ):
            pass

    def test_a_key_with_many_partial_matches(self, state_backend: str) -> None:
        # With RocksDB its events are stored one by one, since there are many.
        with cep(a_then_b(10_000)) as harness:
            for round_ in range(3):
                start = round_ * 10_000 + 1
                feed_all(harness, [(("k", f"a{number}"), start + number) for number in range(2000)])
                harness.process_watermark(start + 2000)
                snapshot = harness.snapshot(round_ + 1)
                if state_backend == "rocksdb":
                    table = harness.operator.context.keyed_state.table(BUFFER_TABLE)
                    table.flush()
                    assert isinstance(table.get("k"), SegmentedMap)
                assert metric(harness, PARTIAL_MATCHES) == 2000
                harness.process_element(("k", "b"), start + 3000)
                harness.process_watermark(start + 3000)
                assert sorted(harness.output) == sorted(f"a{number} b" for number in range(2000))
                assert stored(harness) == [0, 0, 0]
                harness.clear_output()
        with restored(a_then_b(10_000), snapshot) as harness:
            harness.process_watermark(22_001)
            harness.process_element(("k", "b"), 23_001)
            harness.process_watermark(MAX_WATERMARK)
            assert len(harness.output) == 2000 and stored(harness) == [0, 0, 0]

    def test_a_million_events_leave_what_is_alive(self, state_backend: str) -> None:
        # One in a hundred begins a match; the window is a hundred milliseconds of ten events each.
        events = 1_000_000 if state_backend == "hashmap" else 50_000
        keys = [str(number % 500) for number in range(10_000)]
        letters = ["a" if number % 100 == 0 else "b" if number % 100 == 7 else "c" for number in range(10_000)]
        values = list(zip(keys, letters))
        with cep(a_then_b(100)) as harness:
            for start in range(0, events, 10_000):
                times = [number // 10 for number in range(start, start + 10_000)]
                harness.process_batch(Batch(values, times, keys))
                harness.process_watermark(times[-1] - 20)
            open_matches = metric(harness, PARTIAL_MATCHES)
            assert open_matches <= 12
            assert stored(harness)[0] <= 12
            buffered = sum(len(dict(buffer)) for buffer in harness.keyed_state(BUFFER_TABLE).values())
            assert buffered == 2 * open_matches
            assert len(harness.event_time_timers) <= 12
            harness.process_watermark(MAX_WATERMARK)
            assert stored(harness) == [0, 0, 0] and not harness.event_time_timers


def restored(pattern: Any, snapshot: Any, **options: Any) -> OneInputOperatorHarness:
    harness = cep(pattern, **options)
    harness.restore(snapshot)
    return harness


def test_batch_mode_goes_key_by_key() -> None:
    with cep(a_then_b(10), batch_mode=True) as harness:
        feed_all(harness, [(("x", "b"), 2), (("y", "a1"), 1), (("x", "a2"), 1), (("y", "b1"), 3), (("y", "a3"), 8)])
        harness.end_input()
        assert sorted(harness.output) == ["a1 b1", "a2 b"]
        assert harness.side_output(TIMED_OUT) == ["a3"]
