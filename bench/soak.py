"""A job that runs for a long time, watched from outside: `python -m bench.soak [MINUTES]`, or `make soak`.

Keyed state with reference cycles, windows, a file sink, a checkpoint every two seconds; in the last third of the time the
job fails again and again. Memory, descriptors, files and the duration of epochs must be flat. A consumer takes the files
of the sink away as they come, and counts: no record may be lost or doubled.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench.flatness import Growth, Limit, growth, without_warm_up
from flintstream.common import (
    Configuration,
    Duration,
    Encoder,
    Time,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.file_system import FileSink
from flintstream.datastream.functions import KeyedProcessFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows
from flintstream.jobmaster.job_master import JobMaster
from flintstream.spark.session import work_directory

MINUTES_VARIABLE = "FLINT_SOAK_MINUTES"
DEFAULT_MINUTES = 30.0
RECORDS_A_SECOND = 2000
KEYS = 500
SAMPLE_SECONDS = 2.0
QUIET_PART = 2 / 3
"""In this part of the time nothing fails: what slots keep can only be seen while they live."""
FAILURES = 5
WARM_UP = 0.25
_MEGABYTE = 1024 * 1024

MEMORY = Limit("MB", 0.08, 15)
DESCRIPTORS = Limit("", 0.05, 8)
FILES = Limit("", 0.2, 30)
SECONDS = Limit("s", 0.3, 0.2)
LIMITS = {
    "driver": MEMORY,
    "JVM": MEMORY,
    "slots": MEMORY,
    "Spark's workers": MEMORY,
    "descriptors, driver": DESCRIPTORS,
    "descriptors, JVM": DESCRIPTORS,
    "descriptors, slots": DESCRIPTORS,
    "threads, driver": DESCRIPTORS,
    "temporary files": FILES,
    "files of checkpoints": FILES,
    "epoch": SECONDS,
}
IN_THE_QUIET_PART = {"slots", "descriptors, slots", "Spark's workers", "epoch"}
"""What begins anew with each attempt, whose slots are started by workers that stay for a minute."""


class IndexAsTime(TimestampAssigner):
    """A record's number is its time: so many a second."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value) * 1000 // RECORDS_A_SECOND


class Cycles(KeyedProcessFunction):
    """Keeps a value with a reference cycle for each key, a new one for each record."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        node: dict[str, Any] = {"value": value, "content": bytes(500)}
        node["self"] = node
        self.last.update(node)
        yield value % KEYS, 1


class Fails(MapFunction):
    """Fails whenever there is a file that says so, and removes it."""

    def __init__(self, request: Path) -> None:
        self.request = request
        self.count = 0

    def map(self, value: Any) -> Any:
        self.count += 1
        if self.count % 500 == 0 and self.request.exists():
            with suppress(FileNotFoundError):
                self.request.unlink()
                raise RuntimeError("told to fail")
        return value


class Soak:
    """A job and those who watch it."""

    def __init__(self, minutes: float, directory: Path) -> None:
        self.seconds = minutes * 60
        self.directory = directory
        self.request = directory / "fail"
        self.samples: dict[str, list[tuple[float, float]]] = {name: [] for name in LIMITS}
        self.counted: Counter[int] = Counter()
        self.failures = 0

    def run(self) -> JobMaster:
        """Runs the job for its time, then stops it with a savepoint, so that all windows and files are complete."""
        client: Any = self._build().execute_async("soak")
        master: JobMaster = client.master
        began = time.monotonic()
        next_failure = QUIET_PART * self.seconds
        while (elapsed := time.monotonic() - began) < self.seconds:
            time.sleep(SAMPLE_SECONDS)
            if master.result.done():
                master.result.result()
            self._sample(elapsed, master)
            self._consume()
            if elapsed >= next_failure and self.failures < FAILURES:
                self.request.touch()
                self.failures += 1
                next_failure += (1 - QUIET_PART) * self.seconds / FAILURES
        client.stop_with_savepoint(True, str(self.directory / "savepoints")).result()
        self._consume()
        return master

    def _build(self) -> StreamExecutionEnvironment:
        configuration = Configuration()
        configuration.set_string("restart-strategy.type", "fixed-delay")
        configuration.set_string("restart-strategy.fixed-delay.attempts", "1000")
        configuration.set_string("execution.checkpointing.interval", "2 s")
        configuration.set_string("execution.checkpointing.dir", (self.directory / "checkpoints").as_uri())
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(2)
        rate = RateLimiterStrategy.per_second(RECORDS_A_SECOND)
        source = DataGeneratorSource(lambda index: index, None, rate, Types.LONG())
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
        numbers = env.from_source(source, strategy.with_timestamp_assigner(IndexAsTime()), "numbers")
        pairs = numbers.map(Fails(self.request), Types.LONG()).key_by(lambda n: n % KEYS).process(Cycles())
        counts = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(5)))
        sink = FileSink.for_row_format(str(self.directory / "out"), Encoder.simple_string_encoder()).build()
        counts.reduce(lambda a, b: (a[0], a[1] + b[1])).map(
            lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()
        ).sink_to(sink)
        return env

    # --- watching ---

    def _sample(self, elapsed: float, master: JobMaster) -> None:
        driver = psutil.Process()
        slots = processes_of_slots(master)
        groups = by_kind(driver)
        epochs = master.progress.epochs[-10:]
        measured = {
            "driver": [memory(driver)],
            "JVM": list(map(memory, groups["jvm"])),
            "slots": list(map(memory, slots)),
            "Spark's workers": list(map(memory, groups["worker"])),
            "descriptors, driver": [descriptors(driver)],
            "descriptors, JVM": list(map(descriptors, groups["jvm"])),
            "descriptors, slots": list(map(descriptors, slots)),
            "threads, driver": [driver.num_threads()],
            "temporary files": [count_files(work_directory())],
            "files of checkpoints": [count_files(self.directory / "checkpoints")],
            "epoch": [statistics.median(epoch.seconds for epoch in epochs)] if epochs else [],
        }
        for name, values in measured.items():
            if values and (elapsed < QUIET_PART * self.seconds or name not in IN_THE_QUIET_PART):
                self.samples[name].append((elapsed, sum(values)))

    def _consume(self) -> None:
        """Takes away the files that are complete, as a reader of them would."""
        for path in (self.directory / "out").rglob("part-*"):
            if path.is_file():
                for line in path.read_text().splitlines():
                    key, count = map(int, line.split())
                    self.counted[key] += count
                path.unlink()

    # --- judging ---

    def growths(self) -> dict[str, Growth]:
        """What became of each series, behind its warm-up."""
        return {
            name: growth(without_warm_up(points, WARM_UP), LIMITS[name])
            for name, points in self.samples.items()
            if points
        }

    def records_miscounted(self) -> int:
        """How far counts are from each other beyond the one of the last round.

        Each of the two subtasks of the source has numbered its own records, the even or the odd ones.
        """
        by_subtask = [[self.counted[key] for key in range(first, KEYS, 2)] for first in range(2)]
        return max(max(counts) - min(counts) - 1 for counts in by_subtask)


def by_kind(driver: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Processes of a driver: its JVM, and Spark's Python workers."""
    found: dict[str, list[psutil.Process]] = {"jvm": [], "worker": []}
    for process in driver.children(recursive=True):
        with suppress(psutil.Error):
            if process.name() == "java":
                found["jvm"].append(process)
            elif any("pyspark.daemon" in word for word in process.cmdline()):
                found["worker"].append(process)
    return found


def processes_of_slots(master: JobMaster) -> list[psutil.Process]:
    """The slots that run now. They outlive the Spark workers that started them, and are nobody's children then."""
    pool = None if master.attempt is None else master.attempt.pool
    found = []
    for process in [] if pool is None else pool.local_processes:
        with suppress(psutil.Error):
            found.append(psutil.Process(process.pid))
    return found


def memory(process: psutil.Process) -> float:
    return _or_zero(lambda: process.memory_info().rss / _MEGABYTE)


def descriptors(process: psutil.Process) -> float:
    return _or_zero(process.num_fds)


def _or_zero(measure: Callable[[], float]) -> float:
    try:
        return measure()
    except psutil.Error:
        return 0.0


def count_files(directory: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(directory))


def show(soak: Soak, growths: dict[str, Growth], restarts: int, console: Console) -> None:
    """Prints a table."""
    table = Table(title=f"{soak.seconds / 60:g} minutes, {restarts} restarts", title_justify="left")
    for column in ("what", "level", "growth", "an hour", "allowed", ""):
        table.add_column(column, justify="left" if column in ("what", "") else "right")
    for name, found in growths.items():
        unit = LIMITS[name].unit
        numbers = (found.level, found.growth, found.per_hour, found.most)
        table.add_row(name, *(f"{number:,.1f} {unit}".strip() for number in numbers), "flat" if found.flat else "GROWS")
    console.print(table)


def main() -> None:
    """Runs it; the exit code is 1 if something grows, or was counted wrongly."""
    minutes = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get(MINUTES_VARIABLE) or DEFAULT_MINUTES)
    console = Console(width=None if sys.stdout.isatty() else 110)
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as directory:
        soak = Soak(minutes, Path(directory))
        master = soak.run()
    growths = soak.growths()
    show(soak, growths, master.restarts, console)
    wrong = soak.records_miscounted()
    console.print(f"{sum(soak.counted.values()):,} records counted, {max(0, wrong)} of a key lost or doubled")
    if wrong > 0 or not all(found.flat for found in growths.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
