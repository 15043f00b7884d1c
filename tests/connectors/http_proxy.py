"""A proxy before an HTTP server: it has what a server of the tests lacks (TLS, passwords, a path), and it can fail."""

from __future__ import annotations

import base64
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = tuple[int, bytes]
Meddle = Callable[[bytes], Answer | None]
"""Gets the body of a request; its answer is sent in place of the server's."""
_SECONDS = 60


class HttpProxy:
    """Forwards POST requests below a path prefix."""

    def __init__(self, target: str, prefix: str, user: str | None, password: str | None, meddle: Meddle | None) -> None:
        self.bodies: list[bytes] = []
        """The requests that came, whether they were forwarded or not."""
        self._target = target
        self._prefix = prefix
        self._token = None if user is None else "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._meddle = meddle

    def answer(self, path: str, authorization: str | None, body: bytes) -> Answer:
        """Answers a request."""
        self.bodies.append(body)
        if authorization != self._token:
            return 401, b'{"error":{"type":"security_exception","reason":"who are you?"},"status":401}'
        if not path.startswith(self._prefix):
            return 404, b"no such path"
        meddled = None if self._meddle is None else self._meddle(body)
        return self._forward(path.removeprefix(self._prefix), body) if meddled is None else meddled

    def _forward(self, path: str, body: bytes) -> Answer:
        request = urllib.request.Request(
            self._target + path, body, {"Content-Type": "application/x-ndjson"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def proxied(
    target: str,
    prefix: str = "",
    user: str | None = None,
    password: str | None = None,
    meddle: Meddle | None = None,
    certificate: Path | None = None,
) -> Iterator[tuple[HttpProxy, int]]:
    """Runs a proxy; gives it and its port. With a certificate, it speaks TLS."""
    proxy = HttpProxy(target, prefix, user, password, meddle)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = proxy.answer(self.path, self.headers["Authorization"], body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy, server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_SECONDS)
