"""Checkpoints and savepoints of an attempt, with slots that the test plays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.jobmaster.checkpoint_driver import CheckpointDriver
from flintstream.jobmaster.control import (
    CheckpointRequest,
    JobCancelled,
    JobFailed,
    JobStopped,
    SavepointRequest,
    StopUndecided,
)
from flintstream.runtime.checkpoint.uploads import SnapshotDone
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.messages import CheckpointComplete, TakeSnapshot

from .played import PlayedJob, died


class Source:
    """A source that stands at a position, and notes which ones are safe."""

    def __init__(self) -> None:
        self.safe: list[Any] = []

    def position(self) -> Any:
        return "here"

    def checkpoint_complete(self, position: Any) -> None:
        self.safe.append(position)


class Driven:
    """The checkpoints of an attempt that has run one epoch, and has collected a record in it."""

    def __init__(self, **settings: Any) -> None:
        self.job = PlayedJob(**settings)
        self.job.collect_a_record()
        self.done: list[str] = self.job.pool.called
        """The calls of slots, and what else is done."""
        self.source = Source()
        self.epochs: Any = SimpleNamespace(
            number=1, advanced_to=1, standing=False, drain=lambda: self.done.append("drain")
        )
        writers: Any = SimpleNamespace(write_staged=lambda up_to: self.done.append(f"write up to {up_to}"))
        sources: Any = {"numbers": self.source}
        self.driver = CheckpointDriver(self.job.context, self.job.slots, sources, writers, self.epochs)

    def ask(self, directory: Any, **kind: bool) -> SavepointRequest:
        request = SavepointRequest(str(directory), **kind)
        self.job.control.request(request)
        return request

    def tend_until_done(self, *calls: str) -> None:
        """Tends until this was done."""
        for _ in range(600):
            if self.done == [*calls]:
                return
            self.job.control.wait_for_wake(0.1)
            self.driver.tend()
        raise AssertionError(f"done was {self.done}")


@pytest.fixture
def driven():
    driven = Driven()
    yield driven
    driven.job.coordinator.close(keep=True)


def test_a_checkpoint_that_is_due_is_taken_and_then_everybody_commits(driven):
    driven.job.store_snapshots()
    driven.job.coordinator.hurry()
    driven.driver.tend()
    assert driven.done == ["snapshot"]
    driven.tend_until_done("snapshot", "checkpoint_complete", "write up to 1")
    assert driven.source.safe == ["here"]
    assert driven.job.collected() == ["record"]


def test_nothing_is_committed_when_the_job_is_not_this_drivers_any_more(driven, monkeypatch):
    def lost() -> None:
        raise JobFailed(died())

    monkeypatch.setattr(type(driven.job.context), "check_lease", lambda context: lost())
    with pytest.raises(JobFailed):
        driven.driver.commit(1)
    assert driven.done == []


def test_records_of_a_complete_checkpoint_are_delivered_although_the_slots_cannot_be_told(driven):
    """The next attempt goes on behind the checkpoint: they would never come again."""
    pending = driven.job.fake.begin()
    driven.job.fake.answer(pending)
    driven.job.fake.settle()
    driven.job.pool.broken[CheckpointComplete] = died()
    with pytest.raises(JobFailed):
        driven.driver.tend()
    assert driven.job.coordinator.end_attempt() == [], "nobody else delivers them"
    driven.job.deliveries.forget()
    assert driven.job.collected() == ["record"]


def test_records_of_no_checkpoint_are_not_delivered(driven):
    driven.job.fake.decline(driven.job.fake.begin(), 0)
    with pytest.raises(JobFailed, match="checkpoint 1 failed"):
        driven.driver.tend()
    assert driven.done == ["checkpoint_aborted"]
    driven.job.deliveries.forget()
    assert driven.job.collected() == []


def test_a_slot_whose_state_cannot_be_taken_fails_the_checkpoint_and_not_yet_the_job():
    driven = Driven(tolerable_failures=1)
    driven.job.pool.broken[TakeSnapshot] = Fault("Count", 0, None, "…", "cannot be pickled")
    driven.job.coordinator.hurry()
    driven.driver.tend()
    driven.driver.tend()
    assert driven.done == ["snapshot", "checkpoint_aborted"]


def test_a_slot_that_has_died_fails_the_job_when_its_state_is_to_be_taken(driven):
    driven.job.pool.broken[TakeSnapshot] = None
    driven.job.control.fail(died())
    driven.job.coordinator.hurry()
    with pytest.raises(JobFailed, match="slot 0 died"):
        driven.driver.tend()


def test_the_last_checkpoint_is_waited_for(driven):
    driven.job.store_snapshots()
    driven.driver.take_last()
    assert driven.done == ["snapshot", "checkpoint_complete", "write up to 1"]


def test_a_job_without_checkpoints_whose_sinks_commit_nothing_takes_no_last_one():
    driven = Driven(interval=None)
    driven.driver.take_last()
    assert driven.done == []


def test_whoever_asks_for_a_savepoint_gets_it_and_the_job_goes_on(driven, tmp_path):
    driven.job.store_snapshots()
    request = driven.ask(tmp_path)
    driven.driver.tend()
    assert (tmp_path / request.result.result(60) / "_metadata").exists()
    assert driven.done == ["snapshot"]


@pytest.mark.parametrize(("strike", "error", "told"), [
    (lambda job: job.control.cancel(), JobCancelled, "the job was cancelled"),
    (lambda job: job.control.fail(died()), JobFailed, "slot 0 died"),
])  # fmt: skip
def test_whoever_stops_a_job_learns_that_it_has_ended_meanwhile(driven, tmp_path, strike, error, told):
    driven.job.pool.replies[TakeSnapshot] = lambda slot, message: strike(driven.job)
    request = driven.ask(tmp_path, stop=True)
    with pytest.raises(error):
        driven.driver.tend()
    assert str(request.result.exception(0)) == told


def test_a_stop_is_noted_when_its_savepoint_is_complete_and_then_sinks_commit(driven, tmp_path):
    driven.job.store_snapshots()
    request = driven.ask(tmp_path, stop=True)
    with pytest.raises(JobStopped) as stopped:
        driven.driver.tend()
    assert (tmp_path / stopped.value.location / "_metadata").exists()
    driven.driver.commit(stopped.value.checkpoint_id)
    assert driven.done == ["snapshot", "checkpoint_complete", "write up to 1"]
    assert driven.source.safe == [], "a savepoint is nothing that sources may forget records for"
    assert not request.result.done(), "it is told when the job has ended"
    assert driven.job.collected() == ["record"]


def test_a_stop_that_cannot_be_noted_is_undecided(driven, tmp_path, monkeypatch):
    def cannot(pending: Any) -> None:
        raise OSError("the storage has gone")

    monkeypatch.setattr(driven.job.coordinator, "stop", cannot)
    driven.job.store_snapshots()
    request = driven.ask(tmp_path, stop=True)
    with pytest.raises(StopUndecided):
        driven.driver.tend()
    assert not request.result.done(), "the next attempt knows"


def test_a_drained_job_whose_savepoint_fails_has_failed(driven, tmp_path):
    driven.job.pool.broken[TakeSnapshot] = Fault("Count", 0, None, "…", "cannot be pickled")
    request = driven.ask(tmp_path, stop=True, drain=True)
    with pytest.raises(JobFailed, match="the job was drained, but its savepoint failed: .*cannot be pickled"):
        driven.driver.tend()
    assert driven.done == ["drain", "snapshot", "checkpoint_aborted"]
    assert "cannot be pickled" in str(request.result.exception(0))


def test_a_checkpoint_is_taken_at_once_for_somebody_who_waits():
    driven = Driven(interval=3600.0)
    driven.job.store_snapshots()
    request = CheckpointRequest()
    driven.job.control.request(request)
    driven.driver.tend()
    assert request.begun.is_set()
    driven.tend_until_done("snapshot", "checkpoint_complete", "write up to 1")
    assert request.result.result(60) == 1


def test_a_checkpoint_that_is_wanted_waits_for_the_one_in_progress():
    driven = Driven(interval=3600.0)
    first, second = CheckpointRequest(), CheckpointRequest()
    for request in (first, second):
        driven.job.control.request(request)
        driven.driver.tend()
    driven.driver.tend()
    assert first.begun.is_set() and not second.begun.is_set()
    driven.job.store_snapshots()
    driven.job.coordinator.acknowledge(SnapshotDone(0, 1, {}))
    driven.tend_until_done("snapshot", "checkpoint_complete", "write up to 1", "snapshot")
    assert (first.result.result(60), second.result.result(60)) == (1, 2)


def test_a_checkpoint_that_is_wanted_and_fails_says_why():
    driven = Driven(interval=3600.0, tolerable_failures=1)
    driven.job.pool.broken[TakeSnapshot] = died()
    request = CheckpointRequest()
    driven.job.control.request(request)
    driven.driver.tend()
    with pytest.raises(RuntimeError, match="slot 0 died"):
        request.result.result(60)
