"""CheckpointConfig: defaults as Flink's, both ways of setting, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.common import Configuration, Duration
from flintstream.datastream import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention


def test_defaults() -> None:
    config = CheckpointConfig()
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.is_fail_on_checkpointing_errors()
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(0)


def test_setting_by_method_and_by_key() -> None:
    configuration = Configuration()
    config = CheckpointConfig(configuration).set_checkpoint_interval(1000)
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    configuration.set_string("execution.checkpointing.mode", "AT_LEAST_ONCE")
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    configuration.set_string("execution.checkpointing.timeout", "1 min")
    assert config.get_checkpoint_timeout() == 60_000
    retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    assert config.set_externalized_checkpoint_retention(retention).is_externalized_checkpoints_enabled()
    assert config.get_externalized_checkpoint_retention() is retention
    assert not config.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()
    config.enable_unaligned_checkpoints()
    assert not config.is_unaligned_checkpoints_enabled()  # the mode is at least once
    config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    assert config.is_unaligned_checkpoints_enabled()


@pytest.mark.parametrize(
    ("method", "value", "error"),
    [
        ("set_checkpoint_interval", 5, ValueError),
        ("set_checkpoint_timeout", 5, ValueError),
        ("set_min_pause_between_checkpoints", -1, ValueError),
        ("set_max_concurrent_checkpoints", 0, ValueError),
        ("set_tolerable_checkpoint_failure_number", -1, ValueError),
        ("set_checkpointing_mode", "EXACTLY_ONCE", TypeError),
    ],
)
def test_refused(method: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        getattr(CheckpointConfig(), method)(value)


def test_a_mode_that_is_none() -> None:
    keys = {"execution.checkpointing.interval": "1 s", "execution.checkpointing.mode": "twice"}
    with pytest.raises(
        ValueError, match=r"'execution\.checkpointing\.mode' must be one of EXACTLY_ONCE, .* got 'twice'"
    ):
        CheckpointConfig(Configuration.from_dict(keys)).get_checkpointing_mode()
