"""The operators of HttpSink and WebSocketSink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flintstream.connectors.backoff import Backoff
from flintstream.connectors.buffering import BufferingOperator
from flintstream.connectors.http.requests import Endpoint, RequestError, Unavailable
from flintstream.connectors.http.websocket import ConnectionLost, ConnectionRefused, WebSocket
from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.base import Operator


class HttpSinkOperator(BufferingOperator):
    """Posts records in batches: when one is full, when its first record has waited long enough, at checkpoints, at the end.

    Each batch is posted until the server accepts it, hence at least once.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        method: str,
        body_of: Callable[[list[Any]], bytes],
        batch_size: int,
        batch_interval_ms: int,
        retry_seconds: float,
    ) -> None:
        self._endpoint = endpoint
        self._method = method
        self._body_of = body_of
        self._batch_size = batch_size
        self._interval = batch_interval_ms
        self._retry_seconds = retry_seconds

    def open(self) -> None:
        super().open()
        self._waiting: list[Any] = []

    def process(self, batch: Batch) -> None:
        self._waiting += batch.values
        self._flush_if_due()

    def _flush_if_due(self) -> None:
        while len(self._waiting) >= self._batch_size:
            self._flush_batch()
        if self._waiting and self._interval and self._has_waited(self._interval):
            self._flush()

    def _flush(self) -> None:
        while self._waiting:
            self._flush_batch()

    def _flush_batch(self) -> None:
        records = self._waiting[: self._batch_size]
        self._post(records)
        del self._waiting[: len(records)]
        self._due = None

    def _post(self, records: list[Any]) -> None:
        try:
            body = self._body_of(records)
        except Exception as error:
            raise self._fault(error, records) from error
        backoff = Backoff(self._retry_seconds)
        while True:
            try:
                self._endpoint.send(self._method, body)
                return
            except Unavailable as error:
                if not backoff.wait():
                    told = f"{error}\nTried again for {self._retry_seconds:g} seconds (retry_seconds)."
                    raise self._fault(RequestError(told), records) from error
            except RequestError as error:
                raise self._fault(error, records) from error

    def _fault(self, error: Exception, records: list[Any]) -> UserCodeError:
        """Returns an error that names the operator and the record, or the first of several."""
        return user_fault(error, self.context.name, self.context.subtask, records[0])


class WebSocketSinkOperator(Operator):
    """Sends each record as a message. A block is sent again until the server has answered a ping behind its last message."""

    takes_declared_types = True

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout: float,
        message_of: Callable[[Any], str | bytes],
        retry_seconds: float,
    ) -> None:
        self._socket = WebSocket(url, headers, timeout)
        self._message_of = message_of
        self._retry_seconds = retry_seconds

    def open(self) -> None:
        """Does nothing: the connection is made for the first message."""

    def process(self, batch: Batch) -> None:
        messages = []
        for record in batch.values:
            try:
                messages.append(self._message_of(record))
            except Exception as error:
                raise user_fault(error, self.context.name, self.context.subtask, record) from error
        backoff = Backoff(self._retry_seconds)
        while True:
            try:
                self._socket.send(messages)
                self._socket.await_receipt()
                return
            except ConnectionRefused as error:
                raise user_fault(error, self.context.name, self.context.subtask) from error
            except ConnectionLost as error:
                self._socket.close()
                if not backoff.wait():
                    told = f"{error}\nTried again for {self._retry_seconds:g} seconds (retry_seconds)."
                    raise user_fault(ConnectionLost(told), self.context.name, self.context.subtask) from error

    def finish(self) -> None:
        """Does nothing: each block was sent when it came."""

    def close(self) -> None:
        self._socket.close()
