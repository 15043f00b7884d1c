"""Restart strategies decide as Flink's do, with Flink's defaults."""

from __future__ import annotations

import pytest

from flintstream.jobmaster import restart
from flintstream.jobmaster.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    restart_strategy,
)

EXPONENTIAL = "restart-strategy.exponential-delay."


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def delays(strategy: restart.RestartStrategy, count: int) -> list[float | None]:
    return [strategy.delay() for _ in range(count)]


def no_jitter(monkeypatch: pytest.MonkeyPatch, share: float = 0.0) -> None:
    """Chance always gives the same place between the least and the most."""
    monkeypatch.setattr(restart.random, "uniform", lambda low, high: high * share)


# --- which ---


def test_without_a_strategy_only_jobs_with_checkpoints_start_again():
    assert isinstance(restart_strategy({}, checkpointing=False), NoRestart)
    assert isinstance(restart_strategy({}, checkpointing=True), ExponentialDelay)


@pytest.mark.parametrize("key", ["restart-strategy.type", "restart-strategy"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", NoRestart),
        ("off", NoRestart),
        ("disable", NoRestart),
        ("fixed-delay", FixedDelay),
        ("fixeddelay", FixedDelay),
        ("failure-rate", FailureRate),
        ("failurerate", FailureRate),
        ("exponential-delay", ExponentialDelay),
        ("exponentialdelay", ExponentialDelay),
        ("Fixed-Delay", FixedDelay),
    ],
)
def test_a_strategy_is_known_by_all_its_names(key, name, kind):
    for checkpointing in (True, False):
        assert type(restart_strategy({key: name}, checkpointing)) is kind


def test_the_newer_name_of_the_option_counts():
    both = {"restart-strategy.type": "none", "restart-strategy": "fixed-delay"}
    assert isinstance(restart_strategy(both, True), NoRestart)


def test_an_unknown_strategy_is_named():
    with pytest.raises(ValueError, match=r"restart-strategy\.type must be none, fixed-delay.*got 'sometimes'"):
        restart_strategy({"restart-strategy.type": "sometimes"}, True)


# --- how ---


def test_no_restart_gives_up_at_once():
    assert NoRestart().delay() is None


def test_a_fixed_delay_gives_one_restart_after_a_second_unless_set():
    assert delays(restart_strategy({"restart-strategy.type": "fixed-delay"}, False), 3) == [1.0, None, None]


def test_a_fixed_delay_gives_so_many_restarts():
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "20 ms",
    }
    assert delays(restart_strategy(options, False), 4) == [0.02, 0.02, 0.02, None]


def test_a_failure_rate_allows_one_failure_a_minute_unless_set():
    assert delays(restart_strategy({"restart-strategy.type": "failure-rate"}, False), 2) == [1.0, None]


def test_a_failure_rate_gives_up_when_failures_come_too_often():
    clock = Clock()
    strategy = FailureRate(2, 60.0, 5.0, clock)
    assert delays(strategy, 2) == [5.0, 5.0]
    clock.now = 60.1
    assert strategy.delay() == 5.0
    clock.now = 61.0
    assert strategy.delay() == 5.0
    clock.now = 61.5
    assert strategy.delay() is None


def test_failures_at_the_very_edge_of_the_interval_count():
    clock = Clock()
    strategy = FailureRate(1, 60.0, 5.0, clock)
    assert strategy.delay() == 5.0
    clock.now = 60.0
    assert strategy.delay() is None


def test_exponential_delays_grow_up_to_a_minute_unless_set(monkeypatch):
    no_jitter(monkeypatch)
    found = delays(restart_strategy({}, True), 13)
    assert found[:4] == [1.0, 1.5, 2.25, 3.375]
    assert found[-2:] == [60.0, 60.0]


def test_exponential_delays_go_on_for_ever(monkeypatch):
    no_jitter(monkeypatch)
    assert delays(restart_strategy({}, True), 3000)[-1] == 60.0


@pytest.mark.parametrize("share", [-1.0, 1.0])
def test_chance_moves_a_delay_by_a_share_of_it_within_the_limits(monkeypatch, share):
    no_jitter(monkeypatch, share)
    found = delays(ExponentialDelay(1.0, 10.0, 2.0, jitter=0.25, clock=Clock()), 6)
    # Neither below the first nor above the longest delay.
    expected = [1.0, 1.5, 3.0, 6.0, 10.0, 10.0] if share < 0 else [1.25, 2.5, 5.0, 10.0, 10.0, 10.0]
    assert found == pytest.approx(expected)


def test_a_quiet_time_begins_delays_anew(monkeypatch):
    no_jitter(monkeypatch)
    clock = Clock()
    strategy = ExponentialDelay(1.0, 60.0, 2.0, reset_after=100.0, clock=clock)
    assert delays(strategy, 3) == [1.0, 2.0, 4.0]
    # It runs again from second 4 on.
    clock.now = 103.9
    assert strategy.delay() == 8.0
    clock.now = 103.9 + 8 + 100
    assert strategy.delay() == 1.0


def test_so_many_attempts_are_made_before_a_quiet_time(monkeypatch):
    no_jitter(monkeypatch)
    options = {
        "restart-strategy.type": "exponential-delay",
        f"{EXPONENTIAL}attempts-before-reset-backoff": "2",
        f"{EXPONENTIAL}initial-backoff": "10 ms",
        f"{EXPONENTIAL}max-backoff": "1 s",
        f"{EXPONENTIAL}backoff-multiplier": "3",
    }
    assert delays(restart_strategy(options, False), 3) == [0.01, 0.03, None]
    clock = Clock()
    strategy = ExponentialDelay(1.0, 60.0, 2.0, reset_after=100.0, attempts=2, clock=clock)
    assert delays(strategy, 2) == [1.0, 2.0]
    clock.now = 500.0
    assert delays(strategy, 3) == [1.0, 2.0, None]


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("fixed-delay", "fixed-delay.attempts", "many"),
        ("fixed-delay", "fixed-delay.attempts", "-1"),
        ("fixed-delay", "fixed-delay.delay", "soon"),
        ("fixed-delay", "fixed-delay.delay", "PT-1S"),
        ("failure-rate", "failure-rate.max-failures-per-interval", "0"),
        ("failure-rate", "failure-rate.max-failures-per-interval", "1.5"),
        ("failure-rate", "failure-rate.failure-rate-interval", "0 s"),
        ("failure-rate", "failure-rate.delay", "later"),
        ("exponential-delay", "exponential-delay.initial-backoff", "0 ms"),
        ("exponential-delay", "exponential-delay.max-backoff", "500 ms"),
        ("exponential-delay", "exponential-delay.backoff-multiplier", "1.0"),
        ("exponential-delay", "exponential-delay.backoff-multiplier", "twice"),
        ("exponential-delay", "exponential-delay.jitter-factor", "1.1"),
        ("exponential-delay", "exponential-delay.jitter-factor", "-0.1"),
        ("exponential-delay", "exponential-delay.reset-backoff-threshold", "0 s"),
        ("exponential-delay", "exponential-delay.attempts-before-reset-backoff", "0"),
        ("exponential-delay", "exponential-delay.attempts-before-reset-backoff", "some"),
    ],
)
def test_a_bad_value_is_told_by_its_option(kind, key, value):
    with pytest.raises(ValueError, match=rf"restart-strategy\.{key}\b"):
        restart_strategy({"restart-strategy.type": kind, f"restart-strategy.{key}": value}, True)
