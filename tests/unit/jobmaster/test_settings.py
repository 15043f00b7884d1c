"""What a job's settings make of a program's configuration."""

from __future__ import annotations

import pytest

from flintstream.common.pyflink_alias import pyflink_alias
from flintstream.jobmaster.settings import JobSettings


def settings(batch_mode=False, target=None, checkpoints=None, timeout=None):
    given = {
        "flint.epoch.target-duration": target,
        "execution.checkpointing.interval": checkpoints,
        "execution.checkpointing.timeout": timeout,
    }
    configuration = {key: value for key, value in given.items() if value is not None}
    return JobSettings("job", configuration, batch_mode)


def epoch_seconds(**given):
    return settings(**given).epoch_seconds


def test_epochs_last_a_second_unless_told_otherwise():
    assert epoch_seconds() == 1.0
    assert epoch_seconds(target="500 ms") == 0.5


def test_nobody_waits_for_the_single_results_of_a_batch_job():
    assert epoch_seconds(batch_mode=True) == 4.0


@pytest.mark.parametrize(("interval", "seconds"), [("1500 ms", 1.0), ("200 ms", 0.2), ("10 ms", 0.1)])
def test_epochs_are_no_longer_than_the_time_between_two_checkpoints(interval, seconds):
    assert epoch_seconds(checkpoints=interval) == seconds


@pytest.mark.parametrize(
    ("given", "longest"),
    [
        ({}, 4.0),
        ({"batch_mode": True}, 4.0),
        ({"target": "500 ms"}, 0.5),
        ({"target": "10 s"}, 10.0),
        ({"checkpoints": "2 s"}, 1.0),
        ({"checkpoints": "200 ms"}, 0.2),
        ({"checkpoints": "10 s"}, 2.5),
        ({"checkpoints": "10 s", "timeout": "6 s"}, 1.5),
        ({"timeout": "6 s"}, 1.5),
        ({"timeout": "1 s"}, 1.0),
        ({"checkpoints": "1 min"}, 4.0),
    ],
)
def test_epochs_of_a_backlog_are_as_long_as_configured_or_up_to_four_seconds(given, longest):
    assert settings(**given).longest_epoch_seconds == longest


def test_slots_of_later_attempts_know_pyflink_though_the_program_is_over():
    with pyflink_alias():
        settings = JobSettings("job")
    assert settings.for_slots("id", 2, same_machine=True)[1].pyflink
    assert not JobSettings("job").for_slots("id", 1, same_machine=True)[1].pyflink


@pytest.mark.parametrize("given", [None, "true", "false"])
def test_object_reuse_reaches_the_slots(given):
    settings = JobSettings("my job", {} if given is None else {"pipeline.object-reuse": given})
    info, _ = settings.for_slots("f" * 32, 0, True)
    assert info.object_reuse is (given == "true")


def test_object_reuse_that_is_no_boolean_is_refused():
    with pytest.raises(ValueError, match="pipeline.object-reuse"):
        JobSettings("my job", {"pipeline.object-reuse": "maybe"}).check()


@pytest.mark.parametrize(
    ("configuration", "seconds"),
    [
        ({}, 0.005),
        ({"execution.buffer-timeout.interval": "20 ms"}, 0.02),
        ({"execution.buffer-timeout": "0 ms"}, 0.0),
        ({"execution.buffer-timeout.interval": "-1"}, None),
        ({"execution.buffer-timeout.enabled": "false"}, None),
    ],
)
def test_the_buffer_timeout_of_a_pipelined_job(configuration, seconds):
    assert JobSettings("job", configuration).buffer_timeout == seconds
