"""The routes of the cluster: the server as Flink's JobManager, and hosts as task managers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Path, Query, Request

from flintstream.server.jobs import JobRefusedError, UnknownJobError
from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestContext
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.logs import LogResponse, log_of, output_of, text_of_log
from flintstream.server.rest.parameters import JobId, TaskManagerId
from flintstream.server.rest.routing import Routes
from flintstream.server.rest.views import cluster, taskmanagers
from flintstream.server.rest.views.jobs import settings as settings_view
from flintstream.server.rest.views.taskmanagers import Host

__all__ = ["cluster_routes"]

_THREADS_SECONDS = 10.0
FileName = Annotated[str, Path(max_length=255)]
DumpMode = Annotated[str | None, Query(max_length=100)]


def cluster_routes(context: RestContext) -> Routes:
    """Returns the routes of the server and of hosts."""
    routes = Routes()
    _add_cluster(routes, context)
    _add_server(routes, context)
    _add_hosts(routes, context)
    return routes


def _add_cluster(routes: Routes, context: RestContext) -> None:
    settings = context.settings

    @routes.get("/config")
    def dashboard() -> shapes.DashboardConfiguration:
        """What a dashboard needs to know."""
        return cluster.dashboard(settings.refresh_interval, settings.submit, settings.cancel)

    @routes.get("/overview")
    def overview() -> shapes.ClusterOverview:
        """An overview over the jobs and their slots."""
        return cluster.overview(context.jobs.summaries(), context.hosts())

    @routes.delete("/cluster")
    def shut_down() -> shapes.Empty:
        """Shuts the server down."""
        if settings.shut_down is None:
            raise RestError(403, "This server cannot be shut down by a request.")
        settings.shut_down()
        return {}


def _add_server(routes: Routes, context: RestContext) -> None:
    def logs() -> dict[str, str]:
        return {**context.driver_logs(), **context.settings.logs()}

    @routes.get("/jobmanager/config")
    def configuration() -> list[shapes.Setting]:
        """The settings of the server."""
        return settings_view(context.settings.configuration)

    @routes.get("/jobmanager/environment")
    def environment() -> shapes.Environment:
        """The Python of the server."""
        return cluster.environment()

    @routes.get("/jobs/{jobid}/jobmanager/environment")
    def job_environment(job_id: JobId) -> shapes.Environment:
        """The Python of the server, which its drivers have too."""
        context.details(job_id)
        return cluster.environment()

    @routes.get("/jobs/{jobid}/jobmanager/log-url")
    def log_url(job_id: JobId, request: Request) -> shapes.LogUrl:
        """Where a dashboard shows the logs of the server."""
        context.details(job_id)
        return {"url": f"{request.base_url}#/job-manager/logs"}

    @routes.get("/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url")
    def host_log_url(job_id: JobId, host: TaskManagerId, request: Request) -> shapes.LogUrl:
        """Where a dashboard shows the logs of a task manager."""
        context.details(job_id)
        context.host(host)
        return {"url": f"{request.base_url}#/task-manager/{host}/logs"}

    @routes.get("/jobmanager/logs")
    def log_files() -> shapes.LogFiles:
        """The log files of the server and its drivers."""
        return cluster.log_files(logs())

    @routes.get("/jobmanager/logs/{filename}")
    def log_file(filename: FileName) -> LogResponse:
        """A log file of the server or a driver."""
        return text_of_log(logs(), filename)

    @routes.get("/jobmanager/log")
    def log() -> LogResponse:
        """The log of the server."""
        return log_of(context.settings.logs())

    @routes.get("/jobmanager/stdout")
    def stdout() -> LogResponse:
        """The standard output of the server."""
        return output_of(context.settings.logs())

    @routes.get("/jobmanager/thread-dump")
    def thread_dump(mode: DumpMode = None) -> shapes.ThreadDump:
        """The threads of the server."""
        return cluster.thread_dump(cluster.threads())


def _add_hosts(routes: Routes, context: RestContext) -> None:
    def logs(name: str) -> dict[str, str]:
        """Slots beside the server write to the output of their driver; those of other hosts have their logs there."""
        return context.driver_logs() if context.host(name).local else {}

    @routes.get("/taskmanagers")
    def listed() -> shapes.TaskManagers:
        """The hosts with slots."""
        return {"taskmanagers": [taskmanagers.task_manager(host) for host in context.hosts().values()]}

    @routes.get("/taskmanagers/{taskmanagerid}")
    def task_manager(host: TaskManagerId) -> shapes.TaskManagerDetail:
        """A host with its slots."""
        return taskmanagers.task_manager_detail(context.host(host))

    @routes.get("/taskmanagers/{taskmanagerid}/logs")
    def log_files(host: TaskManagerId) -> shapes.LogFiles:
        """The log files of a host."""
        return cluster.log_files(logs(host))

    @routes.get("/taskmanagers/{taskmanagerid}/logs/{filename}")
    def log_file(host: TaskManagerId, filename: FileName) -> LogResponse:
        """A log file of a host."""
        return text_of_log(logs(host), filename)

    @routes.get("/taskmanagers/{taskmanagerid}/log")
    def log(host: TaskManagerId) -> LogResponse:
        """The newest log of a host."""
        return log_of(logs(host))

    @routes.get("/taskmanagers/{taskmanagerid}/stdout")
    def stdout(host: TaskManagerId) -> LogResponse:
        """The newest standard output of a host."""
        return output_of(logs(host))

    @routes.get("/taskmanagers/{taskmanagerid}/thread-dump")
    async def thread_dump(host: TaskManagerId, mode: DumpMode = None) -> shapes.ThreadDump:
        """The threads of the slots on a host."""
        return cluster.thread_dump(await _threads(context, context.host(host)))


async def _threads(context: RestContext, host: Host) -> list[Mapping[str, Any]]:
    """Returns the threads of all slots on a host; those of a driver that does not answer say so."""

    async def of_slot(job_id: str, slot: int) -> list[Mapping[str, Any]]:
        try:
            asked = context.jobs.ask(job_id, "threads", slot=slot)
            found = await asyncio.wait_for(asked, _THREADS_SECONDS)
        except (JobRefusedError, UnknownJobError, asyncio.TimeoutError) as error:
            found = [{"name": "no answer", "stack": str(error) or f"within {_THREADS_SECONDS:g} s"}]
        return [{**each, "name": f"{job_id} slot {slot}: {each.get('name', '')}"} for each in found]

    answers = await asyncio.gather(*(of_slot(details.job_id, slot.slot) for details, slot in host.slots))
    return [thread for answer in answers for thread in answer]
