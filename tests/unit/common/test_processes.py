"""Processes, and others that have their numbers later."""

from __future__ import annotations

import os
import subprocess

import pytest

from flintstream.common import processes as module
from flintstream.common.processes import Process


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


def test_a_process_runs_until_it_ends(ended):
    assert Process.of(os.getpid()).runs()
    process = Process.of(ended.pid)
    assert not process.runs(), "it is a zombie"
    ended.wait()
    assert not process.runs()


def test_without_proc_a_process_runs_until_its_parent_has_asked_for_it(ended, monkeypatch):
    without_proc(monkeypatch)
    assert Process.of(os.getpid()).runs()
    process = Process.of(ended.pid)
    assert process.runs()
    ended.wait()
    assert not process.runs()


def test_another_process_with_the_number_of_one_that_has_ended_is_left_alone():
    with subprocess.Popen(["sleep", "300"]) as other:
        own = Process.of(other.pid)
        assert own.started is not None
        before = own._replace(started=own.started - 1)
        assert own.runs() and not before.runs()
        before.kill()
        assert other.poll() is None
        own.kill()
        assert other.wait(60) == -9
        own.kill()
