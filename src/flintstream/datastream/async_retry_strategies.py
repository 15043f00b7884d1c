"""Retry strategies for asynchronous functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from flintstream.common.type_variables import T
from flintstream.datastream.async_functions import AsyncRetryPredicate, AsyncRetryStrategy

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

_OnResult = Callable[[list[T]], bool]
_OnException = Callable[[Exception], bool]


class RetryPredicate(AsyncRetryPredicate[T], Generic[T]):
    """A retry predicate made of two functions."""

    def __init__(self, result_predicate: _OnResult[T] | None, exception_predicate: _OnException | None) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> _OnResult[T] | None:
        """Returns the predicate on results."""
        return self._result_predicate

    def exception_predicate(self) -> _OnException | None:
        """Returns the predicate on exceptions."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[T], Generic[T]):
    """Never retries."""

    def can_retry(self, current_attempts: int) -> bool:
        """Returns False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns -1: there is no retry."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[T]:
        """Returns a predicate that never triggers a retry."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[T], Generic[T]):
    """Retries with a constant delay.

    >>> FixedDelayRetryStrategy(3, 100, None, None).get_backoff_time_millis(2)
    100
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: _OnResult[T] | None,
        exception_predicate: _OnException | None,
    ) -> None:
        _positive("FixedDelayRetryStrategy", max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate[T](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Returns whether a retry is allowed after `current_attempts` calls."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns the delay, the same for each retry."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[T]:
        """Returns the predicate that triggers retries."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[T], Generic[T]):
    """Retries with a growing delay: `initial_delay` times `multiplier` to the power of the retries so far, up to a
    limit.

    >>> strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 300, 2.0, None, None)
    >>> [strategy.get_backoff_time_millis(calls) for calls in (1, 2, 3)]
    [100, 200, 300]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: _OnResult[T] | None,
        exception_predicate: _OnException | None,
    ) -> None:
        _positive(
            "ExponentialBackoffDelayRetryStrategy",
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate[T](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Returns whether a retry is allowed after `current_attempts` calls."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Returns the delay of a retry, up to the limit; records do not affect each other's delay."""
        delay = self._initial_delay * self._multiplier ** max(current_attempts - 1, 0)
        return self._initial_delay if current_attempts <= 1 else int(min(delay, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[T]:
        """Returns the predicate that triggers retries."""
        return self._predicate


def _positive(strategy: str, **options: float) -> None:
    for name, value in options.items():
        if not value > 0:
            raise ValueError(f"{strategy}: {name} must be greater than zero, got {value!r}")


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
