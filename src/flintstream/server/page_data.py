"""What the page asks for beyond Flink's REST API: a line for each job, a job's details whole, and the logs of its driver."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse

from flintstream.jobmaster.details import JobDetails, VertexDetails, to_json
from flintstream.server.jobs import Jobs, JobSummary, UnknownJobError
from flintstream.server.rest import FlinkResponse

__all__ = ["job_line", "page_router", "tail"]

MOST_LOG_BYTES = 1024 * 1024
_DEFAULT_LOG_BYTES = 64 * 1024
MOST_ENDED_WITH_DETAILS = 20
"""Of older ones, the list of jobs has only the summary: their details would have to be read from the disk."""


def page_router(jobs: Jobs) -> APIRouter:
    """Returns the routes of the page; those of its files are elsewhere.

    They are no part of the API that the OpenAPI description has, and change with the page.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/page/jobs")
    async def lines() -> Response:
        """All jobs, the newest first, with what shows their health."""
        found, ended = [], 0
        for summary in jobs.summaries():
            ended += summary.end_time >= 0
            known = summary.end_time < 0 or ended <= MOST_ENDED_WITH_DETAILS
            found.append(job_line(summary, _details(jobs, summary.job_id) if known else None))
        return FlinkResponse({"jobs": found})

    @router.get("/jobs/{jobid}/details")
    async def details(jobid: str) -> Response:
        """Everything that a driver reports about a job; of checkpoints without the shares of subtasks."""
        return FlinkResponse(to_json(_without_shares(jobs.details(jobid))))

    @router.get("/jobs/{jobid}/logs")
    async def logs(jobid: str) -> Response:
        """The log files of a job's driver."""
        jobs.details(jobid)
        return FlinkResponse(
            {"logs": [{"name": name, "size": _size(path)} for name, path in jobs.log_files(jobid).items()]}
        )

    @router.get("/jobs/{jobid}/logs/{name}")
    async def log(
        jobid: str, name: str, most: Annotated[int, Query(ge=1, le=MOST_LOG_BYTES)] = _DEFAULT_LOG_BYTES
    ) -> Response:
        """The last whole lines of a log file."""
        jobs.details(jobid)
        path = jobs.log_files(jobid).get(name)
        try:
            if path is not None:
                return PlainTextResponse(await run_in_threadpool(tail, path, most))
        except FileNotFoundError:
            pass
        raise HTTPException(404, f"the driver of job {jobid} has no log file '{name}'")

    return router


def job_line(summary: JobSummary, details: JobDetails | None) -> dict[str, Any]:
    """Returns a job's line in the list of jobs; without details, of which a starting driver has none, it is shorter."""
    line = {
        "id": summary.job_id,
        "name": summary.name,
        "status": summary.status,
        "type": summary.job_type,
        "start_time": summary.start_time,
        "end_time": summary.end_time,
        "tasks": dict(summary.tasks),
        "submitted": summary.submitted,
    }
    if details is None:
        return line
    busiest = max(details.vertices, key=_busy, default=None)
    history = details.history
    heads = {head for vertex in details.vertices for head in vertex.feeds_back_to}
    return line | {
        "parallelism": details.parallelism,
        "restarts": details.restarts,
        "phase": details.phase,
        "records_in_per_second": sum(
            vertex.total("numRecordsInPerSecond")
            for vertex in details.vertices
            if not vertex.inputs and vertex.vertex_id not in heads
        ),
        "records_in": list(history.get("recordsInPerSecond", ()))[-60:],
        "watermark_lag": (history.get("watermarkLagMs") or [None])[-1],
        "busiest": None
        if busiest is None
        else {"id": busiest.vertex_id, "name": busiest.name, "busy": _busy(busiest) / 1000},
        "back_pressured": max((each.most("backPressuredTimeMsPerSecond") for each in details.vertices), default=0)
        / 1000,
        "checkpoint": _latest(details),
        "checkpoints_enabled": details.checkpoints.enabled,
        "failed_checkpoints": details.checkpoints.failed_since,
        "exception": details.exceptions[0].exception if details.exceptions else None,
        "exception_time": details.exceptions[0].timestamp if details.exceptions else -1,
        "slots": len(details.slots),
        "memory": sum(slot.memory for slot in details.slots),
    }


def tail(path: str, most: int) -> str:
    """Returns the end of a text file: at most so many bytes, from the beginning of a line."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(0, size - most)
        file.seek(begin)
        found = file.read(most)
    if begin:
        found = found.partition(b"\n")[2] or found
    return found.decode("utf-8", "replace")


def _details(jobs: Jobs, job_id: str) -> JobDetails | None:
    try:
        return jobs.details(job_id)
    except UnknownJobError:  # It was forgotten a moment ago.
        return None


def _without_shares(details: JobDetails) -> JobDetails:
    """Most of a report is about subtasks in old checkpoints; whoever wants them asks for one checkpoint."""
    history = [replace(checkpoint, tasks={}) for checkpoint in details.checkpoints.history]
    return replace(details, checkpoints=replace(details.checkpoints, history=history))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _busy(vertex: VertexDetails) -> float:
    return vertex.most("busyTimeMsPerSecond")


def _latest(details: JobDetails) -> dict[str, Any] | None:
    done = details.checkpoints.latest_completed
    if done is None:
        return None
    return {
        "id": done.checkpoint_id,
        "time": done.latest_ack_timestamp,
        "duration": done.end_to_end_duration,
        "size": done.state_size,
    }
