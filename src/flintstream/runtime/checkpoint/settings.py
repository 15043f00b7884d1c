"""CheckpointSettings: the settings of checkpoints, savepoints and restore in a job's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flintstream.common.config_values import (
    one_of,
    parse_boolean,
    parse_duration,
    parse_enum,
    parse_integer,
    parse_memory_size,
)
from flintstream.common.deprecated_keys import find_key
from flintstream.common.flint_options import CHECKPOINT_PERMISSIONS, MAX_MEMORY_STATE_SIZE, SIGNING_KEY_FILE
from flintstream.runtime.checkpoint.pieces import DEFAULT_MAX_STATE_SIZE
from flintstream.runtime.permissions import Permissions

_PREFIX = "execution.checkpointing."
RESTORE_PATH = "execution.state-recovery.path"
UNCLAIMED = "execution.state-recovery.ignore-unclaimed-state"
_DIRECTORY = f"{_PREFIX}dir"
_SAVEPOINT_DIRECTORY = f"{_PREFIX}savepoint-dir"
_RETAINED = f"{_PREFIX}num-retained"
_INCREMENTAL = f"{_PREFIX}incremental"
_INLINE = f"{_PREFIX}data-inline-threshold"
_COMPRESSION = f"{_PREFIX}snapshot-compression"
_LEAST_SECONDS = 0.01


class Retention(Enum):
    """When the checkpoints of a job outlive it."""

    RETAIN_ON_CANCELLATION = "after a cancel and after a failure"
    DELETE_ON_CANCELLATION = "after a failure"
    NO_EXTERNALIZED_CHECKPOINTS = "never"


@dataclass(frozen=True)
class CheckpointSettings:
    """The checkpoint settings of a job. Times are in seconds."""

    interval: float | None = None
    """The interval between checkpoints; None if disabled."""
    timeout: float = 600.0
    min_pause: float = 0.0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    retained: int = 1
    incremental: bool = True
    directory: str | None = None
    """None to keep checkpoints in the driver's memory."""
    savepoint_directory: str | None = None
    max_state_size: int = DEFAULT_MAX_STATE_SIZE
    inline_size: int = 20 * 1024
    compressed: bool = False
    """Whether keyed and operator state is compressed; RocksDB compresses its files itself."""
    permissions: Permissions = Permissions.OWNER
    """The permissions of checkpoints and savepoints in a directory."""
    signing_key_file: str | None = None
    """The signing keys; None for no signatures."""
    restore_path: str | None = None
    """The checkpoint or savepoint to restore."""
    allow_unclaimed: bool = False
    """Whether it may contain state that no operator claims."""

    @staticmethod
    def of(configuration: Mapping[str, str], batch_mode: bool = False) -> CheckpointSettings:
        """Reads the settings; a job in batch mode takes no checkpoints."""
        read = _Reader(configuration)
        default = CheckpointSettings()
        storage = read.storage()
        directory = None if storage == "jobmanager" else read.text(_DIRECTORY)
        if storage == "filesystem" and directory is None:
            raise ValueError(f"{_PREFIX}storage is 'filesystem', but {_DIRECTORY} is not set")
        interval = 0.0 if batch_mode else read.seconds("interval", 0.0, _LEAST_SECONDS, or_none=True)
        return CheckpointSettings(
            interval=interval or None,
            timeout=read.seconds("timeout", default.timeout, _LEAST_SECONDS),
            min_pause=read.seconds("min-pause", 0.0),
            max_concurrent=read.number(f"{_PREFIX}max-concurrent-checkpoints", 1, 1),
            tolerable_failures=read.number(f"{_PREFIX}tolerable-failed-checkpoints", 0, 0),
            retention=read.retention(),
            retained=read.number(_RETAINED, 1, 1),
            incremental=read.flag(_INCREMENTAL, True),
            directory=directory,
            savepoint_directory=read.text(_SAVEPOINT_DIRECTORY),
            max_state_size=read.size(MAX_MEMORY_STATE_SIZE.key, default.max_state_size),
            inline_size=read.size(_INLINE, default.inline_size),
            compressed=read.flag(_COMPRESSION, False),
            permissions=Permissions[(CHECKPOINT_PERMISSIONS.of(configuration) or "owner").upper()],
            signing_key_file=SIGNING_KEY_FILE.of(configuration),
            restore_path=read.text(RESTORE_PATH),
            allow_unclaimed=read.flag(UNCLAIMED, False),
        )

    @property
    def enabled(self) -> bool:
        """Returns whether checkpoints are taken."""
        return self.interval is not None


class _Reader:
    """Reads options, including deprecated keys."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._configuration = {key: value for key, value in configuration.items() if value not in (None, "")}

    def text(self, key: str) -> str | None:
        return self._parsed(key, None, lambda text, _: str(text))  # type: ignore[no-any-return]

    def flag(self, key: str, default: bool) -> bool:
        return self._parsed(key, default, parse_boolean)  # type: ignore[no-any-return]

    def size(self, key: str, default: int) -> int:
        return self._parsed(key, default, parse_memory_size)  # type: ignore[no-any-return]

    def number(self, key: str, default: int, least: int) -> int:
        def parse(text: Any, key: str) -> int:
            value = parse_integer(text, key)
            if value < least:
                raise ValueError(f"{key} must be at least {least}, got {value}")
            return value

        return self._parsed(key, default, parse)  # type: ignore[no-any-return]

    def seconds(self, name: str, default: float, least: float = 0.0, or_none: bool = False) -> float:
        key = _PREFIX + name
        text = self.text(key)
        if text is None:
            return default
        seconds = parse_duration(text, key).to_millis() / 1000
        if seconds < least and not (or_none and seconds == 0):
            raise ValueError(f"{key} must be at least {least * 1000:.0f} ms, got {text!r}")
        return seconds

    def storage(self) -> str | None:
        return self._parsed(f"{_PREFIX}storage", None, one_of("jobmanager", "filesystem"))  # type: ignore[no-any-return]

    def retention(self) -> Retention:
        key = f"{_PREFIX}externalized-checkpoint-retention"
        return parse_enum(Retention, self.text(key) or Retention.NO_EXTERNALIZED_CHECKPOINTS.name, key)

    def _parsed(self, key: str, default: Any, parse: Any) -> Any:
        found = find_key(self._configuration, key)
        return default if found is None else parse(self._configuration[found], found)
