"""Keys that Flink has renamed. As in Flink, the deprecated ones still work; if both are set, the current one wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FORMER_KEYS", "find_key"]

FORMER_KEYS: dict[str, tuple[str, ...]] = {
    "execution.buffer-timeout.interval": ("execution.buffer-timeout",),
    "execution.checkpointing.aligned-checkpoint-timeout": ("execution.checkpointing.alignment-timeout",),
    "execution.checkpointing.checkpoints-after-tasks-finish": (
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
    ),
    "execution.checkpointing.cleaner.parallel-mode": ("state.checkpoint.cleaner.parallel-mode",),
    "execution.checkpointing.create-subdir": ("state.checkpoints.create-subdir",),
    "execution.checkpointing.data-inline-threshold": (
        "state.storage.fs.memory-threshold",
        "state.backend.fs.memory-threshold",
    ),
    "execution.checkpointing.dir": ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    "execution.checkpointing.incremental": ("state.backend.incremental",),
    "execution.checkpointing.local-backup.dirs": ("taskmanager.state.local.root-dirs",),
    "execution.checkpointing.local-backup.enabled": ("state.backend.local-recovery",),
    "execution.checkpointing.num-retained": ("state.checkpoints.num-retained",),
    "execution.checkpointing.savepoint-dir": ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    "execution.checkpointing.storage": ("state.checkpoint-storage",),
    "execution.checkpointing.unaligned.enabled": ("execution.checkpointing.unaligned",),
    "execution.checkpointing.write-buffer-size": (
        "state.storage.fs.write-buffer-size",
        "state.backend.fs.write-buffer-size",
    ),
    "execution.program-config.enabled": ("execution.allow-client-job-configurations",),
    "execution.state-recovery.claim-mode": ("execution.savepoint-restore-mode",),
    "execution.state-recovery.ignore-unclaimed-state": ("execution.savepoint.ignore-unclaimed-state",),
    "execution.state-recovery.path": ("execution.savepoint.path",),
    "pipeline.operator-chaining.enabled": ("pipeline.operator-chaining",),
    "restart-strategy.type": ("restart-strategy",),
    "state.backend.type": ("state.backend",),
    "state.changelog.enabled": ("state.backend.changelog.enabled",),
    "state.changelog.storage": ("state.backend.changelog.storage",),
    "task.cancellation.interval": ("task.cancellation-interval",),
    "task.cancellation.timers.timeout": ("timerservice.exceptional.shutdown.timeout",),
}
"""The deprecated keys by current key, the latest first."""


def find_key(settings: Mapping[str, Any], key: str) -> str | None:
    """Returns the key under which `settings` has a value for `key`: the key itself, or a deprecated one; None if
    neither.

    >>> find_key({"state.backend": "rocksdb"}, "state.backend.type")
    'state.backend'
    """
    if key in settings:
        return key
    return next((former for former in FORMER_KEYS.get(key, ()) if former in settings), None)
