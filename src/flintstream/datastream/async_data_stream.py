"""AsyncDataStream: asynchronous functions on a stream. Not part of this version; the arguments are checked."""

from __future__ import annotations

import inspect
from typing import Any, NoReturn

from flintstream.common.java import get_gateway, java_only
from flintstream.common.time import Duration, Time, to_millis
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.async_functions import AsyncFunction, AsyncFunctionDescriptor, AsyncRetryStrategy
from flintstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.settings import declared_output_type

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
    """Applies an `AsyncFunction`: many records wait at a time.

    Example::

        AsyncDataStream.unordered_wait(stream, LookUp(), Time.seconds(5), capacity=100)
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Results come as they are ready, between watermarks. Not part of this version."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """As `unordered_wait`, and tries again by a strategy. Not part of this version."""
        _check(
            "unordered_wait",
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Results come in the order of the records. Not part of this version."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """As `ordered_wait`, and tries again by a strategy. Not part of this version."""
        _check("ordered_wait", data_stream, async_function, timeout, async_retry_strategy, capacity, output_type)


def get_j_env_configuration() -> NoReturn:
    """Not available: it belongs to Flink's JVM."""
    java_only("get_j_env_configuration()", "Use env.get_config().get_configuration().")


def _check(
    operator: str,
    data_stream: Any,
    async_function: Any,
    timeout: Any,
    retry: Any,
    capacity: Any,
    output_type: Any,
) -> NoReturn:
    if not isinstance(data_stream, DataStream):
        raise TypeError(f"{operator}: expected a DataStream, got {data_stream!r}")
    if not isinstance(async_function, AsyncFunction):
        raise TypeError(f"{operator}: expected an AsyncFunction, got {async_function!r}")
    if not inspect.iscoroutinefunction(async_function.async_invoke):
        raise TypeError(f"{operator}: {type(async_function).__name__}.async_invoke must be declared as 'async def'")
    if not isinstance(retry, AsyncRetryStrategy):
        raise TypeError(f"{operator}: expected an AsyncRetryStrategy, got {retry!r}")
    if retry is not NO_RETRY_STRATEGY and to_millis(timeout) <= 0:
        raise ValueError(f"{operator}: timeout must be greater than zero where there are retries, got {timeout!r}")
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ValueError(f"{operator}: capacity must be an integer of at least 1, got {capacity!r}")
    declared_output_type(operator, output_type)
    raise NotImplementedError(f"{operator}: asynchronous functions are not part of this version")
