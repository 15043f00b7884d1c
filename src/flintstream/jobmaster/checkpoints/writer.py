"""StorageWriter: a thread that works on a checkpoint storage, which may hang there without anybody else hanging with it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

_Work = tuple[Callable[..., Any], tuple[Any, ...], "Future[Any]"]


class StorageWriter:
    """Does one thing after the other. Not a pool of the standard library: Python would wait for its threads at exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Work | None] | None = None

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Makes a call when those before it are done."""
        future: Future[Any] = Future()
        with self._lock:
            if self._queue is None:
                self._queue = queue.SimpleQueue()
                threading.Thread(target=self._run, args=(self._queue,), name=self._name, daemon=True).start()
            self._queue.put((call, arguments, future))
        return future

    def settle(self, seconds: float) -> bool:
        """Waits until all is done, for a limited time; false if it hangs."""
        return bool(wait([self.submit(lambda: None)], seconds).done)

    def abandon(self) -> None:
        """Leaves the thread alone with what it does now, and drops what waits behind that; what comes is done by another."""
        with self._lock:
            left, self._queue = self._queue, None
        if left is None:
            return
        while not left.empty():
            work = left.get()
            if work is not None:
                work[2].cancel()
        left.put(None)

    def _run(self, work: queue.SimpleQueue[_Work | None]) -> None:
        while (next_work := work.get()) is not None:
            call, arguments, future = next_work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
