"""One attempt of a job, with slots that the test plays."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.jobmaster import attempt as module
from flintstream.jobmaster.attempt import JobAttempt

from .played import PlayedJob


@pytest.fixture
def job(monkeypatch) -> PlayedJob:
    job = PlayedJob()
    monkeypatch.setattr(module, "SlotPool", lambda *arguments: job.pool)
    return job


@pytest.fixture
def attempt(job) -> JobAttempt:
    nowhere: Any = None
    return JobAttempt(job.context, 0, nowhere)


def test_slots_may_close_their_operators_although_a_cancel_still_gives_up_what_it_waits_for(job, attempt):
    attempt.give_up_calls("the job is cancelled")
    attempt.release(finished=False)
    attempt.give_up_calls("the job is cancelled")
    assert job.pool.given_up == ["the job is cancelled"]
    assert job.pool.called == ["close", "hang up"]


def test_an_attempt_is_released_once(job, attempt):
    attempt.release(finished=False)
    attempt.release(finished=False)
    assert job.pool.called == ["close", "hang up"]
