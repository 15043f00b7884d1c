"""A producer of confluent-kafka whose waits have deadlines, and whose errors name topic, partition and reason."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from flintstream.connectors.kafka.clients import ClientErrors, with_callbacks
from flintstream.connectors.kafka.errors import KafkaConnectorError
from flintstream.connectors.kafka.properties import Settings
from flintstream.connectors.kafka.records import ANY_PARTITION, NOW, Columns
from flintstream.connectors.kafka.transactions import Place

_log = logging.getLogger(__name__)
_TURN_SECONDS = 0.2
_TOPIC_SECONDS = 10.0
"""How long (seconds) brokers may take to create a topic automatically."""
_PARTITIONS_SECONDS = 300.0
_ALSO_REFUSALS = frozenset({"_SSL"})


@dataclass(frozen=True)
class ProducerOptions:
    """The settings of a producer."""

    settings: Settings = field(repr=False)  # It contains passwords.
    max_block: float = 60.0
    """How long (seconds) a record may wait for room, and metadata for a broker."""
    delivery_timeout: float = 120.0
    """How long (seconds) a record may take to be delivered."""
    logs_failures: bool = False
    """Whether a record that could not be delivered is only logged."""

    @property
    def servers(self) -> str:
        """Returns the brokers as configured."""
        return str(self.settings["bootstrap.servers"])


class RecordProducer:
    """Produces blocks of records; for one thread. It is closed by dropping it: records that are not flushed are lost.

    A producer is never closed by its own `close`, which would abort a transaction that waits for its commit.

    :param remembers: whether to keep the position of the last record, which costs a fifth of the time.
    """

    def __init__(self, options: ProducerOptions, remembers: bool = False) -> None:
        from confluent_kafka import Producer

        self._options = options
        # Callbacks that hold no reference to the producer, so that it ends with the last one to it.
        self._reports: dict[Any, Any] = {}
        self._errors = ClientErrors(f"Kafka at {options.servers}", _ALSO_REFUSALS)
        settings = {**options.settings, "delivery.report.only.error": not remembers}
        self.client = Producer(with_callbacks(settings, self._errors, on_delivery=self._reports.__setitem__))
        self.records = 0
        """The number of records produced."""
        self._partitions: dict[str, tuple[float, list[int]]] = {}

    # --- records ---

    def produce(self, topic: str | None, columns: Columns) -> None:
        """Queues records for delivery; raises if earlier ones could not be delivered."""
        produce = self.client.produce
        rows: Any
        if columns.is_plain:
            rows = iter(columns.values)
            self._all(lambda: _produce_values(produce, topic, rows))
        else:
            rows = zip(
                columns.topics or repeat(topic),
                columns.values,
                columns.keys or repeat(None),
                columns.partitions or repeat(ANY_PARTITION),
                columns.timestamps or repeat(NOW),
                columns.headers or repeat(None),
            )
            self._all(lambda: _produce_rows(produce, rows))
        self.records += len(columns.values)
        self.client.poll(0)
        self.check()

    def _all(self, run: Callable[[], Callable[[], None] | None]) -> None:
        """Runs until nothing is left. Each run ends at a record for which there is no room, to be produced again."""
        while (again := run()) is not None:
            self._wait_for_room(again)

    def _wait_for_room(self, again: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._options.max_block
        while True:
            self.client.poll(_TURN_SECONDS)
            self.check()
            try:
                again()
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaConnectorError(
                        f"Kafka at {self._options.servers} has taken no record for {self._options.max_block:g} s "
                        f"(max.block.ms): {len(self.client)} wait in the producer's buffer{self._told_error()}"
                    ) from None

    def poll(self) -> None:
        """Processes delivery reports without waiting; raises if records could not be delivered."""
        self.client.poll(0)
        self.check()

    def flush(self) -> None:
        """Waits until all records are delivered."""
        limit = self._options.delivery_timeout + 10
        deadline = time.monotonic() + limit
        while self.client.flush(_TURN_SECONDS):
            self.check()
            if time.monotonic() > deadline:
                raise KafkaConnectorError(
                    f"Kafka at {self._options.servers} has not confirmed {len(self.client)} records within "
                    f"{limit:g} s{self._told_error()}"
                )
        self.check()

    def check(self) -> None:
        """Raises if a record could not be delivered, once."""
        reports = self._reports
        if len(reports) == (None in reports):
            return
        kept = {None: reports[None]} if None in reports else {}
        failed = [(error, message) for error, message in reports.items() if error is not None]
        reports.clear()
        reports.update(kept)
        error, message = failed[0]
        partition = message.partition()
        place = f"topic '{message.topic()}'" + (
            "" if partition in (None, ANY_PARTITION) else f", partition {partition}"
        )
        told = (
            f"Kafka at {self._options.servers}: a record for {place} was not delivered: {self._errors.explain(error)}"
        )
        if not self._options.logs_failures:
            raise KafkaConnectorError(told)
        _log.error("%s", told)

    @property
    def last_place(self) -> Place:
        """Returns the position of the last delivered record."""
        message = self._reports[None]
        return Place(message.topic(), message.partition(), message.offset())

    def forget(self) -> None:
        """Drops records that are not delivered."""
        self.client.purge()
        self.client.poll(0)

    # --- brokers ---

    def check_broker(self, topic: str | None) -> None:
        """Raises if no broker answers, or if the topic does not exist."""
        deadline = time.monotonic() + (_TOPIC_SECONDS if topic is not None else 0.0)
        while topic not in (topics := self.metadata(topic).topics) or topics[topic].error is not None:
            if topic is None:
                return
            if time.monotonic() > deadline:
                raise KafkaConnectorError(f"Kafka at {self._options.servers} has no topic '{topic}': create it first")
            time.sleep(_TURN_SECONDS)

    def metadata(self, topic: str | None = None) -> Any:
        """Returns the metadata of the cluster; waits for a broker that answers."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._options.max_block
        while True:
            try:
                return self.client.list_topics(topic, timeout=1) if topic else self.client.list_topics(timeout=1)
            except KafkaException as error:
                self.client.poll(0)
                self._errors.check(KafkaConnectorError)
                if time.monotonic() > deadline:
                    raise KafkaConnectorError(
                        f"Kafka at {self._options.servers} could not be reached within {self._options.max_block:g} s: "
                        f"{self._errors.explain(error.args[0])}"
                    ) from error

    def partitions_of(self, topic: str) -> list[int]:
        """Returns the partitions of a topic; new ones are discovered after a while."""
        asked, found = self._partitions.get(topic, (-_PARTITIONS_SECONDS, []))
        if time.monotonic() - asked >= _PARTITIONS_SECONDS:
            self.check_broker(topic)
            found = sorted(self.metadata(topic).topics[topic].partitions)
            self._partitions[topic] = (time.monotonic(), found)
        return found

    def _told_error(self) -> str:
        self.client.poll(0)
        return self._errors.told


def _produce_values(produce: Any, topic: str | None, values: Any) -> Callable[[], None] | None:
    try:
        for value in values:
            produce(topic, value)
    except BufferError:
        return lambda: produce(topic, value)
    return None


def _produce_rows(produce: Any, rows: Any) -> Callable[[], None] | None:
    """Arguments by position take half of the time of those by name. The two callbacks in the middle are the producer's."""
    try:
        for topic, value, key, partition, stamp, headers in rows:
            produce(topic, value, key, partition, None, None, stamp, headers)
    except BufferError:
        return lambda: produce(topic, value, key, partition, None, None, stamp, headers)
    return None
