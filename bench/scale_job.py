"""The jobs of the benchmark `scale`, each in a process of its own, since the task slots are those of a Spark application.

scale_job count SLOTS SIZE SIZE     the running count of both sizes on so many slots
scale_job driver SLOTS SECONDS      the processor time of the driver of so many slots that have nothing to do
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from bench import jobs
from bench.timing import MeasurementError
from flintstream.common import WatermarkStrategy
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

_ENDLESS = 10**12
_WARM_UP_EPOCHS = 5
_EPOCH_SECONDS = 1.0
_START_SECONDS = 300.0


def main() -> None:
    """Prints a line of JSON."""
    kind, slots, *rest = sys.argv[1:]
    found = _count(int(slots), *map(int, rest)) if kind == "count" else _driver(int(slots), float(rest[0]))
    print(json.dumps(found), flush=True)


def _count(slots: int, *sizes: int) -> dict[str, Any]:
    def run(records: int) -> tuple[int, float]:
        timing = jobs.run_process_count(records, jobs.environment(slots, spark__master=f"local[{slots}]"))
        return timing.records, timing.seconds

    run(max(sizes) // 4)  # Starts Spark, and is not counted.
    return {"timings": list(map(run, sizes))}


def _driver(slots: int, seconds: float) -> dict[str, Any]:
    """In epochs, which take the driver more than barriers do. So many slots on few cores do not get through an epoch in a
    second: what the driver takes is counted as if they did.
    """
    env = jobs.environment(slots, flint__transport="epochs")
    numbers = DataGeneratorSource(lambda index: index, _ENDLESS, RateLimiterStrategy.per_second(slots))
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.key_by(lambda number: number).filter(lambda number: False).print()
    job: Any = env.execute_async("idle slots")
    try:
        progress = job.master.progress
        _wait_for(job, _WARM_UP_EPOCHS)
        first, began, used = len(progress.epochs), time.perf_counter(), time.process_time()
        time.sleep(seconds)
        took, spent, epochs = time.perf_counter() - began, time.process_time() - used, len(progress.epochs) - first
        return {"cores": spent / min(took, epochs * _EPOCH_SECONDS), "seconds": took, "epochs": epochs}
    finally:
        job.cancel().result(_START_SECONDS)


def _wait_for(job: Any, epochs: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while len(job.master.progress.epochs) < epochs:
        if job.master.result.done():
            raise MeasurementError(f"the job has ended before {epochs} epochs: {job.master.result.exception()}")
        if time.monotonic() > deadline:
            raise MeasurementError(f"{epochs} epochs have not ended after {_START_SECONDS:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
