"""What wakes the thread of a job, and what ends it."""

from __future__ import annotations

import threading
import time

import pytest

from flintstream.jobmaster import control as module
from flintstream.jobmaster.control import JobCancelled, JobControl, JobFailed, SavepointRequest
from flintstream.runtime.faults import Fault


def fault(summary: str, operator: str | None = None) -> Fault:
    return Fault(operator, None, None, summary, summary)


def wait(control: JobControl, due: float | None = None, not_before: float = 0.0, tended: float | None = None) -> bool:
    return control.wait(lambda: due, not_before, lambda: tended)


def soon(action) -> threading.Timer:
    timer = threading.Timer(0.05, action)
    timer.start()
    return timer


def test_an_epoch_is_due_with_data_or_at_its_time():
    control = JobControl()
    assert wait(control, due=0.0)
    control.data_ready()
    assert wait(control)
    control.begin_epoch()
    soon(control.data_ready)
    assert wait(control)
    control.begin_epoch()
    started = time.monotonic()
    assert wait(control, due=started + 0.05)
    assert time.monotonic() >= started + 0.05


def test_an_epoch_does_not_begin_before_its_least_distance():
    control = JobControl()
    control.data_ready()
    started = time.monotonic()
    assert wait(control, not_before=started + 0.1)
    assert time.monotonic() >= started + 0.1


def test_what_else_is_due_wakes_without_an_epoch():
    control = JobControl()
    assert not wait(control, due=time.monotonic() + 100, tended=time.monotonic() + 0.02)
    soon(control.wake)
    assert not wait(control)
    soon(lambda: control.request(SavepointRequest("/data")))
    assert not wait(control)
    assert control.next_request().directory == "/data"
    assert control.next_request() is None


def test_a_cancel_ends_every_wait():
    for waiting in (wait, lambda control: control.pause(100), lambda control: control.wait_for_wake(100)):
        control = JobControl()
        timer = soon(control.cancel)
        with pytest.raises(JobCancelled):
            waiting(control)
            control.check()
        timer.join()
        assert control.cancelled


def test_a_failure_ends_the_wait_and_is_forgotten_by_the_next_attempt():
    control = JobControl()
    soon(lambda: control.fail(fault("broken")))
    with pytest.raises(JobFailed, match="broken"):
        wait(control)
    control.begin_attempt()
    control.check()


def test_what_fails_while_a_job_is_cancelled_is_no_failure():
    control = JobControl()
    control.cancel()
    control.fail(fault("the Spark task of epoch 3 went away"))
    with pytest.raises(JobCancelled, match="the job was cancelled"):
        control.raise_cause(OSError("a task has failed"))


def test_who_can_name_an_operator_knows_best_why():
    control = JobControl()
    control.fail(fault("a connection was lost"))
    control.fail(fault("division by zero", "Map"))
    control.fail(fault("something else", "Sink"))
    with pytest.raises(JobFailed, match="division by zero"):
        control.check()


def test_what_a_slot_says_of_a_failure_counts_more_than_what_was_seen_of_it():
    control = JobControl()
    soon(lambda: control.fail(fault("division by zero", "Map")))
    with pytest.raises(JobFailed, match="division by zero"):
        control.raise_cause(OSError("a task has failed"))


def test_without_another_reason_a_failure_is_told_as_it_was_seen(monkeypatch):
    monkeypatch.setattr(module, "CAUSE_SECONDS", 0.01)
    with pytest.raises(OSError, match="a task has failed"):
        JobControl().raise_cause(OSError("a task has failed"))


def test_savepoints_that_nobody_will_take_are_refused():
    control = JobControl()
    requests = [SavepointRequest("/a"), SavepointRequest("/b")]
    for request in requests:
        control.request(request)
    control.refuse_requests("the job is FAILED")
    assert [str(request.result.exception()) for request in requests] == ["the job is FAILED"] * 2
