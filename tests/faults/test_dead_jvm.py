"""Spark's JVM dies, or is not wanted any more before it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.faults.helpers import descendants, wait_until
from tests.faults.jvm_program import RECORDS

HERE = Path(__file__).parent

pytestmark = pytest.mark.timeout(400)


class Program:
    """A driver in a process of its own."""

    def __init__(self, name: str, *arguments: str) -> None:
        path = os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / name), *arguments],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def java(self) -> psutil.Process | None:
        """Spark's JVM, which the shell that was started has become; what it asks for the command line is its child."""
        children = psutil.Process(self.process.pid).children()
        return next((child for child in children if child.name() == "java"), None)

    def wait_for(self, condition, what: str):
        def reached():
            if self.process.poll() is not None:
                pytest.fail(f"the driver has ended before {what}: {self.process.stderr.read()}")
            return condition()

        return wait_until(reached, 120, what)

    def end(self) -> tuple[str, str]:
        return self.process.communicate(timeout=300)


@pytest.fixture
def start():
    programs: list[Program] = []

    def start(name: str, *arguments: str) -> Program:
        programs.append(Program(name, *arguments))
        return programs[-1]

    yield start
    for program in programs:
        if program.process.poll() is None:
            for child in descendants(program.process.pid):
                child.kill()
            program.process.kill()
        program.process.communicate()


def has_checkpoints(directory: Path) -> bool:
    return any(int(path.parent.name[4:]) >= 2 for path in (directory / "checkpoints").glob("*/chk-*/_metadata"))


def written(directory: Path) -> Counter[str]:
    files = [path for path in (directory / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def test_a_job_whose_jvm_is_killed_goes_on_with_another_and_loses_and_doubles_nothing(start, tmp_path):
    program = start("jvm_program.py", str(tmp_path), "own")
    program.wait_for(lambda: has_checkpoints(tmp_path), "the second checkpoint")
    killed = program.java()
    killed.kill()
    out, errors = program.end()
    assert program.process.returncode == 0, errors
    assert written(tmp_path) == Counter(
        f"{key} {count}" for key in range(7) for count in range(1, len(range(key, RECORDS, 7)) + 1)
    )
    assert out == "the next job: 100\n"
    assert f"Spark's JVM (process {killed.pid}) was killed by SIGKILL" in errors
    assert "Traceback" not in errors


def test_a_session_of_the_programs_own_is_not_replaced_and_the_job_says_so_at_once(start, tmp_path):
    program = start("jvm_program.py", str(tmp_path), "foreign")
    program.wait_for(lambda: has_checkpoints(tmp_path), "the second checkpoint")
    program.java().kill()
    _, errors = program.end()
    assert program.process.returncode == 1
    assert "was killed by SIGKILL, and with it the program's own Spark session: restart the program" in errors
    assert "restart 1" not in errors


@pytest.mark.parametrize("moment", ["spark-submit", "later"])
def test_ctrl_c_while_spark_starts_leaves_no_process_and_spark_can_be_started_again(start, moment):
    program = start("start_program.py")
    assert program.process.stdout.readline() == "starting\n"
    program.wait_for(lambda: descendants(program.process.pid), "the start of Spark")
    if moment == "later":
        java = program.wait_for(program.java, "the start of the JVM")
        program.wait_for(lambda: java.num_threads() > 25, "the start of Spark in the JVM")
    program.process.send_signal(signal.SIGINT)
    out, errors = program.end()
    assert out == "interrupted, left: []\nagain: 10\n", errors
    assert program.process.returncode == 0


def test_a_jvm_that_dies_while_spark_starts_is_told_of(start):
    program = start("start_program.py")
    assert program.process.stdout.readline() == "starting\n"
    program.wait_for(program.java, "the start of the JVM").kill()
    _, errors = program.end()
    assert program.process.returncode == 1
    assert "JAVA_GATEWAY_EXITED" in errors
