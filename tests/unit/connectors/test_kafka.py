"""Kafka without a broker: properties, builders, transactional ids."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from flintstream.common.serialization import SimpleStringSchema
from flintstream.connectors.kafka.properties import client_settings
from flintstream.connectors.kafka.security import client_arguments
from flintstream.connectors.kafka.transactional_ids import TransactionalIds
from flintstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    Semantic,
)

SERVERS = {"bootstrap.servers": "kafka1:9092,kafka2:9092"}
MODULES = "org.apache.kafka.common.security"


def translated(**properties: Any) -> dict[str, Any]:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    settings = client_settings(SERVERS | given, "KafkaSink")
    assert settings.pop("bootstrap.servers") == SERVERS["bootstrap.servers"]
    return settings


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("acks", "1", {"acks": "1"}),
        ("linger.ms", "100", {"linger.ms": "100"}),
        ("enable.idempotence", True, {"enable.idempotence": "true"}),
        ("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer", {}),
        ("buffer.memory", "33554432", {"queue.buffering.max.kbytes": 32768}),
        ("max.request.size", "1000", {"message.max.bytes": "1000"}),
        ("max.block.ms", "1000", {}),
        ("send.buffer.bytes", "-1", {}),
        ("send.buffer.bytes", "65536", {"socket.send.buffer.bytes": "65536"}),
        ("ssl.endpoint.identification.algorithm", "", {"ssl.endpoint.identification.algorithm": "none"}),
        ("ssl.endpoint.identification.algorithm", "HTTPS", {"ssl.endpoint.identification.algorithm": "https"}),
        ("ssl.truststore.certificates", "PEM", {"ssl.ca.pem": "PEM"}),
        ("statistics.interval.ms", "1000", {"statistics.interval.ms": "1000"}),
    ],
)
def test_properties_have_the_names_of_librdkafka(name: str, value: Any, expected: dict[str, Any]) -> None:
    assert client_settings(SERVERS | {name: value}, "KafkaSink") == SERVERS | expected


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        (f'{MODULES}.plain.PlainLoginModule required username="ann" password="s3";', "ann", "s3"),
        (f"{MODULES}.scram.ScramLoginModule  required\n username='ann'\n password='it is';", "ann", "it is"),
        (f"{MODULES}.plain.PlainLoginModule required username=ann password=s3 ;", "ann", "s3"),
        (f'{MODULES}.plain.PlainLoginModule required password="a \\"b\\" = ;c" username="ann"', "ann", 'a "b" = ;c'),
    ],
)
def test_the_user_is_read_from_the_log_in_module(text: str, user: str, password: str) -> None:
    assert translated(sasl_jaas_config=text) == {"sasl.username": user, "sasl.password": password}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sasl.jaas.config", "secret", "'sasl.jaas.config': expected '<login module> required"),
        ("sasl.jaas.config", "com.sun.Krb5LoginModule required secret=1;", "Krb5LoginModule is not supported"),
        ("sasl.jaas.config", "a.PlainLoginModule required password=secret;", "no username or no password"),
        (
            "partitioner.class",
            "Mine",
            "'partitioner.class' is not supported: it names a Java class: use set_partitioner",
        ),
        ("ssl.truststore.location", "/a/b.jks", r"'/a/b.jks' is a Java trust store \(JKS\)"),
        ("ssl.keystore.location", "/a/b.jks", r"'/a/b.jks' is a Java key store \(JKS\)"),
        ("bootstrap.servers", "kafka", "bootstrap.servers: expected host:port, got 'kafka'"),
        ("bootstrap.servers", " ", "bootstrap.servers is not set"),
    ],
)
def test_what_cannot_be_translated_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        client_settings(SERVERS | {name: value}, "KafkaSink")
    assert "secret" not in str(refused.value)


def test_stores_of_certificates_are_pem_or_pkcs12() -> None:
    assert translated(ssl_truststore_location="/a.pem") == {"ssl.ca.location": "/a.pem"}
    assert translated(ssl_truststore_location="/a", ssl_truststore_type="PEM") == {"ssl.ca.location": "/a"}
    assert translated(ssl_keystore_location="/a.pem", ssl_key_password="p") == {
        "ssl.certificate.location": "/a.pem",
        "ssl.key.location": "/a.pem",
        "ssl.key.password": "p",
    }
    assert translated(ssl_keystore_location="/a.p12", ssl_keystore_password="p") == {
        "ssl.keystore.location": "/a.p12",
        "ssl.keystore.password": "p",
    }


def test_the_other_client_is_told_the_same() -> None:
    settings = {"bootstrap.servers": "a:1, b:2", "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}
    assert client_arguments({**settings, "sasl.username": "ann", "sasl.password": "p"}) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "p",
    }


# --- builders ---


def builder(guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE, **properties: str) -> KafkaSinkBuilder:
    schema = KafkaRecordSerializationSchema.builder().set_topic("words")
    made = KafkaSink.builder().set_bootstrap_servers("kafka:9092").set_delivery_guarantee(guarantee)
    made.set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        made.set_transactional_id_prefix("words")
    for name, value in properties.items():
        made.set_property(name.replace("_", "."), value)
    return made


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"no_such": "1"}, 'KafkaSink: No such configuration property: "no.such"'),
        ({"acks": "many"}, 'Invalid value for configuration property "request.required.acks"'),
        ({"transactional_id": "mine"}, "transactional.id is the sink's own affair"),
        ({"max_block_ms": "soon"}, "'max.block.ms' must be a number of milliseconds, got 'soon'"),
        ({"delivery_timeout_ms": "-1"}, "'delivery.timeout.ms' must not be negative"),
    ],
)
def test_wrong_properties_are_refused_when_the_sink_is_built(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        builder(**properties).build()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"acks": "1"}, "`acks` must be set to `all`"),
        ({"enable_idempotence": "false"}, "requires `enable.idempotence=true`"),
        ({"transaction_timeout_ms": "10"}, "transaction.timeout.ms must be at least 1000, got 10"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "not with GSSAPI"),
        ({"security_protocol": "SSL", "ssl_keystore_location": "/a.p12"}, "does not work with ssl.keystore.location"),
    ],
)
def test_what_exactly_once_cannot_do_is_refused_when_the_sink_is_built(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        builder(DeliveryGuarantee.EXACTLY_ONCE, **properties).build()


def test_exactly_once_needs_a_prefix_and_a_sink_a_serialiser() -> None:
    without = KafkaSink.builder().set_bootstrap_servers("kafka:9092")
    with pytest.raises(ValueError, match="no record serializer: call set_record_serializer"):
        without.build()
    with pytest.raises(ValueError, match="EXACTLY_ONCE needs set_transactional_id_prefix"):
        builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    with pytest.raises(ValueError, match="bootstrap.servers is not set"):
        without.set_bootstrap_servers("").set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic("words")
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        ).build()


def test_a_schema_needs_a_topic_and_a_value() -> None:
    with pytest.raises(ValueError, match="No topic selector is found"):
        KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema()).build()
    with pytest.raises(ValueError, match="No value serializer is found"):
        KafkaRecordSerializationSchema.builder().set_topic("words").build()
    with pytest.raises(TypeError, match="topic_selector must be KafkaTopicSelector or a callable"):
        KafkaRecordSerializationSchema.builder().set_topic_selector("words")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is made by KafkaRecordSerializationSchema.builder"):
        KafkaRecordSerializationSchema()


@pytest.mark.parametrize("guarantee", [*DeliveryGuarantee])
def test_a_missing_package_is_told_with_what_to_install(
    guarantee: DeliveryGuarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "aiokafka" if guarantee is DeliveryGuarantee.EXACTLY_ONCE else "confluent_kafka"
    monkeypatch.setitem(sys.modules, missing, None)
    message = rf"KafkaSink needs the Python package {missing.replace('_', '-')}, .* pip install 'flintstream\[kafka\]'"
    with pytest.raises(ImportError, match=message):
        builder(guarantee).build()


def test_a_flink_kafka_producer_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match=r"FlinkKafkaProducer: No such configuration property"):
        FlinkKafkaProducer("words", SimpleStringSchema(), {**SERVERS, "no.such": "1"})
    with pytest.raises(TypeError, match="semantic: expected a Semantic"):
        FlinkKafkaProducer("words", SimpleStringSchema(), SERVERS, semantic="NONE")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="serialization_schema: expected a SerializationSchema"):
        FlinkKafkaProducer("words", str, SERVERS)  # type: ignore[arg-type]
    assert FlinkKafkaProducer("words", SimpleStringSchema(), SERVERS, 5, Semantic.EXACTLY_ONCE).create_operator(None)


def test_files_of_the_slots_need_not_be_on_the_machine_that_builds_the_graph() -> None:
    files = {"ssl_truststore_location": "/nowhere/ca.pem", "ssl_keystore_location": "/nowhere/me.pem"}
    for guarantee in DeliveryGuarantee:
        assert builder(guarantee, security_protocol="SSL", **files).build()


def test_passwords_are_not_shown() -> None:
    text = f'{MODULES}.plain.PlainLoginModule required username="ann" password="s3cret";'
    operator = builder(sasl_jaas_config=text).build().create_operator(None)
    assert "s3cret" not in repr(vars(operator))


# --- transactional ids ---


def test_an_id_is_used_again_when_its_transaction_is_committed() -> None:
    ids = TransactionalIds("words", "0123456789abcdef", "fedcba9876543210", 7)
    assert [ids.take() for _ in range(3)] == [f"words-0123456789ab-fedcba98-7-{number}" for number in range(3)]
    ids.release("words-0123456789ab-fedcba98-7-1")
    ids.release("words-0123456789ab-fedcba98-5-0")
    assert [ids.take() for _ in range(2)] == [f"words-0123456789ab-fedcba98-7-{number}" for number in (1, 3)]


def test_the_subtask_of_an_id_is_told_and_those_of_others_are_not() -> None:
    ids = TransactionalIds("words", "0123456789abcdef", "fedcba9876543210", 0)
    assert ids.subtask_of("words-0123456789ab-fedcba98-12-3") == 12
    assert ids.subtask_of("words-0123456789ab-fedcba98-12") is None
    assert ids.subtask_of("words-0123456789ab-99999999-12-3") is None
