"""The shapes of checkpoints."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from flintstream.server.rest.shapes.metrics import Statistics


class CheckpointCounts(TypedDict):
    """The number of checkpoints."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointSummary(TypedDict):
    """Statistics over the completed checkpoints of the history."""

    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    alignment_buffered: Statistics
    processed_data: Statistics
    persisted_data: Statistics


class TaskCheckpoint(TypedDict):
    """The share of a vertex in a checkpoint."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class Checkpoint(TypedDict):
    """A checkpoint or savepoint."""

    className: Literal["completed", "failed", "in_progress"]
    id: int
    status: str
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpoint]
    external_path: str | None
    discarded: bool
    failure_timestamp: NotRequired[int]
    failure_message: NotRequired[str | None]


class RestoredCheckpoint(TypedDict):
    """The checkpoint that was restored last."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None


class LatestCheckpoints(TypedDict):
    """The latest checkpoint of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: RestoredCheckpoint | None


class Checkpoints(TypedDict):
    """The checkpoints of a job."""

    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: list[Checkpoint]


class Externalization(TypedDict):
    """Whether checkpoints stay when a job is cancelled."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfiguration(TypedDict):
    """How a job takes checkpoints."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


SnapshotDuration = TypedDict("SnapshotDuration", {"sync": int, "async": int})
SnapshotDurations = TypedDict("SnapshotDurations", {"sync": Statistics, "async": Statistics})


class Alignment(TypedDict):
    """The alignment of a subtask; all zeros, since an epoch's end is aligned without waiting."""

    buffered: int
    processed: int
    persisted: int
    duration: int


class Alignments(TypedDict):
    """Statistics of the alignment of subtasks."""

    buffered: Statistics
    processed: Statistics
    persisted: Statistics
    duration: Statistics


class SubtaskCheckpointSummary(TypedDict):
    """Statistics over the subtasks of a vertex."""

    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    checkpoint_duration: SnapshotDurations
    alignment: Alignments
    start_delay: Statistics


class SubtaskCheckpoint(TypedDict):
    """The share of a subtask in a checkpoint; a pending one has only its index and status."""

    className: Literal["completed", "pending"]
    index: int
    status: str
    ack_timestamp: NotRequired[int]
    end_to_end_duration: NotRequired[int]
    checkpointed_size: NotRequired[int]
    state_size: NotRequired[int]
    checkpoint: NotRequired[SnapshotDuration]
    alignment: NotRequired[Alignment]
    start_delay: NotRequired[int]
    unaligned_checkpoint: NotRequired[bool]
    aborted: NotRequired[bool]


class SubtaskCheckpoints(TaskCheckpoint):
    """The shares of the subtasks of a vertex in a checkpoint."""

    summary: SubtaskCheckpointSummary
    subtasks: list[SubtaskCheckpoint]
