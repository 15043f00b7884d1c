"""`/metrics`: the metrics of all running jobs, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from flintstream.jobmaster.details import JobDetails
from flintstream.metrics.prometheus import CONTENT_TYPE, Naming, exposition, naming_of
from flintstream.server.jobs import Jobs, UnknownJobError

__all__ = ["prometheus_router"]


def prometheus_router(jobs: Jobs) -> APIRouter:
    """Returns the route of `/metrics`. `?names=flink` gives the names that Flink's reporter has."""
    router = APIRouter()

    @router.get(
        "/metrics",
        tags=["metrics"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, 400: {"description": "unknown names"}},
    )
    async def metrics(request: Request) -> Response:
        """The metrics of all running jobs, in Prometheus' text format."""
        try:
            naming = naming_of(request.url.query, Naming())
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        text = await run_in_threadpool(exposition, _running(jobs), naming)
        return Response(text, media_type=CONTENT_TYPE)

    return router


def _running(jobs: Jobs) -> list[JobDetails]:
    found = []
    for summary in jobs.summaries():
        if summary.end_time < 0:
            try:
                found.append(jobs.details(summary.job_id))
            except UnknownJobError:  # It was forgotten a moment ago.
                continue
    return found
