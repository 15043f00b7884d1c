"""Asynchronous functions, and when to try them again.

All are imported from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from flintstream.common.time import Time
from flintstream.common.type_variables import IN, OUT, T
from flintstream.datastream.basic_functions import Function
from flintstream.runtime.context import RuntimeContext

if TYPE_CHECKING:

    class _Function(ABC):  # noqa: B024 - as Function itself
        """A function without `open` and `close`, which are no coroutines."""
else:
    _Function = Function


class AsyncFunction(_Function, Generic[IN, OUT]):
    """Waits for something outside, many records at a time.

    All calls run on one asyncio loop, in a thread of its own: what waits must be awaited, and nothing may block. `open` and
    `close` may be declared as `async def`; then they run on that loop too, the place for clients that belong to it.

    Example::

        class LookUp(AsyncFunction):
            async def open(self, runtime_context):
                self.client = await connect()

            async def async_invoke(self, value):
                return [await self.client.get(value)]

            async def close(self):
                await self.client.close()
    """

    def open(self, runtime_context: RuntimeContext) -> Awaitable[None] | None:
        """Called once in each subtask before the first record; `async def` to run on the loop."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Called once in each subtask at the end, also after a failure; `async def` to run on the loop."""
        return None

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for a record: a list, empty for none."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results when `async_invoke` took too long and was cancelled; raises unless overridden."""
        raise TimeoutError(f"{type(self).__name__}.async_invoke() has timed out for the record {value!r}")


class AsyncRetryPredicate(ABC, Generic[T]):
    """Which results and which exceptions call for another try."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[T]], bool] | None:
        """Says of the results whether to try again; None for never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Says of an exception whether to try again; None for never."""


class AsyncRetryStrategy(ABC, Generic[T]):
    """Whether and when to try again.

    >>> strategy = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: True)
    >>> strategy.can_retry(3), strategy.can_retry(4), strategy.get_backoff_time_millis(1)
    (True, False, 100)
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another attempt after so many: 1 after the first."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait before the next attempt, after so many."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[T]:
        """What calls for another try."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never tries again."""
        from flintstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Tries again at most `max_attempts` times, and waits equally long before each."""
        from flintstream.datastream.async_retry_strategies import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Tries again at most `max_attempts` times, and waits longer before each, up to a limit."""
        from flintstream.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunctionDescriptor:
    """An asynchronous function with how it is to be called."""

    class OutputMode(Enum):
        """Whether results keep the order of their records."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: OutputMode,
    ) -> None:
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
