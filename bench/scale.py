"""scale: the running count on 1, 2, 4 and 8 slots, and what a driver with 64 slots that have next to nothing to do takes."""

from __future__ import annotations

import os

from bench.child import run_child
from bench.report import Result, Row
from bench.timing import Timing, slope

SLOTS = (1, 2, 4, 8)
IDLE_SLOTS = 64
MOST_DRIVER_CORES = 0.1
_JOB = "bench.scale_job"


def run(quick: bool) -> Result:
    """Each number of slots in a process of its own, in turns, and then the driver of many."""
    sizes = (500_000, 3_000_000) if quick else (4_000_000, 16_000_000)
    timings: dict[int, list[Timing]] = {slots: [] for slots in SLOTS}
    for _ in range(1 if quick else 2):
        for slots in SLOTS:
            found = run_child(_JOB, "count", slots, *sizes)["timings"]
            timings[slots] += [Timing(*each) for each in found]
    rates = {slots: slope(found) for slots, found in timings.items()}
    rows = [
        Row(
            f"{slots} slot{'s'[: slots > 1]} on as many task slots",
            rate,
            note="" if slots == 1 else f"{rate / rates[1]:.1f} times one",
        )
        for slots, rate in rates.items()
    ]
    driver = run_child(_JOB, "driver", IDLE_SLOTS, 10 if quick else 30)
    rows.append(
        Row(
            f"the driver of {IDLE_SLOTS} slots that have a record a second each, at an epoch a second",
            driver["cores"],
            "cores",
            most=MOST_DRIVER_CORES,
            note=f"measured: {driver['epochs']} epochs in {driver['seconds']:.0f} s",
        )
    )
    title = f"Running count of 10,000 keys by parallelism, {os.cpu_count()} cores"
    details = {"timings": {str(slots): [(t.records, t.seconds) for t in found] for slots, found in timings.items()}}
    return Result("scale", title, rows, details)
