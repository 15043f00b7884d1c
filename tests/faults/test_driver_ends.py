"""Drivers that end in the middle of a job, each a process of its own: nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.faults.helpers import descendants, is_python_worker, is_slot, wait_until

from flintstream.jobmaster.details import JobDetails, from_json

PROGRAM = Path(__file__).with_name("driver_program.py")
ROOT = PROGRAM.parents[2]

pytestmark = pytest.mark.timeout(600)


class Driver:
    """A driver process with a running job."""

    def __init__(self, way: str, long_paths: bool = False):
        # Not tmp_path: it is too long for Unix sockets, which is a case of its own.
        self.directory = Path(tempfile.mkdtemp(prefix="ft-"))
        self.temporary = self.directory / ("t" * 80 if long_paths else "t")
        self.work = self.directory / "work"
        self.archive = self.directory / "archive"
        self.temporary.mkdir()
        self.work.mkdir()
        self.archive.mkdir(mode=0o700)
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": path,
            "FLINT_ARCHIVE_DIR": str(self.archive),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.work), way],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_job(self) -> None:
        assert self.process.stdout is not None and self.process.stderr is not None
        for line in self.process.stdout:
            if line == "running\n":
                break
        else:
            pytest.fail(f"the driver's job did not start: {self.process.stderr.read()}")
        self.children = descendants(self.process.pid)
        self.slots = [child for child in self.children if is_slot(child)]
        assert len(self.slots) == 2
        assert any(map(is_python_worker, self.children))
        assert any(child.name() == "java" for child in self.children)

    def assert_nothing_left(self, seconds: float) -> None:
        wait_until(lambda: not any(map(runs, self.slots)), seconds, "the end of all slots")
        wait_until(lambda: not any(map(runs, self.children)), seconds, "the end of Spark")

    def left_in_temporary(self) -> list[str]:
        return [str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*")]

    def archived(self) -> JobDetails:
        """What the driver has left for a job server."""
        (path,) = self.archive.glob("*.json")
        return from_json(JobDetails, json.loads(path.read_text()))

    def start_another(self) -> None:
        """Another driver starts, on the same machine, and ends."""
        program = "from flintstream.spark.session import work_directory; work_directory()"
        subprocess.run([sys.executable, "-c", program], env=self.environment, check=True, timeout=60)

    def clean_up(self) -> None:
        self.process.kill()  # a process that has been waited for is left alone
        for process in getattr(self, "children", []):
            if runs(process):
                process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def start():
    drivers: list[Driver] = []

    def start(way: str, **options):
        driver = Driver(way, **options)
        drivers.append(driver)
        driver.wait_for_job()
        return driver

    yield start
    for driver in drivers:
        driver.clean_up()


@pytest.mark.parametrize("when", ["between epochs", "in the middle of an epoch"])
def test_slots_and_their_files_are_gone_soon_after_the_driver_was_killed(start, when):
    driver = start(when)
    driver.process.kill()
    driver.process.wait()
    driver.assert_nothing_left(10.0)
    assert not [path for path in driver.left_in_temporary() if "slot-" in path or path.endswith("/driver")]
    driver.start_another()
    # The directory in which all drivers of a user register is tidied by the next job.
    assert [path for path in driver.left_in_temporary() if not path.startswith("flint-jobs")] == []


@pytest.mark.parametrize("whom", ["the driver", "all its processes"])
def test_sigterm_ends_the_driver_and_its_slots_at_once_and_quietly_and_leaves_no_file(start, whom):
    driver = start("in execute")
    # systemd and containers send it to all of them.
    for child in driver.children if whom == "all its processes" else []:
        with suppress(psutil.NoSuchProcess):  # Ended with another one that was terminated before.
            child.terminate()
    driver.process.terminate()
    assert driver.process.wait(30.0) == -signal.SIGTERM
    driver.assert_nothing_left(10.0)
    assert driver.left_in_temporary() == []
    assert driver.process.stderr.read() == ""
    archived = driver.archived()
    assert archived.driver_pid == driver.process.pid
    assert not archived.ended and archived.phase == "the driver was ended by a signal"


def test_ctrl_c_ends_the_driver_and_its_slots_and_leaves_no_file(start):
    """The gate stays shut: the user function does not return before the driver has to end."""
    driver = start("in execute")
    os.killpg(driver.process.pid, signal.SIGINT)  # a terminal's Ctrl-C goes to the whole group
    assert driver.process.wait(20.0) != 0
    assert "KeyboardInterrupt" in driver.process.stderr.read()
    driver.assert_nothing_left(2.0)
    assert driver.left_in_temporary() == []


def test_a_program_that_ends_takes_its_running_job_along(start):
    """Its temporary directory has a path too long for Unix sockets."""
    driver = start("end of program", long_paths=True)
    assert driver.process.wait(60.0) == 0
    driver.assert_nothing_left(2.0)
    assert driver.left_in_temporary() == []
    assert driver.archived().status == "CANCELED"
