"""KafkaEnumerator: finds the partitions that a source reads, and where reading them begins and stops. Runs on the driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from flintstream.connectors.kafka.clients import ClientErrors, with_callbacks
from flintstream.connectors.kafka.offsets import EARLIEST, OffsetLookup, Partition
from flintstream.connectors.kafka.splits import KafkaSourceOptions, KafkaSplit
from flintstream.runtime.source import SourceError, Split, SplitEnumerator

_LOG = logging.getLogger(__name__)
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_GRACE_SECONDS = 5.0
"""How much longer than its deadline (seconds) a request may take, until the client has reported the cause."""
_Result = TypeVar("_Result")


class KafkaEnumerator(SplitEnumerator):
    """Discovers each partition once. Those that are added later are read from their beginning."""

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._options = options
        self._known: set[Partition] = set()
        self._has_looked = False

    def restore(self, state: tuple[bool, list[tuple[str, int]]]) -> None:
        self._has_looked, known = state
        self._known = {Partition(*partition) for partition in known}

    def snapshot(self) -> tuple[bool, list[tuple[str, int]]]:
        return self._has_looked, sorted((topic, number) for topic, number in self._known)

    def start(self) -> None:
        from confluent_kafka import Consumer
        from confluent_kafka.admin import AdminClient

        options = self._options
        self._errors = ClientErrors(f"Kafka at {options.servers}")
        client_id = f"{options.client_id_prefix or 'flintstream'}-enumerator"
        self._admin = AdminClient(with_callbacks({**options.client, "client.id": client_id}, self._errors))
        self._consumer = Consumer(with_callbacks(options.consumer_config(client_id), self._errors))
        self._offsets = OffsetLookup(self._admin, self._consumer, options.group_id is not None, options.request_seconds)

    def discover(self) -> Iterable[Split]:
        try:
            self._asked("the cluster", self._reach)
            new = sorted(set(self._partitions()) - self._known)
            starting = EARLIEST if self._has_looked else self._options.starting
            starts = self._asked("the offsets to start from", lambda: self._offsets.find(new, starting))
            stopping = self._options.stopping
            stops = {}
            if stopping is not None:
                stops = self._asked("the offsets to stop at", lambda: self._offsets.find(new, stopping))
        except _NotNow as error:
            if not self._has_looked:
                raise SourceError(str(error)) from error
            _LOG.warning("the discovery of new partitions failed, and will be retried: %s", error)
            return []
        self._known.update(new)
        self._has_looked = True
        return [
            Split(str(partition), KafkaSplit(partition, starts[partition], stops.get(partition))) for partition in new
        ]

    def close(self) -> None:
        self._consumer.close()

    # --- requests ---

    def _reach(self) -> None:
        """Waits for a broker that answers; one that refuses this client is an error at once, not at the end of a wait."""
        from concurrent.futures import TimeoutError as NotYet

        answer = self._admin.describe_cluster(request_timeout=self._options.request_seconds)
        until = time.monotonic() + self._options.request_seconds + _GRACE_SECONDS
        while True:
            self._admin.poll(0)
            self._errors.check(SourceError)
            try:
                answer.result(0.05)
                return
            except NotYet:
                if time.monotonic() > until:
                    raise

    def _partitions(self) -> list[Partition]:
        subscription = self._options.subscription
        if subscription.pattern is not None:
            topics = self._asked("the list of topics", self._all_topics)
            return [partition for topic in topics if subscription.covers(topic) for partition in topics[topic]]
        wanted = sorted({*subscription.topics, *(partition.topic for partition in subscription.partitions)})
        topics = self._asked("the partitions of the topics", lambda: self._described(wanted))
        there = [partition for topic in topics for partition in topics[topic]]
        if not subscription.partitions:
            return there
        for partition in subscription.partitions:
            if partition not in there:
                raise SourceError(
                    f"partition {partition.number} of topic '{partition.topic}' does not exist at {self._options.servers}"
                )
        return list(subscription.partitions)

    def _all_topics(self) -> dict[str, list[Partition]]:
        topics = self._admin.list_topics(timeout=self._options.request_seconds).topics
        return {
            name: [Partition(name, number) for number in topic.partitions]
            for name, topic in topics.items()
            if name not in _INTERNAL
        }

    def _described(self, wanted: list[str]) -> dict[str, list[Partition]]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        seconds = self._options.request_seconds
        answers = self._admin.describe_topics(TopicCollection(wanted), request_timeout=seconds)
        found = {}
        for topic, answer in answers.items():
            try:
                found[topic] = [
                    Partition(topic, each.id) for each in answer.result(seconds + _GRACE_SECONDS).partitions
                ]
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise SourceError(f"topic '{topic}' does not exist at {self._options.servers}") from error
                raise
        return found

    def _asked(self, what: str, ask: Callable[[], _Result]) -> _Result:
        """Returns the answer of a broker; raises `_NotNow` if none can be reached now."""
        from concurrent.futures import TimeoutError as TookTooLong

        from confluent_kafka import KafkaException

        where = f"{what}, asked at {self._options.servers}"
        try:
            return ask()
        except TookTooLong as error:
            self._admin.poll(0)
            self._errors.check(SourceError)
            raise _NotNow(f"{where}: no answer within {self._options.request_seconds:g} s") from error
        except KafkaException as error:
            self._admin.poll(0)
            self._errors.check(SourceError)
            reason = error.args[0]
            kind = _NotNow if reason.retriable() or reason.name() in ("_TRANSPORT", "_TIMED_OUT") else SourceError
            raise kind(f"{where}: {self._errors.explain(reason)}") from error


class _NotNow(Exception):
    """A broker is unreachable or not ready."""
