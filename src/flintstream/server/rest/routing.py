"""Routes with Flink's habits: bounded bodies that may be empty, errors as `{"errors": [...]}`, NaN as a text.

Views return plain values of the types in `shapes`; the OpenAPI description is generated from these annotations.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, get_origin, get_type_hints

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import Message

from flintstream.server.bodies import BodyTooLargeError, bounded
from flintstream.server.driver_client import NoAnswerError
from flintstream.server.jobs import JobRefusedError, NotPermittedError, UnknownJobError
from flintstream.server.rest.failures import RestError
from flintstream.server.rest.shapes import Errors

__all__ = ["FlinkResponse", "Routes", "add_error_handlers", "error_answer", "limited"]

LONGEST_BODY = 1 << 20
"""The most bytes of a request's JSON."""
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {"model": Errors, "description": "The request is refused, with a status that says why."},
}
# FastAPI gives a model the content type of the route's own answer, which is a text here.
_ERRORS_OF_TEXTS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": _ERRORS["default"]["description"],
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}},
    },
}


class FlinkResponse(JSONResponse):
    """JSON in which a number that JSON does not have is a text, as Flink writes it."""

    def render(self, content: Any) -> bytes:
        try:
            text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        except ValueError:
            text = json.dumps(_without_nan(content), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return value


class _FlinkRoute(APIRoute):
    """A route that reads a JSON body of any content type, takes none for `{}`, and answers errors as Flink does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                if self.body_field is not None:
                    request = await _with_json_body(request)
                return await handle(request)
            except Exception as error:
                answered = error_answer(error)
                if answered is None:
                    raise
                return answered

        return answer


class Routes:
    """Collects the routes of one theme."""

    def __init__(self) -> None:
        self.router = APIRouter(route_class=_FlinkRoute)

    def get(self, path: str, *, schema: bool = True) -> Callable[[Endpoint], Endpoint]:
        """Adds a function as the answer to GET."""
        return self._add("GET", path, 200, schema)

    def post(self, path: str, *, status: int = 200, form: str | None = None) -> Callable[[Endpoint], Endpoint]:
        """Adds a function as the answer to POST; `form` is the field of a file that it reads by itself."""
        extra = None if form is None else {"requestBody": _form_body(form)}
        return self._add("POST", path, status, True, extra)

    def patch(self, path: str, *, status: int = 200) -> Callable[[Endpoint], Endpoint]:
        """Adds a function as the answer to PATCH."""
        return self._add("PATCH", path, status, True)

    def put(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Adds a function as the answer to PUT."""
        return self._add("PUT", path, 200, True)

    def delete(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Adds a function as the answer to DELETE."""
        return self._add("DELETE", path, 200, True)

    def _add(
        self, method: str, path: str, status: int, schema: bool, extra: dict[str, Any] | None = None
    ) -> Callable[[Endpoint], Endpoint]:
        def add(function: Endpoint) -> Endpoint:
            shape = get_type_hints(function, include_extras=True)["return"]
            raw = get_origin(shape) is None and issubclass(shape, Response)

            @functools.wraps(function)
            async def endpoint(**arguments: Any) -> Response:
                result = function(**arguments)
                if inspect.isawaitable(result):
                    result = await result
                return result if isinstance(result, Response) else FlinkResponse(result, status)

            self.router.add_api_route(
                path,
                endpoint,
                methods=[method],
                status_code=status,
                response_model=None if raw else shape,
                response_class=shape if raw else FlinkResponse,
                responses=_ERRORS_OF_TEXTS if raw else _ERRORS,
                summary=(function.__doc__ or "").strip().rstrip("."),
                description="",
                include_in_schema=schema,
                openapi_extra=extra,
            )
            return function

        return add


def _form_body(field: str) -> dict[str, Any]:
    file = {"type": "object", "required": [field], "properties": {field: {"type": "string", "format": "binary"}}}
    return {"required": True, "content": {"multipart/form-data": {"schema": file}}}


async def _with_json_body(request: Request) -> Request:
    body = await limited(request, LONGEST_BODY).body() or b"{}"
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
    scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(scope, receive)


def limited(request: Request, most: int) -> Request:
    """Returns a request whose body is refused once it is longer than `most` bytes."""
    return Request(request.scope, bounded(request.scope, request.receive, most))


def error_answer(error: Exception) -> Response | None:
    """Returns the answer to a request that was refused; None for an error of the server itself."""
    headers = None
    if isinstance(error, RestError):
        status, messages = error.status, [str(error)]
    elif isinstance(error, BodyTooLargeError):
        status, messages = 413, [str(error)]
    elif isinstance(error, UnknownJobError):
        status, messages = 404, [str(error) or "Job not found"]
    elif isinstance(error, JobRefusedError):
        status, messages = _refusal_status(error), [str(error)]
    elif isinstance(error, RequestValidationError):
        status, messages = 400, [_describe(each) for each in error.errors()]
    elif isinstance(error, HTTPException):
        status, messages, headers = error.status_code, [str(error.detail)], error.headers
        if status in (404, 405):
            messages = ["Not found." if status == 404 else "This method is not allowed here."]
        elif status == 422:
            status = 400
    elif isinstance(error, RecursionError):
        status, messages = 400, ["The body of the request is nested too deeply."]
    else:
        return None
    return FlinkResponse({"errors": messages}, status, headers=headers)


def _refusal_status(error: JobRefusedError) -> int:
    if isinstance(error, NoAnswerError):
        return 503
    return 403 if isinstance(error, NotPermittedError) else 409


def _describe(problem: dict[str, Any]) -> str:
    where = [str(part) for part in problem.get("loc", ())]
    name = ".".join(where[1:]) or "the body"
    kind = {"path": "path parameter", "query": "query parameter"}.get(where[0] if where else "", "field")
    return f"Bad request, could not parse {kind} {name}: {problem.get('msg', 'it is wrong')}."


def add_error_handlers(app: FastAPI) -> None:
    """Makes an app answer as Flink does also where no route of it matches."""

    async def answer(request: Request, error: Exception) -> Response:
        answered = error_answer(error)
        assert answered is not None
        return answered

    for kind in (RestError, UnknownJobError, JobRefusedError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)
