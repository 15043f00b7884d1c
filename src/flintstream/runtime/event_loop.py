"""EventLoop: the asyncio loop that the asynchronous operators of a slot share, in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Any

STOP_SECONDS = 5.0
"""How long what still runs on the loop is waited for after it was cancelled."""


class EventLoop:
    """Runs from the first `acquire` to the last `release`, so that its life is that of the operators that use it.

    `acquire`, `release` and `run` are for the processing thread. A coroutine on the loop must not block: it would hold up
    all others.
    """

    def __init__(self) -> None:
        self.alive = False
        """Whether the loop runs: a callback of the user's that calls `sys.exit()` ends it."""
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        """The running loop, for one more user."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run_loop, args=(self._loop,), name="event loop", daemon=True)
            self.alive = True
            self._thread.start()
        self._users += 1
        return self._loop

    def release(self) -> None:
        """One user less; the last one stops the loop and ends its thread."""
        self._users -= 1
        if self._users == 0 and self._loop is not None and self._thread is not None:
            try:
                self._loop.call_soon_threadsafe(self._loop.stop)
            except RuntimeError:
                pass  # It has ended by itself.
            # One that a coroutine blocks is left behind: its thread does not keep the process alive.
            self._thread.join(STOP_SECONDS + 1)
            self._loop = self._thread = None
            self.alive = False

    def run(self, call: Callable[[], Awaitable[Any]], timeout: float | None = None) -> Any:
        """Calls and awaits on the loop, while the calling thread waits; raises a TimeoutError after so many seconds."""
        if self._loop is None or not self.alive:
            raise RuntimeError("the event loop has ended: a callback of asynchronous code has called sys.exit()")
        future = asyncio.run_coroutine_threadsafe(_outcome(call), self._loop)
        try:
            result, error = future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(
                f"the event loop has not answered for {timeout} seconds: a coroutine blocks it. What waits inside of a "
                "coroutine must be awaited, or be called by asyncio.to_thread()"
            ) from None
        if error is not None:
            raise error
        return result

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread: runs until the loop is told to stop, then leaves nothing behind."""
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
    """The result or the exception, as values: a future that raises adds its own frames above those of the user."""
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
