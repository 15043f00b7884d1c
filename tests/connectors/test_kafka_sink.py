"""KafkaSink and FlinkKafkaProducer without transactions: what is written, and what is told when it cannot be."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flintstream.common import Row, Types
from flintstream.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
    TypeInformationSerializationSchema,
)
from flintstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaTopicSelector,
    Semantic,
)
from flintstream.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flintstream.datastream.formats.csv import CsvRowSerializationSchema
from flintstream.datastream.formats.json import JsonRowSerializationSchema
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .kafka import PASSWORD, SASL_PLAINTEXT, SASL_SSL, SSL, USER, KafkaServer
from .topics import Topic

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.

JAAS = 'org.apache.kafka.common.security.{} required username="{}" password="{}";'
WORD_AND_COUNT = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()])
AVRO = (
    '{"type": "record", "name": "count", "fields": [{"name": "word", "type": "string"}, {"name": "n", "type": "int"}]}'
)


def schema(topic: Topic | None = None, value: SerializationSchema | None = None) -> Any:
    builder = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(value or SimpleStringSchema())
    return builder if topic is None else builder.set_topic(topic.name)


def sink(
    servers: str,
    serializer: Any,
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
    properties: dict[str, str] | None = None,
) -> KafkaSink:
    builder = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(serializer.build())
    builder.set_delivery_guarantee(guarantee)
    for key, value in (properties or {}).items():
        builder.set_property(key, value)
    return builder.build()


def harness(sink: Any, **place: Any) -> OneInputOperatorHarness:
    return OneInputOperatorHarness(sink.create_operator(None), **place)


def write(sink: Any, *records: Any) -> None:
    with harness(sink) as running:
        running.process_elements(list(records))
        running.end_input()


@pytest.fixture
def topic(kafka: KafkaServer) -> Topic:
    return Topic(kafka)


def test_a_checkpoint_waits_until_all_records_are_delivered(kafka: KafkaServer, topic: Topic) -> None:
    with harness(sink(kafka.bootstrap(), schema(topic), properties={"linger.ms": "60000"})) as running:
        running.process_elements(["a", "b"])
        running.end_epoch()
        assert topic.values() == []
        running.snapshot(1)
        assert topic.values() == ["a", "b"]


def test_without_a_guarantee_a_checkpoint_does_not_wait_and_the_end_does(kafka: KafkaServer, topic: Topic) -> None:
    none = sink(kafka.bootstrap(), schema(topic), DeliveryGuarantee.NONE, {"linger.ms": "60000"})
    with harness(none) as running:
        running.process_elements(["a", "b"])
        running.snapshot(1)
        assert topic.values() == []
        running.end_input()
        assert topic.values() == ["a", "b"]


def test_records_have_keys_timestamps_and_headers(kafka: KafkaServer, topic: Topic) -> None:
    full = (
        schema(topic)
        .set_key_serialization_schema(Initial())
        .set_header_provider(lambda word: {"length": str(len(word)).encode()} if len(word) > 1 else None)
    )
    with harness(sink(kafka.bootstrap(), full)) as running:
        running.process_element("abc", 1_700_000_000_000)
        running.process_element("d")
        running.snapshot(1)
    first, second = topic.records()
    assert (first.key, first.value, first.timestamp) == (b"a", b"abc", 1_700_000_000_000)
    assert first.headers == (("length", b"3"),)
    assert (second.key, second.value, second.headers) == (b"d", b"d", ())
    assert second.timestamp > 1_700_000_000_000


class Initial(SerializationSchema):
    def serialize(self, element: Any) -> bytes | None:
        return element[:1].encode()


class Tombstones(SerializationSchema):
    def serialize(self, element: Any) -> bytes | None:
        return None


def test_a_value_of_none_is_a_tombstone(kafka: KafkaServer, topic: Topic) -> None:
    write(sink(kafka.bootstrap(), schema(topic, Tombstones()).set_key_serialization_schema(Initial())), "gone")
    (record,) = topic.records()
    assert (record.key, record.value) == (b"g", None)


class ByInitial(KafkaTopicSelector):
    def __init__(self, topics: dict[str, str]) -> None:
        self._topics = topics

    def apply(self, data: Any) -> str:
        return self._topics[data[0]]


@pytest.mark.parametrize("as_function", [True, False])
def test_a_selector_says_the_topic(kafka: KafkaServer, as_function: bool) -> None:
    topics = {"a": Topic(kafka), "b": Topic(kafka)}
    selector = ByInitial({initial: topic.name for initial, topic in topics.items()})
    write(
        sink(kafka.bootstrap(), schema().set_topic_selector(selector.apply if as_function else selector)),
        *("a1", "b1", "a2"),
    )
    assert topics["a"].values() == ["a1", "a2"]
    assert topics["b"].values() == ["b1"]


class BySubtask(KafkaPartitioner):
    def open(self, parallel_instance_id: int, parallel_instances: int) -> None:
        self._place = parallel_instance_id, parallel_instances

    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: list[int]
    ) -> int:
        assert (key, value, partitions) == (None, record.encode(), [0, 1, 2])
        return partitions[self._place[0]]


def test_a_partitioner_says_the_partition(kafka: KafkaServer) -> None:
    topic = Topic(kafka, partitions=3)
    chosen = sink(kafka.bootstrap(), schema(topic).set_partitioner(BySubtask()))
    for subtask in range(2):
        with harness(chosen, parallelism=2, subtask=subtask) as running:
            running.process_elements([f"a{subtask}", f"b{subtask}"])
            running.snapshot(1)
    assert [(record.partition, record.value) for record in topic.records()] == [
        *((0, b"a0"), (0, b"b0")),
        *((1, b"a1"), (1, b"b1")),
    ]


def test_equal_keys_go_to_the_partition_to_which_javas_client_sends_them(kafka: KafkaServer) -> None:
    """By Kafka's murmur2, modulo the partitions; aiokafka has it, too."""
    from aiokafka.partitioner import murmur2

    topic = Topic(kafka, partitions=3)
    words = [chr(number) for number in range(ord("a"), ord("z"))]
    write(sink(kafka.bootstrap(), schema(topic).set_key_serialization_schema(Initial())), *words)
    found = {record.value.decode(): record.partition for record in topic.records()}
    assert found == {word: (murmur2(word.encode()) & 0x7FFFFFFF) % 3 for word in words}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (JsonRowSerializationSchema.builder().with_type_info(WORD_AND_COUNT).build(), b'{"word":"to","n":2}'),
        (CsvRowSerializationSchema.Builder(WORD_AND_COUNT).build(), b"to,2\n"),
        (AvroRowSerializationSchema(avro_schema_string=AVRO), AvroRowDeserializationSchema(avro_schema_string=AVRO)),
        (TypeInformationSerializationSchema(WORD_AND_COUNT), TypeInformationSerializationSchema(WORD_AND_COUNT)),
    ],
    ids=["json", "csv", "avro", "typed"],
)
def test_rows_are_written_in_the_formats_that_there_are(
    kafka: KafkaServer, topic: Topic, value: SerializationSchema, expected: bytes | DeserializationSchema
) -> None:
    write(sink(kafka.bootstrap(), schema(topic, value)), Row(word="to", n=2))
    (record,) = topic.records()
    if isinstance(expected, bytes):
        assert record.value == expected
    else:
        assert expected.deserialize(record.value) == Row(word="to", n=2)


def test_more_records_than_the_buffer_holds_wait_for_room(kafka: KafkaServer, topic: Topic) -> None:
    small = {"queue.buffering.max.messages": "7", "linger.ms": "0"}
    words = [f"word {number:04}" for number in range(1000)]
    write(sink(kafka.bootstrap(), schema(topic), properties=small), *words)
    assert [record.value.decode() for record in topic.records()] == words


def test_a_full_buffer_that_nobody_empties_is_told(kafka: KafkaServer, topic: Topic) -> None:
    small = {"queue.buffering.max.messages": "7", "max.block.ms": "500"}
    with harness(sink(kafka.bootstrap(), schema(topic), properties=small)) as running:
        running.process_elements(["before"])
        running.snapshot(1)
        message = rf"Kafka at {kafka.bootstrap()} has taken no record for 0.5 s \(max.block.ms\): 7 wait"
        with kafka.paused(), pytest.raises(UserCodeError, match=message):
            running.process_elements([f"word {number}" for number in range(20)])


def test_a_record_that_is_not_delivered_fails_the_job_with_topic_partition_and_reason(
    kafka: KafkaServer, topic: Topic
) -> None:
    with harness(sink(kafka.bootstrap(), schema(topic), properties={"message.max.bytes": "4000000"})) as running:
        running.process_elements(["x" * 3_000_000])
        message = rf"a record for topic '{topic.name}', partition 0 was not delivered: MSG_SIZE_TOO_LARGE"
        with pytest.raises(UserCodeError, match=message):
            running.snapshot(1)


def test_an_unknown_topic_is_told_at_once_where_it_is_fixed(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flintstream.connectors.kafka import producer

    monkeypatch.setattr(producer, "_TOPIC_SECONDS", 0.5)
    unknown = sink(kafka.bootstrap(), schema().set_topic("nowhere"))
    with pytest.raises(UserCodeError, match=rf"Kafka at {kafka.bootstrap()} has no topic 'nowhere': create it first"):
        harness(unknown).open()


def test_an_unknown_topic_of_a_selector_fails_the_job(kafka: KafkaServer) -> None:
    quick = {"delivery.timeout.ms": "2000", "topic.metadata.propagation.max.ms": "500"}
    unknown = sink(kafka.bootstrap(), schema().set_topic_selector(lambda word: "nowhere"), properties=quick)
    with (
        harness(unknown) as running,
        pytest.raises(UserCodeError, match="a record for topic 'nowhere' was not delivered"),
    ):
        running.process_elements(["a"])
        running.snapshot(1)


def test_a_record_that_cannot_be_serialised_is_named(kafka: KafkaServer, topic: Topic) -> None:
    with harness(sink(kafka.bootstrap(), schema(topic))) as running, pytest.raises(UserCodeError) as failed:
        running.process_elements(["a", "b", 3, "d"])
    assert failed.value.fault.record == "3"
    assert "SimpleStringSchema writes strings, not 3 (int)" in failed.value.fault.summary


def test_a_broker_that_is_not_there_is_told_with_its_address(kafka: KafkaServer, topic: Topic) -> None:
    away = sink("127.0.0.1:9", schema(topic), properties={"max.block.ms": "500"})
    message = r"Kafka at 127.0.0.1:9 could not be reached within 0.5 s: .*127.0.0.1:9 failed: Connection refused"
    with pytest.raises(UserCodeError, match=message):
        harness(away).open()


# --- security ---


def secured(kafka: KafkaServer, listener: str, mechanism: str = "", password: str = PASSWORD) -> dict[str, str]:
    """The properties of a client of a listener, as users of Java's client write them."""
    properties = {"security.protocol": listener}
    if listener in (SSL, SASL_SSL):
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(kafka.authority)}
    if mechanism:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        properties |= {"sasl.mechanism": mechanism, "sasl.jaas.config": JAAS.format(module, USER, password)}
    return properties


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [(SSL, ""), (SASL_PLAINTEXT, "PLAIN"), (SASL_PLAINTEXT, "SCRAM-SHA-256"), (SASL_SSL, "SCRAM-SHA-256")],
)
def test_records_are_written_by_every_security_protocol(
    kafka: KafkaServer, topic: Topic, listener: str, mechanism: str
) -> None:
    secure = sink(kafka.bootstrap(listener), schema(topic), properties=secured(kafka, listener, mechanism))
    write(secure, "a")
    assert topic.values() == ["a"]


def test_a_wrong_password_is_told_at_once_and_not_shown(kafka: KafkaServer, topic: Topic) -> None:
    properties = secured(kafka, SASL_PLAINTEXT, "PLAIN", "wrong one")
    with pytest.raises(UserCodeError, match=": _AUTHENTICATION: .*Authentication failed") as failed:
        harness(sink(kafka.bootstrap(SASL_PLAINTEXT), schema(topic), properties=properties)).open()
    assert "wrong one" not in str(failed.value)


def test_a_broker_with_an_unknown_certificate_is_refused(kafka: KafkaServer, topic: Topic) -> None:
    distrusted = sink(kafka.bootstrap(SSL), schema(topic), properties={"security.protocol": "SSL"})
    with pytest.raises(UserCodeError, match=": _SSL: .*certificate verify failed"):
        harness(distrusted).open()


# --- FlinkKafkaProducer ---


def test_a_flink_kafka_producer_writes_values_to_one_topic(kafka: KafkaServer, topic: Topic) -> None:
    producer = FlinkKafkaProducer(topic.name, ByteArraySchema(), {"bootstrap.servers": kafka.bootstrap()})
    with harness(producer) as running:
        running.process_element(b"a", 1000)
        running.snapshot(1)
    (record,) = topic.records()
    assert (record.key, record.value) == (None, b"a")
    assert record.timestamp > 1000


def test_a_flink_kafka_producer_writes_timestamps_if_asked_to(kafka: KafkaServer, topic: Topic) -> None:
    producer = FlinkKafkaProducer(topic.name, SimpleStringSchema(), {"bootstrap.servers": kafka.bootstrap()})
    with harness(producer.set_write_timestamp_to_kafka(True)) as running:
        running.process_element("a", 1000)
        running.snapshot(1)
    assert [record.timestamp for record in topic.records()] == [1000]


def test_a_flink_kafka_producer_logs_failures_if_asked_to(
    kafka: KafkaServer, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {"bootstrap.servers": kafka.bootstrap(), "message.max.bytes": "4000000"}
    producer = FlinkKafkaProducer(topic.name, SimpleStringSchema(), properties).set_log_failures_only(True)
    with harness(producer) as running, caplog.at_level(logging.ERROR):
        running.process_elements(["x" * 3_000_000, "a"])
        running.snapshot(1)
    assert topic.values() == ["a"]
    assert f"a record for topic '{topic.name}', partition 0 was not delivered" in caplog.text


@pytest.mark.parametrize(
    ("semantic", "flushes", "seen"),
    [(Semantic.AT_LEAST_ONCE, None, ["a"]), (Semantic.AT_LEAST_ONCE, False, []), (Semantic.NONE, None, [])],
)
def test_a_flink_kafka_producer_flushes_at_checkpoints_unless_told_otherwise(
    kafka: KafkaServer, topic: Topic, semantic: Semantic, flushes: bool | None, seen: list[str]
) -> None:
    properties = {"bootstrap.servers": kafka.bootstrap(), "linger.ms": "60000"}
    producer = FlinkKafkaProducer(topic.name, SimpleStringSchema(), properties, semantic=semantic)
    if flushes is not None:
        producer.set_flush_on_checkpoint(flushes)
    with harness(producer) as running:
        running.process_element("a")
        running.snapshot(1)
        assert topic.values() == seen
