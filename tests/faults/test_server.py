"""A job server that is killed, and drivers that are killed under it: no job and no result is lost, and none comes twice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.faults import server_program
from tests.job_server import ENDED, JobServer
from tests.waiting import ENOUGH_SECONDS, wait_until

PROGRAM = Path(server_program.__file__)
ROUNDS = int(os.environ.get("FLINT_FAULT_ROUNDS") or 0)
MOMENTS = [0.0, 0.1, 0.4] + [0.02 * number for number in range(1, ROUNDS)]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def server():
    found = JobServer()
    yield found
    found.clean_up()


def expected(count: int) -> Counter[str]:
    """What an unhurt job writes."""
    found: Counter[int] = Counter()
    lines = []
    for number in range(count):
        found[number % server_program.KEYS] += 1
        lines.append(f"{number % server_program.KEYS} {found[number % server_program.KEYS]}")
    return Counter(lines)


def written(out: Path) -> Counter[str]:
    files = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


def test_a_server_and_drivers_that_are_killed_lose_nothing(server, tmp_path):
    server.start()
    checkpoints = ("-D", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}")
    restarts = ("-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.attempts=3")
    restarts += ("-D", "restart-strategy.fixed-delay.delay=100 ms")

    def submit(name, count):
        return server.submit(*checkpoints, *restarts, str(PROGRAM), str(tmp_path / name), str(count))

    ends_alone = submit("alone", 300)
    hurt = submit("hurt", 1500)
    first = server.wait_for_checkpoint(hurt)
    server.wait_for_checkpoint(ends_alone)
    driver_alone, driver_hurt = server.driver(ends_alone), server.driver(hurt)
    server.kill()

    # Without a server one job ends, and the driver of the other is killed.
    assert driver_alone.is_running()
    driver_hurt.kill()
    (tmp_path / "alone.end").touch()
    driver_alone.wait(ENOUGH_SECONDS)
    assert server.drivers() == []
    server.start()
    assert server.status(ends_alone) == "FINISHED"
    assert written(tmp_path / "alone") == expected(300)
    stopped, restored = server.wait_for_driver_after(hurt, driver_hurt, first)

    # With a server, the driver of the job is killed again; it is stopped for a while before, and not replaced.
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(2)
    assert [process.pid for process in server.drivers()] == [stopped.pid]
    stopped.kill()
    server.wait_for_driver_after(hurt, stopped, restored + 1)
    (tmp_path / "hurt.end").touch()
    server.wait_for(hurt, "FINISHED")
    assert written(tmp_path / "hurt") == expected(1500)
    exceptions = server.request(f"/jobs/{hurt}/exceptions")
    told = json.dumps(exceptions)
    assert "is gone" in told and "was ended by SIGKILL" in told


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_a_server_has_answered_it_knows_after_it_was_killed(server, tmp_path, moment):
    program = tmp_path / "program.py"
    program.write_text(
        "import fcntl, sys, time\n"
        "lock = open(sys.argv[1] + '/alone', 'w')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"  # Two at once would fail here.
        "open(sys.argv[1] + '/starts', 'a').write('started\\n')\n"
        "time.sleep(0.5)\n"
    )
    server.start()
    answered: list[str] = []

    def submit():
        try:
            answered.append(server.submit(str(program), str(tmp_path)))
        except AssertionError:
            pass  # The server was gone before it could answer.

    submitting = threading.Thread(target=submit)
    submitting.start()
    wait_until(
        lambda: not submitting.is_alive() or list((server.directory / "data").glob("incoming-*")), what="the request"
    )
    time.sleep(moment)
    server.kill()
    submitting.join(240)
    server.start()
    known = [job["jid"] for job in server.request("/jobs/overview")["jobs"]]
    assert set(answered) <= set(known)
    assert len(known) <= 1
    for job_id in known:
        wait_until(lambda each=job_id: server.status(each) in ENDED, what="the end of the program")
        assert "ended without executing a job" in json.dumps(server.request(f"/jobs/{job_id}/exceptions"))
        assert (tmp_path / "starts").exists()
