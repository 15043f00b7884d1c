"""The operator of a RabbitMQ sink: publishes a block of records, and waits until the server has confirmed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream.common.serialization import SerializationSchema
from flintstream.connectors.backoff import Backoff
from flintstream.connectors.rabbitmq.connection import Connection, RabbitMqError, driver, is_temporary
from flintstream.connectors.rabbitmq.options import RMQConnectionConfig
from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.base import Operator

IN_FLIGHT = 5000
"""The most unconfirmed messages."""
_PERSISTENT = 2


class Publisher:
    """Publishes to a queue, and tracks unconfirmed messages."""

    def __init__(self, config: RMQConnectionConfig, queue: str) -> None:
        self._queue = queue
        self._properties = driver().BasicProperties(delivery_mode=_PERSISTENT)
        self._next_tag = 1
        self._confirmed_to = 0
        self._open: dict[int, bytes] = {}
        """The messages that are not confirmed, by their delivery tags, in order."""
        self._back: list[bytes] = []
        """The messages returned because there was no queue."""
        self._done: Callable[[Any], None] = _nobody
        self._connection = Connection(config)
        try:
            self._connection.declare(queue)
            self._connection.channel.add_on_return_callback(self._returned)
            self._connection.call("confirm.select", self._select_confirms)
        except BaseException:
            self._connection.close()
            raise

    def publish(self, bodies: list[bytes]) -> None:
        """Publishes messages; returns when the server has confirmed all of them."""
        self._connection.call("the messages published", lambda channel, done: self._send(channel, bodies, done))

    @property
    def unconfirmed(self) -> list[bytes]:
        """Returns the messages that may not have arrived."""
        return self._back + list(self._open.values())

    def close(self) -> None:
        """Disconnects."""
        self._connection.close()

    # --- on the connection's thread ---

    def _select_confirms(self, channel: Any, done: Callable[[Any], None]) -> None:
        channel.confirm_delivery(self._confirmed, callback=done)

    def _send(self, channel: Any, bodies: list[bytes], done: Callable[[Any], None]) -> None:
        # All of them are noted first: if the channel fails on the way, none of the rest has arrived.
        self._open = dict(enumerate(bodies, self._next_tag))
        self._next_tag += len(bodies)
        self._done = done
        for body in bodies:
            channel.basic_publish("", self._queue, body, self._properties, mandatory=True)

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        if type(method).__name__ == "Nack":
            self._done(RabbitMqError(f"the server could not take a message for queue {self._queue!r}"))
            return
        for tag in range(self._confirmed_to + 1 if method.multiple else method.delivery_tag, method.delivery_tag + 1):
            self._open.pop(tag, None)
        if method.multiple:
            self._confirmed_to = method.delivery_tag
        if not self._open:
            self._done(None)

    def _returned(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._back.append(body)  # Its confirm follows, although it is in no queue.
        self._done(RabbitMqError(f"queue {self._queue!r} is gone: {method.reply_text}"))


class RabbitMqSinkOperator(Operator):
    """Has the records of a block confirmed before it takes the next one: nothing waits at a checkpoint.

    What was not confirmed is published again for `retry_timeout_ms`: at least once.
    """

    takes_declared_types = True

    def __init__(
        self, config: RMQConnectionConfig, queue: str, schema: SerializationSchema, retry_timeout_ms: int
    ) -> None:
        self._config = config
        self._queue = queue
        self._schema = capture(schema)
        recovers = config.is_automatic_recovery() is not False
        self._retry_seconds = retry_timeout_ms / 1000 if recovers else 0.0

    def open(self) -> None:
        self._publisher: Publisher | None = None
        self._schema = unwrapped(self._schema)
        try:
            self._schema.open()
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error
        try:
            self._publisher = Publisher(self._config, self._queue)
        except Exception as error:
            raise self._fault(error) from error

    def process(self, batch: Batch) -> None:
        bodies = self._serialized(batch.values)
        for start in range(0, len(bodies), IN_FLIGHT):
            self._publish(bodies[start : start + IN_FLIGHT])

    def finish(self) -> None:
        """Does nothing: a sink has no output."""

    def close(self) -> None:
        self._disconnect()

    def _serialized(self, values: list[Any]) -> list[bytes]:
        try:
            bodies = self._schema.serialize_block(values)
        except Exception:
            for value in values:  # One by one: it turns out which one is at fault.
                try:
                    self._schema.serialize(value)
                except Exception as error:
                    raise user_fault(error, self.context.name, self.context.subtask, value) from error
            raise
        return [body for body in bodies if body is not None]

    def _publish(self, bodies: list[bytes]) -> None:
        interval = self._config.get_network_recovery_interval()
        backoff = Backoff(self._retry_seconds, None if interval is None else interval / 1000)
        while True:
            try:
                if self._publisher is None:
                    self._publisher = Publisher(self._config, self._queue)
                self._publisher.publish(bodies)
                return
            except Exception as error:
                if not is_temporary(error):
                    raise self._fault(error) from error
                publisher = self._publisher
                self._disconnect()  # From now on nothing is confirmed.
                if publisher is not None:
                    bodies = publisher.unconfirmed or bodies
                if not backoff.wait():
                    raise self._fault(error, waited=True) from error

    def _fault(self, error: Exception, waited: bool = False) -> UserCodeError:
        """Returns the error that names the operator, the server and the queue."""
        told = f"{self._config}, queue {self._queue!r}: {type(error).__name__}: {error}"
        if waited:
            told += f"\nTried again for {self._retry_seconds:g} seconds (retry_timeout_ms)."
        return user_fault(RabbitMqError(told), self.context.name, self.context.subtask)

    def _disconnect(self) -> None:
        publisher, self._publisher = getattr(self, "_publisher", None), None
        if publisher is not None:
            publisher.close()


def _nobody(result: Any) -> None:
    """Nobody waits."""
