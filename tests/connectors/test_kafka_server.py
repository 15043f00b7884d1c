"""The Kafka broker that the tests of the connector use."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from .kafka import LISTENERS, PASSWORD, SASL_PLAINTEXT, SASL_SSL, SSL, USER, KafkaServer

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.


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
