"""Vertices: their subtasks, attempts, hosts, watermarks, back-pressure and accumulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from flintstream.jobmaster.details import JobDetails, SubtaskDetails, VertexDetails
from flintstream.server.rest import shapes
from flintstream.server.rest.statistics import subtask_statistics
from flintstream.server.rest.views.jobs import accumulator_list
from flintstream.server.rest.views.states import (
    EXECUTION_STATES,
    IO_NAMES,
    aggregate_state,
    elapsed,
    ended_at,
    endpoint,
    host_of,
    io_metrics,
    number_of,
    started_at,
    state_counts,
    state_durations,
    sum_metrics,
)

__all__ = [
    "attempt_accumulators",
    "back_pressure",
    "subtask_accumulators",
    "subtask_detail",
    "subtask_times",
    "vertex_accumulators",
    "vertex_detail",
    "vertex_task_managers",
    "watermarks",
]

_LOW, _HIGH = 0.1, 0.5
"""The ratios above which Flink calls the back-pressure of a subtask low, and high."""


def vertex_detail(details: JobDetails, vertex: VertexDetails) -> shapes.VertexDetail:
    """Returns the answer of `/jobs/:jobid/vertices/:vertexid`."""
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": details.now,
        "subtasks": [subtask_detail(details, subtask) for subtask in vertex.subtasks],
        "aggregated": _aggregated(vertex.subtasks, details.now),
    }


def subtask_detail(details: JobDetails, subtask: SubtaskDetails) -> shapes.SubtaskDetail:
    """Returns a subtask with what it has read and written."""
    start, end, host = started_at(subtask), ended_at(subtask), host_of(details, subtask)
    return {
        "subtask": subtask.index,
        "status": subtask.status,
        "attempt": subtask.attempt,
        "endpoint": endpoint(host),
        "start-time": start,
        "end-time": end,
        "duration": elapsed(start, end, details.now),
        "metrics": io_metrics(subtask),
        "taskmanager-id": host or "(unassigned)",
        "status-duration": state_durations(subtask, details.now),
        "start_time": start,
    }


def _aggregated(subtasks: Sequence[SubtaskDetails], now: int) -> shapes.Aggregated:
    metrics = [cast(Mapping[str, Any], io_metrics(subtask)) for subtask in subtasks]
    durations = [state_durations(subtask, now) for subtask in subtasks]
    states = durations[0] if durations else ()
    return {
        "metrics": {name: subtask_statistics(each[name] for each in metrics) for name in IO_NAMES},
        "status-duration": {state: subtask_statistics(each[state] for each in durations) for state in states},
    }


def subtask_times(details: JobDetails, vertex: VertexDetails) -> shapes.SubtaskTimes:
    """Returns the answer of `…/subtasktimes`."""
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "now": details.now,
        "subtasks": [
            {
                "subtask": subtask.index,
                "endpoint": endpoint(host_of(details, subtask)),
                "duration": elapsed(subtask.timestamps.get("SCHEDULED", -1), ended_at(subtask), details.now),
                "timestamps": cast(
                    shapes.StateCounts, {state: subtask.timestamps.get(state, 0) for state in EXECUTION_STATES}
                ),
            }
            for subtask in vertex.subtasks
        ],
    }


def vertex_task_managers(details: JobDetails, vertex: VertexDetails) -> shapes.VertexTaskManagers:
    """Returns the answer of `…/taskmanagers`: the subtasks of a vertex by host."""
    hosts: dict[str, list[SubtaskDetails]] = {}
    for subtask in vertex.subtasks:
        hosts.setdefault(host_of(details, subtask), []).append(subtask)
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "now": details.now,
        "taskmanagers": [_task_manager(host, subtasks, details.now) for host, subtasks in sorted(hosts.items())],
    }


def _task_manager(host: str, subtasks: list[SubtaskDetails], now: int) -> shapes.VertexTaskManager:
    states = [subtask.status for subtask in subtasks]
    start = min((started_at(subtask) for subtask in subtasks if started_at(subtask) > 0), default=-1)
    ends = [ended_at(subtask) for subtask in subtasks]
    end = -1 if -1 in ends else max(ends)
    return {
        "endpoint": endpoint(host),
        "status": aggregate_state(states),
        "start-time": start,
        "end-time": end,
        "duration": elapsed(start, end, now),
        "metrics": sum_metrics(subtasks),
        "status-counts": state_counts(states),
        "taskmanager-id": host or "(unassigned)",
        "aggregated": _aggregated(subtasks, now),
    }


def watermarks(vertex: VertexDetails) -> list[shapes.Metric]:
    """Returns the answer of `…/watermarks`; subtasks that report none are left out."""
    return [
        {"id": f"{subtask.index}.currentInputWatermark", "value": str(subtask.metrics["currentInputWatermark"])}
        for subtask in vertex.subtasks
        if subtask.metrics.get("currentInputWatermark") is not None
    ]


def back_pressure(details: JobDetails, vertex: VertexDetails) -> shapes.BackPressure:
    """Returns the answer of `…/backpressure`: that of a vertex is the highest of its subtasks."""
    subtasks = [_subtask_back_pressure(subtask) for subtask in vertex.subtasks if subtask.metrics]
    if not subtasks or details.ended:
        return {
            "status": "deprecated",
            "backpressureLevel": None,
            "end-timestamp": None,
            "subtasks": None,
            "backpressure-level": None,
        }
    highest = _level(max(float(each["ratio"]) for each in subtasks))
    return {
        "status": "ok",
        "backpressureLevel": highest,
        "end-timestamp": details.now,
        "subtasks": subtasks,
        "backpressure-level": highest,
    }


def _subtask_back_pressure(subtask: SubtaskDetails) -> shapes.SubtaskBackPressure:
    ratio, idle, busy = (
        (number_of(subtask.metrics, name) or 0) / 1000
        for name in ("backPressuredTimeMsPerSecond", "idleTimeMsPerSecond", "busyTimeMsPerSecond")
    )
    level = _level(ratio)
    return {
        "subtask": subtask.index,
        "backpressureLevel": level,
        "ratio": ratio,
        "idleRatio": idle,
        "busyRatio": busy,
        "backpressure-level": level,
    }


def _level(ratio: float) -> shapes.Level:
    if ratio <= _LOW:
        return "ok"
    return "low" if ratio <= _HIGH else "high"


def vertex_accumulators(vertex: VertexDetails) -> shapes.VertexAccumulators:
    """Returns the answer of `…/accumulators`: those of the subtasks, each under its own index if there are several."""
    found = {
        name if vertex.parallelism == 1 else f"{subtask.index}.{name}": value
        for subtask in vertex.subtasks
        for name, value in subtask.accumulators.items()
    }
    return {"id": vertex.vertex_id, "user-accumulators": accumulator_list(found)}


def subtask_accumulators(details: JobDetails, vertex: VertexDetails) -> shapes.AllSubtaskAccumulators:
    """Returns the answer of `…/subtasks/accumulators`."""
    return {
        "id": vertex.vertex_id,
        "parallelism": vertex.parallelism,
        "subtasks": [
            {
                "subtask": subtask.index,
                "attempt": subtask.attempt,
                "endpoint": endpoint(host_of(details, subtask)),
                "user-accumulators": accumulator_list(subtask.accumulators),
            }
            for subtask in vertex.subtasks
        ],
    }


def attempt_accumulators(
    details: JobDetails, vertex: VertexDetails, subtask: SubtaskDetails
) -> shapes.AttemptAccumulators:
    """Returns the answer of `…/subtasks/:subtaskindex/attempts/:attempt/accumulators`."""
    return {
        "subtask": subtask.index,
        "attempt": subtask.attempt,
        "id": f"{details.job_id}_{vertex.vertex_id}_{subtask.index}_{subtask.attempt}",
        "user-accumulators": accumulator_list(subtask.accumulators),
    }
