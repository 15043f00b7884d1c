"""The shapes of Flink's REST API: what views return, and what the OpenAPI description is generated from.

Field names are Flink's. The values of `Number` are "NaN" where Flink has no value, since JSON has no such number.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

Number = int | float | Literal["NaN"]


class Empty(TypedDict):
    """No answer but success."""


class Errors(TypedDict):
    """What every refused request gets."""

    errors: list[str]


# --- the cluster ---

Features = TypedDict("Features", {"web-submit": bool, "web-cancel": bool, "web-rescale": bool, "web-history": bool})
DashboardConfiguration = TypedDict(
    "DashboardConfiguration",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "flink-version": str,
        "flink-revision": str,
        "features": Features,
    },
)
ClusterOverview = TypedDict(
    "ClusterOverview",
    {
        "taskmanagers": int,
        "slots-total": int,
        "slots-available": int,
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "flink-version": str,
        "flink-commit": str,
    },
)


class Setting(TypedDict):
    """A key of a configuration."""

    key: str
    value: str


class Interpreter(TypedDict):
    """What runs the server; Flink has a Java virtual machine here."""

    version: str
    arch: str
    options: list[str]


class Environment(TypedDict):
    """The interpreter of the server and its import path."""

    jvm: Interpreter
    classpath: list[str]


class LogFile(TypedDict):
    """A log file."""

    name: str
    size: int
    mtime: int


class LogFiles(TypedDict):
    """Log files."""

    logs: list[LogFile]


class LogUrl(TypedDict):
    """Where a log is."""

    url: str


class ThreadInfo(TypedDict):
    """A thread and its stack."""

    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(TypedDict):
    """The threads of a process."""

    threadInfos: list[ThreadInfo]


# --- metrics ---


class Metric(TypedDict):
    """A metric, with its value if it was asked for."""

    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    """A metric over subtasks, jobs or task managers, with the aggregations that were asked for."""

    id: str
    min: NotRequired[Number]
    max: NotRequired[Number]
    avg: NotRequired[Number]
    sum: NotRequired[Number]
    skew: NotRequired[Number]
    p50: NotRequired[Number]
    p90: NotRequired[Number]
    p99: NotRequired[Number]


class Statistics(TypedDict):
    """The statistics of checkpoints."""

    min: int
    max: int
    avg: int
    p50: Number
    p90: Number
    p95: Number
    p99: Number
    p999: Number


class SubtaskStatistics(TypedDict):
    """The statistics of a metric over the subtasks of a vertex."""

    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int


# --- jobs ---


class JobId(TypedDict):
    """A job and its status."""

    id: str
    status: str


class JobIds(TypedDict):
    """All jobs."""

    jobs: list[JobId]


class TaskCounts(TypedDict):
    """The number of subtasks by execution state."""

    running: int
    canceling: int
    canceled: int
    total: int
    created: int
    scheduled: int
    deploying: int
    reconciling: int
    finished: int
    initializing: int
    failed: int


JobOverview = TypedDict(
    "JobOverview",
    {
        "jid": str,
        "name": str,
        "jobType": str,
        "schedulerType": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "state": str,
        "last-modification": int,
        "tasks": TaskCounts,
        "pending-operators": int,
    },
)


class JobsOverview(TypedDict):
    """All jobs, the newest first."""

    jobs: list[JobOverview]


class StateCounts(TypedDict):
    """The number of subtasks, or of vertices, by execution state."""

    CANCELED: int
    FAILED: int
    RUNNING: int
    INITIALIZING: int
    DEPLOYING: int
    CREATED: int
    SCHEDULED: int
    CANCELING: int
    FINISHED: int
    RECONCILING: int


IOMetrics = TypedDict(
    "IOMetrics",
    {
        "read-bytes": int,
        "read-bytes-complete": bool,
        "write-bytes": int,
        "write-bytes-complete": bool,
        "read-records": int,
        "read-records-complete": bool,
        "write-records": int,
        "write-records-complete": bool,
        "accumulated-backpressured-time": int,
        "accumulated-idle-time": int,
        "accumulated-busy-time": Number,
    },
)
JobVertex = TypedDict(
    "JobVertex",
    {
        "id": str,
        "slotSharingGroupId": str,
        "name": str,
        "maxParallelism": int,
        "parallelism": int,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "tasks": StateCounts,
        "metrics": IOMetrics,
    },
)


class PlanInput(TypedDict):
    """An edge of a plan."""

    id: str
    num: int
    exchange: str
    ship_strategy: str


class PlanNode(TypedDict):
    """A vertex of a plan."""

    id: str
    operator: str
    parallelism: int
    operator_strategy: str
    description: str
    """HTML."""
    optimizer_properties: dict[str, Any]
    inputs: NotRequired[list[PlanInput]]


class Plan(TypedDict):
    """The graph of a job."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class JobPlan(TypedDict):
    """A plan."""

    plan: Plan


JobDetail = TypedDict(
    "JobDetail",
    {
        "jid": str,
        "application-id": str,
        "name": str,
        "isStoppable": bool,
        "state": str,
        "job-type": str,
        "schedulerType": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "maxParallelism": int,
        "now": int,
        "timestamps": dict[str, int],
        "vertices": list[JobVertex],
        "status-counts": StateCounts,
        "plan": Plan,
        "pending-operators": int,
    },
)


class JobState(TypedDict):
    """The status of a job."""

    status: str


ExecutionConfig = TypedDict(
    "ExecutionConfig",
    {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": dict[str, str],
    },
)
JobConfiguration = TypedDict("JobConfiguration", {"jid": str, "name": str, "execution-config": ExecutionConfig})


class ExceptionEntry(TypedDict):
    """A failure of a job. `operator`, `record` and `attempt` are not Flink's."""

    exceptionName: str
    stacktrace: str
    timestamp: int
    failureLabels: dict[str, str]
    taskName: NotRequired[str]
    endpoint: NotRequired[str]
    taskManagerId: NotRequired[str]
    concurrentExceptions: list[Any]
    operator: str | None
    record: str | None
    attempt: int


class ExceptionHistory(TypedDict):
    """The failures of a job, the newest first."""

    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(TypedDict):
    """The failures of a job."""

    exceptionHistory: ExceptionHistory


class QueueStatus(TypedDict):
    """The status of an asynchronous request."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


FailureCause = TypedDict("FailureCause", {"class": str, "stack-trace": str, "serialized-throwable": str})
JobResult = TypedDict(
    "JobResult",
    {
        "id": str,
        "application-status": str,
        "accumulator-results": dict[str, Any],
        "net-runtime": int,
        "failure-cause": NotRequired[FailureCause],
    },
)
ExecutionResult = TypedDict("ExecutionResult", {"status": QueueStatus, "job-execution-result": NotRequired[JobResult]})


class Accumulator(TypedDict):
    """An accumulator of a user function."""

    name: str
    type: str
    value: str


JobAccumulators = TypedDict(
    "JobAccumulators",
    {
        "job-accumulators": list[Any],
        "user-task-accumulators": list[Accumulator],
        "serialized-user-task-accumulators": dict[str, Any],
    },
)


class ParallelismBounds(TypedDict):
    """The parallelism that a vertex may have."""

    lowerBound: int
    upperBound: int


class VertexRequirements(TypedDict):
    """What a vertex needs."""

    parallelism: ParallelismBounds


# --- vertices ---

SubtaskDetail = TypedDict(
    "SubtaskDetail",
    {
        "subtask": int,
        "status": str,
        "attempt": int,
        "endpoint": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": IOMetrics,
        "taskmanager-id": str,
        "status-duration": dict[str, int],
        "start_time": int,
    },
)
Aggregated = TypedDict(
    "Aggregated", {"metrics": dict[str, SubtaskStatistics], "status-duration": dict[str, SubtaskStatistics]}
)


class VertexDetail(TypedDict):
    """A vertex with its subtasks."""

    id: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: list[SubtaskDetail]
    aggregated: Aggregated


class SubtaskTime(TypedDict):
    """When a subtask entered its states."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: StateCounts


class SubtaskTimes(TypedDict):
    """When subtasks entered their states."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTime]


VertexTaskManager = TypedDict(
    "VertexTaskManager",
    {
        "endpoint": str,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": IOMetrics,
        "status-counts": StateCounts,
        "taskmanager-id": str,
        "aggregated": Aggregated,
    },
)


class VertexTaskManagers(TypedDict):
    """A vertex by the hosts of its slots."""

    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManager]


VertexAccumulators = TypedDict("VertexAccumulators", {"id": str, "user-accumulators": list[Accumulator]})
SubtaskAccumulators = TypedDict(
    "SubtaskAccumulators",
    {"subtask": int, "attempt": int, "endpoint": str, "user-accumulators": list[Accumulator]},
)


class AllSubtaskAccumulators(TypedDict):
    """The accumulators of the subtasks of a vertex."""

    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


AttemptAccumulators = TypedDict(
    "AttemptAccumulators", {"subtask": int, "attempt": int, "id": str, "user-accumulators": list[Accumulator]}
)

Level = Literal["ok", "low", "high"]
SubtaskBackPressure = TypedDict(
    "SubtaskBackPressure",
    {
        "subtask": int,
        "backpressureLevel": Level,
        "backpressure-level": Level,
        "ratio": Number,
        "idleRatio": Number,
        "busyRatio": Number,
    },
)
BackPressure = TypedDict(
    "BackPressure",
    {
        "status": str,
        "backpressureLevel": Level | None,
        "backpressure-level": Level | None,
        "end-timestamp": int | None,
        "subtasks": list[SubtaskBackPressure] | None,
    },
)


class FlameGraph(TypedDict):
    """Sampled stacks as a tree; without `data` if the job has ended (-1) or samples are being collected (-3)."""

    endTimestamp: int
    data: NotRequired[dict[str, Any]]


# --- checkpoints ---


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


# --- task managers ---


class Resource(TypedDict):
    """Resources, in cores and megabytes."""

    cpuCores: float
    taskHeapMemory: int
    taskOffHeapMemory: int
    managedMemory: int
    networkMemory: int
    extendedResources: dict[str, Any]


class Hardware(TypedDict):
    """The machine; zeros for another one than the server's."""

    cpuCores: int
    physicalMemory: int
    freeMemory: int
    managedMemory: int


class MemoryConfiguration(TypedDict):
    """The memory of a task manager, in bytes; slots are no Java processes and have no such parts."""

    frameworkHeap: int
    taskHeap: int
    frameworkOffHeap: int
    taskOffHeap: int
    networkMemory: int
    managedMemory: int
    jvmMetaspace: int
    jvmOverhead: int
    totalFlinkMemory: int
    totalProcessMemory: int


class TaskManager(TypedDict):
    """A host with slots of running jobs."""

    id: str
    path: str
    dataPort: int
    jmxPort: int
    timeSinceLastHeartbeat: int
    slotsNumber: int
    freeSlots: int
    assignedTasks: int
    totalResource: Resource
    freeResource: Resource
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration


class TaskManagers(TypedDict):
    """The hosts of slots; the server's own is always among them."""

    taskmanagers: list[TaskManager]


class AllocatedSlot(TypedDict):
    """A slot of a job."""

    jobId: str
    resource: Resource
    assignedTasks: int


class GarbageCollector(TypedDict):
    """What a garbage collector has done."""

    name: str
    count: int
    time: int


class TaskManagerMetrics(TypedDict):
    """`heapUsed` is the resident memory of the slots; the rest has no meaning outside Java."""

    heapUsed: int
    heapCommitted: int
    heapMax: int
    nonHeapUsed: int
    nonHeapCommitted: int
    nonHeapMax: int
    directCount: int
    directUsed: int
    directMax: int
    mappedCount: int
    mappedUsed: int
    mappedMax: int
    nettyShuffleMemorySegmentsAvailable: int
    nettyShuffleMemorySegmentsUsed: int
    nettyShuffleMemorySegmentsTotal: int
    nettyShuffleMemoryAvailable: int
    nettyShuffleMemoryUsed: int
    nettyShuffleMemoryTotal: int
    garbageCollectors: list[GarbageCollector]


class TaskManagerDetail(TaskManager):
    """A host with its slots."""

    allocatedSlots: list[AllocatedSlot]
    metrics: TaskManagerMetrics


# --- programs and asynchronous requests ---


class EntryClass(TypedDict):
    """A module of an archive that can be run."""

    name: str
    description: str | None


class Program(TypedDict):
    """An uploaded program; Flink calls it a jar."""

    id: str
    name: str
    uploaded: int
    entry: list[EntryClass]


class Programs(TypedDict):
    """The uploaded programs, the newest first."""

    address: str
    files: list[Program]


class Uploaded(TypedDict):
    """Where an uploaded program is."""

    filename: str
    status: Literal["success"]


class Run(TypedDict):
    """The job of a program."""

    jobid: str


class RunApplication(TypedDict):
    """The application of a program: it has the id of its job."""

    applicationid: str


Triggered = TypedDict("Triggered", {"request-id": str})
SavepointInfo = TypedDict(
    "SavepointInfo", {"location": NotRequired[str | None], "failure-cause": NotRequired[FailureCause]}
)


class SavepointStatus(TypedDict):
    """A savepoint on request."""

    status: QueueStatus
    operation: NotRequired[SavepointInfo]


CheckpointInfo = TypedDict(
    "CheckpointInfo", {"checkpointId": NotRequired[int | None], "failure-cause": NotRequired[FailureCause]}
)


class CheckpointStatus(TypedDict):
    """A checkpoint on request."""

    status: QueueStatus
    operation: NotRequired[CheckpointInfo]


DisposalInfo = TypedDict("DisposalInfo", {"failure-cause": NotRequired[FailureCause]})


class DisposalStatus(TypedDict):
    """A savepoint that is being removed."""

    status: QueueStatus
    operation: NotRequired[DisposalInfo]


# --- applications, which Flink's dashboard lists: one a job, with its id ---

ApplicationOverview = TypedDict(
    "ApplicationOverview",
    {
        "id": str,
        "name": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "status": str,
        "jobs": dict[str, int],
    },
)


class Applications(TypedDict):
    """All applications, the newest first."""

    applications: list[ApplicationOverview]


ApplicationDetail = TypedDict(
    "ApplicationDetail",
    {
        "id": str,
        "name": str,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "timestamps": dict[str, int],
        "jobs": list[JobOverview],
    },
)
