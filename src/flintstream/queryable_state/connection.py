"""Connection: a connection over HTTP on which a `QueryableStateClient` sends its requests, one after the other.

A request is a few hundred bytes, and a client makes many. Where an answer has the form that it nearly always has, it is
read here, at a fraction of what the general parser of `http.client` costs; all others are left to that.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import socket
import ssl
from typing import Any
from urllib.parse import quote

from flintstream.common.queryable_state import (
    OK,
    FlinkJobNotFoundException,
    QueryableStateError,
    StateAnswer,
    StateNotAvailableException,
)

CONNECT_SECONDS = 10.0
"""How long a connection may take, unless the queries that need it have less time."""
_SLOT_SECONDS = 1.0
"""How long one request waits for slots; what takes longer is asked for again."""
_USUAL = b"HTTP/1.1 200 "
_LENGTH = b"content-length"
_UNUSUAL = (b"transfer-encoding", b"connection")
"""Headers that say that a body ends otherwise than by its length, or a connection with it."""


class Connection:
    """A connection to a server, which is opened when it is needed."""

    def __init__(self, host: str, port: int, token: str | None, tls: ssl.SSLContext | None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._open: http.client.HTTPConnection | None = None
        self._answers: _Answers | None = None
        self._job_id: str | None = None
        self._head = b""
        """The head of requests for the job, up to their length."""

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        if self._open is not None:
            self._open.close()
            self._open = None
        if self._answers is not None:
            self._answers.end()
            self._answers = None

    def ask(self, job_id: str, queries: list[tuple[str, Any]], seconds: float) -> list[StateAnswer]:
        """Returns the answers to queries; waits for at most about `seconds` for a connection, and as long for answers."""
        if job_id != self._job_id:
            self._head = _head(self._host, self._port, f"/jobs/{quote(job_id, safe='')}/state", self._headers)
            self._job_id = job_id
        body = json.dumps({"seconds": min(_SLOT_SECONDS, seconds), "queries": queries}).encode()
        reused = self._open is not None
        try:
            status, text = self._post(body, seconds)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, TimeoutError):
                raise self._silent() from error
            if not reused:
                raise self._unreachable(error) from error
            # The server has closed a connection that was idle.
            try:
                status, text = self._post(body, seconds)
            except (OSError, http.client.HTTPException) as again:
                if isinstance(again, TimeoutError):
                    raise self._silent() from again
                raise self._unreachable(again) from again
        return self._read(status, text, len(queries))

    @property
    def _place(self) -> str:
        return f"{self._host}:{self._port}"

    def _silent(self) -> StateNotAvailableException:
        return StateNotAvailableException(f"{self._place} has not answered")

    def _unreachable(self, error: BaseException) -> QueryableStateError:
        return QueryableStateError(f"nobody answers queries of state at {self._place}: {error or type(error).__name__}")

    def _post(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Returns status and body of a response. A connection on which anything went wrong is closed."""
        try:
            return self._exchange(body, seconds)
        except BaseException:
            self.close()
            raise

    def _exchange(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        connection, answers = self._open, self._answers
        if connection is None or answers is None:
            patience = min(seconds, CONNECT_SECONDS)
            if self._tls is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=patience)
            else:
                connection = http.client.HTTPSConnection(self._host, self._port, timeout=patience, context=self._tls)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open = connection
            self._answers = answers = _Answers(socket.SocketIO(connection.sock, "r"))
        connection.sock.settimeout(max(seconds, 2 * _SLOT_SECONDS))
        connection.sock.sendall(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))
        status, text, will_close = answers.next()
        if will_close:
            self.close()
        return status, text

    def _read(self, status: int, text: bytes, count: int) -> list[StateAnswer]:
        try:
            content = json.loads(text)
            if status == 200:
                answers = [_answer(each) for each in content["answers"]]
                if len(answers) != count:
                    raise ValueError(f"{len(answers)} answers")
                return answers
            told = "; ".join(map(str, content["errors"]))
        except (ValueError, TypeError, KeyError) as error:
            raise QueryableStateError(
                f"{self._place} answers no queries of state: status {status}, {text[:200]!r}"
            ) from error
        if status == 503:
            raise StateNotAvailableException(told)
        if status == 404:
            raise FlinkJobNotFoundException(told)
        raise QueryableStateError(f"{self._place} has refused a query of state: {told}")


def _answer(content: dict[str, Any]) -> StateAnswer:
    status, value = content["status"], content["value"]
    return StateAnswer(status, content["kind"], base64.b64decode(value) if status == OK else value)


class _HeadWriter(http.client.HTTPConnection):
    """Keeps what it would send: `http.client` knows how to write a head, and what may not stand in one."""

    sent = b""

    def send(self, data: Any) -> None:
        self.sent = data


def _head(host: str, port: int, path: str, headers: dict[str, str]) -> bytes:
    """Returns the head of a POST, up to the number of its bytes."""
    writer = _HeadWriter(host, port)
    writer.putrequest("POST", path)
    for name, value in headers.items():
        writer.putheader(name, value)
    writer.putheader("Content-Length", "")
    writer.endheaders()
    return writer.sent.removesuffix(b"\r\n\r\n")


class _Answers(io.BufferedReader):
    """The responses on a connection."""

    def next(self) -> tuple[int, bytes, bool]:
        """Returns status and body of the next response, and whether the server closes the connection behind it."""
        head, end, _ = self.peek().partition(b"\r\n\r\n")
        length = _usual_length(head) if end else None
        if length is None:
            response = http.client.HTTPResponse(self, method="POST")  # type: ignore[arg-type]
            response.begin()
            return response.status, response.read(), response.will_close
        self.read(len(head) + len(end))
        body = self.read(length)
        if len(body) < length:
            raise http.client.IncompleteRead(body, length - len(body))
        return 200, body, False

    def makefile(self, mode: str) -> _Answers:
        """What `HTTPResponse` asks a socket for."""
        return self

    def close(self) -> None:
        """An `HTTPResponse` closes what it has read to its end; the next one is read from here."""

    def end(self) -> None:
        """Closes the reader."""
        super().close()


def _usual_length(head: bytes) -> int | None:
    """Returns the length of the body behind the head of a response; None if http.client must find out."""
    if not head.startswith(_USUAL):
        return None
    length = None
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == _LENGTH:
            if length is not None or not value.strip().isdigit():
                return None
            length = int(value)
        elif name in _UNUSUAL and value.strip().lower() != b"keep-alive":
            return None
    return length
