"""Asynchronous functions and their retry strategies.

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
    """Calls an external system with many records in flight at a time.

    All calls run on one asyncio event loop in its own thread, so they must await, never block. `open` and `close` may
    be declared as `async def`; they then run on that loop too, where clients bound to it are created and closed.

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
        """Called once per subtask before the first record; `async def` to run on the loop."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Called once per subtask at the end, also after a failure; `async def` to run on the loop."""
        return None

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Returns the results for a record as a list, which may be empty."""

    def timeout(self, value: IN) -> list[OUT]:
        """Returns the results after `async_invoke` timed out and was cancelled; raises unless overridden."""
        raise TimeoutError(f"{type(self).__name__}.async_invoke() timed out for the record {value!r}")


class AsyncRetryPredicate(ABC, Generic[T]):
    """Decides which results and exceptions trigger a retry."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[T]], bool] | None:
        """Returns a predicate that takes the results and returns whether to retry; None for never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Returns a predicate that takes an exception and returns whether to retry; None for never."""


class AsyncRetryStrategy(ABC, Generic[T]):
    """Decides whether and when to retry.

    >>> strategy = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: True)
    >>> strategy.can_retry(3), strategy.can_retry(4), strategy.get_backoff_time_millis(1)
    (True, False, 100)
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Returns whether a retry is allowed after `current_attempts` calls."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns the delay before the next retry, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[T]:
        """Returns the predicate that triggers retries."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never retries."""
        from flintstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Retries at most `max_attempts` times, with a constant delay."""
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
        """Retries at most `max_attempts` times, with a growing delay up to a limit."""
        from flintstream.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunctionDescriptor:
    """An asynchronous function with its call settings."""

    class OutputMode(Enum):
        """Whether results keep the order of the records."""

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
