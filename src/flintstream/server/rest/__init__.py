"""Flink's REST API over the jobs of the server: views in Flink's shapes, routes, and the OpenAPI description of both."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from flintstream.server.jobs import Jobs
from flintstream.server.rest.context import RestContext, RestSettings
from flintstream.server.rest.routes.checkpoints import checkpoint_routes
from flintstream.server.rest.routes.cluster import cluster_routes
from flintstream.server.rest.routes.jobs import job_routes
from flintstream.server.rest.routes.metrics import metric_routes
from flintstream.server.rest.routes.programs import program_routes
from flintstream.server.rest.routes.states import state_routes
from flintstream.server.rest.routing import FlinkResponse, add_error_handlers, error_answer

__all__ = ["FlinkResponse", "RestSettings", "add_error_handlers", "add_rest", "error_answer", "router"]


def router(jobs: Jobs, settings: RestSettings) -> APIRouter:
    """Returns the routes of the whole API."""
    context = RestContext(jobs, settings)
    everything = APIRouter()
    # Words come before parameters in their place: `/jobs/metrics` before `/jobs/{jobid}`.
    for theme in (metric_routes, job_routes, state_routes, checkpoint_routes, cluster_routes, program_routes):
        everything.include_router(theme(context).router)
    return everything


def add_rest(app: FastAPI, jobs: Jobs, settings: RestSettings) -> None:
    """Adds the API to an app, at its root and under `/v1`, and makes the app answer errors as Flink does."""
    routes = router(jobs, settings)
    app.include_router(routes)
    app.include_router(routes, prefix="/v1", include_in_schema=False)
    add_error_handlers(app)
