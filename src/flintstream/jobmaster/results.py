"""Results of a running job for its driver: printed lines and collected records."""

from __future__ import annotations

import pickle
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_MOST_PAGES = 256


class Collector:
    """Transfers collected records from the job to the iterator of `execute_and_collect`.

    Bounded: if the reader is slow, the job waits.
    """

    def __init__(self) -> None:
        self._pages: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_MOST_PAGES)
        self._abandoned = threading.Event()
        self._failure: Callable[[], BaseException | None] = lambda: None

    def put(self, page: bytes, gone: Callable[[], bool]) -> None:
        """Adds a page; waits while the reader is behind, unless the job is ending (`gone`)."""
        records = pickle.loads(page)
        while not self._abandoned.is_set():
            if self._room.acquire(timeout=0.1):
                self._pages.put(records)
                return
            if gone():
                return

    @property
    def waiting(self) -> int:
        """Returns the number of pages that the reader has not taken yet."""
        return self._pages.qsize()

    def end(self, failure: Callable[[], BaseException | None]) -> None:
        """Ends the pages, with the reason if the job has failed. Does not wait for the reader."""
        self._failure = failure
        self._pages.put(None)

    def abandon(self) -> None:
        """Abandons the reader: further pages are dropped."""
        self._abandoned.set()

    def __iter__(self) -> Iterator[Any]:
        while True:
            page = self._pages.get()
            if page is None:
                self._pages.put(None)
                failure = self._failure()
                if failure is not None:
                    raise failure
                return
            self._room.release()
            yield from page


def print_lines(page: bytes) -> None:
    """Prints the lines of a page to the driver's console."""
    lines: list[str] = pickle.loads(page)
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
