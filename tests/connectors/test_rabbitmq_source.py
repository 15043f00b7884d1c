"""RMQSource with a real server: when messages are acknowledged, and which come again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import DeserializationSchema, SimpleStringSchema
from flintstream.connectors.rabbitmq import consumer as rabbitmq_consumer
from flintstream.connectors.rabbitmq import source as rabbitmq_source
from flintstream.connectors.rabbitmq.source import QueueReader
from flintstream.datastream.connectors.rabbitmq import RabbitMqError, RMQConnectionConfig, RMQSource
from flintstream.runtime.source import SourceError

from .queues import Queues
from .rabbitmq import RabbitMqServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

ONCE, AGAIN = True, False
"""Whether correlation ids are used."""


@pytest.fixture
def queues(rabbitmq: RabbitMqServer) -> Iterator[Queues]:
    """The server's queues; those of a test end with it."""
    queues = Queues(rabbitmq)
    queues.declare("in")
    yield queues
    queues.close()


def numbered(first: int, last: int) -> list[tuple[str, str | None]]:
    return [(f"m{number}", f"id {number}") for number in range(first, last + 1)]


def bodies(first: int, last: int) -> list[str]:
    return [body for body, _ in numbered(first, last)]


class Reading:
    """A reader as the engine drives it."""

    def __init__(self, reader: QueueReader, split_id: str) -> None:
        self.reader = reader
        self._split_id = split_id
        self.finished = False

    def take(self, count: int) -> list[str]:
        """That many records, once they are there."""
        records: list[str] = []
        wait_until(lambda: self._poll(records, count), ENOUGH_SECONDS, f"{count} records, not {records}")
        return records

    def _poll(self, records: list[str], count: int) -> bool:
        """Adds what has come, up to a number; returns whether that is all there will be."""
        for block in self.reader.poll(count - len(records)):
            records += block.values
            self.finished = self.finished or block.finished
        return len(records) == count or self.finished

    def finds_nothing(self) -> bool:
        """Whether nothing comes, though there was time."""
        records: list[str] = []
        for _ in range(20):
            self._poll(records, 100)
        return not records

    def snapshot(self) -> Any:
        return self.reader.snapshot()

    def complete(self, positions: Any) -> None:
        self.reader.notify_checkpoint_complete(positions)


@contextmanager
def reading(
    config: RMQConnectionConfig,
    use_correlation_id: bool,
    positions: Any = None,
    checkpointing: bool = True,
    schema: DeserializationSchema | None = None,
    retry_timeout_ms: int = 120_000,
    queue: str = "in",
) -> Iterator[Reading]:
    rmq = RMQSource(config, queue, use_correlation_id, schema or SimpleStringSchema(), retry_timeout_ms)
    source = rmq.as_source()
    context: Any = SimpleNamespace(is_checkpointing_enabled=lambda: checkpointing)
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_source_reader(context)
    assert isinstance(reader, QueueReader)
    try:
        reader.add_splits([(split, None if positions is None else positions[split.split_id])])
        yield Reading(reader, split.split_id)
    finally:
        reader.close()


# --- acknowledgements ---


@pytest.mark.parametrize("use_correlation_id", [ONCE, AGAIN])
def test_messages_are_acknowledged_when_their_checkpoint_is_complete(
    rabbitmq: RabbitMqServer, queues: Queues, use_correlation_id: bool
) -> None:
    queues.publish("in", numbered(1, 10))
    with reading(rabbitmq.config, use_correlation_id) as source:
        assert source.take(4) == bodies(1, 4)
        positions = source.snapshot()
        assert source.take(2) == bodies(5, 6)
        source.complete(positions)
        source.complete(positions)  # A savepoint without a message since.
    assert queues.take("in") == bodies(5, 10)


def test_without_checkpoints_messages_are_acknowledged_as_they_come(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", numbered(1, 10))
    with reading(rabbitmq.config, AGAIN, checkpointing=False) as source:
        assert source.take(4) == bodies(1, 4)
    assert queues.take("in") == bodies(5, 10)


def test_no_more_messages_are_unacknowledged_than_the_prefetch_count(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", numbered(1, 10))
    with reading(rabbitmq.builder.set_prefetch_count(3).build(), ONCE) as source:
        for first in (1, 4, 7):
            assert source.take(3) == bodies(first, first + 2)
            assert source.finds_nothing() and queues.length("in") == 8 - first
            source.complete(source.snapshot())
        assert source.take(1) == ["m10"]


def test_a_long_queue_is_not_held_in_memory(
    rabbitmq: RabbitMqServer, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_consumer, "BUFFERED_MESSAGES", 100)
    queues.publish("in", [(f"m{number}", None) for number in range(1000)])
    with reading(rabbitmq.config, AGAIN) as source:
        wait_until(lambda: queues.consumers("in") == 0, what="a pause")
        assert source.take(1000) == [f"m{number}" for number in range(1000)]
        wait_until(lambda: queues.consumers("in") == 1, what="the end of the pause")


# --- what comes again ---


def test_each_message_counts_once_with_correlation_ids(
    rabbitmq: RabbitMqServer, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure behind a checkpoint, what is in it does not come again, and what is not in it does."""
    monkeypatch.setattr(rabbitmq_source, "SETTLING_SECONDS", 0.0)
    queues.publish("in", numbered(1, 10))
    with reading(rabbitmq.config, ONCE) as source:
        assert source.take(6) == bodies(1, 6)
        positions = source.snapshot()
        assert source.take(4) == bodies(7, 10)
    with reading(rabbitmq.config, ONCE, positions) as source:
        assert source.take(4) == bodies(7, 10)
        assert source.finds_nothing()
        source.complete(source.snapshot())
        queues.publish("in", numbered(11, 11))
        assert source.take(1) == ["m11"]
        source.complete(source.snapshot())
        wait_until(lambda: source.snapshot()["queue in"].ids == (), what="all acknowledgements at the server")
    assert queues.take("in") == []


def test_acknowledgements_that_a_killed_server_has_lost_double_nothing(
    rabbitmq: RabbitMqServer, queues: Queues
) -> None:
    queues.publish("in", numbered(1, 100))
    with reading(rabbitmq.config, ONCE) as source:
        assert source.take(99) == bodies(1, 99)
        source.complete(source.snapshot())
        rabbitmq.restart(crash=True)  # At once: what it has not written is lost.
        assert source.take(1) == ["m100"]
        assert source.finds_nothing()


def test_an_acknowledgement_that_was_never_sent_is_made_up_for(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    """The checkpoint was complete, and the job died before it could say so."""
    queues.publish("in", numbered(1, 3))
    with reading(rabbitmq.config, ONCE) as source:
        source.take(3)
        positions = source.snapshot()
    for _ in range(2):  # And again.
        with reading(rabbitmq.config, ONCE, positions) as source:
            assert source.finds_nothing()
            positions = source.snapshot()
    with reading(rabbitmq.config, ONCE, positions) as source:
        queues.publish("in", numbered(4, 4))
        assert source.take(1) == ["m4"]
        source.complete(source.snapshot())
    assert queues.take("in") == []


def test_without_correlation_ids_what_is_not_acknowledged_comes_again(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", numbered(1, 4))
    with reading(rabbitmq.config, AGAIN) as source:
        source.take(4)
        positions = source.snapshot()
    with reading(rabbitmq.config, AGAIN, positions) as source:
        assert source.take(4) == bodies(1, 4)


def test_what_came_by_a_lost_connection_is_acknowledged_by_the_next_one(
    rabbitmq: RabbitMqServer, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that was emitted is emitted again. Who does not wait for the server fails the job."""
    monkeypatch.setattr(rabbitmq_source, "SETTLING_SECONDS", 0.0)
    queues.publish("in", numbered(1, 6))
    queues.declare("other")
    hasty = rabbitmq.builder.set_network_recovery_interval(50).build()
    with (
        reading(rabbitmq.config, ONCE) as source,
        reading(hasty, ONCE, retry_timeout_ms=300, queue="other") as impatient,
    ):
        assert source.take(4) == bodies(1, 4)
        before = source.snapshot()
        rabbitmq.stop()
        try:
            with pytest.raises(RabbitMqError, match=r"(?s)Tried again for 0.3 seconds \(retry_timeout_ms\)"):
                impatient.take(1)
        finally:
            rabbitmq.start()
        assert source.take(2) == bodies(5, 6)
        source.complete(before)  # By tags of the first connection: no use any more.
        queues.publish("in", numbered(7, 8))
        assert source.take(2) == bodies(7, 8)
        source.complete(source.snapshot())
        wait_until(lambda: source.snapshot()["queue in"].ids == (), what="all acknowledgements at the server")
    assert queues.take("in") == []


def test_a_queue_that_was_deleted_is_made_again(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", numbered(1, 1))
    with reading(rabbitmq.config, AGAIN) as source:
        source.take(1)
        queues.delete("in")
        wait_until(lambda: source.reader.poll(1) and _exists(queues), what="a new queue")
        queues.publish("in", numbered(2, 2))
        assert source.take(1) == ["m2"]


def _exists(queues: Queues) -> bool:
    try:
        queues.length("in")
    except Exception:
        return False
    return True


# --- the end, and errors ---


class UntilEnd(SimpleStringSchema):
    """Ends with a message."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element == "end")


def test_a_schema_may_end_the_stream(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", [*numbered(1, 2), ("end", "end"), *numbered(3, 4)])
    with reading(rabbitmq.config, ONCE, schema=UntilEnd()) as source:
        assert source.take(100) == bodies(1, 2)
        assert source.finished and source.snapshot() == {}
        source.complete({})
    assert queues.take("in") == bodies(3, 4)


class Numbers(DeserializationSchema):
    """Leaves out empty messages."""

    def deserialize(self, message: bytes) -> Any:
        return int(message) if message else None


def test_what_cannot_be_read_is_shown(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", [("1", None), ("", None), ("2", None), ("three", None)])
    with reading(rabbitmq.config, AGAIN, schema=Numbers()) as source:
        assert source.take(2) == [1, 2]
        with pytest.raises(SourceError, match=r"queue 'in': a message cannot be read: ValueError.*: b'three'"):
            source.take(1)


def test_a_message_without_a_correlation_id_is_shown(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.publish("in", [("orphan", None)])
    with reading(rabbitmq.config, ONCE) as source, pytest.raises(SourceError, match=r"no correlation id: b'orphan'"):
        source.take(1)


def test_wrong_credentials_are_told_at_the_start(rabbitmq: RabbitMqServer) -> None:
    config = rabbitmq.builder.set_password("mistaken").build()
    with pytest.raises(RabbitMqError, match=r"queue 'in': ProbableAuthenticationError"), reading(config, ONCE):
        pass
