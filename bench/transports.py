"""transports: jobs at full load, pipelined and in epochs, in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.report import Result, Row
from bench.timing import MeasurementError, Timing, slope

TRANSPORTS = ("epochs", "pipelined")
LEAST_OF_EPOCHS = 0.9
_ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_SECONDS = 900.0


def run(quick: bool) -> Result:
    """Each turn of a transport in a process of its own, since its settings are those of a Spark application."""
    sizes = (1_000_000, 3_000_000) if quick else (4_000_000, 16_000_000)
    timings: dict[str, dict[str, list[Timing]]] = {transport: {} for transport in TRANSPORTS}
    for _ in range(1 if quick else 3):
        for transport in TRANSPORTS:
            for job, found in _jobs(transport, *sizes).items():
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


def _jobs(transport: str, *sizes: int) -> dict[str, Any]:
    """Returns what `transports_jobs` prints."""
    command = [sys.executable, "-m", "bench.transports_jobs", *map(str, sizes)]
    environment = {**os.environ, "FLINT_TRANSPORT": transport}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        raise MeasurementError(
            f"{' '.join(command)} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-4000:]}"
        )
    timings: dict[str, Any] = json.loads(lines[0])
    return timings
