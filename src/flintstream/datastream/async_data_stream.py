"""AsyncDataStream: applies asynchronous functions to a stream."""

from __future__ import annotations

import inspect
from typing import Any, NoReturn

from flintstream.common.java import get_gateway, java_only
from flintstream.common.time import Duration, Time, to_millis
from flintstream.common.type_variables import R, T
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.async_functions import AsyncFunction, AsyncFunctionDescriptor, AsyncRetryStrategy
from flintstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.settings import declared_output_type
from flintstream.runtime.operators.async_io import AsyncWaitOperator

__all__ = [
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryStrategy",
    "DataStream",
    "Time",
    "TypeInformation",
    "get_gateway",
]


class AsyncDataStream:
    """Applies an `AsyncFunction`, with many records in flight at a time.

    The parameters of all four methods:

    - `timeout`: the time limit for the results of a record, over all its retries. When it expires, the call is
      cancelled and `AsyncFunction.timeout` provides the results. 0 means no limit, and cannot be combined with retries.
    - `capacity`: the maximum number of records in flight per subtask; at the limit, input waits.
    - `output_type`: the declared type of the results.

    Example::

        AsyncDataStream.unordered_wait(stream, LookUp(), Time.seconds(5), capacity=100, output_type=Types.STRING())
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Emits results as they become ready, but never overtakes a watermark.

        Example::

            AsyncDataStream.unordered_wait(stream, LookUp(), Time.seconds(5))
        """
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[R],
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """`unordered_wait` with a retry strategy.

        Example::

            strategy = AsyncRetryStrategy.fixed_delay(3, 100, empty_result_predicate, has_exception_predicate)
            AsyncDataStream.unordered_wait_with_retry(stream, LookUp(), Time.seconds(5), strategy)
        """
        return _wait(False, data_stream, async_function, timeout, async_retry_strategy, capacity, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Emits results in the order of the records.

        Example::

            AsyncDataStream.ordered_wait(stream, LookUp(), Time.seconds(5))
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, R],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[R],
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """`ordered_wait` with a retry strategy.

        Example::

            strategy = AsyncRetryStrategy.exponential_backoff(5, 100, 2000, 2.0, None, has_exception_predicate)
            AsyncDataStream.ordered_wait_with_retry(stream, LookUp(), Time.seconds(30), strategy)
        """
        return _wait(True, data_stream, async_function, timeout, async_retry_strategy, capacity, output_type)


def get_j_env_configuration() -> NoReturn:
    """Not supported: it is part of Flink's JVM."""
    java_only("get_j_env_configuration()", "Use env.get_config().get_configuration().")


def _wait(
    ordered: bool,
    data_stream: DataStream[T],
    function: AsyncFunction[T, R],
    timeout: Time | Duration,
    strategy: AsyncRetryStrategy[R],
    capacity: int,
    output_type: OutputType,
) -> DataStream[R]:
    name = "ordered_wait" if ordered else "unordered_wait"
    if not isinstance(data_stream, DataStream):
        raise TypeError(f"{name}: expected a DataStream, got {data_stream!r}")
    _check_function(name, function)
    millis = to_millis(timeout)
    _check_strategy(name, strategy, millis)
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ValueError(f"{name}: capacity must be an integer of at least 1, got {capacity!r}")
    operator = AsyncWaitOperator(function, millis, capacity, strategy, ordered)
    return data_stream._transform("async wait operator", operator, declared_output_type(name, output_type))


def _check_function(name: str, function: Any) -> None:
    if isinstance(function, type) and issubclass(function, AsyncFunction):
        raise TypeError(f"{name}: pass an instance, {function.__name__}(), not the class {function.__name__}")
    if not isinstance(function, AsyncFunction):
        raise TypeError(f"{name}: expected an AsyncFunction, got {function!r}")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise TypeError(f"{name}: {type(function).__name__}.async_invoke must be declared as 'async def'")
    if inspect.iscoroutinefunction(function.timeout):
        raise TypeError(f"{name}: {type(function).__name__}.timeout must be declared as 'def', not 'async def'")


def _check_strategy(name: str, strategy: Any, timeout_millis: int) -> None:
    if not isinstance(strategy, AsyncRetryStrategy):
        raise TypeError(f"{name}: expected an AsyncRetryStrategy, got {strategy!r}")
    if strategy is not NO_RETRY_STRATEGY and timeout_millis <= 0:
        raise ValueError(f"{name}: timeout must be greater than zero with retries, got {timeout_millis} milliseconds")
    if strategy.get_retry_predicate() is None:
        raise TypeError(f"{name}: {type(strategy).__name__}.get_retry_predicate() returned None, not a predicate")
