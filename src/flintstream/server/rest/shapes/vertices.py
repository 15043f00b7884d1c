"""The shapes of vertices and subtasks."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from flintstream.server.rest.shapes.common import Number
from flintstream.server.rest.shapes.jobs import Accumulator, IOMetrics, StateCounts
from flintstream.server.rest.shapes.metrics import SubtaskStatistics

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
