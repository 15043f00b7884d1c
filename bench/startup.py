"""startup: from `python word_count.py` to the first result, beside a bare PySpark program.

The bare program creates a session of `local[2]` with PySpark's default settings and collects one row; another one sends
that row through a Python function, as every program of Flintstream does. The programs run in turns, each in a process of
its own, and count until they print their first line. The class archive that later programs map is made before, in a
directory of the benchmark's; the program that records it, as the first one of a user does, is shown too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import Result, Row
from bench.timing import MeasurementError

ROUNDS, QUICK_ROUNDS = 7, 1
TARGET = 1.15
MAKING_SECONDS = 1800.0
PROGRAM = Path(__file__).resolve().parent.parent / "examples" / "word_count.py"
SESSION = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
"""
COLLECT = SESSION + "print(spark.range(1).collect())\n"
PYTHON = SESSION + "print(spark.range(1).mapInArrow(lambda batches: batches, 'id long').collect())\n"
OURS, BARE, BARE_PYTHON, WITHOUT = (
    "Flintstream",
    "bare PySpark, collect",
    "bare PySpark, mapInArrow",
    "word_count without an archive",
)


def run(quick: bool) -> Result:
    """Runs a first program, waits for its archive, and then all programs in turns."""
    with TemporaryDirectory(prefix="flint-bench-") as directory:
        archives = Path(directory) / "classes"
        environment = _environment(archives)
        ours = [str(PROGRAM)]
        first = _seconds_to_first_line(ours, environment)
        _wait_for_archive(archives)
        programs: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
            OURS: (ours, environment),
            BARE: (["-c", COLLECT], environment),
            BARE_PYTHON: (["-c", PYTHON], environment),
            WITHOUT: (ours, environment | {"FLINT_CLASS_ARCHIVE": "off"}),
        }
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            for name, (arguments, variables) in programs.items():
                taken[name].append(_seconds_to_first_line(arguments, variables))
    return Result("startup", "From the start of a program to its first result", _rows(taken, first), {"seconds": taken})


def _rows(taken: Mapping[str, Sequence[float]], first: float) -> list[Row]:
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    return [
        Row("the example word_count", medians[OURS], "s"),
        *(Row(name, medians[name], "s", ratio=medians[OURS] / medians[name]) for name in (BARE, BARE_PYTHON, WITHOUT)),
        Row("the example word_count, of bare PySpark's collect", medians[OURS] / medians[BARE], "times", most=TARGET),
        Row("the program that records the classes", first, "s", note="once"),
    ]


def _environment(archives: Path) -> dict[str, str]:
    # As on a user's machine: bytecode is cached, and no option of Java's is set.
    unwanted = ("PYTHONDONTWRITEBYTECODE", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    return environment | {
        "FLINT_CLASS_ARCHIVE": str(archives),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }


def _seconds_to_first_line(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        taken = time.perf_counter() - begin
        process.stdout.read()
    if not line or process.returncode:
        raise MeasurementError(f"{arguments[-1]} has failed: run it by itself to see why")
    return taken


def _wait_for_archive(archives: Path) -> None:
    """Waits for the process that the first program has left: it would take a core from the others."""
    deadline = time.monotonic() + MAKING_SECONDS
    while list(archives.glob("making-*")) and time.monotonic() < deadline:
        time.sleep(0.5)
    if not list(archives.glob("*.jsa")):
        raise MeasurementError("no class archive was made; does SPARK_CONF_DIR or HADOOP_CONF_DIR stand in its way?")
