"""One attempt of a job, with slots that the test plays."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from flintstream.jobmaster.attempt import JobAttempt
from flintstream.jobmaster.control import JobCancelled, JobControl, JobFailed, JobStopped, SavepointRequest
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import Fault
from flintstream.spark.slots import SlotError

from ..graph.programs import execution_graph, sink, source
from ..runtime.checkpoint.fake_slots import FakeJob

SPOOL = "collected"


class Slots:
    """What an attempt sees of its slots; those that are `broken` fail at the call of that name."""

    def __init__(self) -> None:
        self.broken: dict[str, Fault | None] = {}
        self.called: list[str] = []
        self.given_up: list[str] = []
        self.on_snapshot: Callable[[], None] = lambda: None

    def call_all(self, name: str, arguments: Any = None, timeout: float | None = None) -> list[Any]:
        self.called.append(name)
        if name in self.broken:
            raise SlotError("slot 0 died", self.broken[name])
        if name == "snapshot":
            self.on_snapshot()
        return [None]

    def tell_all(self, name: str, timeout: float) -> None:
        self.called.append(name)

    def give_up_calls(self, why: str) -> None:
        self.given_up.append(why)

    def interrupt(self) -> None:
        """Has nothing under way."""

    def close(self) -> None:
        self.called.append("hang up")


class Played:
    """An attempt with checkpoints that has run one epoch, and has collected a record in it."""

    def __init__(self) -> None:
        self.control = JobControl()
        self.job = FakeJob()
        self.coordinator = self.job.coordinator
        self.coordinator.begin_attempt()
        self.deliveries = Deliveries(Progress("my job", False), True, lambda: self.control.cancelled)
        graph = execution_graph(sink(source()))
        nowhere: Any = None
        self.attempt = JobAttempt(
            "f" * 32,
            0,
            graph,
            JobDeployment.of(graph),
            JobSettings("my job"),
            nowhere,
            self.control,
            self.coordinator,
            self.deliveries,
            Progress("my job", False),
            SourceFactory(None, True),
        )
        self.slots = Slots()
        self.attempt.epoch = 1
        self.attempt.pool = self.slots  # type: ignore[assignment]
        self.deliveries._deliver(1, SPOOL, pickle.dumps(["record"]))

    def collected(self) -> list[Any]:
        self.deliveries.end(None)
        return list(self.deliveries.collector(SPOOL))


@pytest.fixture
def played() -> Played:
    return Played()


def died() -> Fault:
    return Fault(None, None, None, "slot 0 died", "slot 0 died")


def test_records_of_a_complete_checkpoint_are_delivered_although_the_slots_cannot_be_told(played):
    """The next attempt goes on behind the checkpoint: they would never come again."""
    pending = played.job.begin()
    played.job.answer(pending)
    played.job.settle()
    played.slots.broken["checkpoint_complete"] = died()
    with pytest.raises(JobFailed):
        played.attempt._tend_checkpoints()
    played.attempt.release(finished=False)
    assert played.coordinator.end_attempt() == [], "nobody else delivers them"
    played.deliveries.forget()
    assert played.collected() == ["record"]


def test_records_of_no_checkpoint_are_not_delivered(played):
    played.job.decline(played.job.begin(), 0)
    with pytest.raises(JobFailed, match="checkpoint 1 failed"):
        played.attempt._tend_checkpoints()
    played.deliveries.forget()
    assert played.collected() == []


def test_slots_may_close_their_operators_although_a_cancel_still_gives_up_what_it_waits_for(played):
    played.attempt.give_up_calls("the job is cancelled")
    played.attempt.release(finished=False)
    played.attempt.give_up_calls("the job is cancelled")
    assert played.slots.given_up == ["the job is cancelled"]
    assert played.slots.called == ["close", "hang up"]


def test_an_attempt_is_released_once(played):
    played.attempt.release(finished=False)
    played.attempt.release(finished=False)
    assert played.slots.called == ["close", "hang up"]


def test_whoever_stops_a_job_learns_that_it_was_cancelled_meanwhile(played, tmp_path):
    request = SavepointRequest(str(tmp_path), stop=True)
    played.slots.on_snapshot = played.control.cancel
    with pytest.raises(JobCancelled):
        played.attempt._take_savepoint(request)
    assert str(request.result.exception(0)) == "the job was cancelled"


def test_whoever_stops_a_job_learns_that_a_slot_has_failed_meanwhile(played, tmp_path):
    request = SavepointRequest(str(tmp_path), stop=True)
    played.slots.on_snapshot = lambda: played.control.fail(died())
    with pytest.raises(JobFailed):
        played.attempt._take_savepoint(request)
    assert str(request.result.exception(0)) == "slot 0 died"


def test_a_stop_is_noted_when_its_savepoint_is_complete_and_then_sinks_commit(played, tmp_path):
    request = SavepointRequest(str(tmp_path), stop=True)

    def answer() -> None:
        (pending,) = played.coordinator._pending.values()
        for slot in sorted(pending.waiting):
            played.coordinator.acknowledge(played.job.store(pending, slot))

    played.slots.on_snapshot = lambda: threading.Timer(0.05, answer).start()
    with pytest.raises(JobStopped) as stopped:
        played.attempt._take_savepoint(request)
    assert (tmp_path / stopped.value.location / "_metadata").exists()
    played.attempt.commit(stopped.value.checkpoint_id)
    assert played.slots.called == ["snapshot", "checkpoint_complete"]
    assert not request.result.done(), "it is told when the job has ended"
    assert played.collected() == ["record"]
