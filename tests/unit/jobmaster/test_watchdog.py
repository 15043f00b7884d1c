"""What looks after an attempt while its slots are at work, with slots and a clock that the test plays."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.jobmaster import watchdog as module
from flintstream.jobmaster.watchdog import Diagnosis, Watchdog
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.protocol import Activity
from flintstream.spark.timeouts import SlotTimeouts

from ..runtime.checkpoint.fake_slots import START, Clock, FakeJob

STUCK = Activity("processing epoch 3", 70.0, "Slow", 0, 69.0, '  File "job.py", line 7, in map\n')
IDLE = Activity(None, 0.0)


class Played:
    """A watchdog that looks when the test says so."""

    def __init__(self, monkeypatch: Any, **settings: Any) -> None:
        self.clock = Clock(monkeypatch)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.clock.now))
        self.job = FakeJob(**{"timeout": 60.0, **settings})
        self.job.coordinator.begin_attempt()
        self.activities: dict[int, Activity | None] = {0: IDLE, 1: STUCK}
        self.beats = 0
        self.faults: list[Fault] = []
        self.watchdog = Watchdog("my job", self, self.job.coordinator, SlotTimeouts(), self.faults.append)

    def look(self) -> dict[int, Activity | None]:
        return self.activities

    def describe(self, looked: tuple[int, Activity | None]) -> str:
        slot, activity = looked
        return (
            f"slot {slot} does not answer"
            if activity is None
            else f"slot {slot} {activity.describe()}\n{activity.stack}"
        )

    def beat(self) -> None:
        self.beats += 1

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.watchdog.tick()


@pytest.fixture
def make(monkeypatch):
    made = []

    def make(**settings: Any) -> Played:
        made.append(Played(monkeypatch, **settings))
        return made[-1]

    yield make
    for played in made:
        played.job.coordinator.close(keep=True)


@pytest.fixture
def played(make):
    return make()


class TestReports:
    def test_come_at_growing_intervals_with_the_operator_and_its_stack(self, make, caplog):
        played = make(interval=None)
        with played.watchdog.waiting("epoch 3"):
            for _ in range(300):
                played.later(1)
        reports = [record.getMessage() for record in caplog.records]
        assert [report.partition(" so far")[0] for report in reports] == [
            f"job 'my job': epoch 3 has taken {seconds} s" for seconds in (60, 120, 240)
        ]
        assert "in operator 'Slow' (subtask 1), whose function has not returned for 69 s" in reports[0]
        assert "line 7, in map" in reports[0]
        assert "slot 0" not in reports[0], "it waits for work"

    def test_do_not_come_for_short_work_or_none(self, make, caplog):
        played = make(interval=None)
        for _ in range(10):
            played.later(50)
            with played.watchdog.waiting("epoch"):
                played.later(59)
        assert caplog.records == []

    def test_say_that_a_slot_does_not_answer_and_that_nobody_works(self, make):
        played = make()
        played.activities = {0: IDLE, 1: None}
        assert str(Diagnosis(played)) == "slot 1 does not answer"
        played.activities = {0: IDLE, 1: IDLE}
        assert "Spark has not started the tasks" in str(Diagnosis(played))

    def test_begin_with_the_most_suspicious_slot(self, make):
        played = make()
        waits_for_input = Activity("processing epoch 3", 100.0)
        played.activities = {0: waits_for_input, 1: STUCK, 2: None}
        assert [slot for slot, _ in Diagnosis(played).suspects] == [2, 1, 0]

    def test_show_where_the_driver_waits_when_no_slot_is_at_work(self, make, caplog):
        played = make(interval=None)
        played.activities = {0: IDLE}
        with played.watchdog.waiting("looking for splits"):
            played.later(60)
        assert "looking for splits has taken 60 s so far: no slot is busy" in caplog.text
        assert "played.later(60)" in caplog.text

    def test_work_within_work_is_one(self, make, caplog):
        played = make(interval=None)
        with played.watchdog.waiting("epoch 3"):
            for _ in range(3):
                with played.watchdog.waiting("a call"):
                    played.later(20)
        assert "epoch 3 has taken 60 s" in caplog.text


class TestCheckpointsThatCannotBegin:
    def test_fail_the_job_with_the_operator_and_its_stack(self, played):
        with played.watchdog.waiting("epoch 3"):
            played.later(69)
            assert played.faults == []
            played.later(1)  # the interval of 10 s, and the time-out
        (fault,) = played.faults
        assert (fault.operator, fault.subtask) == ("Slow", 0)
        assert "line 7, in map" in fault.traceback
        assert fault.summary.startswith(
            "a checkpoint could not start for 60 s, since epoch 3 has not ended, and no more"
        )

    def test_count_towards_the_tolerated_failures(self, make, caplog):
        played = make(tolerable_failures=1)
        with played.watchdog.waiting("epoch 3"):
            played.later(70)
            assert played.faults == []
            assert "a checkpoint could not start for 60 s" in caplog.text
            played.later(69)
            assert played.faults == []
            played.later(1)
        assert len(played.faults) == 1

    def test_are_none_while_the_job_is_idle(self, played):
        played.later(1000)
        assert played.faults == []

    def test_are_none_while_operators_are_opened_however_long_a_restore_takes(self, played):
        with played.watchdog.waiting("the call 'deploy'", delays_checkpoints=False):
            played.later(1000)
        assert played.faults == []

    def test_are_none_if_the_work_has_ended_while_the_slots_were_asked(self, played):
        with ExitStack() as work:
            work.enter_context(played.watchdog.waiting("epoch 3"))
            look = played.look

            def slowly() -> dict[int, Activity | None]:
                work.close()
                return look()

            played.look = slowly
            played.later(70)
        assert played.faults == []

    def test_are_none_without_checkpoints(self, make):
        played = make(interval=None)
        with played.watchdog.waiting("epoch 3"):
            played.later(1000)
        assert played.faults == []


class TestCheckpointsOnTheirWay:
    def test_time_out_while_slots_are_at_work(self, played):
        pending = played.job.begin()
        with played.watchdog.waiting("the call 'snapshot'"):
            played.later(60)
        (fault,) = played.faults
        assert fault.operator == "Slow"
        assert fault.summary.startswith(
            "checkpoint 1 has timed out, and no more failures are tolerated: slot 1 has been"
        )
        assert "slots 0, 1 have not answered; slot 1 has been" in str(pending.result.exception(0))

    def test_time_out_while_the_job_is_idle_and_its_thread_takes_the_outcome(self, played):
        played.job.begin()
        wakes = played.job.wakes
        played.later(60)
        assert played.faults == []
        assert played.job.wakes > wakes
        (outcome,) = played.job.coordinator.outcomes()
        assert not outcome.tolerated

    def test_savepoints_that_time_out_do_not_fail_the_job(self, make, tmp_path):
        played = make(interval=None)
        pending = played.job.begin(str(tmp_path))
        with played.watchdog.waiting("epoch 3"):
            played.later(60)
        assert "not complete after 60 s" in str(pending.result.exception(0))
        assert played.faults == []


class TestBarriers:
    def test_a_barrier_that_hangs_in_flight_fails_the_attempt(self, played):
        played.activities = {0: IDLE, 1: IDLE}
        with played.watchdog.waiting("the barrier of an epoch", is_barrier=True):
            for _ in range(58):
                played.later(1)
            assert played.faults == []
            for _ in range(10):
                played.later(1)
        [fault] = played.faults
        assert "although the barrier of an epoch is in flight: a Spark task of the pipelined job hangs" in fault.summary

    def test_user_code_may_take_its_time_before_a_barrier(self, played):
        with played.watchdog.waiting("the barrier of an epoch", is_barrier=True):
            for _ in range(600):
                played.later(1)
        assert not any("hangs" in fault.summary for fault in played.faults)

    def test_idle_slots_are_nothing_special_otherwise(self, played):
        played.activities = {0: IDLE, 1: IDLE}
        with played.watchdog.waiting("the call 'begin_epoch'"):
            for _ in range(600):
                played.later(1)
        assert not any("hangs" in fault.summary for fault in played.faults)


def test_slots_are_asked_for_a_sign_of_life_at_intervals(played):
    for _ in range(30):
        played.later(1)
    assert played.beats == 3
    assert played.clock.now > START
