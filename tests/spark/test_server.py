"""A program on a job server, from the command line and over HTTP: submitted, watched, given a savepoint, cancelled."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.job_server import JobServer
from tests.waiting import wait_until

PROGRAM = """
import sys
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.common import WatermarkStrategy
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from helpers import key_of

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(300)
source = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(100))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.key_by(key_of).reduce(lambda one, other: one + other).print()
print("the program was given", sys.argv[1:], flush=True)
env.execute("sums")
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server():
    found = JobServer()
    found.start()
    yield found
    found.clean_up()


@pytest.fixture
def program(tmp_path):
    (tmp_path / "helpers.py").write_text("def key_of(number):\n    return number % 3\n")
    (tmp_path / "sums.py").write_text(PROGRAM)
    return tmp_path


def test_a_program_is_submitted_watched_given_a_savepoint_and_cancelled(server, program, monkeypatch):
    monkeypatch.chdir(program)
    said = server.flint(
        "run",
        "-d",
        "-p",
        "1",
        "-pyfs",
        "helpers.py",
        "-D",
        f"execution.checkpointing.dir={program}/cp",
        "sums.py",
        "-x",
    )
    assert said.startswith("Job has been submitted with JobID ")
    job_id = said.split()[-1]
    (program / "sums.py").unlink()
    (program / "helpers.py").unlink()
    server.wait_for(job_id, "RUNNING")
    server.wait_for_checkpoint(job_id)
    assert job_id in server.flint("list", "-m", server.address)
    assert f"{program}/cp/{job_id}" in server.flint("checkpoints", "-m", server.address, "sums")

    begun = server.request(f"/jobs/{job_id}/savepoints", "POST", {"target-directory": f"{program}/sp"})
    path = f"/jobs/{job_id}/savepoints/{begun['request-id']}"
    answer = wait_until(lambda: (found := server.request(path))["status"]["id"] == "COMPLETED" and found)
    assert Path(answer["operation"]["location"].removeprefix("file:"), "_metadata").exists()
    location = server.flint("savepoint", "-m", server.address, job_id[:8], f"{program}/sp").strip()
    assert Path(location, "_metadata").exists()
    assert "no directory for the savepoint" in server.flint("savepoint", "-m", server.address, "sums", fails=True)

    server.flint("cancel", "-m", server.address, "sums")
    assert server.status(job_id) == "CANCELED"
    assert "No jobs are running" in server.flint("list", "-m", server.address)
    assert "CANCELED" in server.flint("list", "-a", "-m", server.address)
    vertices = server.request(f"/jobs/{job_id}")["vertices"]
    assert any("numbers" in vertex["name"] for vertex in vertices)
    out = Path(server.directory / "data" / "jobs" / job_id / "driver.out").read_text()
    assert "the program was given ['-x']" in out


def test_a_program_that_fails_before_its_job_shows_why(server, tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    job_id = server.submit(str(tmp_path / "broken.py"))
    wait_until(lambda: server.status(job_id) == "FAILED", what="the failure")
    assert "No module named 'no_such_module'" in json.dumps(server.request(f"/jobs/{job_id}/exceptions"))


def test_without_a_server_the_error_says_so(server, tmp_path):
    (tmp_path / "any.py").write_text("")
    said = server.flint("run", "-d", "-m", "127.0.0.1:1", str(tmp_path / "any.py"), fails=True)
    assert "there is no job server at http://127.0.0.1:1" in said


def test_a_second_server_over_the_same_data_or_port_is_refused(server):
    data = str(server.directory / "data")
    said = server.flint("server", "--port", "0", "--data", data, fails=True)
    assert f"(process {server.process.pid})" in said
    port = server.address.rpartition(":")[2]
    said = server.flint("server", "--port", port, "--data", str(server.directory / "other"), fails=True)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in said


def test_a_server_ends_on_sigterm_and_leaves_its_jobs_running(tmp_path):
    server = JobServer()
    try:
        server.start()
        (tmp_path / "sleeps.py").write_text("import time; time.sleep(200)")
        server.submit(str(tmp_path / "sleeps.py"))
        (driver,) = wait_until(server.drivers, what="the driver")
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert "1 job runs on" in server.log()
        time.sleep(0.2)
        assert driver.is_running()
    finally:
        server.clean_up()
