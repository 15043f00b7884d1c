"""SocketTextSource: texts over packets, retries, ends and cancels."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import cloudpickle
import pytest
from tests.waiting import wait_until

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream.connectors import socket as connector
from flintstream.datastream.connectors.socket import SocketTextSource
from flintstream.runtime.faults import UserCodeError

from .operating import opened


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "RETRY_SECONDS", 0.01)


def source_for(server: socket.socket, **options: Any) -> SocketTextSource:
    return SocketTextSource("127.0.0.1", server.getsockname()[1], **options)


def serve(server: socket.socket, *connections: list[bytes]) -> threading.Thread:
    def run() -> None:
        for packets in connections:
            connection, _ = server.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for packet in packets:
                    connection.sendall(packet)
                    time.sleep(0.005)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def received_by(source: SocketTextSource) -> list[Any]:
    operator: Any = pickle.loads(pickle.dumps(source)).create_operator(WatermarkStrategy.no_watermarks())
    received = opened(operator)
    try:
        wait_for(lambda: operator._ended.is_set())
        while not operator.exhausted:
            operator.read_epoch(2)
    finally:
        operator.close()
    return received.elements


wait_for = partial(wait_until, seconds=60.0)


def test_lines_spread_over_packets(server: socket.socket) -> None:
    text = "erste \u00e4\u20ac\U0001f600\r\nzweite\n\nohne Ende".encode()
    serve(server, [text[n : n + 1] for n in range(len(text))])
    assert received_by(source_for(server)) == ["erste \u00e4\u20ac\U0001f600", "zweite", "", "ohne Ende"]


def test_a_delimiter_of_several_characters(server: socket.socket) -> None:
    serve(server, [b"a|", b"|b\r||", b"|c", b"||"])
    assert received_by(source_for(server, delimiter="||")) == ["a", "b\r", "|c"]


def test_bytes_that_are_no_text_do_not_stop_the_job(server: socket.socket) -> None:
    serve(server, [b"a\xffb\n\xc3"])
    assert received_by(source_for(server)) == ["a\ufffdb", "\ufffd"]


def test_connecting_again(server: socket.socket) -> None:
    thread = serve(server, [b"a\nb"], [b"c\n"], [b"d"])
    assert received_by(source_for(server, max_retry=2)) == ["a", "bc", "d"]
    thread.join(60)


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(UserCodeError, match=rf"cannot read from the socket 127\.0\.0\.1:{port}: .*refused"):
        received_by(SocketTextSource("127.0.0.1", port))
    with pytest.raises(UserCodeError, match=rf"127\.0\.0\.1:{port} \(tried 4 times\)"):
        received_by(SocketTextSource("127.0.0.1", port, max_retry=3))


def test_a_cancel_ends_it_at_once(server: socket.socket) -> None:
    operator: Any = source_for(server, max_retry=-1).create_operator(None)
    opened(operator)
    connection, _ = server.accept()
    connection.sendall(b"a\n")
    wait_for(operator.has_data)
    started = time.monotonic()
    operator.close()
    assert time.monotonic() - started < 60, "the server would never hang up"
    assert operator._ended.is_set()
    connection.close()


def test_what_the_engine_is_told() -> None:
    source = SocketTextSource("localhost", 9999)
    assert not source.bounded
    assert not source.replayable
    assert not source.parallel
    assert source.produced_type == Types.STRING()
    with pytest.raises(UserCodeError, match="one subtask: set the source's parallelism to 1, not 2"):
        opened(source.create_operator(None), parallelism=2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("group", Duration.of_seconds(1))
    with pytest.raises(NotImplementedError, match="SocketTextSource has no splits that could wait for others"):
        source.create_operator(strategy)


def test_a_watermark_strategy(server: socket.socket) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_assigner(
        lambda line, before: int(line)
    )
    serve(server, [b"100\n90\n", b"300\n"])
    operator: Any = source_for(server).create_operator(pickle.loads(cloudpickle.dumps(strategy)))
    received = opened(operator)
    try:
        wait_for(lambda: operator._ended.is_set())
        while not operator.exhausted:
            operator.read_epoch(2)
            operator.end_epoch()
    finally:
        operator.close()
    assert received.elements[:3] == ["100", "90", ("watermark", 89)]
    assert received.elements[3:5] == ["300", ("watermark", 289)]


@pytest.mark.parametrize(
    "arguments", [("", 1), (None, 1), ("a", 0), ("a", 70000), ("a", "1"), ("a", 1, ""), ("a", 1, "\n", -2)]
)
def test_bad_arguments(arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError), match="SocketTextSource"):
        SocketTextSource(*arguments)
