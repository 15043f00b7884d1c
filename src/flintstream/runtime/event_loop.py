"""EventLoop: the asyncio loop shared by the asynchronous operators of a slot, in its own thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Any

STOP_SECONDS = 5.0
"""How long to wait for cancelled tasks on the loop."""


class EventLoop:
    """Runs from the first `acquire` to the last `release`, so that it lives as long as the operators that use it.

    `acquire`, `release` and `run` are for the processing thread. A coroutine must not block the loop, which would stall
    all others.
    """

    def __init__(self) -> None:
        self.alive = False
        """Whether the loop runs: a user callback that calls `sys.exit()` ends it."""
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        """Returns the running loop, for one more user."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run_loop, args=(self._loop,), name="event loop", daemon=True)
            self.alive = True
            self._thread.start()
        self._users += 1
        return self._loop

    def release(self) -> None:
        """Removes a user; the last one stops the loop and its thread."""
        self._users -= 1
        if self._users == 0 and self._loop is not None and self._thread is not None:
            try:
                self._loop.call_soon_threadsafe(self._loop.stop)
            except RuntimeError:
                pass  # It has ended already.
            # A loop that a coroutine blocks is abandoned: its thread does not keep the process alive.
            self._thread.join(STOP_SECONDS + 1)
            self._loop = self._thread = None
            self.alive = False

    def run(self, call: Callable[[], Awaitable[Any]], timeout: float | None = None) -> Any:
        """Runs a function or coroutine on the loop and waits for it; raises a TimeoutError after `timeout` seconds."""
        if self._loop is None or not self.alive:
            raise RuntimeError("the event loop has ended: a callback of asynchronous code called sys.exit()")
        future = asyncio.run_coroutine_threadsafe(_outcome(call), self._loop)
        try:
            result, error = future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(
                f"the event loop has not answered for {timeout} seconds: a coroutine blocks it. Await blocking "
                "operations, or call them with asyncio.to_thread()"
            ) from None
        if error is not None:
            raise error
        return result

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread's function: runs until the loop is stopped, then cleans up."""
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            if self._loop is loop:
                self.alive = False
            try:
                loop.run_until_complete(_shut_down(loop))
            finally:
                asyncio.set_event_loop(None)
                loop.close()


async def _outcome(call: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    """Returns the result or the exception as values: a future that raises would add its own frames to the user's
    traceback.
    """
    try:
        return await call(), None
    except BaseException as error:
        return None, error


async def _shut_down(loop: asyncio.AbstractEventLoop) -> None:
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=STOP_SECONDS)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
