"""StateListener: answers queries of a job's state over HTTP, for clients of a program without a job server.

It has the two routes that a job server has too: `POST /jobs/:jobid/state` with many queries, which `QueryableStateClient`
uses, and `GET /jobs/:jobid/state/:name?key=…` for one.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import ssl
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from flintstream.common.listening import listen
from flintstream.common.queryable_state import (
    AS_JSON,
    GONE,
    HTTP_STATUSES,
    LONGEST_SECONDS,
    OK,
    PICKLED,
    key_from_text,
    key_to_json,
)
from flintstream.jobmaster.queryable_settings import PORTS, QueryableStateSettings
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.runtime.slot.reception import Reception

MOST_CONNECTIONS = 128
"""The most connections at a time; further ones are refused."""
LONGEST_BODY = 1 << 20
IDLE_SECONDS = 60.0
"""After this time without a request, or without progress in one, a connection is closed."""
WAIT_SECONDS = 1.0
"""How long a slot may take, unless the client says otherwise."""
_BACKLOG = 128
_LENGTH = b"\r\nContent-Length: "
_MOST_DIGITS = 9
_log = logging.getLogger(__name__)


class StateListener:
    """Listens on a port of the driver until it is closed; each connection has a thread of its own."""

    def __init__(self, settings: QueryableStateSettings, states: QueryableStates) -> None:
        self.settings = settings
        self.states = states
        self._tls: ssl.SSLContext | None = None
        if settings.certificate is not None:
            try:
                self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self._tls.load_cert_chain(settings.certificate, settings.certificate_key)
            except (OSError, ssl.SSLError) as error:
                raise ValueError(
                    f"the certificate {settings.certificate} with its key cannot be used: {error}"
                ) from error
        try:
            listening = listen(settings.host, settings.ports, _BACKLOG)
        except OSError as error:
            raise ValueError(
                f"queryable state cannot listen on {settings.host}, port {_shown(settings.ports)} ({PORTS}): "
                f"{error.strerror or error}"
            ) from error
        self.host, self.port = listening.getsockname()[:2]
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._closed = False
        self._reception = Reception(listening, self._greet, self._serve)
        threading.Thread(target=self._reception.serve, name="queryable state", daemon=True).start()

    def close(self) -> None:
        """Stops listening, and closes all connections."""
        self._reception.close()
        with self._lock:
            self._closed = True
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # The client has hung up.

    def _greet(self, connection: socket.socket) -> socket.socket:
        return connection if self._tls is None else self._tls.wrap_socket(connection.dup(), server_side=True)

    def _serve(self, connection: socket.socket, encrypted: socket.socket) -> None:
        with connection, encrypted:
            with self._lock:
                if self._closed or len(self._connections) >= MOST_CONNECTIONS:
                    return
                self._connections.add(encrypted)
            try:
                _Handler(encrypted, None, self)  # type: ignore[arg-type]
            except OSError:
                pass  # The client has hung up, or was silent for too long.
            finally:
                with self._lock:
                    self._connections.discard(encrypted)


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: StateListener  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version = "Flintstream"
    sys_version = ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    rfile: BufferedReader
    raw_requestline: bytes
    _known_head: bytes | None = None
    """The head of the last request, up to the length of its body; None if that does not say all about the body."""
    _known_parts: list[str] | None = None
    """The parts of its path, once it was found to be permitted."""

    def parse_request(self) -> bool:
        """Reads the head of a request. One that is byte for byte that of the last request, but for the length of its body,
        as those of a `QueryableStateClient` are, is not parsed and checked again.
        """
        head, end, _ = (self.raw_requestline + self.rfile.peek()).partition(b"\r\n\r\n")
        start, name, length = head.rpartition(_LENGTH)
        # Nothing stands behind the length: a head of which all else is known.
        usual = end and name and _is_short(length) and head.count(b"\n") == head.count(b"\r\n")
        if usual and start == self._known_head:
            self.rfile.read(len(head) + len(end) - len(self.raw_requestline))
            self.headers.replace_header("Content-Length", length.decode())
            self.close_connection = False
            return True
        self._known_head = self._known_parts = None
        if not super().parse_request():
            return False
        if not _is_plain(self.headers, with_body=self.command == "POST"):
            # Where a body that is not read as its length says could be taken for the next request, none follows.
            self.close_connection = True
        elif usual and not self.close_connection:
            self._known_head = start
        return True

    def do_POST(self) -> None:
        self._respond(self._post)

    def do_GET(self) -> None:
        self._respond(self._get)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)

    # --- the routes ---

    def _post(self) -> Any:
        parts = self._path()
        if len(parts) != 3:
            raise _Refused(404, "Not found.")
        try:
            request = json.loads(self._body())
            queries = request["queries"]
            seconds = float(request.get("seconds", WAIT_SECONDS))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise _Refused(400, 'The body must be {"queries": [[name, key], ...]}.') from None
        return {"answers": self._answers(queries, PICKLED, seconds)}

    def _get(self) -> Any:
        parts = self._path()
        parameters = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        given = parameters.get("key")
        if len(parts) != 4:
            raise _Refused(404, "Not found.")
        if given is None or len(given) != 1:
            raise _Refused(400, "The query parameter key is missing.")
        try:
            key = key_to_json(key_from_text(given[0]))
        except (ValueError, TypeError) as error:
            raise _Refused(400, str(error)) from None
        seconds = _seconds(parameters.get("seconds", [str(WAIT_SECONDS)])[-1])
        [answer] = self._answers([[parts[3], key]], AS_JSON, seconds)
        if answer["status"] != OK:
            raise _Refused(HTTP_STATUSES[answer["status"]], answer["value"])
        return {"name": parts[3], "key": key, "kind": answer["kind"], "value": answer["value"]}

    def _answers(self, queries: Any, form: str, seconds: float) -> list[dict[str, Any]]:
        try:
            answers = self.server.states.answers_as_json(queries, form, seconds)
        except ValueError as error:
            raise _Refused(400, str(error)) from None
        if answers and answers[0]["status"] == GONE:
            raise _Refused(404, answers[0]["value"])
        return answers

    def _path(self) -> list[str]:
        """Returns the parts of the path of a request that is permitted, and concerns this job."""
        if self._known_parts is not None:
            return self._known_parts
        self._check_permission()
        parts = [unquote(part) for part in urlsplit(self.path).path.removeprefix("/v1").strip("/").split("/")]
        if len(parts) < 3 or parts[0] != "jobs" or parts[2] != "state":
            raise _Refused(404, "Not found.")
        if parts[1].lower() != self.server.states.job_id:
            raise _Refused(404, f"Job {parts[1]} not found: this is the port of job {self.server.states.job_id}.")
        self._known_parts = parts
        return parts

    def _check_permission(self) -> None:
        if "Origin" in self.headers or "Sec-Fetch-Site" in self.headers:
            raise _Refused(403, "Requests of web pages are refused.")
        token = self.server.settings.token
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if token is not None and not (
            kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), token.encode())
        ):
            raise _Refused(401, "A token is needed: Authorization: Bearer TOKEN.")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not _is_short(length) or int(length) > LONGEST_BODY:
            self.close_connection = True  # The body is not read, so no request can follow it.
            raise _Refused(413, f"The body must have a length of at most {LONGEST_BODY} bytes.")
        return self.rfile.read(int(length))

    def _respond(self, answer: Any) -> None:
        try:
            status, content = 200, answer()
        except _Refused as error:
            status, content = error.status, {"errors": [str(error)]}
            if self.command == "POST" and error.status in (401, 403, 404):
                self.close_connection = True  # Its body was not read.
        data = json.dumps(content).encode()
        head = (
            f"HTTP/1.1 {status} {self.responses[status][0]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nCache-Control: no-store\r\n"
            f"{'Connection: close' if self.close_connection else 'Connection: keep-alive'}\r\n\r\n"
        )
        self.wfile.write(head.encode("ascii") + data)


def _is_plain(headers: Message, with_body: bool) -> bool:
    """Returns whether one length alone says how the body is read; without a body, whether there is none."""
    return (
        len(headers.get_all("Content-Length", ())) == int(with_body)
        and "Transfer-Encoding" not in headers
        and "Expect" not in headers
    )


def _is_short(length: str | bytes) -> bool:
    """Returns whether it is a number of bytes that can be meant."""
    return length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise _Refused(
            400, f"The query parameter seconds must be a number, more than 0 and at most {LONGEST_SECONDS:g}."
        )
    return seconds


def _shown(ports: tuple[int, ...]) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
