"""KafkaSink and the older FlinkKafkaProducer: write records to topics of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, NoReturn, TypeVar

from flintstream.common.java import java_only
from flintstream.common.serialization import SerializationSchema
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.kafka.errors import check_packages
from flintstream.connectors.kafka.exactly_once import ExactlyOnceKafkaOperator, TransactionOptions
from flintstream.connectors.kafka.producer import ProducerOptions
from flintstream.connectors.kafka.properties import Settings, check_settings, client_settings, millis
from flintstream.connectors.kafka.records import KafkaPartitioner, KafkaTopicSelector, RecordSerializer
from flintstream.connectors.kafka.security import check_security
from flintstream.connectors.kafka.sink import KafkaOperator, KafkaSinkOperator, SinkOptions
from flintstream.datastream.connectors.base import DeliveryGuarantee, Sink, StreamTransformer, SupportsPreprocessing
from flintstream.datastream.io_functions import SinkFunction
from flintstream.runtime.operators.base import Operator

__all__ = [
    "FlinkKafkaProducer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "Semantic",
]

_T = TypeVar("_T")
_LONGEST_PREFIX = 64_000
_ANY_TIME = 2**31 - 1
_DEFAULTS: Settings = {
    # Equal keys go to the partition to which Kafka's Java client sends them.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 65_536,
}


class KafkaRecordSerializationSchema(SerializationSchema):
    """Serialises records for Kafka; created by its `builder()`.

    Example::

        KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self, topic_selector: Any = None, serializer: RecordSerializer | None = None) -> None:
        if serializer is None:
            raise TypeError("KafkaRecordSerializationSchema is made by KafkaRecordSerializationSchema.builder()")
        self.serializer = serializer
        self.topic_selector = topic_selector

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Returns a builder without a topic and schemas."""
        return KafkaRecordSerializationSchemaBuilder()

    def serialize(self, element: Any) -> bytes | None:
        """The value of the record."""
        return self.serializer.value.serialize(element)


class KafkaRecordSerializationSchemaBuilder:
    """Settings of a `KafkaRecordSerializationSchema`: a topic and the schema of the value are required.

    Example::

        KafkaRecordSerializationSchema.builder() \\
            .set_topic_selector(lambda row: f"orders-{row['category']}") \\
            .set_key_serialization_schema(SimpleStringSchema()) \\
            .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(order).build()) \\
            .build()
    """

    def __init__(self) -> None:
        self._topic: str | None = None
        self._topic_selector: Any = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._partitioner: Any = None
        self._header_provider: Any = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the topic of all records."""
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"set_topic: expected the name of a topic, got {topic!r}")
        self._topic, self._topic_selector = topic, None
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the selector of the topic of each record: a `KafkaTopicSelector` or a function."""
        if not isinstance(topic_selector, KafkaTopicSelector) and not callable(topic_selector):
            raise TypeError("topic_selector must be KafkaTopicSelector or a callable")
        self._topic, self._topic_selector = None, topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the schema of the key; without one, records have no key."""
        self._key = _checked("set_key_serialization_schema", key_serialization_schema, SerializationSchema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the schema of the value. If it returns None, a tombstone is written, a record without a value."""
        self._value = _checked("set_value_serialization_schema", value_serialization_schema, SerializationSchema)
        return self

    def set_partitioner(
        self, partitioner: KafkaPartitioner | Callable[[Any, bytes | None, bytes | None, str, list[int]], int]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the partitioner: a `KafkaPartitioner`, or a function of record, key, value, topic and the
        topic's partitions. Without one the key says it, as with Kafka's Java client, or chance."""
        if not isinstance(partitioner, KafkaPartitioner) and not callable(partitioner):
            raise TypeError(f"set_partitioner: expected a KafkaPartitioner or a callable, got {partitioner!r}")
        self._partitioner = partitioner
        return self

    def set_header_provider(self, header_provider: Any) -> KafkaRecordSerializationSchemaBuilder:
        """Gives the headers of each record, as a dict or pairs of a name and bytes: a function, or an object with
        `get_headers`."""
        if not callable(header_provider) and not callable(getattr(header_provider, "get_headers", None)):
            raise TypeError(
                f"set_header_provider: expected a callable or an object with get_headers, got {header_provider!r}"
            )
        self._header_provider = header_provider
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema."""
        if self._value is None:
            raise ValueError("No value serializer is found: call set_value_serialization_schema")
        if self._topic is None and self._topic_selector is None:
            raise ValueError("No topic selector is found: call set_topic or set_topic_selector")
        serializer = RecordSerializer(
            self._value, self._topic, self._topic_selector, self._key, self._partitioner, self._header_provider
        )
        return KafkaRecordSerializationSchema(self._topic_selector, serializer)


class KafkaSink(Sink, SupportsPreprocessing):
    """Writes records to topics of Kafka; for `stream.sink_to`.

    Example::

        sink = KafkaSink.builder() \\
            .set_bootstrap_servers("localhost:9092") \\
            .set_record_serializer(
                KafkaRecordSerializationSchema.builder()
                .set_topic("words").set_value_serialization_schema(SimpleStringSchema()).build()
            ) \\
            .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE) \\
            .build()
        words.sink_to(sink)
    """

    def __init__(self, create: Callable[[], KafkaOperator], transformer: StreamTransformer | None = None) -> None:
        self._create = create
        self._transformer = transformer

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Returns a builder without brokers and a serialiser."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> StreamTransformer | None:
        return self._transformer

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        return self._create()


class KafkaSinkBuilder:
    """Settings of a `KafkaSink`. `build` refuses properties that are unknown or incompatible."""

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._schema: KafkaRecordSerializationSchema | None = None
        self._skips_lost = False

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Sets the addresses of brokers: `host:port,host:port`."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Sets the delivery guarantee; `DeliveryGuarantee.NONE` by default."""
        self._guarantee = _checked("set_delivery_guarantee", delivery_guarantee, DeliveryGuarantee)
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Sets the prefix of transactional ids, for exactly once. It should be the same when the job is started again."""
        prefix = _checked("set_transactional_id_prefix", transactional_id_prefix, str)
        if not prefix or len(prefix.encode()) > _LONGEST_PREFIX:
            raise ValueError(
                f"set_transactional_id_prefix: expected 1 to {_LONGEST_PREFIX} bytes, got {len(prefix.encode())}"
            )
        self._prefix = prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Sets how records are serialised."""
        self._schema = _checked("set_record_serializer", record_serializer, KafkaRecordSerializationSchema)
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Sets a property of the producer, by the name that it has in Kafka's Java client, or by librdkafka's."""
        self._properties[_checked("set_property: key", key, str)] = value
        return self

    def ignore_failures_after_transaction_timeout(self) -> KafkaSinkBuilder:
        """A transaction that was aborted before its commit is a line in the log, rather than the end of the job: its
        records are lost."""
        self._skips_lost = True
        return self

    def build(self) -> KafkaSink:
        """The sink."""
        if self._schema is None:
            raise ValueError("KafkaSink: no record serializer: call set_record_serializer")
        exactly_once = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if exactly_once and self._prefix is None:
            raise ValueError(
                "KafkaSink: EXACTLY_ONCE needs set_transactional_id_prefix, with a prefix that no other sink of the Kafka "
                "cluster has"
            )
        options = _producer_options("KafkaSink", self._properties, exactly_once)
        serializer = self._schema.serializer
        if not exactly_once:
            sink_options = SinkOptions(options, flushes=self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE)
            return KafkaSink(partial(KafkaSinkOperator, serializer, sink_options))
        timeout = _transaction_timeout("KafkaSink", self._properties)
        transactions = TransactionOptions(self._prefix, timeout, self._skips_lost)
        return KafkaSink(partial(ExactlyOnceKafkaOperator, serializer, SinkOptions(options), transactions))


class Semantic(Enum):
    """The delivery guarantee of a `FlinkKafkaProducer`.

    Example::

        FlinkKafkaProducer("words", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"}, semantic=Semantic.NONE)
    """

    EXACTLY_ONCE = 0
    """Each record arrives once, also after a failure. Needs checkpoints."""
    AT_LEAST_ONCE = 1
    """Each record arrives; some may arrive again after a failure."""
    NONE = 2
    """Records may be lost or arrive again after a failure."""


class FlinkKafkaProducer(SinkFunction):
    """The older `KafkaSink`, for `stream.add_sink`: values only, to one topic.

    Example::

        words.add_sink(FlinkKafkaProducer("words", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"}))

    :param topic: the topic.
    :param serialization_schema: makes the value of a record.
    :param producer_config: properties of the producer, by their names in Kafka's Java client.
    :param kafka_producer_pool_size: without effect: there are as many producers as transactions that wait.
    :param semantic: what is promised; at least once unless set.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        super().__init__()
        self._semantic = _checked("FlinkKafkaProducer: semantic", semantic, Semantic)
        self._properties = dict(producer_config)
        if isinstance(kafka_producer_pool_size, bool) or not isinstance(kafka_producer_pool_size, int):
            raise TypeError(
                f"FlinkKafkaProducer: kafka_producer_pool_size must be a number, got {kafka_producer_pool_size!r}"
            )
        _producer_options("FlinkKafkaProducer", self._properties, semantic is Semantic.EXACTLY_ONCE)
        schema = _checked("FlinkKafkaProducer: serialization_schema", serialization_schema, SerializationSchema)
        builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
        self._serializer = builder.set_value_serialization_schema(schema).build().serializer
        self._serializer.writes_timestamps = False
        self._flushes = self._semantic is not Semantic.NONE
        self._logs_failures = self._skips_lost = False

    def set_log_failures_only(self, log_failures_only: bool) -> FlinkKafkaProducer:
        """Whether a record that cannot be delivered is a line in the log, rather than a failure of the job. Without effect
        with exactly once."""
        self._logs_failures = bool(log_failures_only)
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducer:
        """Sets whether a checkpoint waits until all records are delivered; if not, nothing is guaranteed."""
        self._flushes = bool(flush_on_checkpoint)
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> FlinkKafkaProducer:
        """Sets whether the timestamps of records are written, too."""
        self._serializer.writes_timestamps = bool(write_timestamp_to_kafka)
        return self

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """A transaction that was aborted before its commit is a line in the log, rather than the end of the job: its
        records are lost."""
        self._skips_lost = True
        return self

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes to Kafka in a slot."""
        exactly_once = self._semantic is Semantic.EXACTLY_ONCE
        logs_failures = self._logs_failures and not exactly_once
        options = _producer_options("FlinkKafkaProducer", self._properties, exactly_once, logs_failures)
        if not exactly_once:
            return KafkaSinkOperator(self._serializer, SinkOptions(options, self._flushes))
        timeout = _transaction_timeout("FlinkKafkaProducer", self._properties)
        transactions = TransactionOptions(None, timeout, self._skips_lost)
        return ExactlyOnceKafkaOperator(self._serializer, SinkOptions(options), transactions)

    def get_java_function(self) -> NoReturn:
        """Not available: there is no Java function."""
        java_only("FlinkKafkaProducer.get_java_function()", "Pass the sink itself.")


def _producer_options(
    what: str, properties: Mapping[str, Any], exactly_once: bool, logs_failures: bool = False
) -> ProducerOptions:
    """Returns the settings of a producer; refuses properties that are unknown or incompatible."""
    check_packages(what, "confluent_kafka", *(["aiokafka"] if exactly_once else []))
    from confluent_kafka import Producer

    if "transactional.id" in properties:
        raise ValueError(f"{what}: transactional.id is the sink's own affair: call set_transactional_id_prefix")
    settings = _DEFAULTS | client_settings(properties, what)
    max_block = millis(properties, "max.block.ms", 60_000, what)
    delivery = millis(properties, "delivery.timeout.ms", 120_000, what)
    settings.setdefault("delivery.timeout.ms", delivery)
    settings.setdefault("enable.idempotence", exactly_once or _can_be_idempotent(settings))
    settings.pop("transaction.timeout.ms", None)
    if exactly_once:
        check_security(settings, what)
    transactional = {"transactional.id": "checked", "transaction.timeout.ms": _ANY_TIME} if exactly_once else {}
    check_settings({**settings, **transactional}, Producer, what)
    return ProducerOptions(settings, max_block / 1000, delivery / 1000, logs_failures)


def _can_be_idempotent(settings: Settings) -> bool:
    """As with Kafka's Java client, a producer is idempotent unless another property speaks against it."""
    acks = str(settings.get("acks", "all"))
    in_flight = int(settings.get("max.in.flight.requests.per.connection", 5))
    return acks in ("all", "-1") and in_flight <= 5 and str(settings.get("retries", "1")) != "0"


def _transaction_timeout(what: str, properties: Mapping[str, Any]) -> int | None:
    if "transaction.timeout.ms" not in properties:
        return None
    timeout = millis(properties, "transaction.timeout.ms", 0, what)
    if timeout < 1000:
        raise ValueError(f"{what}: transaction.timeout.ms must be at least 1000, got {timeout}")
    return timeout


def _checked(what: str, value: _T, kind: type) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"{what}: expected a {kind.__name__}, got {value!r}")
    return value
