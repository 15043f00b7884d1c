"""The routes of checkpoints, savepoints and other asynchronous requests."""

from __future__ import annotations

import posixpath
import secrets
from typing import Any

from flintstream.server.jobs import Operation
from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestContext
from flintstream.server.rest.disposals import Disposals
from flintstream.server.rest.failures import RestError, failure_cause
from flintstream.server.rest.parameters import (
    CheckpointId,
    CheckpointRequest,
    DisposalRequest,
    JobId,
    SavepointRequest,
    StopRequest,
    TriggerId,
    VertexId,
)
from flintstream.server.rest.routing import Routes
from flintstream.server.rest.views import checkpoints as views

__all__ = ["checkpoint_routes"]

_SAVEPOINT, _CHECKPOINT = "savepoint", "checkpoint"


def checkpoint_routes(context: RestContext) -> Routes:
    """Returns the routes that show checkpoints, and take checkpoints and savepoints."""
    routes = Routes()
    _add_views(routes, context)
    _add_savepoints(routes, context)
    _add_checkpoints(routes, context)
    _add_disposal(routes, context)
    return routes


def _add_views(routes: Routes, context: RestContext) -> None:
    @routes.get("/jobs/{jobid}/checkpoints")
    def checkpoints(job_id: JobId) -> shapes.Checkpoints:
        """The checkpoints of a job."""
        return views.checkpoints(context.details(job_id))

    @routes.get("/jobs/{jobid}/checkpoints/config")
    def configuration(job_id: JobId) -> shapes.CheckpointConfiguration:
        """How a job takes checkpoints."""
        return views.configuration(context.details(job_id))

    @routes.get("/jobs/{jobid}/checkpoints/details/{checkpointid}")
    def checkpoint(job_id: JobId, checkpoint_id: CheckpointId) -> shapes.Checkpoint:
        """A checkpoint with the shares of vertices."""
        return views.checkpoint(*context.checkpoint(job_id, checkpoint_id))

    @routes.get("/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}")
    def subtasks(job_id: JobId, checkpoint_id: CheckpointId, vertex_id: VertexId) -> shapes.SubtaskCheckpoints:
        """The shares of the subtasks of a vertex in a checkpoint."""
        context.vertex(job_id, vertex_id)
        _, found = context.checkpoint(job_id, checkpoint_id)
        if vertex_id not in found.tasks:
            raise RestError(404, f"The subtasks of checkpoint {checkpoint_id} are no longer kept.")
        return views.subtasks(found, vertex_id)


def _add_savepoints(routes: Routes, context: RestContext) -> None:
    @routes.post("/jobs/{jobid}/savepoints", status=202)
    def savepoint(job_id: JobId, request: SavepointRequest) -> shapes.Triggered:
        """Takes a savepoint of a job, and cancels the job then if asked to."""
        arguments: dict[str, Any] = {"directory": _directory(request.target_directory)}
        if request.cancel_job:
            if not context.settings.cancel:
                raise RestError(403, "Cancelling jobs is switched off (web.cancel.enable).")
            arguments["savepoint"] = True
        return _begin(
            context, job_id, _SAVEPOINT, "cancel" if request.cancel_job else "savepoint", request.trigger_id, arguments
        )

    @routes.post("/jobs/{jobid}/stop", status=202)
    def stop(job_id: JobId, request: StopRequest) -> shapes.Triggered:
        """Stops a job with a savepoint; its progress is that of a savepoint."""
        arguments = {"directory": _directory(request.target_directory), "drain": bool(request.drain)}
        return _begin(context, job_id, _SAVEPOINT, "stop", request.trigger_id, arguments)

    @routes.get("/jobs/{jobid}/savepoints/{triggerid}")
    def savepoint_status(job_id: JobId, trigger_id: TriggerId) -> shapes.SavepointStatus:
        """Whether a savepoint on request is complete, and where it is."""
        operation = _operation(context, job_id, _SAVEPOINT, trigger_id)
        if not operation.done:
            return {"status": {"id": "IN_PROGRESS"}}
        if operation.failure is not None:
            return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": failure_cause(operation.failure)}}
        return {"status": {"id": "COMPLETED"}, "operation": {"location": operation.result}}


def _add_checkpoints(routes: Routes, context: RestContext) -> None:
    @routes.post("/jobs/{jobid}/checkpoints", status=202)
    def take_checkpoint(job_id: JobId, request: CheckpointRequest) -> shapes.Triggered:
        """Takes a checkpoint of a job now. Of the types only CONFIGURED has a meaning here."""
        return _begin(context, job_id, _CHECKPOINT, "checkpoint", request.trigger_id, {})

    @routes.get("/jobs/{jobid}/checkpoints/{triggerid}")
    def checkpoint_status(job_id: JobId, trigger_id: TriggerId) -> shapes.CheckpointStatus:
        """Whether a checkpoint on request is complete, and its id."""
        operation = _operation(context, job_id, _CHECKPOINT, trigger_id)
        if not operation.done:
            return {"status": {"id": "IN_PROGRESS"}}
        if operation.failure is not None:
            return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": failure_cause(operation.failure)}}
        return {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": operation.result}}


def _add_disposal(routes: Routes, context: RestContext) -> None:
    disposals = Disposals(context.settings.disposal_seconds)

    @routes.post("/savepoint-disposal", status=202)
    async def dispose(request: DisposalRequest) -> shapes.Triggered:
        """Removes a savepoint."""
        location = _directory(request.savepoint_path)
        assert location is not None
        return {"request-id": disposals.begin(location)}

    @routes.get("/savepoint-disposal/{triggerid}")
    async def disposal_status(trigger_id: TriggerId) -> shapes.DisposalStatus:
        """Whether a savepoint has been removed."""
        return disposals.status(trigger_id)


def _directory(location: str | None) -> str | None:
    """Returns a directory for a driver, whose working directory is another one."""
    if not location:
        return None
    location = location.removeprefix("file:") if location.startswith("file:/") and "://" not in location else location
    if "\0" in location or not ("://" in location or posixpath.isabs(location)):
        raise RestError(400, f"A directory must be an absolute path or a URL, not {location!r}.")
    return location


def _begin(
    context: RestContext, job_id: str, kind: str, command: str, trigger_id: str | None, arguments: dict[str, Any]
) -> shapes.Triggered:
    trigger_id = trigger_id or secrets.token_hex(16)
    try:
        context.details(job_id)
        known = context.jobs.operation(job_id, kind, trigger_id)
    except LookupError:
        context.running(job_id)
        known = context.jobs.begin(job_id, kind, command, trigger_id, **arguments)
    return {"request-id": known.trigger_id}


def _operation(context: RestContext, job_id: str, kind: str, trigger_id: str) -> Operation:
    context.details(job_id)
    try:
        return context.jobs.operation(job_id, kind, trigger_id)
    except LookupError as error:
        raise RestError(404, f"Job {job_id} has no {kind} with the trigger id {trigger_id}.") from error
