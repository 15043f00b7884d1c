"""Runs the job server: listens, says so, and ends on a signal. Its jobs run on."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvicorn

from flintstream.common.listening import listen
from flintstream.server.announcement import Announcement
from flintstream.server.app import create_app
from flintstream.server.dispatcher import Dispatcher
from flintstream.server.security import Token
from flintstream.server.settings import ServerSettings
from flintstream.server.store import Store

__all__ = ["ServerError", "serve"]

_KEEP_ALIVE_SECONDS = 30
_END_SECONDS = 5
_BACKLOG = 512


class ServerError(RuntimeError):
    """The server cannot start; the message says why."""


def serve(settings: ServerSettings, ready: Callable[[str], None]) -> int:
    """Runs the server until a signal or a request ends it; returns how many jobs run on.

    `ready` is called with its URL when it accepts requests.
    """
    token = None if settings.token_file is None else Token.read_or_create(settings.token_file)
    _check_certificate(settings)
    store = Store(settings.data)
    try:
        with _listen(settings) as listening:
            return asyncio.run(_serve(settings, store, token, listening, ready))
    finally:
        store.close()


async def _serve(
    settings: ServerSettings, store: Store, token: Token | None, listening: socket.socket, ready: Callable[[str], None]
) -> int:
    url = _url(settings, listening.getsockname()[1])
    dispatcher = Dispatcher(store, settings)
    server = _Server(_uvicorn_settings(create_app(dispatcher, settings, token), settings))
    dispatcher.announcement = Announcement(url, dispatcher.archive.directory)
    dispatcher.announcement.publish()
    dispatcher.end_server = server.end
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.end)
    try:
        await dispatcher.start()
        running = loop.create_task(server.serve([listening]))
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        if not running.done():
            ready(url)
        await running
        return sum(not summary.end_time >= 0 for summary in dispatcher.summaries())
    finally:
        await dispatcher.close()


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process by the signal."""

    def install_signal_handlers(self) -> None:
        pass

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()

    def end(self) -> None:
        """Stops listening, and ends when the answers that are under way are given."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def _uvicorn_settings(app: Any, settings: ServerSettings) -> uvicorn.Config:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.certificate_key,
    )


def _listen(settings: ServerSettings) -> socket.socket:
    """Binds the first free port."""
    try:
        return listen(settings.host, settings.ports, _BACKLOG)
    except socket.gaierror as error:
        raise ServerError(f"the server cannot listen on {settings.host!r}: {error.strerror or error}") from error
    except OSError as error:
        ports = ", ".join(map(str, settings.ports[:3])) + (" …" if len(settings.ports) > 3 else "")
        raise ServerError(
            f"the server cannot listen on {settings.host} port {ports}: {error.strerror or error}; choose another with "
            "--port"
        ) from error


def _url(settings: ServerSettings, port: int) -> str:
    host = settings.address or settings.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"{settings.scheme}://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _check_certificate(settings: ServerSettings) -> None:
    if settings.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.certificate_key)
    except (OSError, ssl.SSLError) as error:
        raise ServerError(f"the certificate {settings.certificate} with its key cannot be used: {error}") from error
