"""SocketTextSource: lines received over a TCP connection."""

from __future__ import annotations

import codecs
import socket
import threading
from contextlib import suppress
from typing import Any

from flintstream.common.arguments import positive
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.datastream.connectors.base import Source
from flintstream.datastream.io_functions import RichSourceFunction, SourceContext, SourceFunction
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.operators.source_function import SourceFunctionOperator
from flintstream.runtime.slot.connections import keep_alive
from flintstream.runtime.source import SourceError

__all__ = ["SocketTextSource"]

RETRY_SECONDS = 0.5
_CONNECT_SECONDS = 30.0
_RECEIVE_BYTES = 1 << 16


class SocketTextSource(Source[str]):
    """Reads delimited text from a TCP server; used by `env.socket_text_stream`.

        env.from_source(SocketTextSource("localhost", 9999), WatermarkStrategy.no_watermarks(), "socket")

    The source ends when the server closes the connection. It has one subtask and cannot be replayed: data received
    after the last checkpoint is lost in a failure.

    :param hostname: the server's name or address.
    :param port: the server's port.
    :param delimiter: the delimiter of texts. With a line feed, a carriage return before it is removed too.
    :param max_retry: how often to reconnect, after 500 ms each, when the connection is refused or closed; -1 for no
    limit.
    """

    bounded = False
    replayable = False
    parallel = False

    def __init__(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> None:
        if not isinstance(hostname, str) or not hostname:
            raise ValueError(f"SocketTextSource: hostname must be a name or an address, got {hostname!r}")
        if positive("SocketTextSource: port", port) > 65535:
            raise ValueError(f"SocketTextSource: port must be at most 65535, got {port}")
        if not isinstance(delimiter, str) or not delimiter:
            raise ValueError(f"SocketTextSource: delimiter must be a non-empty string, got {delimiter!r}")
        positive("SocketTextSource: max_retry", max_retry, least=-1)
        self._function = SocketTextFunction(hostname, port, delimiter, max_retry)

    @property
    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> SourceHead:
        return function_operator(self, self._function, watermark_strategy)


class SocketTextFunction(RichSourceFunction[str]):
    """Connects, receives and collects texts, on its own thread."""

    def __init__(self, hostname: str, port: int, delimiter: str, max_retry: int) -> None:
        super().__init__()
        self._address = (hostname, port)
        self._delimiter = delimiter
        self._max_retry = max_retry

    def open(self, runtime_context: Any) -> None:
        subtasks = runtime_context.get_number_of_parallel_subtasks()
        if subtasks > 1:
            raise ValueError(f"a socket is read by one subtask: set the source's parallelism to 1, not {subtasks}")
        self._cancelled = threading.Event()
        self._connection: socket.socket | None = None

    def run(self, ctx: SourceContext) -> None:
        texts = _Texts(self._delimiter)
        tries = 0
        while not self._cancelled.is_set():
            failure: OSError | None = None
            try:
                with socket.create_connection(self._address, _CONNECT_SECONDS) as connection:
                    connection.settimeout(None)  # the next text may come at any time; `cancel` ends the wait
                    keep_alive(connection)
                    self._connection = connection
                    self._receive(connection, texts, ctx)
            except OSError as error:
                failure = error
            if self._cancelled.is_set():
                return
            tries += 1
            if self._max_retry != -1 and tries > self._max_retry:
                if failure is not None:
                    raise self._error(failure, tries)
                break
            self._cancelled.wait(RETRY_SECONDS)
        rest = texts.rest()
        if rest:
            ctx.collect(rest)

    def cancel(self) -> None:
        self._cancelled.set()
        connection = self._connection
        if connection is not None:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)

    def _receive(self, connection: socket.socket, texts: _Texts, ctx: SourceContext) -> None:
        while not self._cancelled.is_set():
            data = connection.recv(_RECEIVE_BYTES)
            if not data:
                return
            for text in texts.feed(data):
                ctx.collect(text)

    def _error(self, failure: OSError, tries: int) -> SourceError:
        host, port = self._address
        tried = f" (tried {tries} times)" if tries > 1 else ""
        return SourceError(f"cannot read from the socket {host}:{port}{tried}: {failure}")


class _Texts:
    """Splits received data into texts; characters and delimiters may span packets."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        piece = self._decoder.decode(data)
        if len(self._delimiter) == 1 and self._delimiter not in piece:
            self._pieces.append(piece)
            return []
        *texts, rest = ("".join(self._pieces) + piece).split(self._delimiter)
        self._pieces = [rest]
        if self._delimiter == "\n":
            return [text.removesuffix("\r") for text in texts]
        return texts

    def rest(self) -> str:
        return "".join(self._pieces) + self._decoder.decode(b"", final=True)


def function_operator(
    source: Source[Any], function: SourceFunction[Any], strategy: WatermarkStrategy | None
) -> SourceHead:
    """Returns the operator of a source that is a function with one subtask."""
    if strategy is not None and strategy.alignment is not None:
        raise NotImplementedError(
            f"{type(source).__name__} has no splits that could wait for others: leave out with_watermark_alignment()"
        )
    if strategy is None or (strategy.timestamp_assigner is None and not strategy.emits_watermarks):
        return SourceFunctionOperator(function)
    return SourceFunctionOperator(function, strategy)
