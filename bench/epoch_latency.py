"""epoch_latency: how long an epoch of 1,000 records takes through two levels, and where that time goes."""

from __future__ import annotations

import statistics
from dataclasses import asdict

from bench.bursts import BurstSource
from bench.epoch_trace import EpochTrace, traced_epochs
from bench.functions import key_of, to_pair
from bench.jobs import RunningCount, environment
from bench.report import Result, Row
from flintstream.common import WatermarkStrategy

MOST_MILLISECONDS = 400
RECORDS = 1_000
WARM_UP = 20
EPOCHS = 60
QUICK_EPOCHS = 20


def run(quick: bool) -> Result:
    """Runs the epochs back to back, and takes medians behind the first ones, in which the JVM warms up."""
    epochs = QUICK_EPOCHS if quick else EPOCHS
    traces = [trace for trace in _run_job(WARM_UP + epochs) if trace.records == RECORDS]
    cold, warm = traces[:WARM_UP], traces[WARM_UP:]
    if len(warm) < QUICK_EPOCHS - 1:
        raise AssertionError(f"{len(warm)} epochs of {RECORDS} records behind the first {WARM_UP}: too few")
    seconds = sorted(trace.seconds for trace in warm)
    rows = [
        Row("an epoch, median", _milliseconds(statistics.median(seconds)), "ms", most=MOST_MILLISECONDS),
        Row("an epoch, 95 of 100 below", _milliseconds(seconds[int(len(seconds) * 0.95)]), "ms"),
        Row(f"an epoch, median of the first {len(cold)}", _median(cold, "seconds"), "ms"),
        *(Row(f"· {label}", _median(warm, part), "ms") for part, label in EpochTrace.PARTS.items()),
    ]
    title = f"An epoch of {RECORDS:,} records through two levels, {len(warm)} epochs"
    return Result("epoch_latency", title, rows, {"epochs": [asdict(trace) for trace in traces]})


def _run_job(epochs: int) -> list[EpochTrace]:
    env = environment()
    env.set_parallelism(2)
    counts = (
        env.from_source(BurstSource(RECORDS, epochs), WatermarkStrategy.no_watermarks(), "bursts")
        .map(to_pair)
        .key_by(key_of)
        .process(RunningCount())
    )
    counts.filter(lambda pair: pair[1] < 0).print()
    with traced_epochs() as finish:
        client = env.execute_async("epoch latency")
        client.get_job_execution_result().result()
        return finish(client)


def _median(traces: list[EpochTrace], part: str) -> float:
    return _milliseconds(statistics.median(getattr(trace, part) for trace in traces))


def _milliseconds(seconds: float) -> float:
    return seconds * 1000
