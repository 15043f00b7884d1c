"""An HTTP server and a WebSocket server of the tests' own, on free ports of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from websockets.sync.server import Server, ServerConnection, serve

Answer = tuple[int, Any]
"""A status, and a body: bytes, or a value that becomes JSON."""


class Asked(NamedTuple):
    """A request that the server has received."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class HttpServer:
    """Answers requests as a function says, and remembers them."""

    def __init__(self, answer: Callable[[Asked], Answer], port: int = 0) -> None:
        self.asked: list[Asked] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(handler) -> None:  # noqa: N805
                parts = urlsplit(handler.path)
                body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
                asked = Asked(handler.command, parts.path, parse_qs(parts.query), dict(handler.headers), body)
                self.asked.append(asked)
                status, content = answer(asked)
                handler.send_response(status)
                if 300 <= status < 400:
                    handler.send_header("Location", content)
                    content = b""
                content = content if isinstance(content, bytes) else json.dumps(content).encode()
                handler.send_header("Content-Length", str(len(content)))
                handler.end_headers()
                handler.wfile.write(content)

            do_GET = do_POST = do_PUT = handle_request  # noqa: N815

            def log_message(self, *arguments: Any) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/orders"

    @property
    def posted(self) -> list[Any]:
        """The bodies of all requests, from JSON."""
        return [json.loads(asked.body) for asked in self.asked]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


@contextmanager
def http_server(answer: Callable[[Asked], Answer], port: int = 0) -> Iterator[HttpServer]:
    server = HttpServer(answer, port)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def websocket_server(handler: Callable[[ServerConnection], None], port: int = 0) -> Iterator[tuple[Server, str]]:
    """A server that calls the handler with each connection, and its URL."""
    with serve(handler, "127.0.0.1", port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server, f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        finally:
            server.shutdown()
            thread.join(60)
