"""Jobs: their list, details, plan, configuration, failures and result."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from flintstream.jobmaster.details import ExceptionDetails, JobDetails, VertexDetails
from flintstream.server.jobs import JobSummary
from flintstream.server.rest import shapes
from flintstream.server.rest.failures import exception_class, failure_cause
from flintstream.server.rest.views.states import (
    aggregate_state,
    elapsed,
    ended_at,
    endpoint,
    started_at,
    state_counts,
    sum_metrics,
)

__all__ = [
    "accumulators",
    "application",
    "application_overview",
    "configuration",
    "exceptions",
    "execution_result",
    "job_detail",
    "job_ids",
    "overview",
    "plan",
    "requirements",
]

STATUSES = (
    "SUSPENDED",
    "RUNNING",
    "FAILED",
    "CANCELED",
    "FINISHED",
    "INITIALIZING",
    "CREATED",
    "RESTARTING",
    "FAILING",
    "RECONCILING",
    "CANCELLING",
)
_RESULTS = {"FINISHED": "SUCCEEDED", "CANCELED": "CANCELED", "FAILED": "FAILED"}


def job_ids(summaries: Iterable[JobSummary]) -> shapes.JobIds:
    """Returns the answer of `/jobs`."""
    return {"jobs": [{"id": job.job_id, "status": job.status} for job in summaries]}


def overview(job: JobSummary, now: int) -> shapes.JobOverview:
    """Returns a line of `/jobs/overview`."""
    names = shapes.TaskCounts.__annotations__
    tasks = {name: int(job.tasks.get(name, 0)) for name in names if name != "total"}
    return {
        "jid": job.job_id,
        "name": job.name,
        "jobType": job.job_type,
        "schedulerType": "Default",
        "start-time": job.start_time,
        "end-time": job.end_time,
        "duration": elapsed(job.start_time, job.end_time, now),
        "state": job.status,
        "last-modification": job.last_modification,
        "tasks": cast(shapes.TaskCounts, {**tasks, "total": sum(tasks.values())}),
        "pending-operators": 0,
    }


def job_detail(details: JobDetails) -> shapes.JobDetail:
    """Returns the answer of `/jobs/:jobid`."""
    vertices = [_vertex(details, vertex) for vertex in details.vertices]
    return {
        "jid": details.job_id,
        "application-id": details.job_id,
        "name": details.name,
        "isStoppable": False,
        "state": details.status,
        "job-type": details.job_type,
        "schedulerType": "Default",
        "start-time": details.start_time,
        "end-time": details.end_time,
        "duration": elapsed(details.start_time, details.end_time, details.now),
        "maxParallelism": -1,
        "now": details.now,
        "timestamps": {status: max(details.timestamps.get(status, 0), 0) for status in STATUSES},
        "vertices": vertices,
        "status-counts": state_counts(vertex["status"] for vertex in vertices),
        "plan": plan(details)["plan"],
        "pending-operators": 0,
    }


def _vertex(details: JobDetails, vertex: VertexDetails) -> shapes.JobVertex:
    starts = [started_at(subtask) for subtask in vertex.subtasks if started_at(subtask) > 0]
    ends = [ended_at(subtask) for subtask in vertex.subtasks]
    start = min(starts, default=-1)
    end = max(ends, default=-1) if -1 not in ends else -1
    states = [subtask.status for subtask in vertex.subtasks]
    return {
        "id": vertex.vertex_id,
        "slotSharingGroupId": vertex.slot_sharing_group,
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": aggregate_state(states),
        "start-time": start,
        "end-time": end,
        "duration": elapsed(start, end, details.now),
        "tasks": state_counts(states),
        "metrics": sum_metrics(vertex.subtasks),
    }


def plan(details: JobDetails) -> shapes.JobPlan:
    """Returns the answer of `/jobs/:jobid/plan`."""
    exchange = "blocking" if details.job_type == "BATCH" else "pipelined_bounded"
    nodes = []
    for vertex in details.vertices:
        names = [operator.name for operator in vertex.operators] or [vertex.name]
        node: shapes.PlanNode = {
            "id": vertex.vertex_id,
            "operator": "",
            "parallelism": vertex.parallelism,
            "operator_strategy": "",
            "description": describe(names),
            "optimizer_properties": {},
        }
        if vertex.inputs:
            node["inputs"] = [
                {"id": edge.source, "num": num, "exchange": exchange, "ship_strategy": edge.ship_strategy}
                for num, edge in enumerate(vertex.inputs)
            ]
        nodes.append(node)
    return {"plan": {"jid": details.job_id, "name": details.name, "type": details.job_type, "nodes": nodes}}


def describe(names: list[str]) -> str:
    """Returns the operators of a chain as the tree that Flink's dashboard shows, in HTML."""
    lines = [html.escape(name) for name in names]
    lines[1:] = [f"{'&nbsp;' * 3 * depth}+- {line}" for depth, line in enumerate(lines[1:])]
    return "".join(f"{line}<br/>" for line in lines)


def configuration(details: JobDetails) -> shapes.JobConfiguration:
    """Returns the answer of `/jobs/:jobid/config`."""
    return {
        "jid": details.job_id,
        "name": details.name,
        "execution-config": {
            "restart-strategy": details.restart_strategy,
            "job-parallelism": details.parallelism,
            "object-reuse-mode": details.object_reuse,
            "user-config": dict(details.parameters),
        },
    }


def settings(configured: Mapping[str, str]) -> list[shapes.Setting]:
    """Returns a configuration as Flink lists one."""
    return [{"key": key, "value": str(value)} for key, value in sorted(configured.items())]


def exceptions(details: JobDetails, most: int, labels: Mapping[str, str]) -> shapes.JobExceptions:
    """Returns the answer of `/jobs/:jobid/exceptions`. Failures have no labels here, so a filter leaves none."""
    found = [] if labels else details.exceptions
    return {
        "exceptionHistory": {
            "entries": [_exception(details, each) for each in found[:most]],
            "truncated": len(found) > most,
        }
    }


def _exception(details: JobDetails, failure: ExceptionDetails) -> shapes.ExceptionEntry:
    entry: shapes.ExceptionEntry = {
        "exceptionName": exception_class(failure.exception, failure.stacktrace) or failure.exception,
        "stacktrace": failure.stacktrace or failure.exception,
        "timestamp": failure.timestamp,
        "failureLabels": {},
        "concurrentExceptions": [],
        "operator": failure.operator,
        "record": failure.record,
        "attempt": failure.attempt,
    }
    vertex = next((each for each in details.vertices if each.vertex_id == failure.vertex_id), None)
    name = failure.operator if vertex is None else vertex.name
    if name is not None:
        of = "" if failure.subtask is None or vertex is None else f" ({failure.subtask + 1}/{vertex.parallelism})"
        entry["taskName"] = name + of
    if failure.host is not None:
        entry["endpoint"] = endpoint(failure.host)
        entry["taskManagerId"] = failure.host
    return entry


def execution_result(details: JobDetails) -> shapes.ExecutionResult:
    """Returns the answer of `/jobs/:jobid/execution-result`."""
    if not details.ended:
        return {"status": {"id": "IN_PROGRESS"}}
    result: shapes.JobResult = {
        "id": details.job_id,
        "application-status": _RESULTS[details.status],
        "accumulator-results": {},
        "net-runtime": max(details.end_time - details.start_time, 0),
    }
    if details.status == "FAILED":
        failure = details.exceptions[0] if details.exceptions else None
        result["failure-cause"] = failure_cause(
            "the job failed" if failure is None else failure.exception, None if failure is None else failure.stacktrace
        )
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def accumulators(details: JobDetails) -> shapes.JobAccumulators:
    """Returns the answer of `/jobs/:jobid/accumulators`."""
    return {
        "job-accumulators": [],
        "user-task-accumulators": accumulator_list(details.accumulators),
        "serialized-user-task-accumulators": {},
    }


def accumulator_list(found: Mapping[str, Any]) -> list[shapes.Accumulator]:
    """Returns accumulators as Flink lists them."""
    listed = []
    for name, value in sorted(found.items()):
        kind, text = (value.get("type", ""), value.get("value")) if isinstance(value, Mapping) else ("", value)
        shown = text if isinstance(text, str) else json.dumps(text, default=str)
        listed.append(shapes.Accumulator(name=name, type=str(kind), value=shown))
    return listed


def requirements(details: JobDetails) -> dict[str, shapes.VertexRequirements]:
    """Returns the answer of `/jobs/:jobid/resource-requirements`: a vertex has the parallelism it was started with."""
    return {
        vertex.vertex_id: {"parallelism": {"lowerBound": vertex.parallelism, "upperBound": vertex.parallelism}}
        for vertex in details.vertices
    }


def application_overview(job: JobSummary, now: int) -> shapes.ApplicationOverview:
    """Returns a line of `/applications/overview`."""
    return {
        "id": job.job_id,
        "name": job.name,
        "start-time": job.start_time,
        "end-time": job.end_time,
        "duration": elapsed(job.start_time, job.end_time, now),
        "status": job.status,
        "jobs": {job.status: 1},
    }


def application(details: JobDetails, job: JobSummary) -> shapes.ApplicationDetail:
    """Returns the answer of `/applications/:applicationid`."""
    return {
        "id": details.job_id,
        "name": details.name,
        "status": details.status,
        "start-time": details.start_time,
        "end-time": details.end_time,
        "duration": elapsed(details.start_time, details.end_time, details.now),
        "timestamps": {status: max(details.timestamps.get(status, 0), 0) for status in STATUSES},
        "jobs": [overview(job, details.now)],
    }
