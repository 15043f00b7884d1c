"""The metrics of a whole job by Flink's names: how long it has been in which state, its restarts and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flintstream.common.job_status import JobStatus
from flintstream.jobmaster.details import CheckpointsDetails

_TIMED = {
    "running": JobStatus.RUNNING,
    "failing": JobStatus.FAILING,
    "cancelling": JobStatus.CANCELLING,
}


def lifetime_metrics(status_times: Sequence[tuple[JobStatus, int]], restarts: int, now: int) -> dict[str, Any]:
    """Returns the metrics of a job's states; times are in milliseconds.

    `status_times` has each status and when the job entered it.
    """
    status, since = status_times[-1]
    ended = status.is_globally_terminal_state()
    metrics: dict[str, Any] = {f"{name}Time": now - since if status is each else 0 for name, each in _TIMED.items()}
    return metrics | {
        "uptime": -1 if ended else metrics["runningTime"],
        "downtime": -1 if ended else _down_since(status_times, now),
        "restartingTime": _restarting(status_times, now),
        "numRestarts": restarts,
        "fullRestarts": restarts,
    }


def _down_since(status_times: Sequence[tuple[JobStatus, int]], now: int) -> int:
    """Returns how long a job that has failed has not been running again; 0 while it runs."""
    for status, since in reversed(status_times):
        if status in (JobStatus.RUNNING, JobStatus.CREATED):
            return 0
        if status is JobStatus.FAILING:
            return now - since
    return 0


def _restarting(status_times: Sequence[tuple[JobStatus, int]], now: int) -> int:
    """Returns how long the last restart took, or has taken so far; 0 before the first."""
    until = now
    for status, since in reversed(status_times):
        if status is JobStatus.RESTARTING:
            return until - since
        until = since
    return 0


def checkpoint_metrics(checkpoints: CheckpointsDetails) -> dict[str, Any]:
    """Returns the metrics of a job's checkpoints; sizes and times are -1 before the first."""
    taken = [each for each in checkpoints.history if not each.is_savepoint]
    last = next((each for each in taken if each.status == "COMPLETED"), None)
    in_progress = sum(each.status == "IN_PROGRESS" for each in checkpoints.history)
    restored = checkpoints.latest_restored or {}
    return {
        "lastCheckpointDuration": -1 if last is None else last.end_to_end_duration,
        "lastCheckpointSize": -1 if last is None else last.checkpointed_size,
        "lastCheckpointFullSize": -1 if last is None else last.state_size,
        "lastCompletedCheckpointId": -1 if last is None else last.checkpoint_id,
        "lastCheckpointExternalPath": "n/a" if last is None or last.external_path is None else last.external_path,
        "lastCheckpointRestoreTimestamp": restored.get("restore_timestamp", -1),
        "numberOfCompletedCheckpoints": checkpoints.completed,
        "numberOfFailedCheckpoints": checkpoints.failed,
        "numberOfInProgressCheckpoints": in_progress,
        "totalNumberOfCheckpoints": checkpoints.completed + checkpoints.failed + in_progress,
    }
