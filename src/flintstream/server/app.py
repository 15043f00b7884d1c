"""The web application of the job server: the REST API, the page, the login, and errors in Flink's shape."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flintstream import __version__
from flintstream.server.bodies import BodyTooLargeError
from flintstream.server.jobs import JobRefusedError, Jobs, NotPermittedError, UnknownJobError
from flintstream.server.page_data import page_router
from flintstream.server.programs import program_router
from flintstream.server.prometheus import prometheus_router
from flintstream.server.rest import RestSettings, router
from flintstream.server.security import COOKIE, Guard, Token
from flintstream.server.settings import ServerSettings

__all__ = ["create_app"]

PAGE = Path(__file__).with_name("page")
_log = logging.getLogger(__name__)
_SESSION_SECONDS = 12 * 3600
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


def create_app(jobs: Jobs, settings: ServerSettings, token: Token | None = None) -> FastAPI:
    """Returns the application that serves `jobs`. With a token, every request but those of the page needs it.

    Handlers find `jobs` and `settings` in `request.app.state`.
    """
    app = FastAPI(title="Flintstream", version=__version__, docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    app.state.jobs, app.state.settings = jobs, settings
    _add_error_handlers(app)
    _add_login(app, settings, token)
    app.include_router(prometheus_router(jobs))
    for routes in (program_router(jobs, settings), page_router(jobs), router(jobs, _rest_settings(jobs, settings))):
        app.include_router(routes)
    public = frozenset[str]()
    if PAGE.is_dir():
        public = frozenset(
            {"/", *(f"/{path.relative_to(PAGE).as_posix()}" for path in PAGE.rglob("*") if path.is_file())}
        )
        app.mount("/", StaticFiles(directory=PAGE, html=True))
    app.add_middleware(_Versions)
    app.add_middleware(_Headers)
    app.add_middleware(Guard, settings=settings, token=token, public=public)
    return app


def _rest_settings(jobs: Jobs, settings: ServerSettings) -> RestSettings:
    def end() -> None:
        ending = getattr(jobs, "end_server", None)
        if ending is None:
            raise NotPermittedError("this server cannot be ended by a request")
        ending()

    return RestSettings(
        uploads=settings.upload_directory,
        submit=settings.submit_enabled,
        cancel=settings.cancel_enabled,
        longest_upload=settings.max_upload_size,
        configuration=settings.shown(),
        shut_down=end,
    )


class _Versions:
    """Answers `/v1/jobs` as `/jobs`: there is one version of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if path.startswith("/v1/"):
            scope = {**scope, "path": path[3:], "raw_path": scope.get("raw_path", b"")[3:]}
        await self._app(scope, receive, send)


class _Headers:
    """Adds headers to every answer that restrict what a browser does with it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                added = [each for each in _HEADERS if each[0] not in present]
                if b"cache-control" not in present:
                    added.append((b"cache-control", b"no-store" if scope["path"] not in ("/", "") else b"no-cache"))
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, sent)


# --- errors ---


def errors(status: int, *messages: str) -> JSONResponse:
    """Returns an answer in Flink's shape."""
    return JSONResponse({"errors": list(messages)}, status)


def _add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(UnknownJobError, _handler(404))
    app.add_exception_handler(NotPermittedError, _handler(403))
    app.add_exception_handler(JobRefusedError, _handler(409))
    app.add_exception_handler(BodyTooLargeError, _handler(413))


def _handler(status: int) -> Any:
    async def handle(_: Request, error: Exception) -> Response:
        return errors(status, str(error).strip("'\""))

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = error.detail if isinstance(error.detail, str) else str(error.detail)
    if error.status_code == 404 and told == "Not Found":
        told = f"Not found: {request.url.path}"
    return JSONResponse({"errors": [told]}, error.status_code, headers=error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = [f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg', 'invalid')}" for each in error.errors()]
    return errors(400, *told)


# --- login ---


def _add_login(app: FastAPI, settings: ServerSettings, token: Token | None) -> None:
    @app.get("/login", tags=["login"])
    async def login_state(request: Request) -> dict[str, bool]:
        """Returns whether the server needs a token, and whether this request carries it."""
        return {"required": token is not None, "authenticated": token is None or token.admits(request.headers)}

    @app.post("/login", tags=["login"], status_code=204, responses={401: {"description": "wrong token"}})
    async def login(request: Request) -> Response:
        """Takes `{"token": ...}`, and sets the cookie that a page needs."""
        given = await _json(request)
        text = given.get("token") if isinstance(given, dict) else None
        if not isinstance(text, str):
            return errors(400, 'expected {"token": "..."}')
        if token is None:
            return Response(status_code=204)
        if not token.matches(text.strip()):
            return errors(401, "wrong token")
        answer = Response(status_code=204)
        answer.set_cookie(
            COOKIE,
            token.session,
            max_age=_SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=settings.scheme == "https",
        )
        return answer

    @app.delete("/login", tags=["login"], status_code=204)
    async def logout() -> Response:
        """Removes the cookie."""
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE)
        return answer


async def _json(request: Request) -> Any:
    try:
        return await request.json()
    except ValueError:
        return None
