"""The Kafka broker that the tests of the connector use."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from .kafka import LISTENERS, PASSWORD, SASL_PLAINTEXT, SASL_SSL, SSL, USER, KafkaServer

pytestmark = pytest.mark.timeout(600)  # The broker may have to be downloaded first.


def client(kafka: KafkaServer, listener: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    """The properties of a client of a listener."""
    settings = {"bootstrap.servers": kafka.bootstrap(listener), "security.protocol": listener}
    if listener in (SSL, SASL_SSL):
        settings["ssl.ca.location"] = str(kafka.authority)
    if listener in (SASL_PLAINTEXT, SASL_SSL):
        settings |= {"sasl.mechanisms": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    return settings


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_client_reaches_the_broker_by_every_listener(kafka: KafkaServer, listener: str, mechanism: str) -> None:
    topic = kafka.create_topic(partitions=2)
    metadata = AdminClient(client(kafka, listener, mechanism)).list_topics(topic, timeout=60)
    assert len(metadata.topics[topic].partitions) == 2
    kafka.delete_topic(topic)


def test_records_outlive_a_crash_of_the_broker_and_wait_while_it_is_paused(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap(), "log_level": 0})
    producer.produce(topic, b"before")
    assert producer.flush(60) == 0
    address, pid = kafka.bootstrap(), kafka.pid
    kafka.restart(crash=True)
    assert (kafka.bootstrap() == address, kafka.pid == pid) == (True, False)
    with kafka.paused(), pytest.raises(KafkaException):
        kafka.admin.list_topics(timeout=0.2)
    producer.produce(topic, b"after")
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": topic, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consumer.consume(2, 60)] == [b"before", b"after"]
    consumer.close()
