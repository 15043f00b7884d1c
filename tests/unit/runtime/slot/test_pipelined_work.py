"""PipelinedWork: when a slot sends what it gathers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.runtime.slot import pipelined_work
from flintstream.runtime.slot.activity import ActivityMonitor
from flintstream.runtime.slot.pipelined_work import PipelinedWork
from flintstream.runtime.slot.protocol import Join
from flintstream.runtime.slot.seals import Seals
from flintstream.runtime.slot.slot import Slot

BLOCK = 1000


class Steps:
    """A pipeline whose steps each take some seconds of the fake clock and write some bytes for slot 1, or do nothing."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds = 0.004
        self.size = BLOCK
        self.idle = False
        self.outgoing_bytes = 0
        self.passed = False

    def step(self) -> bool:
        if self.idle:
            return False
        self.now += self.seconds
        self.outgoing_bytes += self.size
        return True

    def take_outgoing(self) -> list[tuple[int, list[bytes]]]:
        taken, self.outgoing_bytes = self.outgoing_bytes, 0
        return [(1, [bytes(taken)])]

    def patience(self) -> float | None:
        return None if self.idle else 0.0


class Work:
    """A slot's work with such a pipeline; `sent` has the sizes of the packs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, joined: bool = True) -> None:
        self.steps = Steps()
        monkeypatch.setattr(pipelined_work, "time", SimpleNamespace(monotonic=lambda: self.steps.now))
        self.sent: list[int] = []
        slot = Slot(0, "0" * 32, 0, lambda message: None)
        self._seals = Seals(1, 0, b"key")
        pipeline: Any = self.steps
        self.work = PipelinedWork(slot, pipeline, ActivityMonitor(), Seals(0, 0, b"key"), self._note)
        if joined:
            self.join()

    def join(self) -> None:
        connection: Any = object()
        self.work.join(Join("0" * 32, 0, 0, sends=True), connection)

    def _note(self, connection: Any, row: bytes) -> None:
        [pack] = self._seals.open(row[4:])
        self.sent.append(len(pack))

    def until_sent(self, most_steps: int = 1000) -> int:
        """Returns the number of steps until something was sent."""
        for count in range(1, most_steps + 1):
            self.work.step()
            if self.sent:
                return count
        raise AssertionError(f"nothing was sent in {most_steps} steps")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_a_slot_without_work_sends_at_once(work: Work) -> None:
    work.work.step()
    assert work.sent == []
    work.steps.idle = True
    assert work.work.step()
    assert work.sent == [BLOCK]
    assert not work.work.step()


def test_a_busy_slot_gathers_for_a_limited_time(work: Work) -> None:
    assert work.until_sent() == 6  # A seventh step of 4 ms would end after 25 ms.
    assert work.sent == [6 * BLOCK]
    work.sent.clear()
    assert work.until_sent() == 6


def test_steps_that_write_nothing_start_no_gathering(work: Work) -> None:
    work.steps.size = 0
    for _ in range(100):
        work.work.step()
    work.steps.size = BLOCK
    assert work.until_sent() == 6


def test_slow_steps_delay_nothing(work: Work) -> None:
    work.steps.seconds = 0.020
    assert work.until_sent() == 1


def test_a_busy_slot_gathers_a_limited_size(work: Work) -> None:
    work.steps.seconds, work.steps.size = 0.0, 1 << 18
    assert work.until_sent() == 4


def test_what_is_gathered_waits_for_no_call_of_the_driver(work: Work) -> None:
    work.work.step()
    assert work.work.send_gathered()
    assert work.sent == [BLOCK]
    assert not work.work.send_gathered()


def test_nothing_is_sent_once_the_attempt_is_over(work: Work) -> None:
    work.work.step()
    work.work.broken = True
    assert not work.work.send_gathered()
    assert work.sent == []


def test_what_is_gathered_waits_for_the_standing_job(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch, joined=False)
    for _ in range(100):
        work.work.step()
    assert not work.work.send_gathered()
    work.join()
    assert work.until_sent() == 6
    assert work.sent == [106 * BLOCK]
