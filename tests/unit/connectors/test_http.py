"""HttpSource, HttpSink, WebSocketSource, WebSocketSink: against servers on this machine."""

from __future__ import annotations

import datetime
import json
import pickle
import socket
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import Duration, Row, Types, WatermarkStrategy
from flintstream.common.pickling import dumps
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.http import HttpSink, HttpSource, WebSocketSink, WebSocketSource
from flintstream.graph.guarantees import guarantees
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness
from flintstream.testing.local_job import LocalJob

from .operating import opened
from .web_servers import Answer, Asked, http_server, websocket_server

ORDERS = [{"id": number} for number in range(1, 8)]


def records_of(source: Any, until: int | None = None) -> list[Any]:
    """The records of a source, run by a job; with a number, the job is ended when there are so many."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "web").map(repr).print()
    job = LocalJob(env.generate_stream_graph())
    if until is None:
        return [eval(line) for line in job.run(120.0).printed]
    job.open()
    try:
        wait_until(lambda: job.is_due() and (job.run_epoch() or len(job.printed) >= until), what=f"record {until}")
    finally:
        job.close()
    return [eval(line) for line in job.printed]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


# --- HttpSource ---


def pages(asked: Asked) -> Answer:
    """Three orders at a time, behind the one with the number of the cursor."""
    start = int(asked.query.get("cursor", ["0"])[0])
    page = ORDERS[start : start + 3]
    return 200, {"data": {"orders": page}, "next": start + len(page)}


def test_an_array_is_a_record_for_each_element_and_anything_else_is_one() -> None:
    for answer, expected in (([1, "two", None], [1, "two", None]), ({"a": 1}, [{"a": 1}]), ([], [])):
        with http_server(lambda _, answer=answer: (200, answer)) as server:  # type: ignore[misc]
            assert records_of(HttpSource(server.url, bounded=True)) == expected
            assert len(server.asked) == 1


def test_lines_of_text() -> None:
    with http_server(lambda _: (200, "eins\r\nzwei ü".encode())) as server:
        source = HttpSource(server.url, format="text", bounded=True)
        assert source.produced_type == Types.STRING()
        assert records_of(source) == ["eins", "zwei ü"]


def test_a_url_is_requested_again_after_the_interval_with_its_headers() -> None:
    with http_server(lambda _: (200, [len(server.asked)])) as server:
        source = HttpSource(f"{server.url}?shop=7", interval=0.01, headers={"Authorization": "Bearer x"})
        assert records_of(source, until=3)[:3] == [1, 2, 3]
        assert server.asked[2].query == {"shop": ["7"]}
        assert server.asked[2].headers["Authorization"] == "Bearer x"


@pytest.mark.parametrize(
    ("records", "cursor"),
    [("data.orders", "next"), (lambda response: response["data"]["orders"], lambda response: response["next"])],
)
def test_a_cursor_leads_through_all_pages(records: Any, cursor: Any) -> None:
    with http_server(pages) as server:
        assert records_of(HttpSource(server.url, records=records, cursor=cursor, bounded=True)) == ORDERS
        assert [asked.query.get("cursor") for asked in server.asked] == [None, ["3"], ["6"], ["7"]]


def test_the_parameter_of_the_cursor_has_a_name_of_its_own() -> None:
    with http_server(lambda _: (200, {"next": "a&b"})) as server:
        source = HttpSource(f"{server.url}?x=1", records="none", cursor="next", cursor_parameter="after", bounded=True)
        assert records_of(source) == []
        assert server.asked[1].query == {"x": ["1"], "after": ["a&b"]}


def test_a_restored_source_continues_behind_its_cursor() -> None:
    with http_server(pages) as server:
        source = HttpSource(server.url, interval=0.01, records="data.orders", cursor="next")
        operator: Any = pickle.loads(dumps(source.create_operator(None)))
        received = opened(operator)
        wait_until(lambda: len(server.asked) > 3, what="all pages")
        operator.read_epoch(100)
        operator.snapshot_state(1, 0)
        operator.close()
        assert received.elements == ORDERS
        before = len(server.asked)
        again: Any = pickle.loads(dumps(source.create_operator(None)))
        received = opened(again, state=operator.context.operator_state.snapshot())
        wait_until(lambda: len(server.asked) > before, what="another request")
        again.read_epoch(100)
        again.close()
        assert (received.elements, server.asked[before].query) == ([], {"cursor": ["7"]})


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_fails_for_a_while_is_asked_again(status: int) -> None:
    with http_server(lambda _: (status, b"later") if len(server.asked) < 3 else (200, ["now"])) as server:
        assert records_of(HttpSource(server.url, bounded=True)) == ["now"]


@pytest.mark.parametrize(
    ("answer", "options", "message"),
    [
        ((404, b"no such shop"), {}, r"GET http://127.0.0.1:\d+/orders: status 404 Not Found: no such shop"),
        (
            (503, b"busy"),
            {"retry_seconds": 0.1},
            r"(?s)status 503 .*busy.*Tried again for 0.1 seconds \(retry_seconds\)",
        ),
        ((200, b"{"), {}, r"(?s)/orders: JSONDecodeError: .*The response: '{'"),
        ((200, [1]), {"records": "items"}, r"TypeError: 'items': no object has the field 'items', but \[1\]"),
        (
            (302, "http://elsewhere.example/"),
            {},
            r"status 302 Found, a redirect to http://elsewhere.example/, which is not",
        ),
        ((200, b"\xff"), {}, "codec can't decode"),
    ],
)
def test_what_is_wrong_with_a_response_is_told(answer: Answer, options: Any, message: str) -> None:
    with http_server(lambda _: answer) as server, pytest.raises(UserCodeError, match=message) as failure:
        records_of(HttpSource(f"{server.url}?token=secret", bounded=True, **options))
    assert "secret" not in str(failure.value)


def test_a_redirect_on_the_same_server_is_followed() -> None:
    with http_server(lambda asked: (200, ["there"]) if asked.path == "/there" else (302, "/there")) as server:
        assert records_of(HttpSource(server.url, bounded=True)) == ["there"]


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(UserCodeError, match="(?s)timed out.*Tried again for 0.1 seconds"):
            records_of(HttpSource(url, timeout=0.1, retry_seconds=0.1))


def test_a_response_that_trickles_in_is_given_up() -> None:
    ended = threading.Event()

    def trickle(silent: socket.socket) -> None:
        connection, _ = silent.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not ended.wait(0.02):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=trickle, args=[server], daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(UserCodeError, match=r"the response was not complete within 0.3 s \(timeout\)"):
            records_of(HttpSource(url, timeout=0.3, retry_seconds=0.01))
        ended.set()


def test_what_the_engine_is_told() -> None:
    source = HttpSource("http://localhost/", cursor="next", type_info=Types.INT())
    assert (source.bounded, source.replayable, source.parallel) == (False, True, False)
    assert source.produced_type == Types.INT()
    assert not HttpSource("http://localhost/").replayable
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    with pytest.raises(NotImplementedError, match="HttpSource has no splits that could wait for others"):
        source.create_operator(strategy.with_watermark_alignment("group", Duration.of_seconds(1)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HttpSource("file:///etc/passwd"), "HttpSource: url must start with http:// or https://"),
        (lambda: HttpSource("http://me:pw@host/"), "the URL of 'host' contains a password: use headers"),
        (lambda: HttpSource("http://host/", interval=0), "interval must be a positive number of seconds, got 0"),
        (lambda: HttpSource("http://host/", format="xml"), "format must be 'json' or 'text', got 'xml'"),
        (lambda: HttpSink("http://host/", method="GET"), "method must be POST, PUT or PATCH, got 'GET'"),
        (lambda: HttpSink("http://host/", batch_size=0), "batch_size must be at least 1, got 0"),
        (lambda: HttpSink("http://host/", timeout=-1), "timeout must be a positive number of seconds, got -1"),
        (lambda: WebSocketSource("http://host/"), "WebSocketSource: url must start with ws:// or wss://"),
        (lambda: WebSocketSink("ws://"), "WebSocketSink: url must start with ws://"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


# --- HttpSink ---


def posting(url: str, **options: Any) -> OneInputOperatorHarness:
    operator = pickle.loads(dumps(HttpSink(url, **options).create_operator(None)))
    return OneInputOperatorHarness(operator, name="to the shop", processing_time=0)


def accept(asked: Asked) -> Answer:
    return 204, b""


def test_records_are_posted_in_batches_and_the_rest_at_a_checkpoint() -> None:
    with http_server(accept) as server, posting(server.url, batch_size=2) as harness:
        harness.process_elements([1, 2, 3])
        assert server.posted == [[1, 2]]
        harness.snapshot(1)
        assert server.posted == [[1, 2], [3]]
        harness.process_elements([4, 5, 6, 7, 8])
        harness.end_input()
        assert server.posted == [[1, 2], [3], [4, 5], [6, 7], [8]]
        assert server.asked[0].headers["Content-Type"] == "application/json"


def test_records_wait_as_long_as_the_interval_says() -> None:
    with http_server(accept) as server, posting(server.url, batch_interval_ms=100) as harness:
        harness.process_element("a")
        harness.set_processing_time(50)
        harness.process_element("b")
        assert server.asked == []
        harness.set_processing_time(100)
        assert server.posted == [["a", "b"]]


def test_one_record_for_each_request() -> None:
    with http_server(accept) as server, posting(server.url, one_by_one=True, method="PUT") as harness:
        harness.process_elements([{"a": 1}, {"a": 2}])
        assert server.posted == [{"a": 1}, {"a": 2}]
        assert {asked.method for asked in server.asked} == {"PUT"}


def test_texts_are_lines() -> None:
    with http_server(accept) as server, posting(server.url, format="text", headers={"X-Shop": "7"}) as harness:
        harness.process_elements(["a", "ü"])
        harness.end_input()
        assert (server.asked[0].body, server.asked[0].headers["X-Shop"]) == ("a\nü\n".encode(), "7")


def test_values_that_json_does_not_have() -> None:
    record = Row(day=datetime.date(2024, 2, 29), price=Decimal("1.5"), of=Row(1, "x"))
    with http_server(accept) as server, posting(server.url, one_by_one=True) as harness:
        harness.process_element(record)
        assert server.posted == [{"day": "2024-02-29", "price": 1.5, "of": [1, "x"]}]


def test_a_batch_is_posted_until_it_is_accepted() -> None:
    with (
        http_server(lambda _: (503, b"") if len(server.asked) < 3 else (200, b"")) as server,
        posting(server.url, batch_size=2) as harness,
    ):
        harness.process_elements([1, 2])
        assert server.posted == [[1, 2]] * 3


def test_a_server_that_comes_back_has_missed_nothing() -> None:
    port = free_port()
    posted: list[Any] = []

    def start() -> None:
        with http_server(accept, port) as server:
            wait_until(lambda: server.asked, what="a request")
            posted.extend(server.posted)

    later = threading.Timer(0.3, start)
    later.start()
    with posting(f"http://127.0.0.1:{port}/", batch_size=2) as harness:
        harness.process_elements([1, 2])
    later.join(60)
    assert posted == [[1, 2]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((400, b"no price"), "POST http://127.0.0.1:.*: status 400 Bad Request: no price"),
        ((302, "/elsewhere"), "status 302 Found, a redirect to /elsewhere, which is not followed"),
        ((503, b""), r"(?s)status 503.*Tried again for 0.1 seconds \(retry_seconds\)"),
    ],
)
def test_a_batch_that_is_refused_fails_the_job(answer: Answer, message: str) -> None:
    with http_server(lambda _: answer) as server:
        with pytest.raises(UserCodeError, match=message) as failure, posting(server.url, retry_seconds=0.1) as harness:
            harness.process_elements(["first", "second"])
            harness.end_input()
        assert (failure.value.fault.operator, failure.value.fault.record) == ("to the shop", "'first'")
        assert {asked.method for asked in server.asked} == {"POST"}


@pytest.mark.parametrize(("format", "record"), [("json", object()), ("text", 5)])
def test_a_record_that_cannot_be_sent_is_named(format: str, record: Any) -> None:
    with pytest.raises(UserCodeError) as failure, posting("http://127.0.0.1:1/", format=format) as harness:
        harness.process_element(record)
        harness.end_input()
    assert failure.value.fault.record == repr(record)


@pytest.mark.parametrize(("cursor", "expected"), [("next", "at least once"), (None, "at most once")])
def test_the_guarantee_depends_on_the_cursor(cursor: str | None, expected: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = HttpSource("http://localhost/", cursor=cursor)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "web").add_sink(HttpSink("http://localhost/"))
    (guarantee,) = guarantees(env.generate_stream_graph(), checkpointing=True)
    assert guarantee.delivery.value == expected


# --- WebSocket ---


def test_messages_are_records() -> None:
    subscribed: list[Any] = []

    def handler(connection: Any) -> None:
        subscribed.append((connection.recv(), connection.request.headers["X-Shop"]))
        connection.send('{"id": 1}')
        connection.send("[2]")

    with websocket_server(handler) as (_, url):
        source = WebSocketSource(url, subscribe="orders", headers={"X-Shop": "7"}, bounded=True)
        assert records_of(source) == [{"id": 1}, [2]]
    assert subscribed == [("orders", "7")]


def test_texts_and_bytes_stay_as_they_are() -> None:
    def handler(connection: Any) -> None:
        connection.send("{")
        connection.send(b"\xff")

    with websocket_server(handler) as (_, url):
        assert records_of(WebSocketSource(url, format="text", bounded=True)) == ["{", b"\xff"]


@pytest.mark.parametrize("ends", ["closed", "lost"])
def test_a_connection_that_ends_is_made_again(ends: str) -> None:
    count = 0

    def handler(connection: Any) -> None:
        nonlocal count
        count += 1
        connection.send(str(count))
        if ends == "lost":
            wait_until(lambda: connection.ping().wait(60))  # The message has arrived.
            connection.socket.shutdown(socket.SHUT_RDWR)

    with websocket_server(handler) as (_, url):
        assert records_of(WebSocketSource(url), until=3)[:3] == [1, 2, 3]


def test_a_server_that_closes_every_connection_at_once_is_given_up() -> None:
    with (
        websocket_server(lambda connection: connection.close()) as (_, url),
        pytest.raises(UserCodeError, match=r"(?s)1000 \(OK\).*Tried again for 0.3 seconds"),
    ):
        records_of(WebSocketSource(url, retry_seconds=0.3))


def test_a_message_that_is_not_json_is_shown() -> None:
    with (
        websocket_server(lambda connection: connection.send("hello")) as (_, url),
        pytest.raises(UserCodeError, match="the message 'hello' is not JSON"),
    ):
        records_of(WebSocketSource(url))


@pytest.mark.parametrize("connector", [WebSocketSource, WebSocketSink])
def test_a_server_that_is_away_or_no_websocket_server_fails_the_job(connector: Any) -> None:
    def run(url: str, **options: Any) -> None:
        if connector is WebSocketSource:
            records_of(WebSocketSource(url, **options))
        with sending(url, **options) as harness:
            harness.process_element(1)

    away = f"ws://127.0.0.1:{free_port()}/?token=secret"
    with pytest.raises(UserCodeError, match=r"(?s)refused.*Tried again for 0.1 seconds \(retry_seconds\)") as failure:
        run(away, retry_seconds=0.1)
    assert "secret" not in str(failure.value)
    with http_server(lambda _: (403, b"no")) as server, pytest.raises(UserCodeError, match="HTTP 403"):
        run(server.url.replace("http:", "ws:"))
    assert len(server.asked) == 1, "it is not asked again"


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    for connector in (WebSocketSource, WebSocketSink):
        with pytest.raises(ImportError, match=rf"{connector.__name__} needs .* pip install 'flintstream\[websocket\]'"):
            connector("ws://localhost/")


def sending(url: str, **options: Any) -> OneInputOperatorHarness:
    operator = pickle.loads(dumps(WebSocketSink(url, **options).create_operator(None)))
    return OneInputOperatorHarness(operator, name="to the screen")


def test_records_are_messages() -> None:
    received: list[Any] = []

    def handler(connection: Any) -> None:
        received.extend(connection)

    with websocket_server(handler) as (_, url):
        with sending(url) as harness:
            harness.process_elements([{"a": 1}, Row(b=2)])
        with sending(url, format="text") as harness:
            harness.process_elements(["x", b"y"])
        wait_until(lambda: len(received) == 4, what="all messages")
    assert [json.loads(message) for message in received[:2]] == [{"a": 1}, {"b": 2}]
    assert received[2:] == ["x", b"y"]


def test_a_block_is_sent_again_if_the_connection_is_lost_before_the_server_has_answered() -> None:
    received: list[list[Any]] = []

    def handler(connection: Any) -> None:
        received.append([])
        for message in connection:
            received[-1].append(int(message))
            if len(received) == 1:
                connection.socket.shutdown(socket.SHUT_RDWR)

    with websocket_server(handler) as (_, url), sending(url) as harness:
        harness.process_elements(list(range(1000)))
        wait_until(lambda: len(received) > 1 and received[-1] == list(range(1000)), what="the whole block")
