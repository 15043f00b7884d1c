"""CheckpointHistory: the latest checkpoints of a job, with what each of its subtasks contributed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from flintstream.runtime.checkpoint.metadata import OperatorState
from flintstream.runtime.checkpoint.uploads import StoredSubtask

IN_PROGRESS, COMPLETED, FAILED = "IN_PROGRESS", "COMPLETED", "FAILED"
REMEMBERED = 100
DETAILED = 10
"""The number of the newest checkpoints whose subtasks are remembered too."""


class Acknowledged(NamedTuple):
    """When the snapshot of a task was stored, in milliseconds since 1970, and the seconds in which it was taken."""

    timestamp: int
    seconds: float


class Stored(NamedTuple):
    """What an operator of a subtask has stored."""

    new_bytes: int
    all_bytes: int
    """The bytes that a restore reads."""
    seconds: float
    """How long storing it took."""


@dataclass
class CheckpointRecord:
    """A checkpoint or savepoint, in progress or ended. Times are milliseconds since 1970."""

    checkpoint_id: int
    savepoint: bool
    timestamp: int
    epoch: int
    attempt: int
    status: str = IN_PROGRESS
    last_acknowledged: int = -1
    ended: int = -1
    new_bytes: int = 0
    all_bytes: int = 0
    location: str | None = None
    failure: str | None = None
    tasks: dict[tuple[int, int], Acknowledged] = field(default_factory=dict)
    """By vertex and subtask. Empty for old checkpoints."""
    operators: dict[tuple[str, int], Stored] = field(default_factory=dict)
    """By operator id and subtask. Empty for old checkpoints."""


class Restored(NamedTuple):
    """The checkpoint that was restored last."""

    checkpoint_id: int
    timestamp: int
    savepoint: bool
    location: str | None


class CheckpointHistory:
    """Written by the coordinator on several threads, read by any."""

    def __init__(self) -> None:
        self.attempt = 0
        """The number of the job's current attempt, by its own count."""
        self.remembered = REMEMBERED
        """How many checkpoints are remembered."""
        self._lock = threading.Lock()
        self._records: OrderedDict[int, CheckpointRecord] = OrderedDict()
        self.completed = 0
        self.failed = 0
        self.restored = 0
        self.last_restored: Restored | None = None

    def begin(self, checkpoint_id: int, savepoint: bool, timestamp: int, epoch: int) -> None:
        """Adds a checkpoint that is in progress from now on."""
        with self._lock:
            self._records[checkpoint_id] = CheckpointRecord(checkpoint_id, savepoint, timestamp, epoch, self.attempt)
            for old in list(self._records.values())[:-DETAILED]:
                if old.status != IN_PROGRESS:
                    old.tasks, old.operators = {}, {}
            while len(self._records) > self.remembered:
                self._records.popitem(last=False)

    def acknowledge(
        self,
        checkpoint_id: int,
        tasks: Mapping[tuple[int, int], float],
        states: Mapping[tuple[str, int], StoredSubtask],
    ) -> None:
        """Adds what a slot has stored: the seconds in which its tasks took their snapshots, and the states."""
        now = _now()
        with self._lock:
            record = self._records.get(checkpoint_id)
            if record is None:
                return
            record.last_acknowledged = now
            record.tasks |= {key: Acknowledged(now, seconds) for key, seconds in tasks.items()}
            record.operators |= {
                key: Stored(each.new_bytes, each.state.size, each.seconds) for key, each in states.items()
            }
            record.new_bytes += sum(each.new_bytes for each in states.values())
            record.all_bytes += sum(each.state.size for each in states.values())

    def complete(self, checkpoint_id: int, location: str, operators: Mapping[str, OperatorState]) -> None:
        """A checkpoint is complete; a restore reads the given states, which include those that deltas are based on."""
        with self._lock:
            record = self._records.get(checkpoint_id)
            if record is None or record.status == COMPLETED:
                return
            self.completed += 1
            self.failed -= record.status == FAILED  # It was given up, and has completed all the same.
            record.status, record.failure, record.ended = COMPLETED, None, _now()
            record.location = location or None
            sizes = {
                (operator_id, subtask): state.size
                for operator_id, operator in operators.items()
                for subtask, state in operator.subtasks.items()
            }
            record.all_bytes = sum(sizes.values())
            for key, size in sizes.items():
                if key in record.operators:
                    record.operators[key] = record.operators[key]._replace(all_bytes=size)

    def fail(self, checkpoint_id: int, why: str) -> None:
        """A checkpoint was aborted."""
        with self._lock:
            record = self._records.get(checkpoint_id)
            if record is not None and record.status == IN_PROGRESS:
                self.failed += 1
                record.status, record.failure, record.ended = FAILED, why, _now()

    def count_failure(self) -> None:
        """Counts a checkpoint that was due but could not even begin."""
        with self._lock:
            self.failed += 1

    def restore(self, checkpoint_id: int, savepoint: bool, location: str | None) -> None:
        """Records that an attempt restores a checkpoint."""
        with self._lock:
            self.restored += 1
            self.last_restored = Restored(checkpoint_id, _now(), savepoint, location)

    def read(self) -> list[CheckpointRecord]:
        """Returns copies of the records, the newest first."""
        with self._lock:
            return [
                replace(each, tasks=dict(each.tasks), operators=dict(each.operators))
                for each in reversed(self._records.values())
            ]


def _now() -> int:
    return int(time.time() * 1000)
