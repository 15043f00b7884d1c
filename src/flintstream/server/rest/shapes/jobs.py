"""The shapes of jobs."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from flintstream.server.rest.shapes.common import Number


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
