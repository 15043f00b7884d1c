"""Jobs whose attempts the test lets end."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from flintstream.jobmaster import job_master
from flintstream.jobmaster.control import JobFailed


@pytest.fixture
def blocked(monkeypatch):
    """Attempts run until `go_on` is set, and then fail with the next of `faults`, if there is one."""
    from .test_job_master import PlayedAttempt

    class Blocked(PlayedAttempt):
        go_on = threading.Event()
        faults = []

        def __init__(self, context, number, spark):
            there = SimpleNamespace(slot=0, host="there", pid=17)
            self.pool = SimpleNamespace(close=lambda: None, handles=[there], local_processes=[])

        def run(self):
            assert Blocked.go_on.wait(60)
            if Blocked.faults:
                raise JobFailed(Blocked.faults.pop(0))

    monkeypatch.setattr(job_master, "JobAttempt", Blocked)
    monkeypatch.setattr(job_master, "loss_of", lambda spark: None)
    yield Blocked
    Blocked.go_on.set()
