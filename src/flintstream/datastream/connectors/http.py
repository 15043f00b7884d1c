"""HTTP and WebSocket: a URL that is polled, records that are posted, messages that are received and sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flintstream.common.arguments import positive
from flintstream.common.type_variables import IN
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.connectors.backoff import Backoff
from flintstream.connectors.http.requests import Endpoint, RequestError, Unavailable
from flintstream.connectors.http.sink import HttpSinkOperator, WebSocketSinkOperator
from flintstream.connectors.http.websocket import ConnectionEnded, ConnectionLost, WebSocket, check_package
from flintstream.connectors.json_values import encode_json
from flintstream.datastream.connectors.base import Source
from flintstream.datastream.connectors.socket import function_operator
from flintstream.datastream.io_functions import SinkFunction, SourceContext, SourceFunction
from flintstream.datastream.state import ListStateDescriptor
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.source import SourceError
from flintstream.runtime.state.checkpointed import CheckpointedFunction

if TYPE_CHECKING:
    from flintstream.runtime.state.checkpointed import FunctionInitializationContext, FunctionSnapshotContext

__all__ = ["HttpSink", "HttpSource", "WebSocketSink", "WebSocketSource"]

_RECEIVE_SECONDS = 0.5
_STABLE_SECONDS = 1.0
"""A connection that has lasted so long worked; one that ends sooner counts as another failed attempt."""
_CONTENT_TYPES = {"json": "application/json", "text": "text/plain; charset=utf-8"}
_CURSOR = ListStateDescriptor("http-cursor", Types.PICKLED_BYTE_ARRAY())

Selector = str | Callable[[Any], Any]
"""Selects a part of a response: the name of a field, or names with dots between them, or a function."""


class _OneSubtaskSource(Source[Any]):
    """A source that is read by a function on a thread, in one subtask."""

    bounded = False
    replayable = False
    parallel = False
    _function: SourceFunction[Any]
    _type: TypeInformation | None

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._type

    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> SourceHead:
        return function_operator(self, self._function, watermark_strategy)


class HttpSource(_OneSubtaskSource):
    """Requests a URL again and again, and emits the records in each response.

    Example::

        source = HttpSource("https://shop.example/orders", interval=5, records="orders", cursor="next")
        env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")

    With a cursor, each record is read exactly once, if the server returns what follows the cursor. Without one, each
    response is emitted as it is, and what the server returned before a failure may be lost.

    :param url: the URL.
    :param interval: the seconds between two requests; there is no pause while the cursor moves on.
    :param format: `json`: an array is a record for each element, anything else one record; `text`: a record for each line.
    :param records: the part of a JSON response with the records: a field such as `"data.items"`, or a function.
    :param cursor: the part of the response that says where the next request continues: a field, or a function.
    :param cursor_parameter: the parameter of the URL by which the next request contains the cursor.
    :param headers: headers of the requests.
    :param bounded: end with the first response whose cursor does not move on; without a cursor, with the first response.
    :param timeout: the seconds that a request may take.
    :param retry_seconds: how long to try again while the server is away, before the job fails.
    :param type_info: the type of the records.
    """

    def __init__(
        self,
        url: str,
        interval: float = 10.0,
        *,
        format: str = "json",
        records: Selector | None = None,
        cursor: Selector | None = None,
        cursor_parameter: str = "cursor",
        headers: Mapping[str, str] | None = None,
        bounded: bool = False,
        timeout: float = 30.0,
        retry_seconds: float = 60.0,
        type_info: TypeInformation | None = None,
    ) -> None:
        endpoint = Endpoint(
            _url("HttpSource", url, "http"), dict(headers or {}), _seconds("HttpSource: timeout", timeout)
        )
        self.bounded = bounded
        self.replayable = cursor is not None
        self._type = Types.STRING() if _format("HttpSource", format) == "text" and type_info is None else type_info
        self._function = _Polling(
            endpoint,
            _seconds("HttpSource: interval", interval),
            partial(_records, format, records),
            cursor,
            cursor_parameter,
            bounded,
            _seconds("HttpSource: retry_seconds", retry_seconds),
        )


class _Polling(SourceFunction[Any], CheckpointedFunction):
    """Requests pages, and keeps the cursor of the last one."""

    def __init__(
        self,
        endpoint: Endpoint,
        interval: float,
        parse: Callable[[str], tuple[Any, list[Any]]],
        cursor: Selector | None,
        cursor_parameter: str,
        bounded: bool,
        retry_seconds: float,
    ) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._interval = interval
        self._parse = parse
        self._select_cursor = cursor
        self._parameter = cursor_parameter
        self._bounded = bounded
        self._retry_seconds = retry_seconds
        self._cursor: Any = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._cancelled = threading.Event()
        self._state = context.get_operator_state_store().get_list_state(_CURSOR)
        for cursor in self._state.get():
            self._cursor = cursor

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([] if self._cursor is None else [self._cursor])

    def run(self, ctx: SourceContext) -> None:
        while not self._cancelled.is_set():
            content = self._request()
            try:
                response, records = self._parse(content)
                cursor = None if self._select_cursor is None else _select(response, self._select_cursor)
            except Exception as error:
                told = f"{self._endpoint}: {type(error).__name__}: {error}"
                raise SourceError(f"{told}\nThe response: {content[:300]!r}") from error
            moved = cursor is not None and cursor != self._cursor
            with ctx.get_checkpoint_lock():
                for record in records:
                    ctx.collect(record)
                if moved:
                    self._cursor = cursor
            if self._bounded and not moved:
                return
            if not moved:
                self._cancelled.wait(self._interval)

    def cancel(self) -> None:
        self._cancelled.set()

    def _request(self) -> str:
        query = {} if self._cursor is None else {self._parameter: self._cursor}
        backoff = Backoff(self._retry_seconds)
        while True:
            try:
                return self._endpoint.send("GET", **query).decode()
            except Unavailable as error:
                if self._cancelled.is_set() or not backoff.wait():
                    told = f"{error}\nTried again for {self._retry_seconds:g} seconds (retry_seconds)."
                    raise SourceError(told) from error
            except (RequestError, UnicodeDecodeError) as error:
                raise SourceError(f"{self._endpoint}: {error}") from error


class HttpSink(SinkFunction[IN]):
    """Posts records to a URL; for `stream.add_sink`.

    Example::

        counts.add_sink(HttpSink("https://shop.example/counts", batch_size=500))

    Each record arrives at least once: a batch is posted until the server accepts it, and after a failure records are posted
    again from the last checkpoint on. A status of 4xx, except 408, 425 and 429, fails the job.

    :param url: the URL.
    :param format: `json`: the body is an array of the records of a batch; `text`: a line for each record.
    :param one_by_one: post each record by itself; the body is the record, not an array.
    :param batch_size: the most records in a request.
    :param batch_interval_ms: how long (milliseconds) a record may wait; 0 for until the next checkpoint.
    :param headers: headers of the requests.
    :param method: the method: `POST`, `PUT` or `PATCH`.
    :param timeout: the seconds that a request may take.
    :param retry_seconds: how long to try again while the server is away, before the job fails.
    """

    def __init__(
        self,
        url: str,
        *,
        format: str = "json",
        one_by_one: bool = False,
        batch_size: int = 100,
        batch_interval_ms: int = 1000,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        timeout: float = 30.0,
        retry_seconds: float = 60.0,
    ) -> None:
        super().__init__()
        if method not in ("POST", "PUT", "PATCH"):
            raise ValueError(f"HttpSink: method must be POST, PUT or PATCH, got {method!r}")
        content_type = {"Content-Type": _CONTENT_TYPES[_format("HttpSink", format)]}
        endpoint = Endpoint(
            _url("HttpSink", url, "http"), content_type | dict(headers or {}), _seconds("HttpSink: timeout", timeout)
        )
        self._create = partial(
            HttpSinkOperator,
            endpoint,
            method,
            partial(_body, format, one_by_one),
            1 if one_by_one else positive("HttpSink: batch_size", batch_size),
            positive("HttpSink: batch_interval_ms", batch_interval_ms, 0),
            _seconds("HttpSink: retry_seconds", retry_seconds),
        )

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that posts records in a slot."""
        return self._create()


class WebSocketSource(_OneSubtaskSource):
    """Receives messages from a WebSocket server; needs `pip install 'flintstream[websocket]'`.

    Example::

        source = WebSocketSource("wss://market.example/trades", subscribe='{"channel": "trades"}')
        env.from_source(source, WatermarkStrategy.no_watermarks(), "trades")

    Each message is received **at most once**: what the server sends while the job is not connected is lost.

    :param url: the URL.
    :param format: `json` for values, `text` for strings; bytes stay bytes then.
    :param subscribe: a message to send whenever a connection is made.
    :param headers: headers of the handshake.
    :param bounded: end when the server closes the connection; else connect again.
    :param timeout: the seconds to connect, and to miss the server's answers to pings before connecting again.
    :param retry_seconds: how long to connect again while the server is away, before the job fails.
    :param type_info: the type of the records.
    """

    def __init__(
        self,
        url: str,
        *,
        format: str = "json",
        subscribe: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        bounded: bool = False,
        timeout: float = 30.0,
        retry_seconds: float = 60.0,
        type_info: TypeInformation | None = None,
    ) -> None:
        check_package("WebSocketSource")
        socket = WebSocket(
            _url("WebSocketSource", url, "ws"), dict(headers or {}), _seconds("WebSocketSource: timeout", timeout)
        )
        self.bounded = bounded
        self._type = type_info
        seconds = _seconds("WebSocketSource: retry_seconds", retry_seconds)
        is_json = _format("WebSocketSource", format) == "json"
        self._function = _Receiving(socket, is_json, subscribe, bounded, seconds)


class _Receiving(SourceFunction[Any]):
    """Connects, and emits messages until the end of the connection."""

    def __init__(
        self, socket: WebSocket, is_json: bool, subscribe: str | bytes | None, bounded: bool, retry_seconds: float
    ) -> None:
        super().__init__()
        self._socket = socket
        self._is_json = is_json
        self._subscribe = subscribe
        self._bounded = bounded
        self._retry_seconds = retry_seconds
        self._is_cancelled = False

    def run(self, ctx: SourceContext) -> None:
        backoff: Backoff | None = None
        while not self._is_cancelled:
            started = time.monotonic()
            try:
                self._socket.send([] if self._subscribe is None else [self._subscribe])
                self._receive(ctx)
            except ConnectionLost as error:
                if self._bounded and isinstance(error, ConnectionEnded):
                    return
                if backoff is None or time.monotonic() - started > _STABLE_SECONDS:
                    backoff = Backoff(self._retry_seconds)
                if not self._is_cancelled and not backoff.wait():
                    told = f"{error}\nTried again for {self._retry_seconds:g} seconds (retry_seconds)."
                    raise SourceError(told) from error
            finally:
                self._socket.close()

    def cancel(self) -> None:
        self._is_cancelled = True

    def _receive(self, ctx: SourceContext) -> None:
        while not self._is_cancelled:
            message = self._socket.receive(_RECEIVE_SECONDS)
            if message is None:
                continue
            try:
                record = json.loads(message) if self._is_json else message
            except ValueError as error:
                raise SourceError(f"{self._socket}: the message {message[:300]!r} is not JSON: {error}") from error
            ctx.collect(record)


class WebSocketSink(SinkFunction[IN]):
    """Sends each record as a message to a WebSocket server; for `stream.add_sink`.

    Example::

        alerts.add_sink(WebSocketSink("ws://127.0.0.1:8000/alerts"))

    Each message arrives at the server at least once: a block of records is sent again, until the server has answered a ping
    that follows it. Needs `pip install 'flintstream[websocket]'`.

    :param url: the URL.
    :param format: `json`, or `text` for strings and bytes as they are.
    :param headers: headers of the handshake.
    :param timeout: the seconds to connect, and for an answer to a ping.
    :param retry_seconds: how long to connect again while the server is away, before the job fails.
    """

    def __init__(
        self,
        url: str,
        *,
        format: str = "json",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        retry_seconds: float = 60.0,
    ) -> None:
        super().__init__()
        check_package("WebSocketSink")
        self._create = partial(
            WebSocketSinkOperator,
            _url("WebSocketSink", url, "ws"),
            dict(headers or {}),
            _seconds("WebSocketSink: timeout", timeout),
            encode_json if _format("WebSocketSink", format) == "json" else _text,
            _seconds("WebSocketSink: retry_seconds", retry_seconds),
        )

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that sends messages in a slot."""
        return self._create()


# --- responses and bodies ---


def _records(format: str, selector: Selector | None, content: str) -> tuple[Any, list[Any]]:
    """Returns a response and the records in it."""
    if format == "text":
        return content, content.splitlines()
    response = json.loads(content)
    selected = response if selector is None else _select(response, selector)
    if selected is None:
        return response, []
    return response, selected if isinstance(selected, list) else [selected]


def _select(response: Any, selector: Selector) -> Any:
    if callable(selector):
        return selector(response)
    for name in selector.split("."):
        if not isinstance(response, dict):
            raise TypeError(f"{selector!r}: no object has the field {name!r}, but {response!r:.100}")
        response = response.get(name)
        if response is None:
            return None
    return response


def _body(format: str, one_by_one: bool, records: list[Any]) -> bytes:
    if format == "text":
        texts = [_text(record) for record in records]
        return b"".join([(text.encode() if isinstance(text, str) else text) + b"\n" for text in texts])
    return encode_json(records[0] if one_by_one else records).encode()


def _text(record: Any) -> str | bytes:
    if not isinstance(record, (str, bytes)):
        raise TypeError(
            f"format='text' takes strings and bytes, got a {type(record).__name__}: map records to strings first"
        )
    return record


# --- arguments ---


def _url(owner: str, url: str, scheme: str) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in (scheme, f"{scheme}s") or not parts.hostname:
        raise ValueError(f"{owner}: url must start with {scheme}:// or {scheme}s:// and name a host, got {url!r}")
    if parts.username or parts.password:
        raise ValueError(f"{owner}: the URL of {parts.hostname!r} contains a password: use headers, with Authorization")
    return url


def _format(owner: str, format: str) -> str:
    if format not in _CONTENT_TYPES:
        raise ValueError(f"{owner}: format must be 'json' or 'text', got {format!r}")
    return format


def _seconds(what: str, seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"{what} must be a positive number of seconds, got {seconds!r}")
    return seconds
