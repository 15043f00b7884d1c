"""What a Kafka source is told: which partitions it reads, from where to where, and how records are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.connectors.kafka.offsets import Offsets, Partition

if TYPE_CHECKING:
    from flintstream.connectors.kafka.messages import RecordDeserializer


class KafkaSplit(NamedTuple):
    """The content of a split: a partition, and which of its records are read."""

    partition: Partition
    start: int
    stop: int | None
    """The offset before which reading stops; None for never."""


@dataclass(frozen=True)
class Subscription:
    """Topics by name, topics by a pattern, or partitions: one of the three."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    partitions: tuple[Partition, ...] = ()

    def covers(self, topic: str) -> bool:
        """Whether a topic is among them."""
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return topic in self.topics or any(partition.topic == topic for partition in self.partitions)


@dataclass(frozen=True)
class KafkaSourceOptions:
    """Everything that the enumerator and the readers of a source have to know."""

    subscription: Subscription
    starting: Offsets
    stopping: Offsets | None
    deserializer: RecordDeserializer
    client: Mapping[str, Any]
    """The configuration of the client, in its own names."""
    group_id: str | None
    client_id_prefix: str | None
    commits: bool
    """Whether the group's offsets are committed when a checkpoint completes."""
    request_seconds: float
    drops_unsubscribed: bool = False
    """Whether restored partitions of topics that are no longer read are left out."""

    @property
    def servers(self) -> str:
        """Where the brokers are."""
        return str(self.client["bootstrap.servers"])

    def consumer_config(self, client_id: str) -> dict[str, Any]:
        """The configuration of a consumer to which partitions are assigned by hand."""
        reset = self.starting.reset.value
        return {
            # Java's default; that of this client is read_committed.
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            **self.client,
            # The client wants a group even where none takes part in anything.
            "group.id": self.group_id or "flintstream",
            "client.id": client_id,
            "auto.offset.reset": "error" if reset == "none" else reset,
            "enable.partition.eof": True,
        }
