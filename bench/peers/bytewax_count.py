"""The running count by Bytewax; runs in an interpreter that has it (FLINT_BENCH_BYTEWAX)."""

from __future__ import annotations

import time
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, run_main

from bench.functions import KEYS, IsCount, Pair, to_pair
from bench.peers import arguments, report
from bench.timing import Timing

_BATCH = 1000


class _NumbersPartition(StatelessSourcePartition[int]):
    def __init__(self, first: int, last: int) -> None:
        self._next = first
        self._last = last

    def next_batch(self) -> list[int]:
        if self._next >= self._last:
            raise StopIteration
        batch = list(range(self._next, min(self._next + _BATCH, self._last)))
        self._next += len(batch)
        return batch


class Numbers(DynamicSource[int]):
    """The numbers from 0, shared among the workers."""

    def __init__(self, records: int) -> None:
        self._records = records

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _NumbersPartition:
        first, last = (self._records * index // worker_count for index in (worker_index, worker_index + 1))
        return _NumbersPartition(first, last)


def keyed(number: int) -> tuple[str, Pair]:
    """Bytewax wants strings as keys."""
    pair = to_pair(number)
    return str(pair[0]), pair


def count(state: int | None, pair: Pair) -> tuple[int, Pair]:
    """The state and the result after a record."""
    new = (state or 0) + pair[1]
    return new, (pair[0], new)


def run(records: int) -> Timing:
    """Counts so many records in one worker."""
    results: list[Any] = []
    last = IsCount(records // KEYS)
    flow = Dataflow("count")
    numbers = op.input("numbers", flow, Numbers(records))
    counts = op.stateful_map("count", op.map("pair", numbers, keyed), count)
    op.output("out", op.filter("last", counts, lambda item: last(item[1])), TestingSink(results))
    started = time.perf_counter()
    run_main(flow)
    seconds = time.perf_counter() - started
    if len(results) != KEYS:
        raise AssertionError(f"{len(results)} keys reached their count, not {KEYS}")
    return Timing(records, seconds)


if __name__ == "__main__":
    report(run, arguments())
