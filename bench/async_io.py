"""async_io: many requests under way in the asynchronous operator, against a bare asyncio loop with a semaphore."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable

from bench.report import Result, Row
from flintstream.common import Time
from flintstream.datastream import AsyncFunction
from flintstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flintstream.datastream.functions import AsyncFunctionDescriptor
from flintstream.testing import OneInputOperatorHarness

REQUESTS = 1_000
SECONDS = 0.01
CAPACITY = 100
EMPTY_REQUESTS = 50_000
"""Those that do not wait: what is left is the cost of the machinery."""
REPEAT = 5
MOST_MILLISECONDS = 400
MOST_MICROSECONDS = 30
_MODES = AsyncFunctionDescriptor.OutputMode


class Wait(AsyncFunction[int, int]):
    """A request that takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def async_invoke(self, value: int) -> list[int]:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return [value]


def run(quick: bool) -> Result:
    """All sides, in turn; medians."""
    empty = EMPTY_REQUESTS // 10 if quick else EMPTY_REQUESTS
    waiting: dict[str, list[float]] = {}
    machinery: dict[str, list[float]] = {}
    for _ in range(1 if quick else REPEAT):
        for name, side in _SIDES.items():
            waiting.setdefault(name, []).append(side(REQUESTS, SECONDS))
            machinery.setdefault(name, []).append(side(empty, 0))
    milliseconds = {name: statistics.median(times) * 1000 for name, times in waiting.items()}
    microseconds = {name: statistics.median(times) / empty * 1e6 for name, times in machinery.items()}
    bare = milliseconds["bare"]
    rows = [
        Row("ordered", milliseconds["ordered"], "ms", most=MOST_MILLISECONDS),
        Row("unordered", milliseconds["unordered"], "ms", most=MOST_MILLISECONDS),
        Row("bare asyncio, ordered against it", bare, "ms", ratio=milliseconds["ordered"] / bare),
        Row("bare asyncio, unordered against it", bare, "ms", ratio=milliseconds["unordered"] / bare),
        Row("a request that does not wait, ordered", microseconds["ordered"], "µs", most=MOST_MICROSECONDS),
        Row("a request that does not wait, unordered", microseconds["unordered"], "µs", most=MOST_MICROSECONDS),
        Row("bare asyncio, the same", microseconds["bare"], "µs"),
    ]
    title = f"{REQUESTS:,} requests of {SECONDS * 1000:.0f} ms, {CAPACITY} at a time, in one operator"
    return Result("async_io", title, rows, {"waiting": waiting, "machinery": machinery})


def _operator(mode: AsyncFunctionDescriptor.OutputMode, requests: int, seconds: float) -> float:
    described = AsyncFunctionDescriptor(Wait(seconds), Time.seconds(10), CAPACITY, NO_RETRY_STRATEGY, mode)
    with OneInputOperatorHarness(described) as harness:
        values = list(range(requests))
        started = time.perf_counter()
        harness.process_elements(values)
        harness.end_epoch()
        elapsed = time.perf_counter() - started
        if sorted(harness.output) != values:
            raise AssertionError(f"{len(harness.output)} results for {requests} requests")
    return elapsed


def _bare(requests: int, seconds: float) -> float:
    async def limited(room: asyncio.Semaphore, value: int) -> list[int]:
        async with room:
            return await wait.async_invoke(value)

    async def all_of_them() -> list[list[int]]:
        room = asyncio.Semaphore(CAPACITY)
        return await asyncio.gather(*(limited(room, value) for value in range(requests)))

    wait = Wait(seconds)
    started = time.perf_counter()
    results = asyncio.run(all_of_them())
    elapsed = time.perf_counter() - started
    if results != [[value] for value in range(requests)]:
        raise AssertionError(f"{len(results)} results for {requests} requests")
    return elapsed


_SIDES: dict[str, Callable[[int, float], float]] = {
    "ordered": lambda requests, seconds: _operator(_MODES.ORDERED, requests, seconds),
    "unordered": lambda requests, seconds: _operator(_MODES.UNORDERED, requests, seconds),
    "bare": _bare,
}
