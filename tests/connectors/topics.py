"""What readers see of a topic: by aiokafka, which has nothing in common with what writes it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from tests.waiting import wait_until

from .kafka import KafkaServer

_SECONDS = 60.0


def read(servers: str, topic: str, partitions: int, isolation: str) -> list[ConsumerRecord[Any, Any]]:
    """The records that a reader sees now, partition by partition."""
    return asyncio.run(asyncio.wait_for(_read(servers, topic, partitions, isolation), _SECONDS))


async def _read(servers: str, topic: str, partitions: int, isolation: str) -> list[ConsumerRecord[Any, Any]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
    places = [TopicPartition(topic, number) for number in range(partitions)]
    await consumer.start()
    try:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        # For a reader of committed records, a partition ends at the first open transaction.
        ends = await consumer.end_offsets(places)
        found: list[ConsumerRecord[Any, Any]] = []
        while [place for place in places if await consumer.position(place) < ends[place]]:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found += records
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        await consumer.stop()


class Topic:
    """A new topic of a broker."""

    def __init__(self, kafka: KafkaServer, partitions: int = 1) -> None:
        self._kafka = kafka
        self.partitions = partitions
        self.name = kafka.create_topic(partitions)

    def records(self, isolation: str = "read_committed") -> list[ConsumerRecord[Any, Any]]:
        """The records that a reader sees now, partition by partition."""
        return read(self._kafka.bootstrap(), self.name, self.partitions, isolation)

    def values(self, isolation: str = "read_committed") -> list[str]:
        """The values of what a reader sees now, sorted."""
        return sorted(record.value.decode() for record in self.records(isolation) if record.value is not None)

    def wait_for(self, expected: list[str]) -> None:
        """Waits until readers of committed records see these values, and no others."""
        wait_until(lambda: len(self.values()) >= len(expected), _SECONDS, f"{len(expected)} committed records")
        assert self.values() == sorted(expected)
