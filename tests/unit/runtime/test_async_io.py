"""The operator of asynchronous functions: order, capacity, time-outs, retries, failures, and its life."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Time, Types
from flintstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY, RetryPredicate
from flintstream.datastream.functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryStrategy,
    CheckpointedFunction,
)
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime import event_loop
from flintstream.runtime.operators import async_io
from flintstream.runtime.operators.async_io import AsyncWaitOperator
from flintstream.testing import Idleness, OneInputOperatorHarness, Record, UserCodeError, Watermark

Harness = OneInputOperatorHarness


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Turns(AsyncFunction[int, int]):
    """Gives a record back after as many turns of the loop as it says."""

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range(value):
            await asyncio.sleep(0)
        return [value]


class Scripted(AsyncFunction[Any, Any]):
    """Does for each record what a function says, and keeps what happened."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.calls: list[Any] = []
        self.cancelled: list[Any] = []
        self.running = 0
        self.most_running = 0

    async def async_invoke(self, value: Any) -> list[Any]:
        self.calls.append(value)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            return await self.script(value)  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        finally:
            self.running -= 1


class WithDefault(Scripted):
    def timeout(self, value: Any) -> list[Any]:
        return [f"no answer for {value}"]


def descriptor(function: Any, timeout: int = 0, capacity: int = 100, retry: Any = None, ordered: bool = True) -> Any:
    modes = AsyncFunctionDescriptor.OutputMode
    return AsyncFunctionDescriptor(
        function,
        Time.milliseconds(timeout),
        capacity,
        retry or NO_RETRY_STRATEGY,
        modes.ORDERED if ordered else modes.UNORDERED,
    )


def run(function: Any, values: list[Any], **options: Any) -> list[Any]:
    """The results of a function for some records."""
    with Harness(descriptor(function, **options)) as harness:
        harness.process_elements(values)
        harness.end_input()
        return harness.output


class Gate(threading.Event):
    """An event that a function may hold while it is captured."""

    def __reduce__(self) -> Any:
        return Gate, ()


async def forever(value: Any) -> list[Any]:
    await asyncio.sleep(3600)
    return [value]


class TestOrder:
    def test_ordered_results_keep_the_order_of_their_records(self) -> None:
        assert run(Turns(), [5, 0, 3, 1]) == [5, 0, 3, 1]

    def test_unordered_results_come_as_they_are_ready(self) -> None:
        assert run(Turns(), [5, 0, 3, 1], ordered=False) == [0, 1, 3, 5]

    def test_any_number_of_results_with_the_timestamp_of_the_record(self) -> None:
        class Repeat(AsyncFunction[int, int]):
            async def async_invoke(self, value: int) -> list[int]:
                return [value] * value

        with Harness(Repeat()) as harness:
            harness.process_elements([2, 0, 1], timestamps=[10, 20, 30])
            harness.process_element(1)
            harness.end_epoch()
            assert harness.output_with_timestamps == [(2, 10), (2, 10), (1, 30), (1, None)]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_watermarks_and_idleness_keep_their_places(self, ordered: bool) -> None:
        with Harness(descriptor(Turns(), ordered=ordered)) as harness:
            harness.process_elements([9, 8], timestamps=[1, 2])
            harness.process_watermark(2)
            harness.process_elements([0], timestamps=[3])
            harness.process_idleness()
            harness.process_idleness(False)
            harness.process_elements([1], timestamps=[4])
            harness.end_input()
            first = [Record(9, 1), Record(8, 2)]
            assert harness.records_and_watermarks == [
                *(first if ordered else reversed(first)),
                Watermark(2),
                Record(0, 3),
                Idleness(True),
                Idleness(False),
                Record(1, 4),
                Watermark(2**63 - 1),
            ]
            assert harness.finished

    def test_marks_pass_at_once_when_nothing_is_in_flight(self) -> None:
        with Harness(Turns()) as harness:
            harness.process_watermark(5)
            harness.process_idleness()
            assert harness.records_and_watermarks == [Watermark(5), Idleness(True)]

    @given(
        st.lists(st.one_of(st.integers(0, 6), st.none()), max_size=25),
        st.integers(1, 8),
        st.integers(1, 30),
        st.booleans(),
    )
    def test_ordered_output_is_the_input(
        self, elements: list[int | None], capacity: int, batch_size: int, through_blocks: bool
    ) -> None:
        assert self.passed(elements, capacity, batch_size, through_blocks, True) == elements

    @given(
        st.lists(st.one_of(st.integers(0, 6), st.none()), max_size=25),
        st.integers(1, 8),
        st.integers(1, 30),
        st.booleans(),
    )
    def test_unordered_results_never_pass_a_watermark(
        self, elements: list[int | None], capacity: int, batch_size: int, through_blocks: bool
    ) -> None:
        results = self.passed(elements, capacity, batch_size, through_blocks, False)
        assert segments(results) == segments(elements)

    def passed(
        self, elements: list[int | None], capacity: int, batch_size: int, through_blocks: bool, ordered: bool
    ) -> list[int | None]:
        """What leaves for what goes in: a record waits for so many turns of the loop, None is a watermark."""
        options = {"batch_size": batch_size, "through_blocks": through_blocks}
        with Harness(descriptor(Turns(), capacity=capacity, ordered=ordered), **options) as harness:
            for time_, element in enumerate(elements):
                if element is None:
                    harness.process_watermark(time_)
                else:
                    harness.process_element(element, time_)
            harness.end_epoch()
            found = harness.records_and_watermarks
        for element in found:
            time_ = element.timestamp  # type: ignore[assignment, union-attr]
            assert elements[time_] == (element.value if isinstance(element, Record) else None)
        return [element.value if isinstance(element, Record) else None for element in found]


def segments(elements: list[int | None]) -> list[list[int]]:
    """The records between watermarks, sorted."""
    found: list[list[int]] = [[]]
    for element in elements:
        if element is None:
            found.append([])
        else:
            found[-1].append(element)
    return [sorted(segment) for segment in found]


class TestCapacity:
    @pytest.mark.parametrize("ordered", [True, False])
    @pytest.mark.parametrize("capacity", [1, 3, 100])
    def test_no_more_requests_are_in_flight(self, capacity: int, ordered: bool) -> None:
        async def wait(value: int) -> list[int]:
            await asyncio.sleep(0.001)
            return [value]

        function = Scripted(wait)
        assert run(function, list(range(20)), capacity=capacity, ordered=ordered) == list(range(20))
        assert function.most_running == min(capacity, 20)

    def test_a_full_operator_takes_no_record_before_one_has_left(self) -> None:
        with Harness(descriptor(Turns(), capacity=2)) as harness:
            harness.process_elements([50, 50, 50])
            assert len(harness.output) >= 1

    def test_as_long_as_there_is_room_records_do_not_wait(self) -> None:
        gate = Gate()

        async def wait(value: int) -> list[int]:
            await asyncio.to_thread(gate.wait)
            return [value]

        with Harness(descriptor(Scripted(wait), capacity=3)) as harness:
            harness.process_elements([1, 2])
            harness.process_watermark(7)
            harness.process_element(3)
            assert harness.records_and_watermarks == []
            gate.set()
            harness.end_epoch()
            assert harness.records_and_watermarks == [Record(1), Record(2), Watermark(7), Record(3)]

    def test_answered_requests_behind_a_slow_one_count_too(self) -> None:
        """So that they do not pile up in memory."""
        function = Scripted(Turns().async_invoke)
        with Harness(descriptor(function, capacity=2)) as harness:
            harness.process_elements([200, 0, 0, 0])
            assert harness.output[:2] == [200, 0]

    def test_many_wait_at_a_time(self) -> None:
        under_way = 0
        most = 0

        async def wait(value: int) -> list[int]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            under_way -= 1
            return [value]

        assert len(run(Scripted(wait), list(range(200)))) == 200
        assert most > 50


class TestTimeOut:
    def test_the_function_is_asked_for_results_and_the_call_is_cancelled(self) -> None:
        async def first_is_slow(value: int) -> list[Any]:
            return await forever(value) if value == 1 else [value]

        function = WithDefault(first_is_slow)
        assert run(function, [1, 2], timeout=10) == ["no answer for 1", 2]
        assert function.cancelled == [1]

    def test_unless_it_says_otherwise_the_job_fails(self) -> None:
        with pytest.raises(UserCodeError, match="async_invoke\\(\\) timed out for the record 1") as caught:
            run(Scripted(forever), [1], timeout=10)
        assert caught.value.fault.record == "1"

    def test_each_record_has_its_own_time(self) -> None:
        async def wait(value: int) -> list[int]:
            await asyncio.sleep(0.03)
            return [value]

        # Hundred turns of 30 ms in all: no single one takes 2 s.
        assert run(WithDefault(wait), list(range(100)), timeout=2000, capacity=1) == list(range(100))

    def test_later_records_time_out_too(self) -> None:
        function = WithDefault(forever)
        with Harness(descriptor(function, timeout=20)) as harness:
            harness.process_element(1)
            time.sleep(0.01)
            harness.process_element(2)
            harness.end_epoch()
            harness.process_element(3)
            harness.end_epoch()
            assert harness.output == [f"no answer for {n}" for n in (1, 2, 3)]

    def test_a_result_that_comes_too_late_is_ignored(self) -> None:
        async def stubborn(value: int) -> list[Any]:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
            return ["too late"]

        with Harness(descriptor(WithDefault(stubborn), timeout=5)) as harness:
            harness.process_element(1)
            harness.end_epoch()
            harness.process_watermark(1)
            harness.end_input()
            assert harness.output == ["no answer for 1"]

    def test_zero_means_any_time(self) -> None:
        async def wait(value: int) -> list[int]:
            await asyncio.sleep(0.02)
            return [value]

        assert run(WithDefault(wait), [1], timeout=0) == [1]

    def test_what_it_gives_must_be_a_list(self) -> None:
        class Wrong(Scripted):
            def timeout(self, value: Any) -> Any:
                return None

        with pytest.raises(UserCodeError, match="AsyncFunction cannot be none: Wrong.timeout\\(\\) returned None"):
            run(Wrong(forever), [1], timeout=5)


class Attempts(AsyncRetryStrategy[Any]):
    """Allows so many attempts, and keeps what it is asked."""

    def __init__(self, allowed: int, on_result: Any = None, on_exception: Any = None) -> None:
        self.allowed = allowed
        self.predicate = RetryPredicate[Any](on_result, on_exception)
        self.asked: list[tuple[str, int]] = []

    def can_retry(self, current_attempts: int) -> bool:
        self.asked.append(("can_retry", current_attempts))
        return current_attempts < self.allowed

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        self.asked.append(("backoff", current_attempts))
        return 1

    def get_retry_predicate(self) -> RetryPredicate[Any]:
        return self.predicate


class TestRetries:
    def counting(self, outcome: Any) -> tuple[Scripted, list[int]]:
        """A function that answers by the number of the attempt."""
        attempts: list[int] = []

        async def answer(value: Any) -> list[Any]:
            attempts.append(len(attempts) + 1)
            return outcome(attempts[-1])  # type: ignore[no-any-return]

        return Scripted(answer), attempts

    def test_results_that_are_not_wanted(self) -> None:
        function, attempts = self.counting(lambda attempt: [] if attempt < 3 else ["at last"])
        retry = AsyncRetryStrategy.fixed_delay(5, 1, lambda results: not results, None)
        assert run(function, [1], timeout=5000, retry=retry) == ["at last"]
        assert attempts == [1, 2, 3]

    def test_the_last_results_are_taken_as_they_are(self) -> None:
        function, attempts = self.counting(lambda attempt: [attempt])
        retry = AsyncRetryStrategy.fixed_delay(3, 1, lambda results: True, None)
        assert run(function, [1], timeout=5000, retry=retry) == [4]  # The first attempt and three more, as in PyFlink.
        assert attempts == [1, 2, 3, 4]

    def test_the_strategy_is_asked_with_the_attempts_so_far(self) -> None:
        retry = Attempts(3, on_result=lambda results: True)
        function, _ = self.counting(lambda attempt: [attempt])
        assert run(function, [1], timeout=5000, retry=retry) == [3]
        assert retry.asked == [
            ("can_retry", 1),
            ("backoff", 1),
            ("can_retry", 2),
            ("backoff", 2),
            ("can_retry", 3),
        ]

    def test_exceptions(self) -> None:
        def outcome(attempt: int) -> list[str]:
            if attempt == 1:
                raise ConnectionError("busy")
            return ["ok"]

        function, _ = self.counting(outcome)
        retry = Attempts(5, on_exception=lambda error: isinstance(error, ConnectionError))
        assert run(function, [1], timeout=5000, retry=retry) == ["ok"]

    def test_another_exception_fails_the_job_at_once(self) -> None:
        def outcome(attempt: int) -> list[str]:
            raise ValueError("wrong")

        function, attempts = self.counting(outcome)
        retry = Attempts(5, on_exception=lambda error: isinstance(error, ConnectionError))
        with pytest.raises(UserCodeError, match="ValueError: wrong"):
            run(function, [1], timeout=5000, retry=retry)
        assert attempts == [1]

    def test_the_exception_of_the_last_attempt_fails_the_job(self) -> None:
        def outcome(attempt: int) -> list[str]:
            raise ConnectionError(f"attempt {attempt}")

        function, _ = self.counting(outcome)
        with pytest.raises(UserCodeError, match="ConnectionError: attempt 3") as caught:
            run(function, ["r"], timeout=5000, retry=Attempts(3, on_exception=lambda error: True))
        assert caught.value.fault.record == "'r'"

    def test_the_time_counts_over_all_attempts(self) -> None:
        calls = []

        async def never(value: Any) -> list[Any]:
            calls.append(value)
            return []

        retry = AsyncRetryStrategy.fixed_delay(1000, 10, lambda results: not results, None)
        assert run(WithDefault(never), [1], timeout=35, retry=retry) == ["no answer for 1"]
        assert 1 < len(calls) < 10

    def test_a_predicate_that_fails_fails_the_job(self) -> None:
        function, _ = self.counting(lambda attempt: [])
        with pytest.raises(UserCodeError, match="IndexError"):
            run(function, [1], timeout=5000, retry=Attempts(3, on_result=lambda results: results[0]))

    def test_waiting_retries_do_not_break_the_order(self) -> None:
        seen: set[int] = set()

        async def odd_ones_need_two(value: int) -> list[int]:
            first = value not in seen
            seen.add(value)
            return [] if first and value % 2 else [value]

        retry = AsyncRetryStrategy.fixed_delay(3, 2, lambda results: not results, None)
        assert run(Scripted(odd_ones_need_two), list(range(9)), timeout=5000, retry=retry) == list(range(9))


class TestFailures:
    def test_an_exception_comes_with_operator_record_and_the_users_traceback(self) -> None:
        async def fail(value: int) -> list[int]:
            await asyncio.sleep(0)
            return [1 // value]

        with (
            pytest.raises(UserCodeError) as caught,
            Harness(descriptor(Scripted(fail)), name="look up", subtask=1, parallelism=2) as harness,
        ):
            harness.process_elements([1, 0, 2])
            harness.end_epoch()
        fault = caught.value.fault
        assert (fault.operator, fault.subtask, fault.record) == ("look up", 1, "0")
        assert fault.summary == "ZeroDivisionError: integer division or modulo by zero"
        assert "return [1 // value]" in fault.traceback
        assert "async_calls.py" not in fault.traceback
        assert isinstance(fault.load_exception(), ZeroDivisionError)

    def test_a_failure_is_told_while_others_wait(self) -> None:
        async def second_fails(value: int) -> list[int]:
            if value == 2:
                raise ValueError("second")
            return await forever(value)

        function = Scripted(second_fails)
        with pytest.raises(UserCodeError, match="ValueError: second"):
            run(function, [1, 2, 3])
        assert function.cancelled == [1, 3]

    @pytest.mark.parametrize(("result", "wrong_with_it"), [(None, "cannot be none"), (5, "should be of list type")])
    def test_a_result_that_is_no_list(self, result: Any, wrong_with_it: str) -> None:
        async def wrong(value: int) -> Any:
            return result

        with pytest.raises(UserCodeError, match=f"The result of AsyncFunction {wrong_with_it}") as caught:
            run(Scripted(wrong), [7])
        assert caught.value.fault.operator == "operator under test"
        assert caught.value.fault.record == "7"
        assert f"Scripted.async_invoke() returned {result}, and must return a list" in caught.value.fault.summary

    def test_no_result_at_all_is_not_asked_about(self) -> None:
        async def wrong(value: int) -> Any:
            return None

        with pytest.raises(UserCodeError, match="returned None"):
            run(Scripted(wrong), [7], timeout=5000, retry=Attempts(3, on_result=lambda results: not results))

    @pytest.mark.parametrize("results", [(1, 2), range(1, 3), {1: "a", 2: "b"}])
    def test_other_collections_are_taken(self, results: Any) -> None:
        async def give(value: int) -> Any:
            return results

        assert run(Scripted(give), [0]) == [1, 2]

    def test_a_generator_that_fails(self) -> None:
        async def give(value: int) -> Any:
            return (1 // n for n in (1, 0))

        with pytest.raises(UserCodeError, match="ZeroDivisionError"):
            run(Scripted(give), [0])

    @pytest.mark.parametrize("error", [asyncio.CancelledError("mine"), SystemExit(3), KeyboardInterrupt()])
    def test_what_is_no_exception_does_not_hang_the_job(self, error: BaseException) -> None:
        async def fail(value: int) -> Any:
            raise error

        with pytest.raises(UserCodeError, match=type(error).__name__):
            run(Scripted(fail), [1, 2])

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_callback_that_ends_the_loop_does_not_hang_the_job(self) -> None:
        async def leave(value: int) -> Any:
            asyncio.get_running_loop().call_soon(sys.exit)
            return await forever(value)

        with pytest.raises(UserCodeError, match="SystemExit"):
            run(Scripted(leave), [1])

    def test_results_that_the_function_changes_later(self) -> None:
        class Reusing(AsyncFunction[int, list[int]]):
            def open(self, runtime_context: Any) -> None:
                self.seen: list[int] = []

            async def async_invoke(self, value: int) -> list[list[int]]:
                self.seen.append(value)
                return [self.seen]

        assert run(Reusing(), [1, 2]) == [[1], [1, 2]]


class Client:
    """Belongs to the loop on which it was made."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False

    async def get(self, value: Any) -> Any:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        return value

    async def aclose(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.closed = True


class TestLife:
    def test_open_and_close_on_the_loop(self) -> None:
        class LookUp(AsyncFunction[int, int]):
            async def open(self, runtime_context: Any) -> None:
                self.client = Client()
                self.subtask = runtime_context.get_index_of_this_subtask()

            async def async_invoke(self, value: int) -> list[int]:
                return [await self.client.get(value), self.subtask]

            async def close(self) -> None:
                await self.client.aclose()

        function = LookUp()
        assert run(function, [5]) == [5, 0]
        assert function.client.closed

    def test_open_and_close_on_the_processing_thread(self) -> None:
        class LookUp(AsyncFunction[int, int]):
            def open(self, runtime_context: Any) -> None:
                self.threads = [threading.current_thread()]
                self.client: Client | None = None
                self.seen = runtime_context.get_int_counter("seen")

            async def async_invoke(self, value: int) -> list[int]:
                self.client = self.client or Client()
                self.seen.add(1)
                return [await self.client.get(value)]

            def close(self) -> None:
                self.threads.append(threading.current_thread())
                assert self.client is not None
                asyncio.run_coroutine_threadsafe(self.client.aclose(), self.client.loop).result()

        function = LookUp()
        with Harness(function) as harness:
            harness.process_elements([5, 6])
            harness.end_epoch()
            assert harness.output == [5, 6]
            assert harness.accumulators == {"seen": 2}
        assert function.client is not None
        assert function.client.closed
        assert function.threads == [threading.current_thread()] * 2

    def test_closing_cancels_what_is_in_flight(self) -> None:
        function = Scripted(forever)
        with Harness(function) as harness:
            harness.process_elements([1, 2])
            while len(function.calls) < 2:
                time.sleep(0.001)
        assert function.cancelled == [1, 2]
        assert function.running == 0

    def test_threads_and_tasks_of_the_function_end_too(self) -> None:
        tasks = []

        async def busy(value: int) -> list[int]:
            tasks.append(asyncio.create_task(forever(value)))
            return [await asyncio.to_thread(abs, value)]

        assert run(Scripted(busy), [-1, -2]) == [1, 2]
        assert all(task.cancelled() for task in tasks)

    @pytest.mark.parametrize("error", [OSError("unreachable"), asyncio.CancelledError()])
    def test_a_failing_open(self, error: BaseException) -> None:
        class LookUp(Turns):
            closed = 0

            async def open(self, runtime_context: Any) -> None:
                await asyncio.sleep(0)
                raise error

            async def close(self) -> None:
                LookUp.closed += 1

        with pytest.raises(UserCodeError, match=type(error).__name__) as caught:
            run(LookUp(), [1])
        assert caught.value.fault.operator == "operator under test"
        assert "event_loop.py" not in caught.value.fault.traceback
        assert LookUp.closed == 1

    def test_one_that_was_never_opened_is_closed(self) -> None:
        Harness(Turns()).close()

    def test_a_failing_close(self) -> None:
        class LookUp(Turns):
            async def close(self) -> None:
                raise OSError("gone")

        with pytest.raises(UserCodeError, match="OSError: gone"):
            run(LookUp(), [1])

    def test_a_coroutine_that_blocks_does_not_hang_the_close(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(async_io, "CANCEL_SECONDS", -0.99)
        monkeypatch.setattr(event_loop, "STOP_SECONDS", -0.99)
        released = Gate()
        started = Gate()

        async def block(value: int) -> list[int]:
            started.set()
            released.wait()
            return [value]

        harness = Harness(Scripted(block))
        harness.open()
        harness.process_element(1)
        started.wait()
        thread = next(thread for thread in threading.enumerate() if thread.name == "event loop")
        with pytest.raises(UserCodeError, match="a coroutine blocks it"):
            harness.close()
        released.set()
        thread.join()

    def test_operator_state_is_initialised_before_open(self) -> None:
        class Counting(Turns, CheckpointedFunction):
            def initialize_state(self, context: Any) -> None:
                self.calls = ["initialize_state"]

            def snapshot_state(self, context: Any) -> None: ...

            async def open(self, runtime_context: Any) -> None:
                self.calls.append("open")

        function = Counting()
        assert run(function, [1]) == [1]
        assert function.calls == ["initialize_state", "open"]

    def test_there_is_no_keyed_state(self) -> None:
        class Counting(Turns):
            def open(self, runtime_context: Any) -> None:
                runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        with pytest.raises(UserCodeError, match="keyed state 'count'"), Harness(Counting(), key_selector=str):
            pass

    @pytest.mark.parametrize("batch_mode", [True, False])
    def test_keyed_streams_and_batch_mode(self, batch_mode: bool) -> None:
        with Harness(Turns(), key_selector=lambda value: value % 2, batch_mode=batch_mode) as harness:
            harness.process_elements([3, 2, 1], timestamps=[1, 2, 3])
            harness.end_input()
            assert harness.output_with_timestamps == [(3, 1), (2, 2), (1, 3)]
            assert harness.finished

    def test_it_can_be_given_as_an_operator(self) -> None:
        with Harness(AsyncWaitOperator(Turns(), ordered=False)) as harness:
            harness.process_elements([4, 0])
            harness.end_epoch()
            assert harness.output == [0, 4]
