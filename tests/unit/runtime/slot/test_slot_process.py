"""A slot's process whose driver, or what looks like one, is the test."""

from __future__ import annotations

import pickle
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.runtime.slot.handshake import ConnectionListener, Credentials
from flintstream.runtime.slot.messages import VERSION, Look, Registration, Request
from flintstream.runtime.slot.process import SlotSpec

COMMAND = [sys.executable, "-c", "from flintstream.runtime.slot.process import main; main()"]


class Driver:
    """Accepts one slot, over TCP as from another machine."""

    def __init__(self, heartbeat_timeout: float) -> None:
        credentials = Credentials(b"a key")
        connections: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._listener = ConnectionListener(("127.0.0.1", 0), credentials, connections.put)
        threading.Thread(target=self._listener.serve, daemon=True).start()
        spec = SlotSpec(0, "f" * 32, 0, self._listener.address, credentials, None, heartbeat_timeout=heartbeat_timeout)
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdin is not None
        self.process.stdin.write(pickle.dumps(spec))
        self.process.stdin.close()
        self.connection = connections.get(timeout=60)
        registration = self.connection.recv()
        assert isinstance(registration, Registration) and registration.version == VERSION

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._listener.close()


@pytest.fixture
def make_driver() -> Iterator[Any]:
    made: list[Driver] = []

    def make(heartbeat_timeout: float) -> Driver:
        made.append(Driver(heartbeat_timeout))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def test_a_slot_ends_that_hears_nothing_of_its_driver_although_nobody_has_hung_up(make_driver):
    driver = make_driver(0.2)
    assert driver.process.wait(60) == 0
    assert not driver.connection.closed


def test_a_slot_stays_while_its_driver_asks_what_it_does(make_driver):
    driver = make_driver(60.0)
    for number in range(3):
        driver.connection.send(Request(number, Look()))
        reply = driver.connection.recv()
        assert (reply.number, reply.result.work) == (number, None)
    assert driver.process.poll() is None
    driver.connection.close()
    assert driver.process.wait(60) == 0


def test_a_slot_that_comes_when_the_attempt_is_over_ends_without_a_word(tmp_path):
    spec = SlotSpec(0, "f" * 32, 0, str(tmp_path / "driver"), Credentials(b"a key"), str(tmp_path))
    done = subprocess.run(COMMAND, input=pickle.dumps(spec), capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_a_slot_waits_for_a_driver_that_does_not_answer_as_long_as_it_is_told(tmp_path):
    """The driver may be stopped: the system still accepts for it."""
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "driver"))
        stopped.listen()
        spec = SlotSpec(0, "f" * 32, 0, str(tmp_path / "driver"), Credentials(b"a key"), str(tmp_path), 0.2)
        done = subprocess.run(COMMAND, input=pickle.dumps(spec), capture_output=True, timeout=120)
    assert done.returncode == 1
    assert b"driver did not answer within 0.2 s" in done.stderr
