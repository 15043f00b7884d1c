"""timers: each record moves the timeout of its key, so one timer is deleted and one registered a record."""

from __future__ import annotations

import time
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from bench.functions import KEYS, MANY_KEYS, STRIDE
from bench.jobs import PARALLELISM, environment
from bench.peers import run_peer
from bench.report import Result, Row
from bench.timing import Timing, slope
from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, RuntimeContext
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.batch import Batch
from flintstream.testing import OneInputOperatorHarness

LEAST_OF_BARE = 0.4
BATCH = 8192


class Timeout(KeyedProcessFunction):
    """A key that is not seen for `2 * keys` milliseconds times out; one of a thousand says so."""

    def __init__(self, keys: int) -> None:
        self._delay = 2 * keys

    def open(self, runtime_context: RuntimeContext) -> None:
        self._due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        before = self._due.value()
        if before is not None:
            timers.delete_event_time_timer(before)
        timestamp = ctx.timestamp()
        assert timestamp is not None
        due = timestamp + self._delay
        timers.register_event_time_timer(due)
        self._due.update(due)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[int]:
        self._due.clear()
        key = ctx.get_current_key()
        if key % 1000 == 0:
            yield key


class KeyOf:
    """The key of a number."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def __call__(self, number: int) -> int:
        return number * STRIDE % self._keys


def run(quick: bool) -> Result:
    """The job beside the bare loop with `heapq`, and the operator alone with few and with many live timers."""
    rows = []
    for keys, work in ((KEYS, "timeouts"), (MANY_KEYS, "many timeouts")):
        sizes = (2 * MANY_KEYS, 4 * MANY_KEYS) if quick else (4 * MANY_KEYS, 16 * MANY_KEYS)
        ours: list[Timing] = []
        bare: list[Timing] = []
        run_job(keys, MANY_KEYS)
        for _ in range(1 if quick else 3):
            ours += [run_job(keys, size) for size in sizes]
            bare += run_peer("bare", sizes, 1, "--work", work, "--processes", str(PARALLELISM))
        rate, limit = slope(ours), slope(bare)
        rows.append(Row(f"Flintstream, {keys:,} live timers", rate))
        rows.append(Row("bare loop with heapq, 2 processes", limit, ratio=rate / limit, least_ratio=LEAST_OF_BARE))
    few, many = (_operator_micros(keys, 1 if quick else 3) for keys in (KEYS, MANY_KEYS))
    rows.append(Row(f"the operator alone, {KEYS:,} live timers", few, "µs"))
    rows.append(Row(f"the operator alone, {MANY_KEYS:,} live timers", many, "µs", note=f"{many / few:.2f} times"))
    everything, changes = _checkpoint_bytes(MANY_KEYS)
    rows.append(Row(f"a first checkpoint, {MANY_KEYS:,} live timers", everything / 1e6, "MB"))
    # A timer that is moved is deleted and registered.
    most = 0.025 * everything / 1e6
    rows.append(Row("the next one, with 1 % of them moved", changes / 1e6, "MB", most=most))
    return Result("timers", "One timer deleted and one registered a record, parallelism 2", rows)


def run_job(keys: int, records: int) -> Timing:
    """The whole job."""
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Clock(records // PARALLELISM))
    numbers = env.from_source(NumberSequenceSource(0, records - 1), strategy, "numbers")
    started = time.perf_counter()
    with numbers.key_by(KeyOf(keys)).process(Timeout(keys)).execute_and_collect("timers") as iterator:
        found = sorted(iterator)
    seconds = time.perf_counter() - started
    if found != list(range(0, keys, 1000)):
        raise AssertionError(f"{len(found)} keys have timed out, not {keys // 1000}")
    return Timing(records, seconds)


class Clock:
    """The time of a number: each subtask reads one part of the numbers, and the parts run side by side."""

    def __init__(self, part: int) -> None:
        self._part = part

    def __call__(self, number: int, _: int) -> int:
        return number % self._part


def _operator_micros(keys: int, repeat: int) -> float:
    """Microseconds a record in the operator, once every key has its timer."""
    best = float("inf")
    for _ in range(repeat):
        with OneInputOperatorHarness(Timeout(keys), KeyOf(keys)) as harness:
            harness.process_elements(range(keys), range(keys))
            best = min(best, _timed(harness, keys))
    return best


class Moved(KeyedProcessFunction):
    """Each record `(key, before, after)` moves a timer of its key."""

    def process_element(self, value: tuple[int, int, int], ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().delete_event_time_timer(value[1])
        ctx.timer_service().register_event_time_timer(value[2])


def _checkpoint_bytes(keys: int) -> tuple[int, int]:
    """The bytes of a checkpoint with a timer for each key, and of the next one after one in a hundred was moved."""
    found = []
    with OneInputOperatorHarness(Moved(), itemgetter(0)) as harness:
        harness.process_elements([(key, 0, 1 + key) for key in range(keys)], [0] * keys)
        for checkpoint_id in (1, 2):
            found.append(harness.snapshot(checkpoint_id).keyed_size)
            harness.notify_checkpoint_complete(checkpoint_id)
            moved = [(key, 1 + key, 1 + keys + key) for key in range(0, keys, 100)]
            harness.process_elements(moved, [0] * len(moved))
    return found[0], found[1]


def _timed(harness: Any, keys: int) -> float:
    records = 200_000
    spent = 0.0
    key_of = KeyOf(keys)
    for start in range(keys, keys + records, BATCH):
        numbers = list(range(start, start + BATCH))
        batch = Batch(numbers, numbers, list(map(key_of, numbers)))
        started = time.perf_counter()
        harness.process_batch(batch)
        harness.process_watermark(start)
        spent += time.perf_counter() - started
    return spent / records * 1e6
