"""A job on a Spark cluster: a standalone master and two workers, as processes of this machine, talking over TCP."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import psutil
import pytest
from tests.cluster.standalone import StandaloneCluster
from tests.faults.helpers import wait_until
from tests.processes import alive

PROGRAM = Path(__file__).with_name("visits_program.py")
FLINT = [sys.executable, "-c", "from flintstream.cli.main import main; main()", "run"]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"), workers=2)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python for the executors that has all that Flintstream needs, but not Flintstream."""
    directory = tmp_path_factory.mktemp("python")
    venv.create(directory, symlinks=True)
    packages = next((directory / "lib").glob("python3*")) / "site-packages"
    # Of a directory named in a .pth file the .pth files do not count, and one of them is what leads to Flintstream.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    executable = directory / "bin" / "python"
    imports = [subprocess.run([executable, "-c", f"import {name}"]).returncode for name in ("pyarrow", "pyspark")]
    assert imports == [0, 0]
    if subprocess.run([executable, "-c", "import flintstream"], capture_output=True, cwd=directory).returncode == 0:
        pytest.skip("Flintstream is installed in site-packages itself")
    return executable


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """A module of the user's that no Python finds by itself."""
    path = tmp_path_factory.mktemp("modules") / "pages.py"
    path.write_text("def title(page):\n    return f'page {page % 3}'\n")
    return path


@pytest.fixture
def start(cluster, python, module):
    """Starts the program on the cluster, and sees to it that it ends."""
    drivers = []

    def start(*arguments, encrypted=False, program=PROGRAM, **settings):
        security = "flint.network.encryption=true" if encrypted else "spark.authenticate=true"
        command = [*FLINT, "-D", f"spark.master={cluster.url}", "-D", "spark.executor.memory=512m"]
        command += ["-D", f"spark.executor.extraJavaOptions={os.environ.get('SPARK_SUBMIT_OPTS', '')}"]
        command += ["-D", f"spark.authenticate.secret={cluster.secret}", "-D", security]
        for key, value in settings.items():
            command += ["-D", f"{key.replace('__', '.')}={value}"]
        command += ["-D", "spark.executor.cores=1", str(program), str(module), *map(str, arguments)]
        environment = {**cluster.environment, "PYSPARK_PYTHON": str(python)}
        driver = subprocess.Popen(
            command,
            env=environment,
            cwd=module.parent.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        drivers.append(driver)
        return driver

    yield start
    for driver in drivers:
        if driver.poll() is None:
            family = psutil.Process(driver.pid).children(recursive=True)
            driver.kill()
            for process in family:
                if process.is_running():
                    process.kill()
            driver.communicate()


def ended(driver):
    """What the program has printed at its end."""
    return ended_with_log(driver)[0]


def ended_with_log(driver):
    """What the program has printed at its end, and its log."""
    output, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors[-5000:]
    return json.loads(output.splitlines()[-1]), errors


def assert_gone(pids):
    wait_until(lambda: not any(map(alive, pids)), 10.0, "the end of all slots")


@pytest.fixture
def given_locally(spark, module, capsys, monkeypatch):
    """What the program prints on the Spark of this process."""
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), str(module)])
    runpy.run_path(str(PROGRAM), run_name="__main__")
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_keyed_job_runs_on_two_executors_and_gives_what_it_gives_locally(start, given_locally):
    """All that goes between the machines is encrypted."""
    result = ended(start(encrypted=True))
    slots = result.pop("slots")
    assert len(slots) == 2
    homes = {Path(slot["cwd"]).parts[-3:] for slot in slots}
    assert {home[0] for home in homes} == {"work-0", "work-1"}, "a slot on each worker"
    assert all(".zip" in slot["package"] for slot in slots), "Flintstream comes with the job"
    assert_gone([slot["pid"] for slot in slots])
    given_locally.pop("slots")
    assert result == given_locally
    assert result["last"] == result["totals"] == dict.fromkeys(["ann", "bob", "cem", "dora", "eve"], 200)


def test_an_executor_killed_in_the_middle_of_an_epoch_fails_the_job_and_leaves_nothing(start, cluster, tmp_path):
    driver = start(tmp_path)
    reached = tmp_path / "reached"
    wait_until(lambda: reached.exists() and reached.read_text(), 120.0, "the record in the middle")
    where = json.loads(reached.read_text())
    slots = [process.pid for process in psutil.process_iter() if is_slot_of(process, cluster)]
    assert len(slots) == 2 and where["pid"] in slots
    victim = serving(cluster, where["pid"])
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: not alive(victim.pid), what="the end of the executor")
    (tmp_path / "open").touch()
    message = ended(driver)["failed"]
    assert "the Spark task of epoch 1 went away" in message or "Spark ran a task twice" in message
    assert_gone(slots)


def test_a_cached_stream_is_computed_again_when_the_executors_that_had_it_are_gone(start, cluster, tmp_path):
    driver = start(tmp_path, program=PROGRAM.with_name("cached_program.py"))
    wait_until(lambda: (tmp_path / "filled").exists() or driver.poll() is not None, 240.0, "the cached stream")
    assert driver.poll() is None, driver.communicate()
    victims = cluster.executors()
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: not any(alive(victim.pid) for victim in victims), what="the end of the executors")
    (tmp_path / "killed").touch()
    assert ended(driver) == {"computed": 4000}


def serving(cluster, slot):
    """The executor whose task streams to a slot: not always the one on which the slot was started."""
    ports = {each.laddr.port for each in psutil.Process(slot).net_connections("tcp") if each.status == "LISTEN"}
    for executor in cluster.executors():
        for worker in executor.children(recursive=True):
            if any(each.raddr and each.raddr.port in ports for each in worker.net_connections("tcp")):
                return executor
    raise AssertionError("no task streams to the slot")


def is_slot_of(process, cluster):
    try:
        return (
            "flintstream.runtime.slot.process" in " ".join(process.cmdline())
            and str(cluster._directory) in process.cwd()
        )
    except psutil.Error:
        return False


def test_a_savepoint_is_made_and_read_by_the_executors(start, tmp_path):
    driver = start(tmp_path / "savepoint", program=PROGRAM.with_name("state_program.py"))
    output, errors = driver.communicate(timeout=500)
    assert driver.returncode == 0, errors
    rows = json.loads(output.splitlines()[-1])
    assert [row[0] for row in rows] == list(range(7))
    assert all(page % 7 == key for key, page, _ in rows)
    assert all("flintstream-package.zip" in package for _, _, package in rows)


# --- pipelined ---

PIPELINED = PROGRAM.with_name("pipelined_program.py")
IN_EPOCHS = "job 'counts' runs in epochs, not pipelined: "
EACH_KEY = [[key, 300] for key in range(10)]


def test_a_pipelined_job_counts_exactly_with_a_slot_on_each_worker(start, tmp_path):
    """Flintstream starts a session whose executors of one core run four tasks at the same time."""
    (tmp_path / "open").touch()
    result, log = ended_with_log(start(tmp_path, program=PIPELINED))
    assert IN_EPOCHS not in log
    assert (result["results"], result["most"]) == (3000, EACH_KEY)
    assert {Path(home).parts[-3] for home in result["homes"]} == {"work-0", "work-1"}
    assert_gone(result["slots"])


def test_a_job_that_lacks_task_slots_says_so_and_counts_exactly_in_epochs(start, tmp_path):
    (tmp_path / "open").touch()
    settings = {"spark__task__cpus": "1", "spark__scheduler__maxRegisteredResourcesWaitingTime": "8s"}
    result, log = ended_with_log(start(tmp_path, program=PIPELINED, **settings))
    assert log.count(IN_EPOCHS) == 1
    assert f"{IN_EPOCHS}it needs 4 tasks at the same time, and Spark runs" in log
    assert (result["results"], result["most"]) == (3000, EACH_KEY)


def test_a_pipelined_job_loses_nothing_with_an_executor_killed_in_the_middle(start, cluster, tmp_path):
    driver = start(tmp_path, program=PIPELINED)
    begun = tmp_path / "begun"
    wait_until(lambda: (begun.exists() and begun.read_text()) or driver.poll() is not None, 240.0, "the middle")
    assert driver.poll() is None, driver.communicate()
    slots = json.loads(begun.read_text())
    victim = serving(cluster, slots[0])
    workers = [worker.pid for worker in victim.children(recursive=True)]
    assert workers
    os.kill(victim.pid, signal.SIGKILL)
    wait_until(lambda: not alive(victim.pid), what="the end of the executor")
    (tmp_path / "open").touch()
    result, log = ended_with_log(driver)
    assert IN_EPOCHS not in log
    assert (result["results"], result["most"]) == (3000, EACH_KEY)
    assert not {*slots} >= {*result["slots"]}, "slots of a second attempt"
    assert_gone([*slots, *workers, *result["slots"]])
    wait_until(lambda: not cluster.executors(), 20.0, "the end of all executors")
