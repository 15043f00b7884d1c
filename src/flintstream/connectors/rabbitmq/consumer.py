"""Takes the messages of a RabbitMQ queue: a connection's thread receives them, the slot takes them from a buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from flintstream.connectors.rabbitmq.connection import Connection, RabbitMqError
from flintstream.connectors.rabbitmq.options import RMQConnectionConfig

BUFFERED_MESSAGES = 20_000
BUFFERED_BYTES = 32 * 1024 * 1024
"""The most messages buffered in the slot before the server is asked to pause."""


class Message(NamedTuple):
    """A delivered message."""

    tag: int
    """Its delivery tag, which increases by one per message of a connection."""
    correlation_id: str | None
    body: bytes


class Consumer:
    """Receives messages of a queue and acknowledges them. Used by one thread.

    With `transactional`, acknowledgements are committed, so that it is known which ones the server has.
    """

    def __init__(self, config: RMQConnectionConfig, queue: str, transactional: bool) -> None:
        self._queue = queue
        self._transactional = transactional
        self._buffer: deque[Message] = deque()
        self._received_bytes = self._taken_bytes = 0
        self._consumer_tag: str | None = None
        self._waits = False
        """Whether the server was asked to pause or resume, and has not answered."""
        self._last_acknowledged = 0
        self.acknowledged = 0
        """The last delivery tag up to which the server is known to have all acknowledgements."""
        self._connection = Connection(config)
        try:
            self._connection.declare(queue)
            self._connection.channel.add_on_cancel_callback(self._cancelled)
            if transactional:
                self._connection.call("tx.select", lambda channel, done: channel.tx_select(callback=done))
            self._connection.call("basic.qos", lambda channel, done: _limit(channel, config, done))
            self._connection.call("basic.consume", self._consume)
        except BaseException:
            self._connection.close()
            raise

    @property
    def failure(self) -> Exception | None:
        """Returns why no message comes any more. Those that have come cannot be acknowledged, and are redelivered."""
        return self._connection.failure

    @property
    def has_messages(self) -> bool:
        """Returns whether there are messages to take."""
        return bool(self._buffer)

    def take(self, limit: int) -> list[Message]:
        """Returns at most so many messages, of those that have come."""
        buffer = self._buffer
        taken = [buffer.popleft() for _ in range(min(limit, len(buffer)))]
        self._taken_bytes += sum(len(message.body) for message in taken)
        if self._consumer_tag is None and not self._waits and self._connection.failure is None and self._is_low():
            self._connection.tell(self._go_on)
        return taken

    def acknowledge(self, tag: int) -> None:
        """Acknowledges all messages up to a delivery tag; does not wait."""
        if tag > self._last_acknowledged:  # The server closes the channel if a tag is acknowledged twice.
            self._last_acknowledged = tag
            self._connection.tell(lambda channel: self._acknowledge(channel, tag))

    def close(self) -> None:
        """Disconnects. Messages that are not acknowledged are redelivered, to any consumer."""
        self._connection.close()

    # --- on the connection's thread ---

    def _consume(self, channel: Any, done: Callable[[Any], None]) -> None:
        self._consumer_tag = channel.basic_consume(self._queue, self._receive, callback=done)

    def _receive(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._buffer.append(Message(method.delivery_tag, properties.correlation_id, body))
        self._received_bytes += len(body)
        if self._consumer_tag is not None and not self._waits and self._is_full():
            self._waits = True
            channel.basic_cancel(self._consumer_tag, callback=self._paused)

    def _paused(self, frame: Any) -> None:
        self._consumer_tag, self._waits = None, False

    def _go_on(self, channel: Any) -> None:
        if self._consumer_tag is None and not self._waits:
            self._waits = True
            self._consume(channel, self._goes_on)

    def _goes_on(self, frame: Any) -> None:
        self._waits = False

    def _cancelled(self, frame: Any) -> None:
        self._connection.fail(RabbitMqError(f"queue {self._queue!r} was deleted"))

    def _acknowledge(self, channel: Any, tag: int) -> None:
        channel.basic_ack(tag, multiple=True)
        if self._transactional:
            channel.tx_commit(callback=lambda frame: setattr(self, "acknowledged", tag))
        else:
            self.acknowledged = tag

    # --- on both threads ---

    def _is_full(self) -> bool:
        waiting = self._received_bytes - self._taken_bytes
        return len(self._buffer) >= BUFFERED_MESSAGES or waiting >= BUFFERED_BYTES

    def _is_low(self) -> bool:
        waiting = self._received_bytes - self._taken_bytes
        return len(self._buffer) <= BUFFERED_MESSAGES // 2 and waiting <= BUFFERED_BYTES // 2


def _limit(channel: Any, config: RMQConnectionConfig, done: Callable[[Any], None]) -> None:
    channel.basic_qos(prefetch_count=config.get_prefetch_count() or 0, callback=done)
