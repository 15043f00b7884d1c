"""MetricsServer: answers Prometheus on a port of a job's own."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from .prometheus import CONTENT_TYPE, Naming, exposition, naming_of

if TYPE_CHECKING:
    from flintstream.jobmaster.details import JobDetails

__all__ = ["MetricsServer"]

_REQUEST_SECONDS = 10.0
"""How long a client may take to say what it wants, and to read it."""


class MetricsServer:
    """Serves the metrics of jobs at `/metrics`, on the first free port of a range. May raise an OSError."""

    def __init__(self, host: str, ports: range, naming: Naming, details: Callable[[], Iterable[JobDetails]]) -> None:
        self._naming = naming
        self._details = details
        self._server = self._listen(host, ports)
        self.url = f"http://{host}:{self._server.server_port}/metrics"
        threading.Thread(target=self._server.serve_forever, name="metrics server", daemon=True).start()

    def _listen(self, host: str, ports: range) -> WSGIServer:
        for port in ports:
            try:
                return make_server(host, port, self._answer, _Server, _Handler)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        taken = f"port {ports[0]} is" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]} are"
        raise OSError(errno.EADDRINUSE, f"{taken} in use on {host}, so the metrics of this job are not served")

    def _answer(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if environ.get("REQUEST_METHOD") != "GET":
            return _refused(start_response, "405 Method Not Allowed", "only GET is allowed")
        if environ.get("PATH_INFO") not in ("/", "/metrics"):
            return _refused(start_response, "404 Not Found", "the metrics are at /metrics")
        try:
            naming = naming_of(environ.get("QUERY_STRING", ""), self._naming)
        except ValueError as error:
            return _refused(start_response, "400 Bad Request", str(error))
        text = exposition(self._details(), naming)
        start_response("200 OK", [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(text)))])
        return [text]

    def close(self) -> None:
        """Stops to listen."""
        self._server.shutdown()
        self._server.server_close()


def _refused(start_response: Callable[..., Any], status: str, why: str) -> list[bytes]:
    text = f"{why}\n".encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))])
    return [text]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # Without the question for the machine's name, which may take long where nobody answers it.
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: Prometheus asks every few seconds."""
