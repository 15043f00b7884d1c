"""The routes of jobs and their vertices."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import Query

from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestContext
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.flame_graphs import FlameGraphs
from flintstream.server.rest.parameters import (
    ApplicationId,
    Attempt,
    HeartbeatRequest,
    JobId,
    RequirementsRequest,
    SubtaskIndex,
    VertexId,
    labels_of,
)
from flintstream.server.rest.routing import Routes
from flintstream.server.rest.views import jobs as views
from flintstream.server.rest.views import vertices

__all__ = ["job_routes"]

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
_SUBTASK = _VERTEX + "/subtasks/{subtaskindex}"
_ATTEMPT = _SUBTASK + "/attempts/{attempt}"


def job_routes(context: RestContext) -> Routes:
    """Returns the routes below `/jobs` that show jobs, and those that control one at once."""
    routes = Routes()
    _add_jobs(routes, context)
    _add_control(routes, context)
    _add_vertices(routes, context)
    _add_applications(routes, context)
    return routes


def _now() -> int:
    return int(time.time() * 1000)


def _add_jobs(routes: Routes, context: RestContext) -> None:
    @routes.get("/jobs")
    def job_ids() -> shapes.JobIds:
        """All jobs with their status."""
        return views.job_ids(context.jobs.summaries())

    @routes.get("/jobs/overview")
    def overview() -> shapes.JobsOverview:
        """An overview over all jobs."""
        now = _now()
        return {"jobs": [views.overview(job, now) for job in context.jobs.summaries()]}

    @routes.get("/jobs/{jobid}")
    def job(job_id: JobId) -> shapes.JobDetail:
        """A job with its vertices and plan."""
        return views.job_detail(context.details(job_id))

    @routes.get("/jobs/{jobid}/config")
    def configuration(job_id: JobId) -> shapes.JobConfiguration:
        """The execution configuration of a job."""
        return views.configuration(context.details(job_id))

    @routes.get("/jobs/{jobid}/plan")
    def plan(job_id: JobId) -> shapes.JobPlan:
        """The graph of a job."""
        return views.plan(context.details(job_id))

    @routes.get("/jobs/{jobid}/status")
    def status(job_id: JobId) -> shapes.JobState:
        """The status of a job."""
        return {"status": context.details(job_id).status}

    @routes.get("/jobs/{jobid}/execution-result")
    def execution_result(job_id: JobId) -> shapes.ExecutionResult:
        """The result of a job that has ended."""
        return views.execution_result(context.details(job_id))

    @routes.get("/jobs/{jobid}/exceptions")
    def exceptions(
        job_id: JobId,
        most: Annotated[int, Query(alias="maxExceptions", ge=1, le=10_000)] = 20,
        labels: Annotated[str | None, Query(alias="failureLabelFilter", max_length=10_000)] = None,
    ) -> shapes.JobExceptions:
        """The latest failures of a job."""
        return views.exceptions(context.details(job_id), most, labels_of(labels))

    @routes.get("/jobs/{jobid}/accumulators")
    def accumulators(
        job_id: JobId, serialized: Annotated[bool, Query(alias="includeSerializedValue")] = False
    ) -> shapes.JobAccumulators:
        """The accumulators of a job; none has a serialized value, which would be one of Java's."""
        return views.accumulators(context.details(job_id))

    @routes.get("/jobs/{jobid}/resource-requirements")
    def requirements(job_id: JobId) -> dict[str, shapes.VertexRequirements]:
        """The parallelism of each vertex."""
        return views.requirements(context.details(job_id))

    @routes.get("/jobs/{jobid}/jobmanager/config")
    def job_settings(job_id: JobId) -> list[shapes.Setting]:
        """The settings of a job."""
        return views.settings(context.details(job_id).configuration)


def _add_control(routes: Routes, context: RestContext) -> None:
    @routes.patch("/jobs/{jobid}", status=202)
    async def cancel(job_id: JobId, mode: Literal["cancel", "stop"] = "cancel") -> shapes.Empty:
        """Cancels a job."""
        if mode == "stop":
            raise RestError(400, "mode=stop has been removed; POST /jobs/:jobid/stop stops a job with a savepoint.")
        return await _cancel(context, job_id)

    @routes.get("/jobs/{jobid}/yarn-cancel", schema=False)
    async def cancel_by_get(job_id: JobId) -> shapes.Empty:
        """Cancels a job; Flink's dashboard uses this since some proxies pass only GET."""
        return await _cancel(context, job_id)

    @routes.patch("/jobs/{jobid}/clientHeartbeat", status=202)
    def heartbeat(job_id: JobId, request: HeartbeatRequest) -> shapes.Empty:
        """Accepts that a client is alive; no job here ends with its client."""
        context.details(job_id)
        return {}

    @routes.put("/jobs/{jobid}/resource-requirements")
    def change_requirements(job_id: JobId, request: RequirementsRequest) -> shapes.Empty:
        """Refuses to change the parallelism of a job while it runs."""
        context.running(job_id)
        raise RestError(
            409,
            "The parallelism of a running job cannot be changed: stop the job with a savepoint, and run its program "
            "from there with another parallelism.",
        )


async def _cancel(context: RestContext, job_id: str) -> shapes.Empty:
    if not context.settings.cancel:
        raise RestError(403, "Cancelling jobs is switched off (web.cancel.enable).")
    details = context.details(job_id)
    if details.ended and details.status != "CANCELED":
        raise RestError(409, f"Job {job_id} was not cancelled: it is {details.status}.")
    if not details.ended:
        await context.jobs.cancel(job_id)
    return {}


def _add_vertices(routes: Routes, context: RestContext) -> None:
    flame_graphs = FlameGraphs(context.jobs)

    @routes.get(_VERTEX)
    def vertex(job_id: JobId, vertex_id: VertexId) -> shapes.VertexDetail:
        """A vertex with its subtasks."""
        return vertices.vertex_detail(*context.vertex(job_id, vertex_id))

    @routes.get(_VERTEX + "/accumulators")
    def vertex_accumulators(job_id: JobId, vertex_id: VertexId) -> shapes.VertexAccumulators:
        """The accumulators of a vertex."""
        return vertices.vertex_accumulators(context.vertex(job_id, vertex_id)[1])

    @routes.get(_VERTEX + "/backpressure")
    def back_pressure(job_id: JobId, vertex_id: VertexId) -> shapes.BackPressure:
        """The back-pressure of a vertex: the part of the time in which its output could not be handed on."""
        return vertices.back_pressure(*context.vertex(job_id, vertex_id))

    @routes.get(_VERTEX + "/flamegraph")
    async def flame_graph(
        job_id: JobId,
        vertex_id: VertexId,
        kind: Annotated[
            Literal["FULL", "ON_CPU", "OFF_CPU", "full", "on_cpu", "off_cpu"], Query(alias="type")
        ] = "FULL",
        index: Annotated[int | None, Query(alias="subtaskindex", ge=0, le=1 << 31)] = None,
    ) -> shapes.FlameGraph:
        """Sampled stacks of a vertex or a subtask."""
        if index is None:
            details, _ = context.vertex(job_id, vertex_id)
        else:
            details, _, _ = context.subtask(job_id, vertex_id, index)
        return await flame_graphs.graph(details, vertex_id, index, kind.lower())

    @routes.get(_VERTEX + "/subtasks/accumulators")
    def subtask_accumulators(job_id: JobId, vertex_id: VertexId) -> shapes.AllSubtaskAccumulators:
        """The accumulators of a vertex by subtask."""
        return vertices.subtask_accumulators(*context.vertex(job_id, vertex_id))

    @routes.get(_VERTEX + "/subtasktimes")
    def subtask_times(job_id: JobId, vertex_id: VertexId) -> shapes.SubtaskTimes:
        """When the subtasks of a vertex entered their states."""
        return vertices.subtask_times(*context.vertex(job_id, vertex_id))

    @routes.get(_VERTEX + "/taskmanagers")
    def task_managers(job_id: JobId, vertex_id: VertexId) -> shapes.VertexTaskManagers:
        """The subtasks of a vertex by host."""
        return vertices.vertex_task_managers(*context.vertex(job_id, vertex_id))

    @routes.get(_VERTEX + "/watermarks")
    def watermarks(job_id: JobId, vertex_id: VertexId) -> list[shapes.Metric]:
        """The watermarks of a vertex by subtask."""
        return vertices.watermarks(context.vertex(job_id, vertex_id)[1])

    @routes.get(_ATTEMPT)
    def attempt(job_id: JobId, vertex_id: VertexId, index: SubtaskIndex, number: Attempt) -> shapes.SubtaskDetail:
        """A subtask in its current attempt."""
        details, _, subtask = context.attempt(job_id, vertex_id, index, number)
        return vertices.subtask_detail(details, subtask)

    @routes.get(_ATTEMPT + "/accumulators")
    def attempt_accumulators(
        job_id: JobId, vertex_id: VertexId, index: SubtaskIndex, number: Attempt
    ) -> shapes.AttemptAccumulators:
        """The accumulators of a subtask in its current attempt."""
        return vertices.attempt_accumulators(*context.attempt(job_id, vertex_id, index, number))

    @routes.get(_SUBTASK)
    def subtask(job_id: JobId, vertex_id: VertexId, index: SubtaskIndex) -> shapes.SubtaskDetail:
        """A subtask."""
        details, _, found = context.subtask(job_id, vertex_id, index)
        return vertices.subtask_detail(details, found)


def _add_applications(routes: Routes, context: RestContext) -> None:
    """Flink 2.3's dashboard lists applications, each with the jobs of one program: here a job is one."""

    @routes.get("/applications/overview")
    def applications() -> shapes.Applications:
        """All applications: one a job."""
        now = _now()
        return {"applications": [views.application_overview(job, now) for job in context.jobs.summaries()]}

    @routes.get("/applications/{applicationid}")
    def application(application_id: ApplicationId) -> shapes.ApplicationDetail:
        """An application with its job."""
        return views.application(context.details(application_id), context.summary(application_id))

    @routes.get("/applications/{applicationid}/exceptions")
    def application_exceptions(application_id: ApplicationId) -> shapes.JobExceptions:
        """The failures of an application: those of its job."""
        return views.exceptions(context.details(application_id), 20, {})

    @routes.post("/applications/{applicationid}/cancel", status=202)
    async def cancel_application(application_id: ApplicationId) -> shapes.Empty:
        """Cancels an application with its job."""
        return await _cancel(context, application_id)
