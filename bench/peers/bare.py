"""The limit: the same user functions, called from a loop, with a dict for the state and nothing else."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Any

from bench.functions import (
    KEYS,
    MANY_KEYS,
    PATTERN_MILLIS,
    STRIDE,
    WINDOW_MILLIS,
    CountRecords,
    Event,
    IsCount,
    IsSomeCount,
    Pair,
    add,
    add_one,
    double,
    hour_of,
    is_a,
    is_b,
    is_rare,
    key_of,
    minus_seven,
    moment_of,
    not_third,
    to_event,
    to_one_of_many,
    to_pair,
    user_of,
)
from bench.peers import arguments, report
from bench.timing import Timing


class RunningCount:
    """The process function of the benchmark, with its state in a dict."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def process_element(self, value: Pair, key: int) -> Iterator[Pair]:
        count = self.counts.get(key, 0) + value[1]
        self.counts[key] = count
        yield value[0], count


def process_count(first: int, last: int) -> int:
    """The running count by a process function."""
    process, is_last = RunningCount().process_element, IsCount((last - first) // KEYS)
    results = []
    for number in range(first, last):
        pair = to_pair(number)
        for result in process(pair, key_of(pair)):
            if is_last(result):
                results.append(result)  # noqa: PERF401 - a loop is what is measured
    assert len(results) == KEYS
    return len(results)


def many_keys_count(first: int, last: int) -> int:
    """The running count of many keys by a process function."""
    process, is_last = RunningCount().process_element, IsSomeCount((last - first) // MANY_KEYS)
    results = []
    for number in range(first, last):
        pair = to_one_of_many(number)
        for result in process(pair, key_of(pair)):
            if is_last(result):
                results.append(result)  # noqa: PERF401 - a loop is what is measured
    assert len(results) == MANY_KEYS // 1000
    return len(results)


def reduce_count(first: int, last: int) -> int:
    """The running count by a reduce function."""
    counts: dict[int, Pair] = {}
    is_last = IsCount((last - first) // KEYS)
    results = []
    for number in range(first, last):
        pair = to_pair(number)
        key = key_of(pair)
        previous = counts.get(key)
        if previous is not None:
            pair = add(previous, pair)
        counts[key] = pair
        if is_last(pair):
            results.append(pair)
    assert len(results) == KEYS
    return len(results)


def chain(first: int, last: int) -> int:
    """Five maps and filters."""
    results = []
    for number in range(first, last):
        value = add_one(number)
        if not_third(value):
            value = minus_seven(double(value))
            if is_rare(value):
                results.append(value)
    return len(results)


def timeouts(keys: int, first: int, last: int) -> int:
    """Each record moves the timeout of its key; the timer that was set before no longer counts."""
    due: dict[int, int] = {}
    heap: list[tuple[int, int]] = []
    fired = 0
    for number in range(first, last):
        key = number * STRIDE % keys
        at = number + 2 * keys
        due[key] = at
        heappush(heap, (at, key))
        while heap[0][0] < number:
            at, key = heappop(heap)
            if due.get(key) == at:
                fired += 1
                del due[key]
    while heap:
        at, key = heappop(heap)
        if due.get(key) == at:
            fired += 1
            del due[key]
    assert fired == keys
    return fired


def windows(first: int, last: int) -> int:
    """The count by the hour: a dict of counts for each window, which fires when time passes its end."""
    function = CountRecords()
    add, create, result = function.add, function.create_accumulator, function.get_result
    open_windows: dict[int, dict[int, int]] = {}
    counted = 0
    ends = 0
    for number in range(first, last):
        pair, timestamp = to_pair(number), hour_of(number)
        if timestamp >= ends:
            for start in [start for start in open_windows if start + WINDOW_MILLIS <= timestamp]:
                counted += sum(result(count) for key, count in open_windows.pop(start).items() if key % 1000 == 0)
            ends = timestamp - timestamp % WINDOW_MILLIS + WINDOW_MILLIS
        start = timestamp - timestamp % WINDOW_MILLIS
        counts = open_windows.get(start)
        if counts is None:
            counts = open_windows[start] = {}
        key = key_of(pair)
        counts[key] = add(pair, counts[key] if key in counts else create())
    for counts in open_windows.values():
        counted += sum(result(count) for key, count in counts.items() if key % 1000 == 0)
    assert counted == (last - first) // 1000
    return counted


def pattern(first: int, last: int) -> int:
    """`a next b within 10 s`: the event of each key that has begun a match, and nothing else."""
    begun: dict[int, tuple[int, Event]] = {}
    found = []
    for number in range(first, last):
        event, timestamp = to_event(number), moment_of(number)
        key = user_of(event)
        before = begun.pop(key, None)
        if before is not None and timestamp - before[0] < PATTERN_MILLIS and is_b(event) and key % 1000 == 0:
            found.append((before[1], event))
        if is_a(event):
            begun[key] = timestamp, event
    return len(found)


Work = Callable[[int, int], int]
WORK: dict[str, Work] = {
    "process": process_count,
    "reduce": reduce_count,
    "chain": chain,
    "many keys": many_keys_count,
    "timeouts": partial(timeouts, KEYS),
    "many timeouts": partial(timeouts, MANY_KEYS),
    "windows": windows,
    "pattern": pattern,
}


def run(work: Work, processes: int, records: int) -> Timing:
    """Shares the records among processes that start together, and waits for the last."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes)
    spans: Any = context.SimpleQueue()

    def part(index: int) -> None:
        first, last = records * index // processes, records * (index + 1) // processes
        barrier.wait()
        started = time.monotonic()
        work(first, last)
        spans.put((started, time.monotonic()))

    workers = [context.Process(target=part, args=(index,)) for index in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a process of the bare loop failed ({worker.exitcode})")
    times = [spans.get() for _ in workers]
    return Timing(records, max(ended for _, ended in times) - min(started for started, _ in times))


if __name__ == "__main__":
    given = arguments(work=tuple(WORK), processes=("1", "2"))
    report(partial(run, WORK[given.work], int(given.processes)), given)
