"""What the fault tests share: a function that can be stopped half way, and questions about processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
from tests.processes import alive, slot_pids
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import JobStatus, WatermarkStrategy
from flintstream.datastream import MapFunction
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import SourceFunction


def numbers(env, first, last, name="numbers"):
    return env.from_source(NumberSequenceSource(first, last), WatermarkStrategy.no_watermarks(), name)


class Gate(MapFunction):
    """Notes each record in a file, and stops at one of them until the gate is opened."""

    def __init__(self, directory: Path, stops_at: int | None):
        self.directory = directory
        self.stops_at = stops_at

    def open(self, runtime_context):
        name = f"seen-{runtime_context.get_index_of_this_subtask()}-{os.getpid()}"
        self.seen = (self.directory / name).open("a", buffering=1)

    def map(self, value):
        self.seen.write(f"{value}\n")
        if value == self.stops_at:
            (self.directory / "reached").write_text(str(os.getpid()))
            deadline = time.monotonic() + ENOUGH_SECONDS
            while not (self.directory / "open").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return value


def reached(directory: Path, seconds: float = ENOUGH_SECONDS) -> int:
    """Waits until a Gate has been reached; returns the process that stands there."""
    file = directory / "reached"
    return int(wait_until(lambda: file.exists() and file.read_text(), seconds, "the gate's record"))


def open_gate(directory: Path) -> None:
    (directory / "open").touch()


def seen(directory: Path) -> list[int]:
    """All records that went through a Gate, of all processes."""
    return sorted(int(line) for file in directory.glob("seen-*") for line in file.read_text().split())


class Tap(SourceFunction):
    """Emits the number of each file `tap-<number>` that appears in a directory, for ever."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.running = True

    def run(self, ctx):
        number = 0
        while self.running:
            if (self.directory / f"tap-{number}").exists():
                ctx.collect(number)
                number += 1
            time.sleep(0.01)

    def cancel(self):
        self.running = False


def idle_job(env, directory: Path, name="idle"):
    """A job of two levels that has processed the number 0 and waits for more."""
    env.set_parallelism(2)
    (directory / "tap-0").touch()
    env.add_source(Tap(directory)).key_by(lambda n: n).map(Gate(directory, None)).print()
    client = env.execute_async(name)
    wait_until(lambda: seen(directory) == [0] and client.master.progress.epochs, what="the first record")
    time.sleep(0.3)
    return client


def failure(client) -> str:
    """The message with which a job has failed; its slots are gone, and so are its files."""
    error = client.get_job_execution_result().exception(ENOUGH_SECONDS)
    assert client.get_job_status().result() is JobStatus.FAILED
    assert_nothing_left(client)
    return str(error)


def assert_nothing_left(client) -> None:
    pids = slot_pids(client)
    assert pids
    wait_until(lambda: not any(map(alive, pids)), ENOUGH_SECONDS, "the end of all slots")
    assert not Path(client.master.attempt.pool.directory).exists()


def assert_a_new_job_works(env) -> None:
    """The session has not suffered."""
    with numbers(env, 1, 100).key_by(lambda n: n % 3).map(lambda n: n).execute_and_collect() as results:
        assert sorted(results) == list(range(1, 101))


def descendants(pid: int) -> list[psutil.Process]:
    """A driver's processes: its JVM, Spark's Python workers, and the slots that these have started."""
    return psutil.Process(pid).children(recursive=True)


def is_slot(process: psutil.Process) -> bool:
    """Whether it is a slot, and not the shell that waits for one."""
    try:
        words = process.cmdline()
        return any("flintstream.runtime.slot.process" in word for word in words) and not words[0].endswith("/sh")
    except psutil.Error:
        return False


def is_python_worker(process: psutil.Process) -> bool:
    try:
        return any("pyspark.daemon" in word for word in process.cmdline())
    except psutil.Error:
        return False
