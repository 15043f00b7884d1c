"""What a driver reports about the checkpoints of a job: settings, history, and the shares of subtasks."""

from __future__ import annotations

from collections.abc import Mapping

from flintstream.graph.job_graph import JobGraph
from flintstream.jobmaster.details import CheckpointDetails, CheckpointsDetails, SubtaskCheckpoint
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from flintstream.runtime.checkpoint.history import COMPLETED, FAILED, IN_PROGRESS, CheckpointRecord
from flintstream.runtime.checkpoint.settings import Retention


def checkpoints_details(
    coordinator: CheckpointCoordinator, job: JobGraph, state_backend: str, now: int
) -> CheckpointsDetails:
    """Returns the checkpoints of a job; `now` is in milliseconds since 1970."""
    settings, history = coordinator.settings, coordinator.history
    records = history.read()
    # Read afterwards: whatever has completed before is among them, unless it was replaced.
    retained = {metadata.checkpoint_id for metadata in list(coordinator.store.checkpoints)}
    keys = {vertex.id: job.nodes[vertex.head_id].operator_id for vertex in job.vertices}
    vertices = {job.nodes[node_id].operator_id: vertex.id for vertex in job.vertices for node_id in vertex.node_ids}
    restored = history.last_restored
    return CheckpointsDetails(
        enabled=settings.enabled,
        interval=-1 if settings.interval is None else round(settings.interval * 1000),
        timeout=round(settings.timeout * 1000),
        min_pause=round(settings.min_pause * 1000),
        max_concurrent=settings.max_concurrent,
        tolerable_failed=settings.tolerable_failures,
        retained_on_cancellation=settings.retention is Retention.RETAIN_ON_CANCELLATION,
        state_backend=state_backend,
        storage=settings.directory,
        incremental=settings.incremental,
        restored=history.restored,
        completed=history.completed,
        failed=history.failed,
        history=[_checkpoint(record, retained, keys, vertices, now) for record in records],
        latest_restored=None
        if restored is None
        else {
            "id": restored.checkpoint_id,
            "restore_timestamp": restored.timestamp,
            "is_savepoint": restored.savepoint,
            "external_path": restored.location,
        },
    )


def _checkpoint(
    record: CheckpointRecord, retained: set[int], keys: Mapping[int, str], vertices: Mapping[str, int], now: int
) -> CheckpointDetails:
    return CheckpointDetails(
        checkpoint_id=record.checkpoint_id,
        status=record.status,
        is_savepoint=record.savepoint,
        trigger_timestamp=record.timestamp,
        latest_ack_timestamp=record.last_acknowledged,
        end_to_end_duration=max(0, (now if record.status == IN_PROGRESS else record.ended) - record.timestamp),
        checkpointed_size=record.new_bytes,
        state_size=record.all_bytes,
        external_path=record.location,
        discarded=record.status == COMPLETED and not record.savepoint and record.checkpoint_id not in retained,
        failure_timestamp=record.ended if record.status == FAILED else -1,
        failure_message=record.failure,
        attempt=record.attempt,
        epoch=record.epoch,
        tasks=_tasks(record, keys, vertices),
    )


def _tasks(
    record: CheckpointRecord, keys: Mapping[int, str], vertices: Mapping[str, int]
) -> dict[str, list[SubtaskCheckpoint]]:
    new_bytes: dict[tuple[int, int], int] = {}
    all_bytes: dict[tuple[int, int], int] = {}
    seconds: dict[tuple[int, int], float] = {}
    for (operator_id, subtask), stored in record.operators.items():
        key = (vertices[operator_id], subtask)
        new_bytes[key] = new_bytes.get(key, 0) + stored.new_bytes
        all_bytes[key] = all_bytes.get(key, 0) + stored.all_bytes
        seconds[key] = seconds.get(key, 0.0) + stored.seconds
    found: dict[str, list[SubtaskCheckpoint]] = {}
    for (vertex, subtask), acknowledged in sorted(record.tasks.items()):
        key = (vertex, subtask)
        found.setdefault(keys[vertex], []).append(
            SubtaskCheckpoint(
                subtask,
                acknowledged.timestamp,
                new_bytes.get(key, 0),
                all_bytes.get(key, 0),
                round(acknowledged.seconds * 1000),
                round(seconds.get(key, 0.0) * 1000),
            )
        )
    return found
