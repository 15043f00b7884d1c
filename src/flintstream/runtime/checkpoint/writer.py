"""StorageWriter: runs calls to a checkpoint storage on a separate thread, so that a hanging storage blocks nobody else."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

_Work = tuple[Callable[..., Any], tuple[Any, ...], "Future[Any]"]


class StorageWriter:
    """Runs calls one after the other, on a thread that lives while there are calls.

    Not an executor of the standard library, whose threads Python joins at exit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[_Work] | None = None
        """The queued calls; None while there is no thread."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Queues a call."""
        future: Future[Any] = Future()
        with self._lock:
            if self._waiting is None:
                self._waiting = deque()
                threading.Thread(target=self._run, args=(self._waiting,), name=self._name, daemon=True).start()
            self._waiting.append((call, arguments, future))
        return future

    @staticmethod
    def wait_idle(writers: Iterable[StorageWriter], seconds: float) -> bool:
        """Waits until all calls of the writers are done, for a limited time; returns False if one of them hangs."""
        return not wait([writer.submit(lambda: None) for writer in writers], seconds).not_done

    def abandon(self) -> None:
        """Abandons the running call with its thread, and drops the queued ones; later calls run on a new thread."""
        with self._lock:
            left, self._waiting = self._waiting or deque(), None
            dropped = list(left)
            left.clear()
        for _, _, future in dropped:
            future.cancel()

    def _run(self, waiting: deque[_Work]) -> None:
        while (work := self._next(waiting)) is not None:
            call, arguments, future = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def _next(self, waiting: deque[_Work]) -> _Work | None:
        with self._lock:
            if waiting:
                return waiting.popleft()
            if self._waiting is waiting:
                self._waiting = None
            return None
