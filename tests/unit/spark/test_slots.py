"""Slots as the driver sees them, played by threads of the test."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.runtime.connections import connect
from flintstream.runtime.protocol import Registration, Reply
from flintstream.spark import slots as module
from flintstream.spark.slots import SlotError, SlotPool, _alive

COUNT = 2
SILENT = "nobody answers this"


class PlayedPool(SlotPool):
    """A pool whose slots are threads, which answer each call with its name."""

    def __init__(self) -> None:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))
        super().__init__(spark, "f" * 32, 0, COUNT, lambda: None, lambda fault: None)

    def _launch(self) -> dict[int, int]:
        for slot in range(self._count):
            threading.Thread(target=self._play, args=(slot,), daemon=True).start()
        return {slot: os.getpid() for slot in range(self._count)}

    def _play(self, slot: int) -> None:
        assert self._listener is not None
        with connect(self._listener.address, self.credentials) as connection, suppress(EOFError, OSError):
            connection.send(Registration(slot, os.getpid(), "here", "nowhere"))
            while True:
                request = connection.recv()
                if request.call != SILENT or slot == 0:
                    connection.send(Reply(request.number, request.call))


@pytest.fixture
def make_pool(monkeypatch):
    """Starts pools. Their slots have no process of their own that could be waited for, or killed."""
    monkeypatch.setattr(module, "ship_package", lambda spark: None)
    monkeypatch.setattr(SlotPool, "_wait_for_exit", lambda pool: None)
    pools = []

    def make() -> PlayedPool:
        pools.append(PlayedPool())
        pools[-1].start()
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_all_slots_are_called_at_once_and_answer_in_their_order(make_pool):
    assert make_pool().call_all("hello") == ["hello"] * COUNT


def test_a_call_that_takes_too_long_says_which_slots_are_late_and_with_what(make_pool):
    with pytest.raises(SlotError, match=rf"slots \[1\] have not answered '{SILENT}' within 0\.1 s"):
        make_pool().call_all(SILENT, timeout=0.1)


def test_a_pool_leaves_no_thread_socket_or_directory_behind(make_pool):
    threads_before, files_before = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        pool = make_pool()
        pool.close()
        assert not os.path.exists(pool._directory)
    deadline = time.monotonic() + 10
    while threads() - threads_before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threads() - threads_before == set()
    assert len(os.listdir("/proc/self/fd")) <= files_before


def test_a_slot_that_cannot_be_killed_does_not_keep_the_job_from_its_end(monkeypatch, caplog):
    killed = []
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(module, "_alive", lambda pid: True)
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    pool = PlayedPool()
    pool._slots[0] = SimpleNamespace(pid=77, connection=SimpleNamespace(fileno=lambda: -1))  # type: ignore[assignment]
    pool.close()
    assert killed == [77]
    assert "were killed, and have not ended: processes [77]" in caplog.text


@pytest.fixture
def ended():
    """A process that has ended, and that nobody has waited for."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process
    process.wait()


def without_proc(monkeypatch):
    def missing(path: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(module, "open", missing, raising=False)


def test_a_process_lives_until_it_ends(ended):
    assert _alive(os.getpid())
    assert not _alive(ended.pid), "it is a zombie"
    ended.wait()
    assert not _alive(ended.pid)


def test_without_proc_a_process_lives_until_its_parent_has_asked_for_it(ended, monkeypatch):
    without_proc(monkeypatch)
    assert _alive(os.getpid())
    assert _alive(ended.pid)
    ended.wait()
    assert not _alive(ended.pid)
