"""windows: an event-time count of 10,000 keys by the hour, and by the hour every five minutes."""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Iterable
from typing import Any

from bench.functions import (
    KEYS,
    SLIDE_MILLIS,
    WINDOW_MILLIS,
    WINDOW_RECORDS,
    CountRecords,
    Pair,
    hour_of,
    key_of,
    to_pair,
)
from bench.jobs import environment
from bench.keyed_count import PYFLINK_VARIABLE
from bench.peers import run_peer
from bench.report import Result, Row
from bench.timing import Timing, slope
from flintstream.common import Time, WatermarkStrategy
from flintstream.datastream import AggregateFunction, ProcessWindowFunction
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.window import (
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flintstream.datastream.windowed_stream import window_operator
from flintstream.runtime.batch import Batch
from flintstream.runtime.windows.contents import AggregatedContents
from flintstream.runtime.windows.functions import PassOn
from flintstream.runtime.windows.spec import WindowSpec
from flintstream.testing import OneInputOperatorHarness

LEAST_OF_BARE = 0.4
LEAST_OF_PYFLINK = 50
MOST_TIMES_TUMBLING = 2.5


class Count(CountRecords, AggregateFunction):
    """The count of a window."""


class SomeKeys(ProcessWindowFunction[int, Pair, int, Any]):
    """Lets the counts of one key of a thousand through: collecting all would be a part of what is measured."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterable[Pair]:
        return [(key, count) for count in elements] if key % 1000 == 0 else ()


def run(quick: bool) -> Result:
    """All sides in turn."""
    sizes = (WINDOW_RECORDS, 2 * WINDOW_RECORDS) if quick else (4 * WINDOW_RECORDS, 16 * WINDOW_RECORDS)
    timings: dict[str, list[Timing]] = {"tumbling": [], "sliding": [], "shared": [], "bare": []}
    run_job(TUMBLING, 1, WINDOW_RECORDS)  # Starts Spark, and is not counted.
    for _ in range(1 if quick else 3):
        timings["tumbling"] += [run_job(TUMBLING, 1, size) for size in sizes]
        timings["sliding"] += [run_job(SLIDING, WINDOW_MILLIS // SLIDE_MILLIS, size) for size in sizes]
        timings["shared"] += [run_job(SLIDING, WINDOW_MILLIS // SLIDE_MILLIS, size, True) for size in sizes]
        timings["bare"] += run_peer("bare", sizes, 1, "--work", "windows", "--processes", "2")
    tumbling, sliding, shared, bare = (slope(timings[side]) for side in ("tumbling", "sliding", "shared", "bare"))
    rows = [
        Row("Flintstream, by the hour", tumbling),
        Row("bare loop with dicts, 2 processes", bare, ratio=tumbling / bare, least_ratio=LEAST_OF_BARE),
        Row("Flintstream, every five minutes", sliding),
        Row("cost against by the hour", tumbling / sliding, "times"),
        Row("Flintstream, every five minutes, mergeable", shared),
        Row("cost against by the hour", tumbling / shared, "times", most=MOST_TIMES_TUMBLING),
        *_peers(tumbling, quick),
        *_memory(),
    ]
    details = {side: [(timing.records, timing.seconds) for timing in runs] for side, runs in timings.items()}
    return Result("windows", "Event-time count of 10,000 keys in windows of an hour, parallelism 2", rows, details)


def _peers(ours: float, quick: bool) -> list[Row]:
    if quick:
        return [Row("PySpark groupBy(window).count(), PyFlink", None, note="not run by --quick")]
    spark = slope(run_peer("spark_windows", (WINDOW_RECORDS, 4 * WINDOW_RECORDS), 1))
    rows = [Row("PySpark groupBy(window).count(), a built-in", spark, ratio=ours / spark)]
    python = os.environ.get(PYFLINK_VARIABLE)
    if not python:
        return [*rows, Row("PyFlink", None, note=f"not run: {PYFLINK_VARIABLE} is not set")]
    theirs = slope(run_peer("pyflink_windows", (20_000, 80_000), 1, python=python))
    return [*rows, Row("PyFlink, process mode", theirs, ratio=ours / theirs, least_ratio=LEAST_OF_PYFLINK)]


def _memory() -> list[Row]:
    """What the operator holds: with one and with eight windows open, and with one after sixty have passed."""
    one, eight, later = (_held_bytes(*case) / 1024 for case in ((1, 0), (8, 0), (1, 60)))
    return [
        Row("held with one window open, 2,000 keys", one, "kB"),
        Row("held with eight windows open", eight, "kB", note=f"{eight / one:.1f} times"),
        Row("held with one window open, sixty have passed", later, "kB", note=f"{later / one:.1f} times"),
    ]


def _held_bytes(open_windows: int, passed: int) -> int:
    keys, records = 2_000, 5
    spec = WindowSpec(TUMBLING, EventTimeTrigger(), AggregatedContents(Count()), PassOn())
    with OneInputOperatorHarness(window_operator(spec), key_of) as harness:
        gc.collect()
        tracemalloc.start()
        for hour in range(passed + open_windows):
            if hour <= passed:
                harness.process_watermark(hour * WINDOW_MILLIS - 1)
                harness.clear_output()
            for _ in range(records):
                times = [hour * WINDOW_MILLIS] * keys
                harness.process_batch(Batch([(key, 1) for key in range(keys)], times, list(range(keys))))
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return held


TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS), Time.milliseconds(SLIDE_MILLIS))


def run_job(assigner: WindowAssigner[Any, Any], windows: int, records: int, mergeable: bool = False) -> Timing:
    """The whole job; each record must be counted once in each of its windows."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_time)
    numbers = environment().from_source(NumberSequenceSource(0, records - 1), strategy, "numbers")
    windowed = numbers.map(to_pair).key_by(key_of).window(assigner)
    counts = windowed.aggregate(Count(), SomeKeys(), mergeable=mergeable)
    started = time.perf_counter()
    with counts.execute_and_collect("windows") as iterator:
        results = list(iterator)
    seconds = time.perf_counter() - started
    expected = records // KEYS * (KEYS // 1000) * windows
    if sum(count for _, count in results) != expected:
        raise AssertionError(f"{sum(count for _, count in results)} records were counted, not {expected}")
    return Timing(records, seconds)


def _time(number: int, _: int) -> int:
    return hour_of(number)
