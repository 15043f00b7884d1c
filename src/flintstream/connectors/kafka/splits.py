"""The settings of a Kafka source: its partitions, offsets and deserialisation; and its splits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.connectors.kafka.offsets import Offsets, Partition

if TYPE_CHECKING:
    from flintstream.connectors.kafka.messages import RecordDeserializer


class KafkaSplit(NamedTuple):
    """A split: a partition and a range of its offsets."""

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
        """Returns whether a topic is subscribed."""
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return topic in self.topics or any(partition.topic == topic for partition in self.partitions)


@dataclass(frozen=True)
class KafkaSourceOptions:
    """The settings of the enumerator and the readers of a source."""

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
    """Whether restored partitions of topics that are no longer read are dropped."""

    @property
    def servers(self) -> str:
        """Returns the addresses of the brokers."""
        return str(self.client["bootstrap.servers"])

    def consumer_config(self, client_id: str) -> dict[str, Any]:
        """Returns the configuration of a consumer with manually assigned partitions."""
        reset = self.starting.reset.value
        return {
            # Java's default; that of this client is read_committed.
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            **self.client,
            # The client requires a group, even if none is used.
            "group.id": self.group_id or "flintstream",
            "client.id": client_id,
            "auto.offset.reset": "error" if reset == "none" else reset,
            "enable.partition.eof": True,
        }
