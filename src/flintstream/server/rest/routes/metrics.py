"""The routes of metrics."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Query

from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestContext
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.parameters import JobId, Names, SubtaskIndex, TaskManagerId, VertexId, names_of, ranges_of
from flintstream.server.rest.routing import Routes
from flintstream.server.rest.views import cluster, taskmanagers
from flintstream.server.rest.views.metrics import (
    AGGREGATIONS,
    DEFAULT_AGGREGATIONS,
    aggregated,
    job_metrics,
    listed,
    subtask_metrics,
    vertex_metrics,
)

__all__ = ["metric_routes"]

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
_JOB_ID = re.compile("[0-9a-fA-F]{32}")
Aggregations = Annotated[str | None, Query(max_length=200)]


def metric_routes(context: RestContext) -> Routes:
    """Returns the routes of metrics. They come before those with a parameter in the place of the word `metrics`."""
    routes = Routes()
    _add_jobs(routes, context)
    _add_hosts(routes, context)
    return routes


def _add_jobs(routes: Routes, context: RestContext) -> None:
    @routes.get("/jobs/metrics")
    def of_jobs(get: Names = None, agg: Aggregations = None, jobs: Names = None) -> list[shapes.AggregatedMetric]:
        """The metrics of jobs, aggregated."""
        chosen = _aggregations(agg)
        selected = [_job_id(name) for name in names_of(jobs) or ()]
        found = [context.details(job_id) for job_id in selected] if selected else list(context.all_running())
        return aggregated(map(job_metrics, found), names_of(get), chosen)

    @routes.get("/jobs/{jobid}/metrics")
    def of_job(job_id: JobId, get: Names = None) -> list[shapes.Metric]:
        """The metrics of a job."""
        return listed(job_metrics(context.details(job_id)), names_of(get))

    @routes.get(_VERTEX + "/metrics")
    def of_vertex(job_id: JobId, vertex_id: VertexId, get: Names = None) -> list[shapes.Metric]:
        """The metrics of a vertex: those of its subtasks, with their indices."""
        return listed(vertex_metrics(context.vertex(job_id, vertex_id)[1]), names_of(get))

    @routes.get(_VERTEX + "/jm-operator-metrics")
    def of_coordinators(job_id: JobId, vertex_id: VertexId, get: Names = None) -> list[shapes.Metric]:
        """The metrics of the coordinators of a vertex's operators: there are none."""
        context.vertex(job_id, vertex_id)
        return []

    @routes.get(_VERTEX + "/subtasks/metrics")
    def of_subtasks(
        job_id: JobId, vertex_id: VertexId, get: Names = None, agg: Aggregations = None, subtasks: Names = None
    ) -> list[shapes.AggregatedMetric]:
        """The metrics of subtasks, aggregated."""
        chosen = _aggregations(agg)
        _, vertex = context.vertex(job_id, vertex_id)
        selected = set(ranges_of(subtasks, vertex.parallelism))
        parts = [subtask_metrics(vertex, each) for each in vertex.subtasks if each.index in selected]
        return aggregated(parts, names_of(get), chosen)

    @routes.get(_VERTEX + "/subtasks/{subtaskindex}/metrics")
    def of_subtask(job_id: JobId, vertex_id: VertexId, index: SubtaskIndex, get: Names = None) -> list[shapes.Metric]:
        """The metrics of a subtask."""
        _, vertex, subtask = context.subtask(job_id, vertex_id, index)
        return listed(subtask_metrics(vertex, subtask), names_of(get))


def _add_hosts(routes: Routes, context: RestContext) -> None:
    @routes.get("/jobmanager/metrics")
    def of_server(get: Names = None) -> list[shapes.Metric]:
        """The metrics of the server."""
        return listed(cluster.metrics(cluster.overview(context.jobs.summaries(), context.hosts())), names_of(get))

    @routes.get("/taskmanagers/metrics")
    def of_hosts(
        get: Names = None, agg: Aggregations = None, managers: Annotated[str | None, Query(alias="taskmanagers")] = None
    ) -> list[shapes.AggregatedMetric]:
        """The metrics of task managers, aggregated."""
        chosen = _aggregations(agg)
        selected = names_of(managers)
        found = context.hosts().values() if selected is None else [context.host(name) for name in selected]
        return aggregated(map(taskmanagers.metrics, found), names_of(get), chosen)

    @routes.get("/taskmanagers/{taskmanagerid}/metrics")
    def of_host(host: TaskManagerId, get: Names = None) -> list[shapes.Metric]:
        """The metrics of a task manager."""
        return listed(taskmanagers.metrics(context.host(host)), names_of(get))


def _aggregations(text: str | None) -> list[str]:
    """Returns the aggregations that `agg` selects, or Flink's default ones."""
    chosen = names_of(text) or list(DEFAULT_AGGREGATIONS)
    for name in chosen:
        if name.lower() not in AGGREGATIONS:
            raise RestError(400, f"agg must consist of {', '.join(AGGREGATIONS)}, separated by commas, not {name!r}.")
    return list(dict.fromkeys(name.lower() for name in chosen))


def _job_id(text: str) -> str:
    if not _JOB_ID.fullmatch(text):
        raise RestError(400, f"jobs must consist of ids of jobs, separated by commas, not {text!r}.")
    return text.lower()
