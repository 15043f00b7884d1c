"""KafkaSource: reads topics of Kafka."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from flintstream.common.serialization import DeserializationSchema
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.kafka.clients import consumer_settings
from flintstream.connectors.kafka.enumerator import KafkaEnumerator
from flintstream.connectors.kafka.errors import check_packages
from flintstream.connectors.kafka.messages import KafkaRecord, RecordDeserializer, ValueOnly, WholeRecord
from flintstream.connectors.kafka.offsets import EARLIEST, Kind, Offsets, Partition, Reset
from flintstream.connectors.kafka.properties import check_settings
from flintstream.connectors.kafka.reader import KafkaReader
from flintstream.connectors.kafka.splits import KafkaSourceOptions, Subscription
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.datastream.io_functions import SourceFunction
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.source import SourceReader, SplitEnumerator

__all__ = [
    "FlinkKafkaConsumer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]

_DISCOVERY_MS = 300_000
"""The interval of partition discovery (milliseconds), as in Flink."""
_REQUEST_MS = 60_000


class KafkaOffsetResetStrategy(Enum):
    """Where to read if an offset is unknown or no longer exists."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2
    """The job fails."""


class KafkaTopicPartition:
    """A partition of a topic: `KafkaTopicPartition("orders", 0)`."""

    def __init__(self, topic: str, partition: int) -> None:
        if not isinstance(topic, str) or not topic:
            raise ValueError(f"KafkaTopicPartition: the topic must be a name, not {topic!r}")
        if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
            raise ValueError(f"KafkaTopicPartition: the partition must be a number from 0, not {partition!r}")
        self.topic = topic
        self.partition = partition

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KafkaTopicPartition):
            return NotImplemented
        return (self.topic, self.partition) == (other.topic, other.partition)

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __repr__(self) -> str:
        return f"KafkaTopicPartition({self.topic!r}, {self.partition})"


class KafkaOffsetsInitializer:
    """The starting or stopping offset of each partition.

    Example::

        KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    """

    def __init__(self, offsets: Offsets) -> None:
        self.rule = offsets

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Returns the committed offsets of the consumer group; a partition without one follows the strategy."""
        return KafkaOffsetsInitializer(Offsets(Kind.COMMITTED, _reset(offset_reset_strategy)))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Returns the first record of each partition with at least this timestamp (milliseconds), or else its end."""
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
            raise ValueError(f"KafkaOffsetsInitializer.timestamp: expected milliseconds since 1970, got {timestamp!r}")
        return KafkaOffsetsInitializer(Offsets(Kind.TIMESTAMP, Reset.LATEST, timestamp=timestamp))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Returns the first record of each partition."""
        return KafkaOffsetsInitializer(EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Returns the end of each partition at its discovery."""
        return KafkaOffsetsInitializer(Offsets(Kind.LATEST, Reset.LATEST))

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Returns these offsets; other partitions have the committed offsets of the group, or follow the strategy."""
        given: dict[Partition, int] = {}
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(f"KafkaOffsetsInitializer.offsets: {partition!r} is no KafkaTopicPartition")
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise ValueError(f"KafkaOffsetsInitializer.offsets: {offset!r}, given for {partition}, is no offset")
            given[Partition(partition.topic, partition.partition)] = offset
        return KafkaOffsetsInitializer(Offsets(Kind.OFFSETS, _reset(offset_reset_strategy), given=given))


class KafkaRecordDeserializationSchema(ABC):
    """Deserialises whole messages: with key, headers, timestamp, topic, partition and offset.

    Example::

        class Keyed(KafkaRecordDeserializationSchema):
            def deserialize(self, record):
                if record.value is not None:
                    yield record.key.decode(), record.value.decode()
    """

    def open(self) -> None:
        """Called once in the slot, before the first message."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Iterable[Any]:
        """Yields any number of records for a message. They have the timestamp of the message."""

    def get_produced_type(self) -> TypeInformation | None:
        """Returns the type of the records; None for any Python objects."""
        return None

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> RecordDeserializer:
        """Deserialises the value only, as `KafkaSourceBuilder.set_value_only_deserializer`."""
        return ValueOnly(deserialization_schema)


class KafkaSource(SplitBasedSource[Any]):
    """Reads topics of Kafka. Each partition is a split, with its own watermark.

    Example::

        source = KafkaSource.builder() \\
            .set_bootstrap_servers("localhost:9092") \\
            .set_topics("orders") \\
            .set_group_id("shop") \\
            .set_starting_offsets(KafkaOffsetsInitializer.earliest()) \\
            .set_value_only_deserializer(SimpleStringSchema()) \\
            .build()
        orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")

    Offsets are part of each checkpoint, from which a restored job reads on. The offsets of the consumer group are committed
    when a checkpoint is complete: only for others to see, and for a later job to begin with.
    """

    def __init__(self, options: KafkaSourceOptions, bounded: bool, discovery_interval: float | None) -> None:
        self._options = options
        self.bounded = bounded
        self.discovery_interval = discovery_interval
        self.discovery_timeout = 10 * options.request_seconds

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """The settings of a source."""
        return KafkaSourceBuilder()

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._options.deserializer.produced_type

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return KafkaEnumerator(self._options)

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        metrics = runtime_context.get_metrics_group()
        return KafkaReader(self._options, runtime_context.get_index_of_this_subtask(), metrics)


class FlinkKafkaConsumer(SourceFunction[Any]):
    """The older name of a source of topics, for `env.add_source`; it is read as a :class:`KafkaSource`.

    Example::

        properties = {"bootstrap.servers": "localhost:9092", "group.id": "shop"}
        orders = env.add_source(FlinkKafkaConsumer("orders", SimpleStringSchema(), properties))

    It starts from the offsets that its group has committed; a partition without one follows the property
    `auto.offset.reset` (latest unless set).
    """

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ) -> None:
        super().__init__()
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeError(f"FlinkKafkaConsumer: {deserialization_schema!r} is no DeserializationSchema")
        if type(deserialization_schema).is_end_of_stream is not DeserializationSchema.is_end_of_stream:
            raise NotImplementedError(
                f"FlinkKafkaConsumer: {type(deserialization_schema).__name__}.is_end_of_stream has no effect: let a "
                "KafkaSource end with set_bounded"
            )
        self._properties = dict(properties)
        interval = self._properties.pop("flink.partition-discovery.interval-millis", "0")
        self._builder = KafkaSource.builder().set_value_only_deserializer(deserialization_schema)
        self._builder.set_topics(*([topics] if isinstance(topics, str) else topics))
        self._builder.set_properties({**self._properties, "partition.discovery.interval.ms": interval})
        self._builder.drops_unsubscribed = True
        self._produced_type = deserialization_schema.get_produced_type()
        self.set_start_from_group_offsets()

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumer:
        """Sets whether the group's offsets are committed when a checkpoint is complete; True by default."""
        self._builder.set_property("commit.offsets.on.checkpoint", str(bool(commit_on_checkpoints)).lower())
        return self

    def set_start_from_earliest(self) -> FlinkKafkaConsumer:
        """Starts from the first record of each partition."""
        return self._start(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> FlinkKafkaConsumer:
        """Starts from the end of each partition."""
        return self._start(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumer:
        """Starts from the first record of each partition with at least this timestamp."""
        return self._start(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumer:
        """Starts from the committed offsets of the group."""
        name = str(self._properties.get("auto.offset.reset", "latest")).upper()
        if name not in KafkaOffsetResetStrategy.__members__:
            raise ValueError(
                f"FlinkKafkaConsumer: auto.offset.reset must be earliest, latest or none, not {name.lower()!r}"
            )
        if "group.id" not in self._properties and name != "NONE":
            return self.set_start_from_earliest() if name == "EARLIEST" else self.set_start_from_latest()
        return self._start(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[name]))

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumer:
        """Keeps reading restored partitions even if their topics are no longer subscribed."""
        self._builder.drops_unsubscribed = False
        return self

    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records."""
        return self._produced_type

    def as_source(self) -> KafkaSource:
        return self._builder.build()

    def _start(self, offsets: KafkaOffsetsInitializer) -> FlinkKafkaConsumer:
        self._builder.set_starting_offsets(offsets)
        return self


class KafkaSourceBuilder:
    """Builds a :class:`KafkaSource`. Required are the servers, the topics or partitions, and a deserialiser."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._subscription: Subscription | None = None
        self._starting = EARLIEST
        self._stopping: Offsets | None = None
        self._bounded = False
        self._deserializer: RecordDeserializer | None = None
        self.drops_unsubscribed = False
        """Whether restored partitions of topics that are no longer read are dropped."""

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Sets the addresses of brokers: `"host1:9092,host2:9092"`."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Sets the consumer group, whose offsets are committed."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Reads these topics."""
        for topic in topics:
            if not isinstance(topic, str) or not topic:
                raise ValueError(f"KafkaSourceBuilder.set_topics: {topic!r} is no name of a topic")
        if not topics:
            raise ValueError("KafkaSourceBuilder.set_topics: expected at least one topic")
        return self._subscribe(Subscription(topics=topics))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Reads all topics whose whole name matches a regular expression, including those created later."""
        try:
            pattern = re.compile(topic_pattern)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"KafkaSourceBuilder.set_topic_pattern: {topic_pattern!r} is no regular expression: {error}"
            ) from error
        return self._subscribe(Subscription(pattern=pattern))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Reads these partitions."""
        given = list(partitions)
        for partition in given:
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(f"KafkaSourceBuilder.set_partitions: {partition!r} is no KafkaTopicPartition")
        if not given:
            raise ValueError("KafkaSourceBuilder.set_partitions: expected at least one partition")
        return self._subscribe(Subscription(partitions=tuple(Partition(each.topic, each.partition) for each in given)))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Sets the starting offsets, unless positions are restored; by default the earliest.

        Partitions that are discovered while the job runs are read from their beginning.
        """
        self._starting = _rule("set_starting_offsets", starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Reads each partition up to an offset, but stays an unbounded source: the job does not end."""
        self._stopping, self._bounded = _rule("set_unbounded", stopping_offsets_initializer), False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Reads each partition up to an offset, and ends."""
        self._stopping, self._bounded = _rule("set_bounded", stopping_offsets_initializer), True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Deserialises the value of each message; those for which the schema returns None are dropped."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeError(
                f"KafkaSourceBuilder.set_value_only_deserializer: {deserialization_schema!r} is no DeserializationSchema"
            )
        self._deserializer = ValueOnly(deserialization_schema)
        return self

    def set_deserializer(
        self, record_deserializer: KafkaRecordDeserializationSchema | RecordDeserializer
    ) -> KafkaSourceBuilder:
        """Deserialises whole messages."""
        if isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            self._deserializer = WholeRecord(record_deserializer, record_deserializer.get_produced_type())
        elif isinstance(record_deserializer, RecordDeserializer):
            self._deserializer = record_deserializer
        else:
            raise TypeError(
                f"KafkaSourceBuilder.set_deserializer: {record_deserializer!r} is no KafkaRecordDeserializationSchema"
            )
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Sets the prefix of the client ids, by which brokers log and measure clients."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Sets a property of Kafka's consumer, or of the source: `partition.discovery.interval.ms` (300000; 0 for never),
        `commit.offsets.on.checkpoint` (true), `client.id.prefix`."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Sets properties, as by :meth:`set_property`."""
        self._properties.update(props)
        return self

    def build(self) -> KafkaSource:
        """The source."""
        check_packages("KafkaSource", "confluent_kafka")
        if self._subscription is None:
            raise ValueError(
                "KafkaSourceBuilder: what to read is missing: call set_topics, set_topic_pattern or set_partitions"
            )
        if self._deserializer is None:
            raise ValueError(
                "KafkaSourceBuilder: how to make records is missing: call set_value_only_deserializer or set_deserializer"
            )
        given = dict(self._properties)
        discovery = _milliseconds(given, "partition.discovery.interval.ms", _DISCOVERY_MS)
        prefix = given.pop("client.id.prefix", None)
        commits = given.pop("commit.offsets.on.checkpoint", None)
        request = _milliseconds(given, "default.api.timeout.ms", _REQUEST_MS)
        group = given.pop("group.id", None)
        given.pop("auto.offset.reset", None)  # The strategy of the starting offsets decides, as in Flink.
        if group is None and str(commits).lower() == "true":
            raise ValueError("KafkaSourceBuilder: commit.offsets.on.checkpoint needs a group: call set_group_id")
        if group is None and self._starting.kind is Kind.COMMITTED:
            raise ValueError("KafkaSourceBuilder: starting from committed offsets needs a group: call set_group_id")
        options = KafkaSourceOptions(
            self._subscription,
            self._starting,
            self._stopping,
            self._deserializer,
            consumer_settings(given, "KafkaSource"),
            group,
            prefix,
            commits=group is not None and str(commits).lower() != "false",
            request_seconds=request / 1000,
            drops_unsubscribed=self.drops_unsubscribed,
        )
        _check_consumer(options)
        looks_again = not self._bounded and discovery > 0
        return KafkaSource(options, self._bounded, discovery / 1000 if looks_again else None)

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise ValueError(
                "KafkaSourceBuilder: set_topics, set_topic_pattern and set_partitions exclude each other: call one of them, "
                "once"
            )
        self._subscription = subscription
        return self


def _check_consumer(options: KafkaSourceOptions) -> None:
    from confluent_kafka import Consumer

    check_settings(options.consumer_config("check"), Consumer, "KafkaSource")


def _reset(strategy: KafkaOffsetResetStrategy) -> Reset:
    if not isinstance(strategy, KafkaOffsetResetStrategy):
        raise TypeError(f"offset_reset_strategy: {strategy!r} is no KafkaOffsetResetStrategy")
    return Reset[strategy.name]


def _rule(what: str, initializer: KafkaOffsetsInitializer) -> Offsets:
    if not isinstance(initializer, KafkaOffsetsInitializer):
        raise TypeError(f"KafkaSourceBuilder.{what}: {initializer!r} is no KafkaOffsetsInitializer")
    return initializer.rule


def _milliseconds(properties: dict[str, str], key: str, default: int) -> int:
    value = properties.pop(key, default)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"KafkaSourceBuilder: {key} must be a number of milliseconds, not {value!r}") from None
