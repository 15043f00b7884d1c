"""AsyncDataStream: what it records, what it refuses, and small jobs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from flintstream.common import Duration, Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
from flintstream.runtime.operators.async_io import AsyncWaitOperator
from flintstream.testing import LocalJob


class Slowly(AsyncFunction[int, int]):
    """Gives each record back, the larger the sooner."""

    async def async_invoke(self, value: int) -> list[int]:
        for _ in range(20 - value % 20):
            await asyncio.sleep(0)
        return [value]


class Threads(Slowly):
    """Says how many event loops there are."""

    async def async_invoke(self, value: Any) -> list[Any]:
        return [(value, sum(thread.name == "event loop" for thread in threading.enumerate()))]


def printed(env: StreamExecutionEnvironment, **options: Any) -> list[str]:
    return LocalJob(env.generate_stream_graph(), **options).run().printed


def test_the_operator_is_recorded_with_its_settings(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1, 2], Types.INT())
    retry = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: True)
    stream = AsyncDataStream.unordered_wait_with_retry(
        numbers, Slowly(), Duration.of_millis(1500), retry, 7, Types.INT()
    )
    assert stream.get_name() == "async wait operator"
    assert stream.get_type() == Types.INT()
    operator = stream._transformation.operator  # type: ignore[attr-defined]
    assert isinstance(operator, AsyncWaitOperator)
    assert (operator.timeout, operator.capacity, operator.ordered) == (1500, 7, False)
    ordered = AsyncDataStream.ordered_wait(numbers, Slowly(), Time.seconds(2))
    operator = ordered._transformation.operator  # type: ignore[attr-defined]
    assert (operator.timeout, operator.capacity, operator.ordered) == (2000, 100, True)


class NotAsync(AsyncFunction[int, int]):
    def async_invoke(self, value: int) -> list[int]:  # type: ignore[override]
        return [value]


class AsyncTimeout(Slowly):
    async def timeout(self, value: int) -> list[int]:  # type: ignore[override]
        return [value]


class NoPredicate(AsyncRetryStrategy[Any]):
    def can_retry(self, current_attempts: int) -> bool:
        return True

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return 1

    def get_retry_predicate(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("function", "timeout", "retry", "capacity", "error", "message"),
    [
        (5, 1, None, 1, TypeError, "ordered_wait: expected an AsyncFunction, got 5"),
        (Slowly, 1, None, 1, TypeError, r"pass an instance, Slowly\(\), not the class"),
        (NotAsync(), 1, None, 1, TypeError, "NotAsync.async_invoke must be declared as 'async def'"),
        (AsyncTimeout(), 1, None, 1, TypeError, "AsyncTimeout.timeout must be declared as 'def'"),
        (Slowly(), 1, "often", 1, TypeError, "expected an AsyncRetryStrategy, got 'often'"),
        (Slowly(), 1, NoPredicate(), 1, TypeError, "NoPredicate.get_retry_predicate.. returned None"),
        (Slowly(), 1, None, 0, ValueError, "capacity must be an integer of at least 1, got 0"),
        (Slowly(), "soon", None, 1, TypeError, "'soon' is not a length of time"),
        (
            Slowly(),
            0,
            AsyncRetryStrategy.fixed_delay(3, 100, None, None),
            1,
            ValueError,
            "timeout must be greater than zero with retries",
        ),
    ],
)
def test_bad_arguments(
    env: StreamExecutionEnvironment,
    function: Any,
    timeout: Any,
    retry: Any,
    capacity: int,
    error: type[Exception],
    message: str,
) -> None:
    length = Time.seconds(timeout) if isinstance(timeout, int) else timeout
    strategy = retry or AsyncRetryStrategy.no_restart()
    with pytest.raises(error, match=message):
        AsyncDataStream.ordered_wait_with_retry(env.from_collection([1]), function, length, strategy, capacity)


def test_it_needs_a_stream() -> None:
    with pytest.raises(TypeError, match="unordered_wait: expected a DataStream, got 5"):
        AsyncDataStream.unordered_wait(5, Slowly(), Time.seconds(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("records_per_epoch", [3, 1000])
def test_in_the_middle_of_a_chain(env: StreamExecutionEnvironment, records_per_epoch: int) -> None:
    env.set_parallelism(1)
    doubled = env.from_collection(list(range(50)), Types.INT()).map(lambda n: n * 2, Types.INT())
    looked_up = AsyncDataStream.ordered_wait(doubled, Slowly(), Time.seconds(5), 4, Types.INT())
    looked_up.map(lambda n: n + 1, Types.INT()).print()
    assert printed(env, records_per_epoch=records_per_epoch) == [str(2 * n + 1) for n in range(50)]


@pytest.mark.parametrize("batch_mode", [True, False])
def test_at_the_head_of_a_chain_behind_a_key(env: StreamExecutionEnvironment, batch_mode: bool) -> None:
    keyed = env.from_collection(list(range(50)), Types.INT()).key_by(lambda n: n % 5)
    looked_up = AsyncDataStream.unordered_wait(keyed, Slowly(), Time.seconds(5), 4, Types.INT())
    looked_up.map(str, Types.STRING()).print().set_parallelism(1)
    assert sorted(map(int, printed(env, records_per_epoch=7, batch_mode=batch_mode))) == list(range(50))


def test_the_operators_of_a_slot_share_one_loop(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    once = AsyncDataStream.ordered_wait(env.from_collection([1]), Threads(), Time.seconds(5))
    twice = AsyncDataStream.ordered_wait(once.rebalance(), Threads(), Time.seconds(5))
    twice.print()
    assert printed(env) == ["((1, 1), 1)"]
    assert "event loop" not in [thread.name for thread in threading.enumerate()]


def test_functions_and_strategies_are_captured_when_given(env: StreamExecutionEnvironment) -> None:
    class Scale(AsyncFunction[int, int]):
        async def async_invoke(self, value: int) -> list[int]:
            return [value * factor]

    env.set_parallelism(1)
    factor = 2
    enough = [10]
    retry = AsyncRetryStrategy.fixed_delay(1, 1, lambda results: results != enough, None)
    stream = AsyncDataStream.ordered_wait_with_retry(
        env.from_collection([5]), Scale(), Time.seconds(5), retry, output_type=Types.INT()
    )
    factor = 3
    enough[0] = 15
    stream.print()
    assert printed(env) == ["10"]
