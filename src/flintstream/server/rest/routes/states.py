"""The routes that query the state of a running job."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from flintstream.common.queryable_state import (
    AS_JSON,
    GONE,
    HTTP_STATUSES,
    LONGEST_SECONDS,
    OK,
    PICKLED,
    key_from_json,
    key_from_text,
    key_to_json,
)
from flintstream.server.jobs import JobRefusedError
from flintstream.server.rest import shapes
from flintstream.server.rest.context import RestContext
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.parameters import JobId, StateQueriesRequest
from flintstream.server.rest.routing import Routes

__all__ = ["state_routes"]

_LONGEST_KEY = 16 * 1024
_SECONDS = 1.0


def state_routes(context: RestContext) -> Routes:
    """Returns the routes below `/jobs/:jobid/state`."""
    routes = Routes()

    @routes.get("/jobs/{jobid}/state/{name}")
    async def state(
        job_id: JobId,
        name: Annotated[str, Path(max_length=1000)],
        key: Annotated[str, Query(max_length=_LONGEST_KEY)],
        seconds: Annotated[float, Query(gt=0, le=LONGEST_SECONDS)] = _SECONDS,
    ) -> shapes.QueriedState:
        """The state of a key: JSON, in which a list stands for a tuple, or a text."""
        try:
            sent = key_to_json(key_from_text(key))
        except (ValueError, TypeError) as error:
            raise RestError(400, str(error)) from error
        [answer] = await _ask(context, job_id, [[name, sent]], AS_JSON, seconds)
        if answer["status"] != OK:
            raise RestError(HTTP_STATUSES[answer["status"]], answer["value"])
        return {"name": name, "key": sent, "kind": answer["kind"], "value": answer["value"]}

    @routes.post("/jobs/{jobid}/state")
    async def states(job_id: JobId, body: StateQueriesRequest) -> shapes.StateAnswers:
        """The answers to many queries, with pickled values; for `QueryableStateClient`."""
        queries = []
        for name, key in body.queries:
            try:
                key_from_json(key)
            except ValueError as error:
                raise RestError(400, str(error)) from error
            queries.append([name, key])
        return {"answers": await _ask(context, job_id, queries, PICKLED, body.seconds)}

    return routes


async def _ask(context: RestContext, job_id: str, queries: list[list[Any]], form: str, seconds: float) -> Any:
    """Asks the driver; a job that has ended answers 404, one whose driver is starting 503."""
    try:
        answers = await context.jobs.ask(job_id, "query_state", queries=queries, form=form, patience=seconds)
    except JobRefusedError as error:
        details = context.details(job_id)
        if details.ended:
            raise RestError(404, f"Job {job_id} is {details.status}: it has no state any more.") from error
        raise RestError(503, f"Job {job_id} cannot be asked now, try again: {error}") from error
    if answers and answers[0]["status"] == GONE:
        raise RestError(404, answers[0]["value"])
    return answers
