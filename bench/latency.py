"""latency: how long a record takes from source to sink, and how late a processing-time timer fires.

2,000 records a second, checkpoints every second. The same program runs pipelined, in epochs and by PyFlink, and beside it a
query in Spark's micro-batches, in one run. A ratio says how many times lower the pipelined job with one exchange is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.keyed_count import PYFLINK_VARIABLE
from bench.latencies import RATE, Arrived, Latencies, Sent, age, steady
from bench.peers import NEEDS_PROTOBUF, has_protobuf, run_latency_peer
from bench.report import Result, Row
from flintstream.common import Configuration
from flintstream.datastream import KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment

SECONDS, QUICK_SECONDS = 40, 12
WARM_UP_SECONDS, QUICK_WARM_UP_SECONDS = 10, 6
TIMER_MILLISECONDS = 50
_TARGETS = {1: (10, 100), 2: (20, 150)}
"""By the number of exchanges: the most milliseconds, median and 99 of 100."""


class Steady(SourceFunction):
    """Emits RATE records a second."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._running = True

    def run(self, ctx: Any) -> None:
        for record in islice(steady(), RATE * self._seconds):
            if not self._running:
                return
            ctx.collect(record)

    def cancel(self) -> None:
        self._running = False


class PassOn(KeyedProcessFunction):
    """Emits each record."""

    def process_element(self, value: Sent, ctx: KeyedProcessFunction.Context) -> Iterable[Sent]:
        yield value


class Remind(KeyedProcessFunction):
    """Registers a timer for each record, and says how late it fires."""

    def process_element(self, value: Sent, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + TIMER_MILLISECONDS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Arrived]:
        yield age((0, timestamp / 1000))


def run(quick: bool) -> Result:
    """Runs the pipelined jobs, then the one in epochs, then the peers."""
    seconds, warm_up = (QUICK_SECONDS, QUICK_WARM_UP_SECONDS) if quick else (SECONDS, WARM_UP_SECONDS)
    rows = []
    pipelined = {exchanges: _latencies("pipelined", exchanges, seconds, warm_up) for exchanges in _TARGETS}
    for exchanges, (most, most_of_99) in _TARGETS.items():
        what, taken = f"pipelined, {exchanges} exchange{'s' * (exchanges > 1)}", pipelined[exchanges]
        rows += [
            Row(f"{what}, median", taken.median, "ms", most=most),
            Row(f"{what}, 99 of 100 below", taken.most_of_99, "ms", most=most_of_99),
        ]
    timers = _timer_latencies(seconds, warm_up)
    rows.append(Row("a processing-time timer, pipelined, median", timers.median, "ms", most=20))
    ours = pipelined[1]
    rows += compared("epochs, 1 exchange", _latencies("epochs", 1, seconds, warm_up), ours)
    rows += [*_against_micro_batches(seconds, warm_up, ours), *_against_pyflink(seconds, warm_up, ours)]
    return Result("latency", f"From source to sink, {RATE:,} records a second, a checkpoint each second", rows)


def compared(what: str, theirs: Latencies, ours: Latencies) -> list[Row]:
    """The rows of another side; the ratios say how many times lower ours are."""
    return [
        Row(f"{what}, median", theirs.median, "ms", ratio=theirs.median / ours.median),
        Row(f"{what}, 99 of 100 below", theirs.most_of_99, "ms", ratio=theirs.most_of_99 / ours.most_of_99),
    ]


def _against_micro_batches(seconds: int, warm_up: int, ours: Latencies) -> list[Row]:
    what = "Spark's micro-batches, transformWithState"
    if not has_protobuf():
        return [Row(what, None, note=NEEDS_PROTOBUF)]
    return compared(what, run_latency_peer("spark_latency", seconds, warm_up), ours)


def _against_pyflink(seconds: int, warm_up: int, ours: Latencies) -> list[Row]:
    python = os.environ.get(PYFLINK_VARIABLE)
    if not python:
        return [Row("PyFlink", None, note=f"not run: {PYFLINK_VARIABLE} is not set")]
    theirs = run_latency_peer("pyflink_latency", seconds, warm_up, python)
    return compared("PyFlink, bundles of 10 ms", theirs, ours)


def _environment(transport: str, directory: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("flint.transport", transport)
    configuration.set_string("execution.checkpointing.interval", "1 s")
    configuration.set_string("execution.checkpointing.dir", Path(directory).as_uri())
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def _latencies(transport: str, exchanges: int, seconds: int, warm_up: int) -> Latencies:
    with TemporaryDirectory(prefix="flint-bench-") as directory:
        stream = _environment(transport, directory).add_source(Steady(seconds))
        for _ in range(exchanges):
            stream = stream.key_by(lambda record: record[0]).process(PassOn())
        return _collect(stream.map(age), warm_up)


def _timer_latencies(seconds: int, warm_up: int) -> Latencies:
    with TemporaryDirectory(prefix="flint-bench-") as directory:
        stream = _environment("pipelined", directory).add_source(Steady(seconds))
        return _collect(stream.key_by(lambda record: record[0]).process(Remind()), warm_up)


def _collect(stream: Any, warm_up: int) -> Latencies:
    with stream.execute_and_collect() as results:
        return Latencies.of(results, warm_up)
