"""Settings of checkpoints: all options, by their names of today and before."""

from __future__ import annotations

import pytest

from flintstream.runtime.checkpoint.settings import CheckpointSettings, Retention

PREFIX = "execution.checkpointing."


def test_without_options_no_checkpoints_are_taken():
    settings = CheckpointSettings.of({})
    assert settings == CheckpointSettings()
    assert not settings.enabled


def test_every_option_is_read():
    settings = CheckpointSettings.of(
        {
            f"{PREFIX}interval": "10 s",
            f"{PREFIX}timeout": "2 min",
            f"{PREFIX}min-pause": "500 ms",
            f"{PREFIX}max-concurrent-checkpoints": "3",
            f"{PREFIX}tolerable-failed-checkpoints": "4",
            f"{PREFIX}externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            f"{PREFIX}num-retained": "5",
            f"{PREFIX}incremental": "false",
            f"{PREFIX}dir": "/data/checkpoints",
            f"{PREFIX}savepoint-dir": "s3://bucket/savepoints",
            f"{PREFIX}storage": "filesystem",
            f"{PREFIX}data-inline-threshold": "1 kb",
            "flint.checkpointing.max-memory-state-size": "64 mb",
            "execution.state-recovery.path": "/data/savepoint-1",
            "execution.state-recovery.ignore-unclaimed-state": "true",
        }
    )
    assert settings == CheckpointSettings(
        interval=10.0,
        timeout=120.0,
        min_pause=0.5,
        max_concurrent=3,
        tolerable_failures=4,
        retention=Retention.RETAIN_ON_CANCELLATION,
        retained=5,
        incremental=False,
        directory="/data/checkpoints",
        savepoint_directory="s3://bucket/savepoints",
        max_state_size=64 * 1024 * 1024,
        inline_size=1024,
        restore_path="/data/savepoint-1",
        allow_unclaimed=True,
    )
    assert settings.enabled


OLDER = [
    ("state.checkpoints.dir", f"{PREFIX}dir", "directory", "/old", "/new"),
    ("state.savepoints.dir", f"{PREFIX}savepoint-dir", "savepoint_directory", "/old", "/new"),
    ("state.checkpoints.num-retained", f"{PREFIX}num-retained", "retained", "7", "8"),
    ("state.backend.incremental", f"{PREFIX}incremental", "incremental", "false", "true"),
    ("state.storage.fs.memory-threshold", f"{PREFIX}data-inline-threshold", "inline_size", "7 b", "8 b"),
    ("execution.savepoint.path", "execution.state-recovery.path", "restore_path", "/old", "/new"),
    (
        "execution.savepoint.ignore-unclaimed-state",
        "execution.state-recovery.ignore-unclaimed-state",
        "allow_unclaimed",
        "true",
        "false",
    ),
]


@pytest.mark.parametrize(("older", "newer", "name", "old", "new"), OLDER)
def test_older_names_are_understood_and_newer_ones_count_more(older, newer, name, old, new):
    def value(options: dict[str, str]) -> object:
        return getattr(CheckpointSettings.of(options), name)

    assert value({older: old}) == value({newer: old})

    assert value({older: old, newer: new}) == value({newer: new}) != value({older: old})


@pytest.mark.parametrize("key", [f"{PREFIX}storage", "state.checkpoint-storage"])
def test_the_driver_may_keep_checkpoints_in_memory_though_there_is_a_directory(key):
    options = {f"{PREFIX}dir": "/data"}
    assert CheckpointSettings.of(options).directory == "/data"
    assert CheckpointSettings.of({**options, key: "filesystem"}).directory == "/data"
    assert CheckpointSettings.of({**options, key: "jobmanager"}).directory is None


def test_files_need_a_directory():
    with pytest.raises(ValueError, match=r"checkpointing\.storage is 'filesystem', but execution\.checkpointing\.dir"):
        CheckpointSettings.of({f"{PREFIX}storage": "filesystem"})


def test_a_job_in_batch_mode_takes_no_checkpoints():
    assert not CheckpointSettings.of({f"{PREFIX}interval": "10 s"}, batch_mode=True).enabled


@pytest.mark.parametrize("nothing", ["0", "0 s", ""])
def test_an_interval_of_nothing_takes_no_checkpoints(nothing):
    assert not CheckpointSettings.of({f"{PREFIX}interval": nothing}).enabled


@pytest.mark.parametrize("text", ["RETAIN_ON_CANCELLATION", "retain-on-cancellation", " Retain_On_Cancellation "])
def test_a_retention_is_read_in_any_case(text):
    settings = CheckpointSettings.of({f"{PREFIX}externalized-checkpoint-retention": text})
    assert settings.retention is Retention.RETAIN_ON_CANCELLATION


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{PREFIX}interval", "often"),
        (f"{PREFIX}interval", "5 ms"),
        (f"{PREFIX}interval", "PT-1S"),
        (f"{PREFIX}timeout", "0 s"),
        (f"{PREFIX}timeout", "9 ms"),
        (f"{PREFIX}min-pause", "PT-1S"),
        (f"{PREFIX}max-concurrent-checkpoints", "0"),
        (f"{PREFIX}max-concurrent-checkpoints", "two"),
        (f"{PREFIX}tolerable-failed-checkpoints", "-1"),
        (f"{PREFIX}externalized-checkpoint-retention", "SOMETIMES"),
        (f"{PREFIX}num-retained", "0"),
        ("state.checkpoints.num-retained", "0"),
        (f"{PREFIX}incremental", "maybe"),
        ("state.backend.incremental", "maybe"),
        (f"{PREFIX}storage", "tape"),
        ("state.checkpoint-storage", "tape"),
        (f"{PREFIX}data-inline-threshold", "small"),
        ("flint.checkpointing.max-memory-state-size", "-1 b"),
        ("execution.state-recovery.ignore-unclaimed-state", "perhaps"),
    ],
)
def test_a_bad_value_is_told_by_its_option(key, value):
    with pytest.raises(ValueError, match=key.replace(".", r"\.")) as refused:
        CheckpointSettings.of({key: value})
    assert value in str(refused.value) or repr(value) in str(refused.value)
