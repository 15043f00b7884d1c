"""transports: jobs at full load, pipelined and in epochs, in turns."""

from __future__ import annotations

from bench.child import run_child
from bench.report import Result, Row
from bench.timing import Timing, slope

TRANSPORTS = ("epochs", "pipelined")
LEAST_OF_EPOCHS = 0.9


def run(quick: bool) -> Result:
    """Each turn of a transport in a process of its own, since its settings are those of a Spark application."""
    sizes = (1_000_000, 3_000_000) if quick else (4_000_000, 16_000_000)
    timings: dict[str, dict[str, list[Timing]]] = {transport: {} for transport in TRANSPORTS}
    for _ in range(1 if quick else 3):
        for transport in TRANSPORTS:
            for job, found in run_child("bench.transports_jobs", *sizes, FLINT_TRANSPORT=transport).items():
                timings[transport].setdefault(job, []).extend(Timing(*each) for each in found)
    rows = []
    for job, in_epochs in timings["epochs"].items():
        rates = slope(in_epochs), slope(timings["pipelined"][job])
        rows.append(Row(f"{job}, in epochs", rates[0]))
        rows.append(Row(f"{job}, pipelined", rates[1], ratio=rates[1] / rates[0], least_ratio=LEAST_OF_EPOCHS))
    details = {
        transport: {job: [(each.records, each.seconds) for each in found] for job, found in jobs.items()}
        for transport, jobs in timings.items()
    }
    return Result("transports", "Jobs at full load, pipelined and in epochs, parallelism 2", rows, details)
