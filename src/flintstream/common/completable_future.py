"""A result that comes later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

__all__ = ["CompletableFuture"]


class CompletableFuture:
    """A result that comes later. It can be awaited, too.

    Example::

        >>> CompletableFuture.completed(5).result()
        5
    """

    def __init__(self, future: Future[Any] | None = None, py_class: Callable[[Any], Any] | None = None) -> None:
        self._future: Future[Any] = Future() if future is None else future
        self._py_class = py_class

    @staticmethod
    def completed(value: Any) -> CompletableFuture:
        """A future that already has its result."""
        future = CompletableFuture()
        future._future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture:
        """A future that already has failed."""
        future = CompletableFuture()
        future._future.set_exception(error)
        return future

    def cancel(self) -> bool:
        """Give up waiting for the result; whether that was still possible."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was cancelled before there was a result."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, an error, or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """The result; waits for it, at most so many seconds. Raises what went wrong, if something did."""
        result = self._future.result(timeout)
        return result if self._py_class is None else self._py_class(result)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What went wrong, or None; waits for the end."""
        return self._future.exception(timeout)

    def add_done_callback(self, function: Callable[[CompletableFuture], Any]) -> None:
        """Call a function with this future when it is done."""
        self._future.add_done_callback(lambda _: function(self))

    def set_result(self, value: Any) -> None:
        """Complete the future: for whoever promised the result."""
        self._future.set_result(value)

    def set_exception(self, error: BaseException) -> None:
        """Fail the future: for whoever promised the result."""
        self._future.set_exception(error)

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        result = yield from asyncio.wrap_future(self._future).__await__()
        return result if self._py_class is None else self._py_class(result)

    def __str__(self) -> str:
        state = "cancelled" if self.cancelled() else "done" if self.done() else "pending"
        return f"CompletableFuture({state})"
