"""Whether and when a driver that died is started again."""

from __future__ import annotations

import pytest

from flintstream.server.restarts import Refusal, restart_delay

DIRECTORY = {"checkpointing": True, "directory": "/checkpoints", "restart": {}}


def fixed(attempts):
    return {
        **DIRECTORY,
        "restart": {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": str(attempts),
            "restart-strategy.fixed-delay.delay": "2 s",
        },
    }


def test_the_attempts_of_a_fixed_delay_are_those_of_all_drivers():
    assert restart_delay(fixed(2), [1.0]) == 2.0
    assert restart_delay(fixed(2), [1.0, 2.0]) == 2.0
    assert isinstance(restart_delay(fixed(2), [1.0, 2.0, 3.0]), Refusal)


def test_with_checkpoints_delays_grow_and_begin_anew_after_a_quiet_hour():
    first, second = restart_delay(DIRECTORY, [0.0]), restart_delay(DIRECTORY, [0.0, 2.0])
    assert 1.0 <= first < second
    assert restart_delay(DIRECTORY, [0.0, 2.0, 8000.0]) < second


def test_a_rate_of_failures_goes_by_when_they_were():
    rate = {
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.max-failures-per-interval": "1",
        "restart-strategy.failure-rate.failure-rate-interval": "1 min",
        "restart-strategy.failure-rate.delay": "3 s",
    }
    assert restart_delay({**DIRECTORY, "restart": rate}, [0.0, 100.0]) == 3.0
    assert isinstance(restart_delay({**DIRECTORY, "restart": rate}, [0.0, 10.0]), Refusal)


@pytest.mark.parametrize(
    ("begun", "failures", "told"),
    [
        ({"checkpointing": False, "directory": None, "restart": {}}, [1.0], "has no restart strategy"),
        ({"checkpointing": True, "directory": None, "restart": {}}, [1.0], "were in the driver's memory"),
        (None, [1.0] * 4, "4 drivers were killed before the job began"),
    ],
)
def test_what_is_not_restarted_says_why(begun, failures, told):
    refused = restart_delay(begun, failures)
    assert isinstance(refused, Refusal) and told in refused


def test_a_driver_that_was_killed_before_its_job_began_is_started_again():
    assert restart_delay(None, [1.0] * 3) == 1.0
