"""A job whose tasks hang is cancelled; one that waits for cores is not, nor one that has ended. Without Spark."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from tests.waiting import wait_until

from flintstream.spark import hanging_jobs
from flintstream.spark.hanging_jobs import cancelled_if_hanging


class FakeContext:
    """A Spark with one job, of which a number of tasks run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: int | Exception = 0
        self.asked = 0
        self.cancelled: list[str] = []
        monkeypatch.setattr(hanging_jobs, "_POLL_SECONDS", 0.005)
        monkeypatch.setattr(hanging_jobs, "cancel_jobs", lambda context, group, why: self.cancelled.append(group))

    def statusTracker(self) -> Any:
        return SimpleNamespace(
            getJobIdsForGroup=lambda group: [7],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[1, 2]),
            getStageInfo=self._stage,
        )

    def _stage(self, stage: int) -> Any:
        self.asked += 1
        if isinstance(self.running, Exception):
            raise self.running
        return None if stage == 1 else SimpleNamespace(numActiveTasks=self.running)

    def is_asked(self, times: int) -> None:
        until = self.asked + times
        wait_until(lambda: self.asked >= until, pause=0.001)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    return FakeContext(monkeypatch)


def test_tasks_that_run_for_too_long_are_cancelled_once(context):
    context.running = 2
    with cancelled_if_hanging(context, "group", 0.05) as hung:
        started = time.monotonic()
        assert hung.wait(60)
        assert time.monotonic() - started >= 0.04
        wait_until(lambda: context.cancelled)
    assert context.cancelled == ["group"]


def test_the_time_in_which_it_waits_for_cores_does_not_count(context):
    with cancelled_if_hanging(context, "group", 0.0) as hung:
        context.is_asked(20)
        assert not hung.is_set()
        context.running = 1
        assert hung.wait(60)


def test_a_job_that_has_ended_is_left_alone(context):
    context.running = 1
    with cancelled_if_hanging(context, "group", 3600.0) as hung:
        context.is_asked(4)
    assert not hung.is_set() and context.cancelled == []


def test_without_a_jvm_nothing_hangs(context):
    context.running = Py4JNetworkError("gone")
    with cancelled_if_hanging(context, "group", 0.0) as hung:
        context.is_asked(10)
    assert not hung.is_set() and context.cancelled == []
