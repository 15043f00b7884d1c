"""memory: how much each process takes while many records pass, and whether that grows from epoch to epoch."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterable
from typing import Any

import psutil

from bench.functions import KEYS, IsCount
from bench.jobs import PARALLELISM, RunningCount, environment, keyed_pairs
from bench.report import Result, Row
from flintstream.jobmaster.job_master import JobMaster

RECORDS = 60_000_000
QUICK_RECORDS = 2_000_000
MOST_MEGABYTES = 600
MOST_GROWTH_PERCENT = 5
_MEGABYTE = 1024 * 1024
_SAMPLE_SECONDS = 0.25
_LABELS = {
    "driver": "driver (Python)",
    "jvm": "Spark's JVM",
    "slot": "largest slot",
    "worker": "largest Python worker of Spark",
}


def run(quick: bool) -> Result:
    """Runs a keyed job, and samples all processes that belong to it."""
    records = QUICK_RECORDS if quick else RECORDS
    # Longer epochs would be too few to see whether memory grows.
    env = environment(PARALLELISM, **{"flint__epoch__target-duration": "1 s"})
    counts = keyed_pairs(env, records).process(RunningCount()).filter(IsCount(records // KEYS))
    with counts.execute_and_collect("memory") as results, Sampler(results.get_job_client()) as sampler:
        found = sum(1 for _ in results)
        master: JobMaster = results.get_job_client().master
        epochs = master.progress.epochs
    if found != KEYS:
        raise AssertionError(f"{found} keys reached their count, not {KEYS}")
    slots = [max(epoch.memory) for epoch in epochs if epoch.memory]
    rows = [
        Row(label, sampler.peaks.get(kind, 0) / _MEGABYTE, "MB", most=MOST_MEGABYTES) for kind, label in _LABELS.items()
    ]
    rows.append(Row("all processes together", sampler.peak_sum / _MEGABYTE, "MB"))
    rows.append(
        Row(
            "growth of the slots, last quarter against second",
            growth_percent(slots),
            "%",
            most=MOST_GROWTH_PERCENT,
            note=f"{len(slots)} epochs",
        )
    )
    details = {"slot_bytes_by_epoch": slots, "samples": sampler.samples}
    return Result("memory", f"Memory while {records:,} records pass, 10,000 keys", rows, details)


def growth_percent(values: list[int]) -> float | None:
    """How much the median of the last quarter lies above that of the second; None for too few values."""
    quarter = len(values) // 4
    if quarter < 2:
        return None
    second, last = values[quarter : 2 * quarter], values[-quarter:]
    return (statistics.median(last) / statistics.median(second) - 1) * 100


class Sampler:
    """Looks at the resident memory of this process, of what it has started, and of the job's slots."""

    def __init__(self, client: Any) -> None:
        self._master: JobMaster = client.master
        self._own = psutil.Process()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample_all, daemon=True)
        self.peaks: dict[str, int] = {}
        self.peak_sum = 0
        self.samples = 0

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _sample_all(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            total = 0
            for kind, resident in self._sample():
                self.peaks[kind] = max(self.peaks.get(kind, 0), resident)
                total += resident
            self.peak_sum = max(self.peak_sum, total)
            self.samples += 1

    def _sample(self) -> Iterable[tuple[str, int]]:
        attempt = self._master.attempt
        pool = None if attempt is None else attempt.pool
        slots = {handle.pid for handle in pool.handles} if pool is not None else set()
        yield "driver", self._own.memory_info().rss
        started = {process.pid: process for process in self._own.children(recursive=True)}
        for pid in slots - started.keys():
            try:
                started[pid] = psutil.Process(pid)
            except psutil.NoSuchProcess:
                continue
        for pid, process in started.items():
            try:
                name, resident = process.name(), process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            if pid in slots:
                yield "slot", resident
            elif name.startswith("java"):
                yield "jvm", resident
            elif name.startswith("python"):
                yield "worker", resident
