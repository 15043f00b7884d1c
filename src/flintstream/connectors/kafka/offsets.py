"""Offsets of partitions: where a source begins to read them, and where it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from flintstream.runtime.source import SourceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Reset(str, Enum):
    """Where to read if an offset is unknown or no longer exists."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class Kind(Enum):
    """How offsets are determined."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True)
class Offsets:
    """Determines an offset for each partition."""

    kind: Kind
    reset: Reset
    timestamp: int = 0
    given: Mapping[Partition, int] = field(default_factory=dict)


EARLIEST = Offsets(Kind.EARLIEST, Reset.EARLIEST)


class OffsetLookup:
    """Resolves offsets with a broker."""

    def __init__(self, admin: AdminClient, consumer: Consumer, has_group: bool, seconds: float) -> None:
        self._admin = admin
        self._consumer = consumer
        self._has_group = has_group
        self._seconds = seconds
        """The timeout of a request (seconds)."""

    def find(self, partitions: Iterable[Partition], rule: Offsets) -> dict[Partition, int]:
        """Returns the offset of each partition."""
        wanted = list(partitions)
        if not wanted:
            return {}
        find: Callable[[list[Partition]], dict[Partition, int]] = {
            Kind.EARLIEST: self._earliest,
            Kind.LATEST: self._latest,
            Kind.COMMITTED: self._committed,
            Kind.TIMESTAMP: lambda partitions: self._at(partitions, rule.timestamp),
            Kind.OFFSETS: lambda partitions: self._given(partitions, rule.given),
        }[rule.kind]
        found = find(wanted)
        missing = [partition for partition in wanted if partition not in found]
        return found | self._reset(missing, rule)

    def _reset(self, partitions: list[Partition], rule: Offsets) -> dict[Partition, int]:
        if not partitions:
            return {}
        if rule.reset is Reset.NONE:
            names = ", ".join(map(str, partitions))
            raise SourceError(
                f"no offset is known of {names}, and the strategy KafkaOffsetResetStrategy.NONE allows no other one: commit "
                "offsets for the group, or start with KafkaOffsetResetStrategy.EARLIEST or LATEST"
            )
        return self._earliest(partitions) if rule.reset is Reset.EARLIEST else self._latest(partitions)

    def _given(self, partitions: list[Partition], given: Mapping[Partition, int]) -> dict[Partition, int]:
        found = {partition: given[partition] for partition in partitions if partition in given}
        # As in Flink, committed offsets of the group take precedence over the strategy.
        return found | self._committed([partition for partition in partitions if partition not in found])

    def _committed(self, partitions: list[Partition]) -> dict[Partition, int]:
        from confluent_kafka import TopicPartition

        if not partitions or not self._has_group:
            return {}
        asked = [TopicPartition(*partition) for partition in partitions]
        answers = self._consumer.committed(asked, timeout=self._seconds)
        for answer in answers:
            if answer.error is not None:
                raise SourceError(f"the committed offset of {answer.topic}-{answer.partition}: {answer.error.str()}")
        return {Partition(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def _earliest(self, partitions: list[Partition]) -> dict[Partition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._list(partitions, OffsetSpec.earliest())

    def _latest(self, partitions: list[Partition]) -> dict[Partition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._list(partitions, OffsetSpec.latest())

    def _at(self, partitions: list[Partition], timestamp: int) -> dict[Partition, int]:
        from confluent_kafka.admin import OffsetSpec

        found = self._list(partitions, OffsetSpec.for_timestamp(timestamp))
        # A partition without a record that late is read from its end.
        return found | self._latest([partition for partition in partitions if partition not in found])

    def _list(self, partitions: list[Partition], spec: object) -> dict[Partition, int]:
        from confluent_kafka import TopicPartition

        if not partitions:
            return {}
        asked = {TopicPartition(*partition): spec for partition in partitions}
        answers = self._admin.list_offsets(asked, request_timeout=self._seconds)
        offsets = {
            Partition(partition.topic, partition.partition): answer.result(self._seconds + 5).offset
            for partition, answer in answers.items()
        }
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}
