"""Checkpoints: their history with statistics, configuration, and the shares of vertices and subtasks."""

from __future__ import annotations

from collections.abc import Sequence

from flintstream.jobmaster import details as source
from flintstream.jobmaster.details import CheckpointDetails, JobDetails
from flintstream.server.rest import shapes
from flintstream.server.rest.statistics import statistics

__all__ = ["checkpoint", "checkpoints", "configuration", "subtasks"]

_NEVER = (1 << 63) - 1
"""The interval of a job that takes no checkpoints by itself."""
_BACKENDS = {
    "hashmap": "HashMapStateBackend",
    "rocksdb": "EmbeddedRocksDBStateBackend",
}


def checkpoints(details: JobDetails) -> shapes.Checkpoints:
    """Returns the answer of `/jobs/:jobid/checkpoints`."""
    known = details.checkpoints
    completed = [each for each in known.history if each.status == "COMPLETED"]
    in_progress = sum(each.status == "IN_PROGRESS" for each in known.history)

    def latest(status: str, savepoint: bool | None = None) -> shapes.Checkpoint | None:
        for each in known.history:
            if each.status == status and savepoint in (None, each.is_savepoint):
                return checkpoint(details, each, with_tasks=False)
        return None

    nothing = statistics(0 for _ in completed)
    restored = known.latest_restored
    return {
        "counts": {
            "restored": known.restored,
            "total": known.completed + known.failed + in_progress,
            "in_progress": in_progress,
            "completed": known.completed,
            "failed": known.failed,
        },
        "summary": {
            "checkpointed_size": statistics(each.checkpointed_size for each in completed),
            "state_size": statistics(each.state_size for each in completed),
            "end_to_end_duration": statistics(each.end_to_end_duration for each in completed),
            "alignment_buffered": nothing,
            "processed_data": nothing,
            "persisted_data": nothing,
        },
        "latest": {
            "completed": latest("COMPLETED", False),
            "savepoint": latest("COMPLETED", True),
            "failed": latest("FAILED"),
            "restored": None
            if restored is None
            else {
                "id": int(restored.get("id", 0)),
                "restore_timestamp": int(restored.get("restore_timestamp", 0)),
                "is_savepoint": bool(restored.get("is_savepoint", False)),
                "external_path": restored.get("external_path"),
            },
        },
        "history": [checkpoint(details, each, with_tasks=False) for each in known.history],
    }


def checkpoint(details: JobDetails, each: CheckpointDetails, *, with_tasks: bool = True) -> shapes.Checkpoint:
    """Returns a checkpoint; the answer of `/jobs/:jobid/checkpoints/details/:checkpointid`."""
    shares = [share for found in each.tasks.values() for share in found]
    subtasks = len(shares) or sum(vertex.parallelism for vertex in details.vertices)
    acknowledged = sum(share.ack_timestamp >= 0 for share in shares)
    if not shares and each.status == "COMPLETED":
        acknowledged = subtasks
    shown: shapes.Checkpoint = {
        "className": "in_progress",
        "id": each.checkpoint_id,
        "status": each.status,
        "is_savepoint": each.is_savepoint,
        "savepointFormat": "CANONICAL" if each.is_savepoint else None,
        "trigger_timestamp": each.trigger_timestamp,
        "latest_ack_timestamp": each.latest_ack_timestamp,
        "checkpointed_size": each.checkpointed_size,
        "state_size": each.state_size,
        "end_to_end_duration": each.end_to_end_duration,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": acknowledged,
        "checkpoint_type": "SAVEPOINT" if each.is_savepoint else "CHECKPOINT",
        "tasks": {},
        "external_path": each.external_path,
        "discarded": each.discarded,
    }
    if with_tasks:
        shown["tasks"] = {vertex_id: _task(each, found) for vertex_id, found in each.tasks.items()}
    if each.status == "COMPLETED":
        shown["className"] = "completed"
        shown["external_path"] = each.external_path or "<checkpoint-not-externally-addressable>"
    elif each.status == "FAILED":
        shown["className"] = "failed"
        shown["failure_timestamp"] = each.failure_timestamp
        shown["failure_message"] = each.failure_message
    return shown


def _task(each: CheckpointDetails, shares: Sequence[source.SubtaskCheckpoint]) -> shapes.TaskCheckpoint:
    latest = max((share.ack_timestamp for share in shares), default=-1)
    return {
        "id": each.checkpoint_id,
        "status": each.status,
        "latest_ack_timestamp": latest,
        "checkpointed_size": sum(share.checkpointed_size for share in shares),
        "state_size": sum(share.state_size for share in shares),
        "end_to_end_duration": _duration(each, latest),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": len(shares),
        "num_acknowledged_subtasks": sum(share.ack_timestamp >= 0 for share in shares),
    }


def _duration(each: CheckpointDetails, acknowledged: int) -> int:
    return -1 if acknowledged < 0 else max(acknowledged - each.trigger_timestamp, 0)


def subtasks(each: CheckpointDetails, vertex_id: str) -> shapes.SubtaskCheckpoints:
    """Returns the answer of `…/details/:checkpointid/subtasks/:vertexid`."""
    shares = each.tasks[vertex_id]
    stored = [share for share in shares if share.ack_timestamp >= 0]
    nothing = statistics(0 for _ in stored)
    return {
        **_task(each, shares),
        "summary": {
            "checkpointed_size": statistics(share.checkpointed_size for share in stored),
            "state_size": statistics(share.state_size for share in stored),
            "end_to_end_duration": statistics(_duration(each, share.ack_timestamp) for share in stored),
            "checkpoint_duration": {
                "sync": statistics(share.sync_duration for share in stored),
                "async": statistics(share.async_duration for share in stored),
            },
            "alignment": {"buffered": nothing, "processed": nothing, "persisted": nothing, "duration": nothing},
            "start_delay": nothing,
        },
        "subtasks": [_subtask(each, share) for share in shares],
    }


def _subtask(each: CheckpointDetails, share: source.SubtaskCheckpoint) -> shapes.SubtaskCheckpoint:
    if share.ack_timestamp < 0:
        return {"className": "pending", "index": share.index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": share.index,
        "status": "completed",
        "ack_timestamp": share.ack_timestamp,
        "end_to_end_duration": _duration(each, share.ack_timestamp),
        "checkpointed_size": share.checkpointed_size,
        "state_size": share.state_size,
        "checkpoint": {"sync": share.sync_duration, "async": share.async_duration},
        "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": 0},
        "start_delay": 0,
        "unaligned_checkpoint": False,
        "aborted": False,
    }


def configuration(details: JobDetails) -> shapes.CheckpointConfiguration:
    """Returns the answer of `/jobs/:jobid/checkpoints/config`."""
    known = details.checkpoints
    return {
        "mode": details.configuration.get("execution.checkpointing.mode", "exactly_once").lower().replace("-", "_"),
        "interval": known.interval if known.enabled and known.interval > 0 else _NEVER,
        "timeout": known.timeout,
        "min_pause": known.min_pause,
        "max_concurrent": known.max_concurrent,
        "externalization": {
            "enabled": known.retained_on_cancellation,
            "delete_on_cancellation": not known.retained_on_cancellation,
        },
        "state_backend": _BACKENDS.get(known.state_backend, known.state_backend),
        "checkpoint_storage": "JobManagerCheckpointStorage" if known.storage is None else "FileSystemCheckpointStorage",
        "unaligned_checkpoints": False,
        "tolerable_failed_checkpoints": known.tolerable_failed,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 600_000,
        "changelog_storage": "memory",
    }
