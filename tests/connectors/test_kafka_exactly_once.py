"""KafkaSink with DeliveryGuarantee.EXACTLY_ONCE: each record once, whatever fails and when."""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.waiting import wait_until

from flintstream.common.serialization import SimpleStringSchema
from flintstream.connectors.kafka.errors import KafkaConnectorError
from flintstream.connectors.kafka.producer import ProducerOptions
from flintstream.connectors.kafka.transaction_timeout import timeout_of
from flintstream.connectors.kafka.transactions import TransactionClient
from flintstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    Semantic,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .kafka import PASSWORD, SASL_SSL, USER, KafkaServer
from .topics import Topic

Attempt = Callable[..., OneInputOperatorHarness]

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.


@pytest.fixture
def topic(kafka: KafkaServer) -> Topic:
    return Topic(kafka, partitions=2)


@pytest.fixture
def prefix() -> str:
    """The prefix of transactional ids, which no other test has."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(kafka: KafkaServer) -> Iterator[TransactionClient]:
    client = TransactionClient({"bootstrap.servers": kafka.bootstrap()}, 60.0)
    yield client
    client.close()


def sink(servers: str, topic: str, prefix: str, **properties: str) -> KafkaSink:
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    builder = KafkaSink.builder().set_bootstrap_servers(servers)
    builder.set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(prefix)
    builder.set_property("transaction.timeout.ms", "600000")
    for key, value in properties.items():
        builder.set_property(key.replace("_", "."), value)
    return builder.build()


def started(sink: Any, *restored: bytes, **place: int) -> OneInputOperatorHarness:
    """An attempt of a job, which goes on from snapshots of all subtasks."""
    harness = OneInputOperatorHarness(sink.create_operator(None), **place)
    if restored:
        harness.restore(*map(pickle.loads, restored))
    harness.open()
    return harness


@pytest.fixture
def attempt() -> Iterator[Attempt]:
    """Starts attempts. Those that the test does not close live on as zombies until it is over."""
    zombies: list[OneInputOperatorHarness] = []

    def start(*arguments: Any, **place: int) -> OneInputOperatorHarness:
        zombies.append(started(*arguments, **place))
        return zombies[-1]

    yield start
    for zombie in zombies:
        with suppress(Exception):
            zombie.close()


def checkpoint(harness: OneInputOperatorHarness, number: int) -> bytes:
    return pickle.dumps(harness.snapshot(number, number * 1000))


def none_open(client: TransactionClient, prefix: str) -> None:
    """A transaction has ended when its markers are written, which may be a little later than its end was decided."""
    wait_until(lambda: not client.open_ids(prefix), what="the end of all transactions")


def test_records_are_seen_when_their_checkpoint_is_complete(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str
) -> None:
    with closing(attempt(sink(kafka.bootstrap(), topic.name, prefix))) as running:
        running.process_elements(["a", "b"])
        running.end_epoch()
        running.snapshot(1)
        running.process_elements(["c"])
        assert topic.values() == []
        running.notify_checkpoint_complete(1)
        topic.wait_for(["a", "b"])
        running.snapshot(2)
        running.notify_checkpoint_complete(2)
        topic.wait_for(["a", "b", "c"])


def test_a_few_transactional_ids_serve_all_checkpoints(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient
) -> None:
    words = [f"word {number}" for number in range(12)]
    open_ids = set()
    with closing(attempt(sink(kafka.bootstrap(), topic.name, prefix))) as running:
        for number, word in enumerate(words, start=1):
            running.process_elements([word])
            running.snapshot(number)
            open_ids |= {*client.open_ids(prefix)}
            running.notify_checkpoint_complete(number)
    topic.wait_for(words)
    assert len(open_ids) == 3
    none_open(client, prefix)


def test_checkpoints_without_records_have_no_transaction(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient
) -> None:
    with closing(attempt(sink(kafka.bootstrap(), topic.name, prefix))) as running:
        for number in range(1, 4):
            running.snapshot(number)
            assert client.open_ids(prefix) == []
            running.notify_checkpoint_complete(number)
        running.process_elements(["a"])
        running.end_input()
        running.snapshot(4)
        running.notify_checkpoint_complete(4)
    topic.wait_for(["a"])


def test_what_waits_for_an_aborted_checkpoint_is_committed_with_the_next(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str
) -> None:
    with closing(attempt(sink(kafka.bootstrap(), topic.name, prefix))) as running:
        running.process_elements(["a"])
        running.snapshot(1)
        running.notify_checkpoint_aborted(1)
        running.process_elements(["b"])
        running.snapshot(2)
        assert topic.values() == []
        running.notify_checkpoint_complete(2)
    topic.wait_for(["a", "b"])


def test_closing_aborts_what_is_open_and_keeps_what_is_flushed(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient
) -> None:
    writing = sink(kafka.bootstrap(), topic.name, prefix)
    with closing(attempt(writing)) as running:
        running.process_elements(["a"])
        stored = checkpoint(running, 1)
        running.process_elements(["lost"])
        wait_until(lambda: "lost" in topic.values("read_uncommitted"), what="a record of the open transaction")
    wait_until(lambda: len(client.open_ids(prefix)) == 1, what="the end of the open transaction")
    attempt(writing, stored).close()
    topic.wait_for(["a"])
    none_open(client, prefix)


def test_a_restore_commits_what_was_flushed_and_aborts_the_rest(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient
) -> None:
    """Again and again: each restore of the same checkpoint may be interrupted, and be followed by another one."""
    writing = sink(kafka.bootstrap(), topic.name, prefix)
    first = attempt(writing)
    first.process_elements(["a", "b"])
    stored = checkpoint(first, 1)
    for lost in ("x", "y", "z"):
        first.process_elements([lost])
        first.snapshot(2)  # Never complete, and nobody closes the attempt.
        first.process_elements([lost])
        first = attempt(writing, stored)
        topic.wait_for(["a", "b"])
        none_open(client, prefix)
    first.process_elements(["c"])
    first.snapshot(3)
    first.notify_checkpoint_complete(3)
    first.close()
    topic.wait_for(["a", "b", "c"])


def test_a_transaction_whose_id_is_in_use_again_was_committed(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient
) -> None:
    """The broker only says that the epoch is over; the log says how it has ended."""
    writing = sink(kafka.bootstrap(), topic.name, prefix)
    first = attempt(writing)
    first.process_elements(["a"])
    stored = checkpoint(first, 1)
    (name,) = client.open_ids(prefix)
    first.notify_checkpoint_complete(1)
    before = client.describe(name)
    first.process_elements(["b"])
    first.snapshot(2)  # Takes the id of the first transaction for the next but one.
    wait_until(lambda: client.describe(name) != before, what="the next use of the id")
    attempt(writing, stored).close()
    topic.wait_for(["a"])
    none_open(client, prefix)


_DYING = """
import os, pickle, signal, sys
from tests.connectors.test_kafka_exactly_once import checkpoint, sink, started
from tests.connectors.topics import read
from tests.waiting import wait_until
servers, topic, prefix, stored = sys.argv[1:]
running = started(sink(servers, topic, prefix, linger_ms="0"))
running.process_elements([f"kept {number}" for number in range(1000)])
snapshot = checkpoint(running, 1)
running.process_elements([f"lost {number}" for number in range(1000)])
wait_until(lambda: len(read(servers, topic, 2, "read_uncommitted")) == 2000)
with open(stored, "wb") as file:
    file.write(snapshot)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_between_flush_and_commit_loses_and_doubles_nothing(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient, tmp_path: Path
) -> None:
    stored = tmp_path / "snapshot"
    done = subprocess.run(
        [sys.executable, "-c", _DYING, kafka.bootstrap(), topic.name, prefix, str(stored)], timeout=200
    )
    assert done.returncode == -signal.SIGKILL
    assert len(topic.values("read_uncommitted")) == 2000
    assert (topic.values(), len(client.open_ids(prefix))) == ([], 2)
    with closing(attempt(sink(kafka.bootstrap(), topic.name, prefix), stored.read_bytes())) as running:
        topic.wait_for([f"kept {number}" for number in range(1000)])
        none_open(client, prefix)
        running.process_elements(["next"])
        running.snapshot(2)
        running.notify_checkpoint_complete(2)
    topic.wait_for([*(f"kept {number}" for number in range(1000)), "next"])


@pytest.mark.parametrize(("before", "after"), [(3, 2), (1, 2)])
def test_another_parallelism_recovers_and_sweeps_all(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient, before: int, after: int
) -> None:
    writing = sink(kafka.bootstrap(), topic.name, prefix)
    old = [attempt(writing, parallelism=before, subtask=number) for number in range(before)]
    for number, running in enumerate(old):
        running.process_elements([f"kept {number}"])
    stored = [checkpoint(running, 1) for running in old]
    for running in old:
        running.process_elements(["lost"])
        running.snapshot(2)
    assert len(client.open_ids(prefix)) == 2 * before
    new = [attempt(writing, *stored, parallelism=after, subtask=number) for number in range(after)]
    topic.wait_for([f"kept {number}" for number in range(before)])
    none_open(client, prefix)
    for running in new:
        running.close()


def test_another_job_with_the_same_prefix_is_left_alone(
    attempt: Attempt,
    kafka: KafkaServer,
    topic: Topic,
    prefix: str,
    client: TransactionClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Producer({"bootstrap.servers": kafka.bootstrap(), "transactional.id": f"{prefix}-0123-4567-0-0"})
    other.init_transactions(60)
    other.begin_transaction()
    other.produce(topic.name, b"other")
    assert other.flush(60) == 0
    with caplog.at_level(logging.WARNING), closing(attempt(sink(kafka.bootstrap(), topic.name, prefix))) as running:
        assert f"another sink has open transactions with the same prefix: {prefix}-0123-4567-0-0" in caplog.text
        running.process_elements(["mine"])
        running.snapshot(1)
        running.notify_checkpoint_complete(1)
    other.commit_transaction(60)
    topic.wait_for(["mine", "other"])


def test_an_attempt_that_was_superseded_can_flush_nothing_any_more(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str
) -> None:
    writing = sink(kafka.bootstrap(), topic.name, prefix)
    old = attempt(writing)
    old.process_elements(["a"])
    stored = checkpoint(old, 1)
    old.process_elements(["lost"])
    wait_until(lambda: len(topic.values("read_uncommitted")) == 2, what="the record of the open transaction")
    with closing(attempt(writing, stored)) as new:
        new.process_elements(["b"])
        with pytest.raises(UserCodeError, match="fenced|Producer attempted|was aborted before its checkpoint"):
            old.process_elements(["lost, too"])
            old.snapshot(2)
        new.snapshot(2)
        new.notify_checkpoint_complete(2)
    topic.wait_for(["a", "b"])


# --- time-outs ---


def expired(attempt: Attempt, prefix: str, client: TransactionClient, writing: Any) -> OneInputOperatorHarness:
    """An attempt whose flushed transaction the broker has aborted."""
    running = attempt(writing)
    running.process_elements(["lost"])
    running.snapshot(1)
    wait_until(lambda: not client.open_ids(prefix), what="the end of the transaction")
    return running


def test_a_transaction_that_was_aborted_by_its_time_out_ends_the_job(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str, client: TransactionClient
) -> None:
    writing = sink(kafka.bootstrap(), topic.name, prefix, transaction_timeout_ms="1000")
    running = expired(attempt, prefix, client, writing)
    message = (
        r"of checkpoint 1, flushed \d+ s ago, was aborted, and its records are lost: .* 1000 ms after its first record"
    )
    with pytest.raises(UserCodeError, match=message) as failed:
        running.notify_checkpoint_complete(1)
    assert failed.value.fault.permanent
    assert topic.values() == []


def test_a_flink_kafka_producer_goes_on_after_a_time_out_if_asked_to(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, client: TransactionClient, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {"bootstrap.servers": kafka.bootstrap(), "transaction.timeout.ms": "1000"}
    producer = FlinkKafkaProducer(topic.name, SimpleStringSchema(), properties, semantic=Semantic.EXACTLY_ONCE)
    producer.ignore_failures_after_transaction_timeout()
    running = expired(attempt, "operator under test", client, producer)
    with caplog.at_level(logging.ERROR):
        running.notify_checkpoint_complete(1)
    assert "was aborted, and its records are lost" in caplog.text
    running.process_elements(["a"])
    running.snapshot(2)
    running.notify_checkpoint_complete(2)
    running.close()
    topic.wait_for(["a"])


def context(**settings: Any) -> Any:
    known = {"checkpointing": True, "checkpoint_interval": 1.0, "checkpoint_timeout": 600.0}
    return SimpleNamespace(name="sink", subtask=0, **{**known, **settings})


def test_time_outs_are_checked_against_the_broker_and_the_checkpoints(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    options = ProducerOptions({"bootstrap.servers": kafka.bootstrap()})
    assert timeout_of(900_000, options, context()) == 900_000
    with pytest.raises(KafkaConnectorError, match=r"transaction.timeout.ms is 900001, and .* is 900000: lower the one"):
        timeout_of(900_001, options, context())
    with pytest.raises(KafkaConnectorError, match="is 60000, and a checkpoint is taken every 60000 ms"):
        timeout_of(60_000, options, context(checkpoint_interval=60.0))
    with caplog.at_level(logging.WARNING):
        assert timeout_of(600_000, options, context()) == 600_000
        assert "transaction.timeout.ms is 600000, and a checkpoint may take until 601000 ms" in caplog.text
        assert timeout_of(None, options, context()) == 900_000
        assert "transaction.timeout.ms is 900000, as transaction.max.timeout.ms of the brokers allows" in caplog.text


def test_a_time_out_beyond_the_brokers_is_refused_when_the_job_starts(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str
) -> None:
    with pytest.raises(
        UserCodeError, match="transaction.timeout.ms is 3600000, and transaction.max.timeout.ms of Kafka"
    ):
        attempt(sink(kafka.bootstrap(), topic.name, prefix, transaction_timeout_ms="3600000"))


# --- the broker ---


def test_transactions_are_committed_over_tls_with_a_password(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str
) -> None:
    module = (
        f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    )
    properties = {
        "security_protocol": SASL_SSL,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_jaas_config": module,
        "ssl_ca_location": str(kafka.authority),
    }
    writing = sink(kafka.bootstrap(SASL_SSL), topic.name, prefix, **properties)
    running = attempt(writing)
    running.process_elements(["a"])
    running.snapshot(1)
    running.notify_checkpoint_complete(1)
    running.process_elements(["b"])
    attempt(writing, checkpoint(running, 2)).close()
    topic.wait_for(["a", "b"])


def test_a_broker_that_is_killed_between_flush_and_commit_loses_nothing(
    attempt: Attempt, kafka: KafkaServer, topic: Topic, prefix: str
) -> None:
    with closing(attempt(sink(kafka.bootstrap(), topic.name, prefix))) as running:
        running.process_elements(["a"])
        running.snapshot(1)
        running.process_elements(["b"])
        kafka.restart(crash=True)
        running.notify_checkpoint_complete(1)
        topic.wait_for(["a"])
        running.process_elements(["c"])
        running.snapshot(2)
        running.notify_checkpoint_complete(2)
    topic.wait_for(["a", "b", "c"])
