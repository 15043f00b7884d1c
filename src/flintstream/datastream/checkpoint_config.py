"""CheckpointConfig: the checkpoint settings, a view of the environment's configuration."""

from __future__ import annotations

from typing import Any

from flintstream.common.config_values import parse_enum
from flintstream.common.configuration import Configuration
from flintstream.common.time import Duration
from flintstream.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from flintstream.datastream.checkpointing_mode import CheckpointingMode
from flintstream.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

_PREFIX = "execution.checkpointing."
_LEAST_MILLIS = 10
_ALL_FAILURES = 2**31 - 1


class CheckpointConfig:
    """When and how checkpoints are taken.

        env.enable_checkpointing(60_000)
        env.get_checkpoint_config().set_min_pause_between_checkpoints(10_000)

    Each setting is stored under its key `execution.checkpointing.*`, so a method and its key are one setting.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration
        self._storage: CheckpointStorage | None = None

    def is_checkpointing_enabled(self) -> bool:
        """Returns whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns the guarantee of checkpoints: exactly once by default; without checkpoints, at least once."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return parse_enum(CheckpointingMode, self._text("mode", "EXACTLY_ONCE"), _PREFIX + "mode")

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets the guarantee of checkpoints."""
        _check_enum("set_checkpointing_mode", checkpointing_mode, CheckpointingMode)
        return self._put("mode", checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Returns the interval between checkpoints in milliseconds; -1 if checkpointing is disabled."""
        return self._millis("interval", -1)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the interval between checkpoints in milliseconds."""
        return self._put_millis("interval", checkpoint_interval, _LEAST_MILLIS)

    def get_checkpoint_timeout(self) -> int:
        """Returns the time in milliseconds after which an incomplete checkpoint is aborted; 10 minutes by default."""
        return self._millis("timeout", 600_000)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets the time in milliseconds after which an incomplete checkpoint is aborted."""
        return self._put_millis("timeout", checkpoint_timeout, _LEAST_MILLIS)

    def get_min_pause_between_checkpoints(self) -> int:
        """Returns the minimum pause between the end of a checkpoint and the start of the next, in milliseconds."""
        return self._millis("min-pause", 0)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Sets the minimum pause between the end of a checkpoint and the start of the next, in milliseconds."""
        return self._put_millis("min-pause", min_pause_between_checkpoints, 0)

    def get_max_concurrent_checkpoints(self) -> int:
        """Returns how many checkpoints may be in progress at a time; 1 by default."""
        return self._int("max-concurrent-checkpoints", 1)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Sets how many checkpoints may be in progress at a time."""
        return self._put_int("max-concurrent-checkpoints", max_concurrent_checkpoints, 1)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Returns whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Sets whether the first failed checkpoint fails the job."""
        number = 0 if fail_on_checkpointing_errors else _ALL_FAILURES
        return self.set_tolerable_checkpoint_failure_number(number)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Returns how many consecutive checkpoint failures are tolerated before the job fails; 0 by default."""
        return self._int("tolerable-failed-checkpoints", 0)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Sets how many consecutive checkpoint failures are tolerated before the job fails."""
        return self._put_int("tolerable-failed-checkpoints", tolerable_checkpoint_failure_number, 0)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets whether checkpoints are kept when the job is cancelled."""
        _check_enum("set_externalized_checkpoint_retention", retention_mode, ExternalizedCheckpointRetention)
        return self._put("externalized-checkpoint-retention", retention_mode.name)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Returns whether checkpoints are kept when the job is cancelled."""
        key = "externalized-checkpoint-retention"
        text = self._text(key, "NO_EXTERNALIZED_CHECKPOINTS")
        return parse_enum(ExternalizedCheckpointRetention, text, _PREFIX + key)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Returns whether checkpoints can outlive the job."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def enable_externalized_checkpoints(self, retention_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Alias of `set_externalized_checkpoint_retention`, under its older name."""
        return self.set_externalized_checkpoint_retention(retention_mode)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Sets where checkpoints are kept:
        `config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///data/ckp"))`.
        """
        if not isinstance(storage, CheckpointStorage):
            raise TypeError(f"set_checkpoint_storage: expected a CheckpointStorage, got {storage!r}")
        self._storage = storage
        for key, value in storage._options().items():
            self._configuration.set(key, value)
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Returns the storage set with `set_checkpoint_storage`."""
        return self._storage

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keeps checkpoints in a directory: `config.set_checkpoint_storage_dir("file:///data/checkpoints")`."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns whether unaligned checkpoints are enabled and the mode is exactly once."""
        exactly_once = self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        return exactly_once and self._flag("unaligned.enabled", False)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Accepted for compatibility, without effect: checkpoints are taken between epochs, so there is nothing to
        align.
        """
        return self._put("unaligned.enabled", bool(enabled))

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """See `enable_unaligned_checkpoints`."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Accepted for compatibility, without effect: there is nothing to align."""
        return self._put_millis("aligned-checkpoint-timeout", alignment_timeout.to_millis(), 0)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Returns the value set."""
        return Duration.of_millis(self._millis("aligned-checkpoint-timeout", 0))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Alias of `set_aligned_checkpoint_timeout`, under its older name."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Alias of `get_aligned_checkpoint_timeout`, under its older name."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Accepted for compatibility, without effect: there is nothing to align."""
        return self._put("unaligned.forced", bool(force_unaligned_checkpoints))

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns the value set."""
        return self._flag("unaligned.forced", False)

    def _text(self, key: str, default: str) -> str:
        return self._configuration.get_string(_PREFIX + key, default) or default

    def _int(self, key: str, default: int) -> int:
        return self._configuration.get_integer(_PREFIX + key, default)

    def _flag(self, key: str, default: bool) -> bool:
        return self._configuration.get_boolean(_PREFIX + key, default)

    def _millis(self, key: str, default: int) -> int:
        duration = self._configuration.get_duration(_PREFIX + key, None)
        return default if duration is None else duration.to_millis()

    def _put_millis(self, key: str, millis: int, least: int) -> CheckpointConfig:
        if not _is_int(millis) or millis < least:
            raise ValueError(f"{_PREFIX}{key} must be at least {least} milliseconds, got {millis!r}")
        return self._put(key, f"{millis} ms")

    def _put_int(self, key: str, value: int, least: int) -> CheckpointConfig:
        if not _is_int(value) or value < least:
            raise ValueError(f"{_PREFIX}{key} must be an integer of at least {least}, got {value!r}")
        return self._put(key, value)

    def _put(self, key: str, value: Any) -> CheckpointConfig:
        self._configuration.set(_PREFIX + key, value)
        return self


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_enum(method: str, value: Any, kind: type[Any]) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{method}: expected one of {kind.__name__}, got {value!r}")
