"""CompletableFuture: the result of an asynchronous call."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

__all__ = ["CompletableFuture"]


class CompletableFuture:
    """The result of an asynchronous call. It can also be awaited.

    Example::

        >>> CompletableFuture.completed(5).result()
        5
    """

    def __init__(self, future: Future[Any] | None = None, py_class: Callable[[Any], Any] | None = None) -> None:
        self._future: Future[Any] = Future() if future is None else future
        self._py_class = py_class

    @staticmethod
    def completed(value: Any) -> CompletableFuture:
        """Returns a completed future."""
        future = CompletableFuture()
        future._future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture:
        """Returns a failed future."""
        future = CompletableFuture()
        future._future.set_exception(error)
        return future

    def cancel(self) -> bool:
        """Cancels the future; returns whether that was still possible."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Returns whether the future was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Returns whether the future has a result, an error or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Returns the result, waiting at most `timeout` seconds; raises the error if the call failed."""
        result = self._future.result(timeout)
        return result if self._py_class is None else self._py_class(result)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the error, or None; waits for completion."""
        return self._future.exception(timeout)

    def add_done_callback(self, function: Callable[[CompletableFuture], Any]) -> None:
        """Calls a function with this future when it is done."""
        self._future.add_done_callback(lambda _: function(self))

    def set_result(self, value: Any) -> None:
        """Completes the future; called by its producer."""
        self._future.set_result(value)

    def set_exception(self, error: BaseException) -> None:
        """Fails the future; called by its producer."""
        self._future.set_exception(error)

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        result = yield from asyncio.wrap_future(self._future).__await__()
        return result if self._py_class is None else self._py_class(result)

    def __str__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "pending"
        return f"CompletableFuture({state})"
