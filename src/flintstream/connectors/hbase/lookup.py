"""Looks rows of a table up, many at a time, and remembers them for a while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Row = dict[str, bytes]
MOST_KEYS = 1000
"""The most rows of a request."""


class RowCache:
    """The rows that were looked up last, each for a limited time; also that a row does not exist."""

    def __init__(self, max_rows: int, ttl_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_rows = max_rows
        self._seconds = ttl_ms / 1000
        self._clock = clock
        self._rows: OrderedDict[bytes, tuple[float, Row]] = OrderedDict()

    def get(self, key: bytes) -> Row | None:
        """Returns a row; None if it is not known."""
        found = self._rows.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            del self._rows[key]
            return None
        self._rows.move_to_end(key)
        return found[1]

    def put(self, key: bytes, row: Row) -> None:
        """Remembers a row, and forgets the one that was not asked for the longest if there are too many."""
        if self._max_rows:
            self._rows[key] = self._clock() + self._seconds, row
            self._rows.move_to_end(key)
            if len(self._rows) > self._max_rows:
                self._rows.popitem(last=False)


class RowLookup:
    """Looks rows up by one request at a time: keys that come meanwhile go together in the next one.

    Everything but `fetch` runs on the event loop.

    :param fetch: returns those of the given keys' rows that exist; called in a thread of its own.
    """

    def __init__(self, fetch: Callable[[list[bytes]], dict[bytes, Row]], cache: RowCache) -> None:
        self._fetch = fetch
        self._cache = cache
        self._thread = ThreadPoolExecutor(1, "looks up rows")
        self._waiting: dict[bytes, asyncio.Future[Row]] = {}
        self._fetching: asyncio.Task[None] | None = None

    async def get(self, key: bytes) -> Row:
        """Returns a row; an empty one if it does not exist."""
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        future = self._waiting.get(key)
        if future is None:
            loop = asyncio.get_running_loop()
            future = self._waiting[key] = loop.create_future()
            future.add_done_callback(_seen)
            if self._fetching is None:
                self._fetching = loop.create_task(self._fetch_all())
        return await asyncio.shield(future)  # Others may wait for the same row.

    def close(self) -> None:
        """Waits for nothing: a request in flight ends by its timeout."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _fetch_all(self) -> None:
        try:
            while self._waiting:
                keys = list(self._waiting)[:MOST_KEYS]
                await self._fetch_some({key: self._waiting.pop(key) for key in keys})
        finally:
            self._fetching = None

    async def _fetch_some(self, asked: dict[bytes, asyncio.Future[Row]]) -> None:
        try:
            rows = await asyncio.get_running_loop().run_in_executor(self._thread, self._fetch, list(asked))
        except BaseException as error:
            for future in asked.values():
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
            return
        for key, future in asked.items():
            row = rows.get(key, {})
            self._cache.put(key, row)
            if not future.done():
                future.set_result(row)


def _fail(future: asyncio.Future[Row], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.cancel()


def _seen(future: asyncio.Future[Any]) -> None:
    """Whoever waited for the row may be gone: an error that nobody sees is no reason for a line in the log."""
    if not future.cancelled():
        future.exception()
