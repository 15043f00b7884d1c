"""Pace: small steps where user code is slow, whole blocks where it is fast."""

from __future__ import annotations

import pytest

from flintstream.runtime import pace as module
from flintstream.runtime.pace import Pace


class Clock:
    """A clock that user code moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module.time, "perf_counter", clock.perf_counter)
    return clock


def step(pace: Pace, clock: Clock, seconds_each: float, records: int | None = None) -> int:
    taken = pace.size if records is None else records
    pace.begin()
    clock.now += taken * seconds_each
    pace.end(taken)
    return taken


def test_fast_code_soon_gets_whole_blocks(clock: Clock) -> None:
    pace = Pace(8192)
    assert [step(pace, clock, 1e-6) for _ in range(7)] == [1, 8, 64, 512, 4096, 8192, 8192]


def test_slow_code_stays_at_one_record(clock: Clock) -> None:
    pace = Pace(8192)
    assert [step(pace, clock, 0.5) for _ in range(3)] == [1, 1, 1]


def test_code_that_becomes_slow_gets_fewer_at_once(clock: Clock) -> None:
    pace = Pace(8192, seconds=0.05)
    for _ in range(6):
        step(pace, clock, 1e-6)
    step(pace, clock, 0.001)
    assert pace.size == 50


def test_a_step_that_was_not_full_does_not_raise_the_size(clock: Clock) -> None:
    pace = Pace(8192)
    step(pace, clock, 1e-6)
    assert pace.size == 8
    step(pace, clock, 1e-6, records=2)
    assert pace.size == 8
    step(pace, clock, 0.0, records=0)
    assert pace.size == 8
