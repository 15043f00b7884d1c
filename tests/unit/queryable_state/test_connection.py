"""The responses that a client of queries understands: its own servers', and whatever a proxy makes of them."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest
from tests.waiting import ENOUGH_SECONDS

from flintstream.queryable_state import FlinkJobNotFoundException, QueryableStateError, StateNotAvailableException
from flintstream.queryable_state.connection import Connection, _head

ANSWER = json.dumps({"answers": [{"status": "unknown-key", "kind": "", "value": "no"}]}).encode()
LENGTH = b"Content-Length: %d\r\n" % len(ANSWER)


def response(*headers: bytes, status: bytes = b"200 OK", body: bytes = ANSWER) -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(headers) + b"\r\n" + body


CHUNKED = response(
    b"Transfer-Encoding: chunked\r\n",
    body=b"5\r\n" + ANSWER[:5] + b"\r\n%x\r\n" % (len(ANSWER) - 5) + ANSWER[5:] + b"\r\n0\r\n\r\n",
)


class Server:
    """Answers each request on a connection by the next response, piece by piece; one that is None ends the connection."""

    def __init__(self, *responses: bytes | None, pieces: int = 1) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(ENOUGH_SECONDS)
        self.responses = list(responses)
        self.pieces = pieces
        self.connections = 0
        self.heads: list[bytes] = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.thread.join(ENOUGH_SECONDS)
        self.listening.close()
        assert not self.responses

    def serve(self) -> None:
        while self.responses:
            connection, _ = self.listening.accept()
            connection.settimeout(ENOUGH_SECONDS)
            self.connections += 1
            with connection, connection.makefile("rb") as file:
                while self.responses:
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        line = file.readline()
                        if not line:
                            break
                        head += line
                    if not head:
                        break
                    self.heads.append(head)
                    length = int(dict(line.split(b": ") for line in head.split(b"\r\n")[1:-2])[b"Content-Length"])
                    json.loads(file.read(length))
                    answer = self.responses.pop(0)
                    if answer is None:
                        break
                    size = -(-len(answer) // self.pieces)
                    for start in range(0, len(answer), size):
                        connection.sendall(answer[start : start + size])
                        time.sleep(0.01 if self.pieces > 1 else 0)
                    if b"lose" in answer.partition(b"\r\n\r\n")[0]:
                        break
                else:
                    file.read(1)  # Until the client closes it.

    def ask(self, times: int = 1, token: str | None = None, seconds: float = ENOUGH_SECONDS) -> list[str]:
        connection = Connection("127.0.0.1", self.listening.getsockname()[1], token, None)
        try:
            return [connection.ask("0" * 32, [("counts", 1)], seconds)[0].value for _ in range(times)]
        finally:
            connection.close()


@pytest.mark.parametrize("pieces", [1, 5])
@pytest.mark.parametrize(
    "answer",
    [
        response(LENGTH),
        response(b"content-length:%d\r\n" % len(ANSWER), b"connection: Keep-Alive\r\n"),
        response(b"Date: now\r\n", LENGTH, b"X-Proxy: transfer-encoding\r\n"),
        CHUNKED,
        response(LENGTH, status=b"200 "),
    ],
)
def test_answers_on_a_connection_that_is_kept(answer, pieces):
    with Server(answer, answer, answer, pieces=pieces) as server:
        assert server.ask(3) == ["no"] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        response(LENGTH, b"Connection: close\r\n"),
        response(b"Connection: close\r\n"),
        b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\n" + ANSWER,
    ],
)
def test_answers_that_end_their_connection(answer):
    answer = answer.replace(b"\r\n\r\n", b"\r\nX: lose\r\n\r\n", 1)
    with Server(answer, answer) as server:
        assert server.ask(2) == ["no"] * 2
    assert server.connections == 2


def test_a_connection_that_was_idle_for_too_long_is_opened_again():
    with Server(response(LENGTH), None, response(LENGTH)) as server:
        assert server.ask(2) == ["no"] * 2
    assert server.connections == 2


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (b"404 Not Found", FlinkJobNotFoundException),
        (b"503 Service Unavailable", StateNotAvailableException),
        (b"401 Unauthorized", QueryableStateError),
    ],
)
def test_errors(status, error):
    body = b'{"errors": ["told"]}'
    refusal = response(b"Content-Length: %d\r\n" % len(body), status=status, body=body)
    with Server(refusal) as server, pytest.raises(error, match="told"):
        server.ask()


def test_a_length_that_cannot_be_meant_ends_the_connection():
    absurd = response(b"Content-Length: %s\r\n" % (b"9" * 30))
    with Server(absurd, response(LENGTH)) as server:
        connection = Connection("127.0.0.1", server.listening.getsockname()[1], None, None)
        with pytest.raises(OverflowError):
            connection.ask("0" * 32, [("counts", 1)], ENOUGH_SECONDS)
        assert connection.ask("0" * 32, [("counts", 1)], ENOUGH_SECONDS)[0].value == "no"
        connection.close()
    assert server.connections == 2


def test_a_body_that_ends_early():
    broken = response(LENGTH, b"X: lose\r\n", body=ANSWER[:-1])
    with Server(broken) as server, pytest.raises(QueryableStateError, match="nobody answers"):
        server.ask()


def test_a_server_that_falls_silent_within_an_answer():
    with Server(response(LENGTH, body=ANSWER[:-1])) as server:
        began = time.monotonic()
        with pytest.raises(StateNotAvailableException, match="has not answered"):
            server.ask(seconds=0.2)
        assert time.monotonic() - began < ENOUGH_SECONDS


def test_what_a_request_says():
    with Server(response(LENGTH)) as server:
        server.ask(token="a secret")
    [head] = server.heads
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /jobs/" + b"0" * 32 + b"/state HTTP/1.1"
    assert b"Authorization: Bearer a secret" in lines
    assert b"Content-Type: application/json" in lines
    assert [line for line in lines if line.startswith(b"Host: 127.0.0.1:")]


def test_a_token_that_would_add_a_header_is_refused():
    connection = Connection("127.0.0.1", 9, "a\r\nX: y", None)
    with pytest.raises(ValueError, match="Invalid header value"):
        connection.ask("0" * 32, [("counts", 1)], 1.0)


def test_a_host_that_is_an_address_of_ipv6():
    assert b"\r\nHost: [::1]:9069\r\n" in _head("::1", 9069, "/", {})
