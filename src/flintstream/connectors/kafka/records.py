"""Serialises records for Kafka: topic, key, value, partition, headers and timestamp, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flintstream.common.serialization import SerializationSchema
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import bound_method

Headers = Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None
ANY_PARTITION = -1
NOW = 0
"""The timestamp of a record without one: the producer uses its clock."""


class KafkaTopicSelector(ABC):
    """Selects the topic of a record.

    Example::

        class ByCategory(KafkaTopicSelector):
            def apply(self, data):
                return f"orders-{data['category']}"
    """

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Returns the name of the topic."""


class KafkaPartitioner(ABC):
    """Selects the partition of a record, by the names of Flink's Java interface.

    Example::

        class BySize(KafkaPartitioner):
            def partition(self, record, key, value, target_topic, partitions):
                return partitions[len(value) % len(partitions)]
    """

    def open(self, parallel_instance_id: int, parallel_instances: int) -> None:
        """Called once in the slot, with the index of the subtask and the parallelism."""

    @abstractmethod
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: list[int]
    ) -> int:
        """Returns one of the partitions."""


@dataclass
class Columns:
    """The Kafka records of a batch, column by column; None stands for the same in each row."""

    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    timestamps: list[int] | None = None
    topics: list[str] | None = None
    partitions: list[int] | None = None
    headers: list[Any] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there are only values, for one topic."""
        others = (self.keys, self.timestamps, self.topics, self.partitions, self.headers)
        return all(column is None for column in others)


@dataclass
class RecordSerializer:
    """Serialises batches. Created on the driver, and opened in a slot."""

    value: SerializationSchema
    topic: str | None = None
    """The topic; None if a selector selects it."""
    topic_selector: Any = None
    key: SerializationSchema | None = None
    partitioner: Any = None
    header_provider: Any = None
    writes_timestamps: bool = True

    def open(self, subtask: int, parallelism: int) -> None:
        """Called once, before the first batch."""
        for schema in (self.value, self.key):
            if schema is not None:
                schema.open()
        if isinstance(self.partitioner, KafkaPartitioner):
            self.partitioner.open(subtask, parallelism)

    def columns(self, batch: Batch, partitions_of: Callable[[str], list[int]]) -> Columns:
        """Returns the Kafka records of a batch; `partitions_of` returns the partitions of a topic."""
        records = batch.values
        made = Columns(self.value.serialize_block(records))
        if self.key is not None:
            made.keys = self.key.serialize_block(records)
        if self.writes_timestamps and batch.timestamps is not None:
            made.timestamps = [stamp if stamp > 0 else NOW for stamp in batch.timestamps]
        if self.topic_selector is not None:
            select = bound_method(self.topic_selector, "apply")
            made.topics = [_checked_topic(select(record)) for record in records]
        if self.partitioner is not None:
            made.partitions = self._partitions(records, made, partitions_of)
        if self.header_provider is not None:
            provide = bound_method(self.header_provider, "get_headers")
            made.headers = [_listed(provide(record)) for record in records]
        return made

    def _partitions(self, records: list[Any], made: Columns, partitions_of: Callable[[str], list[int]]) -> list[int]:
        choose = bound_method(self.partitioner, "partition")
        keys = made.keys or [None] * len(records)
        topics = made.topics or [self.topic or ""] * len(records)
        return [
            _checked_partition(choose(record, key, value, topic, partitions_of(topic)), topic)
            for record, key, value, topic in zip(records, keys, made.values, topics)
        ]


def _checked_topic(topic: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"the topic selector must return the name of a topic, got {topic!r}")
    return topic


def _checked_partition(partition: Any, topic: str) -> int:
    if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
        raise ValueError(f"the partitioner must return a partition of topic '{topic}', got {partition!r}")
    return partition


def _listed(headers: Headers) -> list[tuple[str, bytes]] | None:
    pairs: Iterable[tuple[str, bytes]] = headers.items() if isinstance(headers, Mapping) else headers or ()
    return list(pairs) or None
