"""The count by the hour by PyFlink; runs in an interpreter that has it (FLINT_BENCH_PYFLINK)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import TumblingEventTimeWindows

from bench.functions import WINDOW_MILLIS, CountRecords, Pair, hour_of, key_of, to_pair
from bench.peers import arguments, report
from bench.peers.pyflink_environment import environment
from bench.timing import Timing

_PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class ByNumber(TimestampAssigner):
    """The timestamp of a number."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return hour_of(value)


class Count(CountRecords, AggregateFunction):
    """The same function as Flintstream's."""


class SomeKeys(ProcessWindowFunction):
    """The same function as Flintstream's."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterable[Pair]:
        return [(key, count) for count in elements] if key % 1000 == 0 else []


def run(records: int) -> Timing:
    """Counts so many records."""
    env = environment()
    numbers = env.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    )
    counts = (
        numbers.map(to_pair, _PAIR)
        .key_by(key_of, Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
        .aggregate(Count(), SomeKeys(), Types.LONG(), _PAIR)
    )
    started = time.perf_counter()
    with counts.execute_and_collect("windows") as results:
        counted = sum(count for _, count in results)
    seconds = time.perf_counter() - started
    if counted != records // 1000:
        raise AssertionError(f"{counted} records were counted, not {records // 1000}")
    return Timing(records, seconds)


if __name__ == "__main__":
    given = arguments()
    report(run, given)
