"""The commands for running jobs, with a driver that is a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

PROGRAM = '''
import os
import sys

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.state import ValueStateDescriptor

KEYS = 4


class Count(KeyedProcessFunction):
    """Writes the count of each number's key into a file, with its sum."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.file = open(f"{self.directory}/counts-{runtime_context.get_index_of_this_subtask()}-{os.getpid()}", "w", 1)

    def process_element(self, number, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.total.update((self.total.value() or 0) + number)
        self.file.write(f"{ctx.get_current_key()} {self.count.value()} {self.total.value()}\\n")


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.set_restart_strategy(RestartStrategies.no_restart())
env.enable_checkpointing(200)
env.get_checkpoint_config().set_checkpoint_storage_dir(f"file://{sys.argv[1]}/checkpoints")
numbers = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(400), Types.LONG())
stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
stream.key_by(lambda n: n % KEYS).process(Count(sys.argv[1])).name("count").uid("count")
env.execute("numbers and sums")
'''
FLINT = [sys.executable, "-c", "from flintstream.cli.main import main; main()"]
ENOUGH_SECONDS = 100.0


class Session:
    """A place with a program, a registry of its own, and the drivers that were started."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.script = directory / "program.py"
        self.script.write_text(PROGRAM)
        self.environment = {**os.environ, "FLINT_JOBS_DIR": str(directory / "jobs"), "FLINT_PROGRESS": "0"}
        self.drivers: list[subprocess.Popen[str]] = []

    def flint(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [*FLINT, *arguments], env=self.environment, capture_output=True, text=True, timeout=ENOUGH_SECONDS
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.strip() if code == 0 else done.stderr.strip()

    def run(self, name: str, *options: str) -> subprocess.Popen[str]:
        work = self.directory / name
        work.mkdir()
        driver = subprocess.Popen(
            [*FLINT, "run", *options, str(self.script), str(work)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.drivers.append(driver)
        self.wait_until(lambda: len(self.counts(name)) == 4, driver)
        return driver

    def counts(self, name: str) -> dict[int, list[tuple[int, int]]]:
        """Count and sum of each key as they grew in a run."""
        found = defaultdict(list)
        for file in (self.directory / name).glob("counts-*"):
            for line in file.read_text().split("\n")[:-1]:
                key, count, total = map(int, line.split())
                found[key].append((count, total))
        return found

    @staticmethod
    def wait_until(condition, driver):
        deadline = time.monotonic() + ENOUGH_SECONDS
        while not condition():
            assert driver.poll() is None, driver.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def session(tmp_path):
    session = Session(tmp_path)
    yield session
    for driver in session.drivers:
        driver.kill()
        driver.communicate()


@pytest.mark.timeout(600)
def test_a_job_is_listed_saved_stopped_and_goes_on_where_it_was(session):
    first = session.run("first")
    header, line = session.flint("list").splitlines()
    assert header.split() == ["JOB", "NAME", "STATUS", "STARTED", "DURATION", "PARALLELISM", "PID", "PROGRAM"]
    job_id, *_ = line.split()
    assert "numbers and sums" in line and "RUNNING" in line

    saved = session.flint("savepoint", job_id[:6], str(session.directory / "savepoints"))
    [report] = json.loads(session.flint("checkpoints", "--json", saved))
    assert (report["kind"], report["job_id"], report["status"]) == ("savepoint", job_id, "complete")
    assert {operator["uid"] for operator in report["operators"]} >= {"numbers", "count"}
    session.wait_until(lambda: json.loads(session.flint("checkpoints", "--json", "numbers")), first)

    stopped = session.flint("stop", "-p", str(session.directory / "savepoints"), "numbers")
    assert first.wait(ENOUGH_SECONDS) == 0
    assert session.flint("list", "-a") == "There are no jobs."
    assert not (session.directory / "jobs").exists()
    reached = {key: counts[-1] for key, counts in session.counts("first").items()}

    second = session.run("second", "-s", stopped, "-D", "execution.checkpointing.interval=1 h")
    for key, counts in session.counts("second").items():
        count, total = reached[key]
        # The n-th number of a key is key + 4 * n.
        assert counts[0] == (count + 1, total + key + 4 * count)

    location = session.flint("cancel", "-s", str(session.directory / "more"), "numbers and")
    assert json.loads(session.flint("checkpoints", "--json", location))[0]["status"] == "complete"
    assert second.wait(ENOUGH_SECONDS) == 1
    assert "was cancelled" in second.stderr.read()

    session.flint("savepoint", "-d", location)
    assert not Path(location).exists()
