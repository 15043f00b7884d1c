"""What brokers and client libraries are relied upon for, and do not promise: a transaction outlives its producer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.waiting import wait_until

from flintstream.connectors.kafka.errors import KafkaConnectorError
from flintstream.connectors.kafka.transactions import KafkaTransaction, Place, TransactionClient

from .kafka import KafkaServer
from .topics import Topic

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.


@dataclass
class Writer:
    """Writes and flushes transactions, whose producers are dropped."""

    kafka: KafkaServer
    topic: Topic
    client: TransactionClient
    prefix: str

    def flushed(self, *values: str, timeout: int = 600_000, name: str = "0") -> KafkaTransaction:
        reports: dict[Any, Any] = {}
        settings = {
            "bootstrap.servers": self.kafka.bootstrap(),
            "transactional.id": f"{self.prefix}-{name}",
            "transaction.timeout.ms": timeout,
            "on_delivery": reports.__setitem__,
        }
        producer = Producer(settings)
        producer.init_transactions(60)
        found = self.client.describe(settings["transactional.id"])
        assert found is not None
        producer.begin_transaction()
        for value in values:
            producer.produce(self.topic.name, value.encode())
        assert producer.flush(60) == 0
        assert [*reports] == [None]
        place = Place(self.topic.name, reports[None].partition(), reports[None].offset())
        return KafkaTransaction(*found[:3], 0, 1, 0, timeout, place)


@pytest.fixture
def writer(kafka: KafkaServer) -> Iterator[Writer]:
    client = TransactionClient({"bootstrap.servers": kafka.bootstrap()}, 60.0)
    yield Writer(kafka, Topic(kafka), client, f"test-{uuid.uuid4().hex[:8]}")
    client.close()


def test_a_transaction_is_open_when_its_producer_is_gone_and_can_be_committed(writer: Writer) -> None:
    transaction = writer.flushed("a", "b")
    assert writer.client.open_ids(writer.prefix) == [transaction.transactional_id]
    assert writer.topic.values() == []
    assert writer.client.commit(transaction)
    writer.topic.wait_for(["a", "b"])


def test_committing_again_is_harmless(writer: Writer) -> None:
    transaction = writer.flushed("a")
    assert [writer.client.commit(transaction) for _ in range(3)] == [True] * 3
    assert writer.client.outcome(transaction) is True
    writer.topic.wait_for(["a"])


def test_each_use_of_an_id_has_an_epoch_of_its_own(writer: Writer) -> None:
    """Otherwise to commit the first transaction again would commit the second one."""
    first = writer.flushed("a")
    assert writer.client.commit(first)
    second = writer.flushed("b")
    assert (second.producer_id, second.epoch) != (first.producer_id, first.epoch)
    assert not writer.client.commit(first)
    assert writer.client.outcome(first) is True
    assert writer.topic.values() == ["a"]
    assert writer.client.commit(second)
    writer.topic.wait_for(["a", "b"])


def test_a_fenced_transaction_is_aborted(writer: Writer) -> None:
    transaction = writer.flushed("a")
    writer.client.fence(transaction.transactional_id)
    assert not writer.client.commit(transaction)
    assert writer.client.outcome(transaction) is False
    assert writer.client.open_ids(writer.prefix) == []
    assert writer.topic.values() == []


def test_a_transaction_that_has_timed_out_is_aborted(writer: Writer) -> None:
    transaction = writer.flushed("a", timeout=1000)
    wait_until(lambda: not writer.client.open_ids(writer.prefix), what="the end of the transaction")
    assert not writer.client.commit(transaction)
    assert writer.client.outcome(transaction) is False


def test_the_end_of_a_transaction_is_told_apart_from_those_of_others(writer: Writer) -> None:
    first, second = writer.flushed("a", "b", name="0"), writer.flushed("c", "d", name="1")
    writer.client.fence(first.transactional_id)
    assert writer.client.commit(second)
    third = writer.flushed("e", name="0")
    assert writer.client.commit(third)
    assert [writer.client.outcome(each) for each in (first, second, third)] == [False, True, True]


def test_of_records_that_are_not_kept_nobody_knows(writer: Writer) -> None:
    from confluent_kafka import TopicPartition

    transaction = writer.flushed("a")
    assert writer.client.commit(transaction)
    writer.topic.wait_for(["a"])
    place = TopicPartition(writer.topic.name, 0, -1)
    writer.kafka.admin.delete_records([place])[place].result(60)
    assert writer.client.outcome(transaction) is None


def test_an_id_that_nobody_has_is_not_found(writer: Writer) -> None:
    assert writer.client.describe(f"{writer.prefix}-9") is None


def test_a_broker_that_does_not_answer_is_told(kafka: KafkaServer) -> None:
    client = TransactionClient({"bootstrap.servers": "127.0.0.1:9"}, 0.5)
    message = "Kafka at 127.0.0.1:9 did not answer within 0.5 s, waiting for the list of open transactions: "
    with pytest.raises(KafkaConnectorError, match=message):
        client.open_ids("test")
    client.close()
