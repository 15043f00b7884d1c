"""KafkaReader: reads the partitions of a subtask by one consumer."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from flintstream.connectors.kafka.clients import ClientErrors, with_callbacks
from flintstream.connectors.kafka.errors import reason_of
from flintstream.connectors.kafka.messages import Message
from flintstream.connectors.kafka.offsets import Partition
from flintstream.connectors.kafka.splits import KafkaSourceOptions, KafkaSplit
from flintstream.runtime.source import SourceError, SourceReader, Split, SplitRecords

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition

    from flintstream.metrics import MetricGroup

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0
"""How long (seconds) closing waits for commits in flight."""


class _Progress:
    """How far a partition has been read."""

    __slots__ = ("at_end", "committed", "next", "partition", "split_id", "stop")

    def __init__(self, split_id: str, partition: Partition, start: int, stop: int | None) -> None:
        self.split_id = split_id
        self.partition = partition
        self.next = start
        self.stop = stop
        self.at_end = False
        """Whether the end of the partition was reached."""
        self.committed = -1

    def at(self, offset: int) -> TopicPartition:
        from confluent_kafka import TopicPartition

        return TopicPartition(*self.partition, offset)


class KafkaReader(SourceReader):
    """Reads messages that the consumer fetches in the background. A position is the offset of the next record."""

    def __init__(self, options: KafkaSourceOptions, subtask: int, metrics: MetricGroup) -> None:
        from confluent_kafka import Consumer

        self._options = options
        self._reading: dict[Partition, _Progress] = {}
        self._empty: list[_Progress] = []
        """Splits without a record to read."""
        self._topics: set[str] = set()
        self._partitions: dict[str, Partition] = {}
        """Of each split."""
        self._last_offsets: dict[Partition, int] = {}
        """The final offsets of finished partitions that are not committed yet."""
        self._most: int | None = None
        self._paused: set[Partition] = set()
        self._nothing_now = False
        self._in_flight = 0
        self._errors = ClientErrors(f"Kafka at {options.servers}", frozenset({"UNKNOWN_TOPIC_OR_PART"}))
        client_id = f"{options.client_id_prefix or 'flintstream'}-{subtask}"
        config = options.consumer_config(client_id)
        self._consumer = Consumer(with_callbacks(config, self._errors, on_commit=self._committed))
        self._metrics = metrics.add_group("KafkaSourceReader")
        self._commits_succeeded = self._metrics.counter("commitsSucceeded")
        self._commits_failed = self._metrics.counter("commitsFailed")
        metrics.gauge("pendingRecords", self._pending)
        options.deserializer.open()

    # --- splits ---

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        added = []
        for split, position in splits:
            content: KafkaSplit = split.content
            start = content.start if position is None else position
            progress = _Progress(split.split_id, content.partition, start, content.stop)
            dropped = self._options.drops_unsubscribed and not self._options.subscription.covers(
                content.partition.topic
            )
            if dropped or (progress.stop is not None and start >= progress.stop):
                self._empty.append(progress)
                continue
            self._reading[content.partition] = progress
            self._topics.add(content.partition.topic)
            self._partitions[split.split_id] = content.partition
            self._show(progress)
            added.append(progress.at(start))
        if added:
            self._consumer.incremental_assign(added)

    def snapshot(self) -> dict[str, int]:
        return {progress.split_id: progress.next for progress in [*self._empty, *self._reading.values()]}

    def align(self, room: Mapping[str, int]) -> None:
        self._most = min(room.values(), default=1)
        waiting = {each.partition for each in self._reading.values() if each.split_id not in room}
        resumed = [self._reading[partition] for partition in self._paused - waiting if partition in self._reading]
        paused = [self._reading[partition] for partition in waiting - self._paused]
        if resumed:
            self._consumer.resume([progress.at(progress.next) for progress in resumed])
        if paused:
            self._consumer.pause([progress.at(progress.next) for progress in paused])
        self._paused = waiting

    # --- records ---

    def poll(self, limit: int) -> list[SplitRecords]:
        blocks = [SplitRecords(progress.split_id, [], finished=True) for progress in self._empty]
        self._empty = []
        messages = self._consumer.consume(limit if self._most is None else min(limit, self._most), 0.0)
        self._errors.check(SourceError)
        for progress, run in self._runs(messages):
            block = self._events(progress, run) if run[0].error() is not None else self._records(progress, run)
            if block is not None:
                blocks.append(block)
        self._nothing_now = not messages
        blocks.extend(SplitRecords(each.split_id, []) for each in self._reading.values() if each.at_end)
        return blocks

    def next_due(self) -> float | None:
        return None if self._nothing_now and not self._empty else 0.0

    def _runs(self, messages: list[Message]) -> Iterator[tuple[_Progress, list[Message]]]:
        """Groups consecutive messages of one partition; events of the client are separate."""
        if not messages:
            return
        numbers = [message.partition() for message in messages]
        events = [message for message in messages if message.error() is not None]
        if len(self._topics) == 1 and not events and min(numbers) == max(numbers):
            (topic,) = self._topics
            runs: Iterable[tuple[Any, list[Message]]] = [((topic, numbers[0], False), messages)]
        else:
            keys = [(message.topic(), message.partition(), message.error() is not None) for message in messages]
            runs = (
                (key, [message for _, message in run]) for key, run in groupby(zip(keys, messages), key=itemgetter(0))
            )
        for (topic, number, is_event), run in runs:
            if is_event and number < 0:
                for message in run:
                    self._fail(message)
            progress = self._reading.get(Partition(topic, number))
            if progress is not None:  # Else it has reached its stopping offset.
                yield progress, run

    def _records(self, progress: _Progress, messages: list[Message]) -> SplitRecords:
        last = messages[-1].offset()
        progress.next = last + 1
        finished = progress.stop is not None and progress.next >= progress.stop
        if progress.stop is not None and progress.next > progress.stop:
            messages = messages[: bisect_left(messages, progress.stop, key=_offset)]
            progress.next = progress.stop
        values, timestamps = self._options.deserializer.records(messages) if messages else ([], [])
        progress.at_end = False
        if finished:
            self._end(progress)
        return SplitRecords(progress.split_id, values, timestamps, finished)

    def _events(self, progress: _Progress, messages: list[Message]) -> SplitRecords | None:
        from confluent_kafka import KafkaError

        for message in messages:
            if message.error().code() != KafkaError._PARTITION_EOF:
                self._fail(message)
                continue
            # Markers of transactions have offsets too: the end may lie behind the last record.
            progress.next = max(progress.next, message.offset())
            progress.at_end = True
            if progress.stop is not None and progress.next >= progress.stop:
                self._end(progress)
                return SplitRecords(progress.split_id, [], finished=True)
        return None

    def _fail(self, message: Message) -> None:
        """Raises an error that the client cannot recover from; others are logged."""
        from confluent_kafka import KafkaError

        error = message.error()
        where = f"partition {message.partition()} of topic '{message.topic()}' at {self._options.servers}"
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            progress = self._reading.get(Partition(message.topic(), message.partition()))
            offset = "" if progress is None else f" {progress.next}"
            raise SourceError(
                f"{where} has no offset{offset}, and KafkaOffsetResetStrategy.NONE allows no other one: {reason_of(error)}"
            )
        if error.retriable() and not error.fatal():
            self._errors(error)
            return
        raise SourceError(f"{where}: {reason_of(error)}")

    def _end(self, progress: _Progress) -> None:
        del self._reading[progress.partition]
        self._last_offsets[progress.partition] = progress.next
        self._consumer.incremental_unassign([progress.at(progress.next)])

    # --- offsets of the group ---

    def notify_checkpoint_complete(self, positions: Mapping[str, Any]) -> None:
        if not self._options.commits:
            return
        stored = {
            self._partitions[split_id]: place for split_id, place in positions.items() if split_id in self._partitions
        }
        # Partitions that the checkpoint does not contain were finished by then.
        self._commit(self._last_offsets | stored)

    def _commit(self, offsets: Mapping[Partition, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        if not offsets:
            return
        self._in_flight += 1
        try:
            self._consumer.commit(
                offsets=[TopicPartition(*partition, offset) for partition, offset in offsets.items()],
                asynchronous=True,
            )
        except KafkaException as error:
            self._committed(error.args[0], [])

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Called by the client with the outcome of a commit. After a failure, the next commit covers the same offsets."""
        self._in_flight -= 1
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        if failed is not None:
            self._commits_failed.inc()
            _LOG.warning(
                "the offsets of group '%s' were not committed, which does not affect this job: %s",
                self._options.group_id,
                reason_of(failed),
            )
            return
        self._commits_succeeded.inc()
        for each in partitions:
            partition = Partition(each.topic, each.partition)
            if self._last_offsets.get(partition) == each.offset:
                del self._last_offsets[partition]
            if partition in self._reading:
                self._reading[partition].committed = each.offset

    def close(self) -> None:
        until = time.monotonic() + _CLOSE_SECONDS
        while self._in_flight > 0 and time.monotonic() < until:
            self._consumer.poll(0.05)
        self._consumer.close()

    # --- metrics ---

    def _show(self, progress: _Progress) -> None:
        topic, number = progress.partition
        group = self._metrics.add_group("topic", topic).add_group("partition", str(number))
        group.gauge("currentOffset", lambda: progress.next - 1)
        group.gauge("committedOffset", lambda: progress.committed)

    def _pending(self) -> int:
        """Returns the number of records that are not read yet, by the last answers of the brokers."""
        from confluent_kafka import KafkaException

        pending = 0
        for progress in self._reading.values():
            try:
                _, end = self._consumer.get_watermark_offsets(progress.at(progress.next), cached=True)
            except KafkaException:
                continue
            pending += max(0, end - progress.next)
        return pending


def _offset(message: Message) -> int:
    offset: int = message.offset()
    return offset
