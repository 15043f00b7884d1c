"""The queues of a RabbitMQ server, as a test sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pika

from .rabbitmq import RabbitMqServer


class Queues:
    """Publishes and takes messages beside the job. A lost connection is made anew."""

    def __init__(self, server: RabbitMqServer) -> None:
        self._server = server
        self._connection: Any = None
        self._channel: Any = None
        self._seen: set[str] = set()

    @property
    def channel(self) -> Any:
        """An open channel."""
        if self._connection is None or self._is_lost():
            self._connection = self._server.connect()
            self._channel = self._connection.channel()
            self._channel.tx_select()
        return self._channel

    def _is_lost(self) -> bool:
        try:
            self._connection.process_data_events(0)
        except pika.exceptions.AMQPError:
            return True
        return bool(self._connection.is_closed or self._channel.is_closed)

    def declare(self, queue: str, **arguments: Any) -> None:
        """Makes a queue, durable unless another kind is asked for."""
        self._seen.add(queue)
        self.channel.queue_declare(queue, **{"durable": True, **arguments})

    def publish(self, queue: str, messages: Iterable[tuple[str, str | None]]) -> None:
        """Publishes messages that survive a restart: bodies, with their correlation ids."""
        channel = self.channel
        for body, correlation_id in messages:
            properties = pika.BasicProperties(delivery_mode=2, correlation_id=correlation_id)
            channel.basic_publish("", queue, body.encode(), properties)
        channel.tx_commit()

    def length(self, queue: str) -> int:
        """How many messages are ready."""
        self._seen.add(queue)
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def consumers(self, queue: str) -> int:
        """How many clients want messages."""
        return int(self.channel.queue_declare(queue, passive=True).method.consumer_count)

    def take(self, queue: str, most: int = 1000) -> list[str]:
        """The first messages, which are then gone."""
        self._seen.add(queue)
        found: list[str] = []
        while len(found) < most and (message := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(message[2].decode())
        self.channel.tx_commit()
        return found

    def delete(self, queue: str) -> None:
        """Takes a queue away, with all its messages."""
        self.channel.queue_delete(queue)

    def close(self) -> None:
        """Takes away all queues of the test."""
        for queue in self._seen:
            self.delete(queue)
        self._connection.close()
