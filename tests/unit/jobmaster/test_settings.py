"""How long epochs last, as a program's configuration says it."""

from __future__ import annotations

import pytest

from flintstream.jobmaster.settings import JobSettings


def settings(batch_mode=False, **options):
    keys = {
        "target": "flint.epoch.target-duration",
        "backlog": "flint.epoch.backlog-duration",
        "checkpoints": "execution.checkpointing.interval",
    }
    return JobSettings("job", {keys[name]: value for name, value in options.items()}, batch_mode)


def durations(of):
    return of.epoch_seconds, of.backlog_epoch_seconds


def test_epochs_last_a_second_and_two_while_there_is_a_backlog():
    assert durations(settings()) == (1.0, 2.0)
    assert durations(settings(target="500 ms")) == (0.5, 1.0)
    assert durations(settings(target="500 ms", backlog="3 s")) == (0.5, 3.0)


def test_nobody_waits_for_the_single_results_of_a_batch_job():
    assert durations(settings(batch_mode=True)) == (4.0, 4.0)


def test_epochs_are_no_longer_than_the_time_between_two_checkpoints():
    assert durations(settings(checkpoints="1500 ms")) == (1.0, 1.5)
    assert durations(settings(checkpoints="200 ms")) == (0.2, 0.2)
    assert durations(settings(checkpoints="10 ms")) == (0.1, 0.1)


@pytest.mark.parametrize("option", ["target", "backlog"])
def test_an_epoch_of_no_time_is_refused(option):
    name = {"target": "target-duration", "backlog": "backlog-duration"}[option]
    with pytest.raises(ValueError, match=rf"flint\.epoch\.{name}.*greater than 0, got 0 s"):
        durations(settings(**{option: "0 ms"}))


def test_epochs_do_not_become_shorter_by_a_backlog():
    with pytest.raises(ValueError, match=r"backlog-duration must not be less than .*target-duration, got 1 s and 2 s"):
        durations(settings(target="2 s", backlog="1 s"))
