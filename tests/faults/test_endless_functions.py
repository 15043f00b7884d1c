"""User functions that never return: a cancel ends them all the same."""

from __future__ import annotations

import re
import threading
import time

import pytest
from tests.faults.helpers import assert_nothing_left, numbers
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Configuration, JobStatus
from flintstream.datastream import MapFunction
from flintstream.spark import slots


class Marks:
    """Says through a file that it is about to begin, and never returns."""

    def __init__(self, file):
        self.file = file

    def begin(self):
        self.file.touch()


class SleepsInMap(Marks, MapFunction):
    def map(self, value):
        self.begin()
        threading.Event().wait()


class SleepsInOpen(Marks, MapFunction):
    def open(self, runtime_context):
        self.begin()
        threading.Event().wait()

    def map(self, value):
        return value


class SleepsInClose(Marks, MapFunction):
    def map(self, value):
        return value

    def close(self):
        self.begin()
        threading.Event().wait()


class NeverLetsGo(Marks, MapFunction):
    """A regular expression that takes for ever: no other thread of its process gets to run."""

    def map(self, value):
        self.begin()
        return re.match("(a+)+$", "a" * 60 + "b")


@pytest.mark.parametrize("function", [SleepsInMap, SleepsInOpen, SleepsInClose, NeverLetsGo])
def test_a_cancel_ends_a_function_that_never_returns(env, tmp_path, monkeypatch, function):
    env.configure(Configuration.from_dict({"task.cancellation.timeout": "1 s"}))
    monkeypatch.setattr(slots, "CLOSE_SECONDS", 1.0)
    numbers(env, 1, 10).map(function(tmp_path / "begun")).print()
    client = env.execute_async()
    wait_until((tmp_path / "begun").exists, what="the call of the function")
    before = time.monotonic()
    client.cancel().result()
    assert time.monotonic() - before < ENOUGH_SECONDS, "it would never return by itself"
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert_nothing_left(client)
