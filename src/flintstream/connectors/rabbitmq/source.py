"""Reads a RabbitMQ queue: messages are acknowledged when the checkpoint that holds their effect has completed.

With correlation ids each message counts once: the ids of messages that were processed and may be delivered again are part of
each checkpoint, and a message whose id is among them is acknowledged and not emitted.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

from flintstream.common.serialization import DeserializationSchema
from flintstream.connectors.rabbitmq.connection import RabbitMqError, is_temporary
from flintstream.connectors.rabbitmq.consumer import Consumer, Message
from flintstream.connectors.rabbitmq.options import RMQConnectionConfig
from flintstream.runtime.source import SourceError, SourceReader, Split, SplitEnumerator, SplitRecords

_T = TypeVar("_T")
SETTLING_SECONDS = 10.0
"""How long a server may take to write acknowledgements to its disk: if it is killed before, it delivers the messages again.
Measured: 0.1 to 0.3 seconds with RabbitMQ 3.10."""
_UNSEEN_SECONDS = 600.0
"""How long a message may take to be delivered again: the server notices late that a machine is gone."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0


@dataclass(frozen=True)
class QueuePosition:
    """The position of a queue in a checkpoint."""

    session: str
    """The connection that delivered the messages."""
    tag: int
    """The delivery tag of the last one."""
    ids: tuple[str, ...] = ()
    """The correlation ids of messages that were processed, and may be delivered again."""


@dataclass(frozen=True)
class QueueSettings:
    """The settings of a reader."""

    config: RMQConnectionConfig
    queue: str
    schema: DeserializationSchema
    use_correlation_id: bool
    checkpointing: bool
    """If not, messages are acknowledged as soon as they are taken."""
    retry_seconds: float


class QueueEnumerator(SplitEnumerator):
    """A queue is one split; if that ends, the source does."""

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def discover(self) -> list[Split]:
        self.no_more_splits = True
        return [Split(f"queue {self._queue}")]


class ProcessedIds:
    """The correlation ids of messages that were processed, and may be delivered again."""

    def __init__(self, restored: Sequence[str] = ()) -> None:
        self._seen: dict[str, int] = {}
        """Those delivered by the current connection, with their delivery tags, in order."""
        self._acknowledged: dict[str, float] = {}
        """Those whose acknowledgement the server has, each with the time when it is forgotten, in order."""
        self._unseen: dict[str, float] = {}
        """Those of earlier connections, each with the time when it is forgotten, in order."""
        self._expect(restored)

    def is_new(self, correlation_id: str, tag: int) -> bool:
        """Records a message; returns whether to process it."""
        known = correlation_id in self._seen
        for before in (self._acknowledged, self._unseen):
            known = before.pop(correlation_id, None) is not None or known
        self._seen.setdefault(correlation_id, tag)
        return not known

    def acknowledged(self, tag: int) -> None:
        """The server has the acknowledgements of all messages up to a delivery tag."""
        end = time.monotonic() + SETTLING_SECONDS
        for each in _up_to(self._seen, tag):
            del self._seen[each]
            self._acknowledged[each] = end

    def reconnected(self) -> None:
        """Resets the tags: messages that were not acknowledged are redelivered with others."""
        self._expect(self._seen)
        self._seen = {}

    def stored(self) -> tuple[str, ...]:
        """Returns all ids that may come again."""
        now = time.monotonic()
        for before in (self._acknowledged, self._unseen):
            for each in _up_to(before, now):
                del before[each]
        return (*self._unseen, *self._acknowledged, *self._seen)

    def _expect(self, ids: Iterable[str]) -> None:
        end = time.monotonic() + _UNSEEN_SECONDS
        self._unseen.update((each, end) for each in ids)


def _up_to(ordered: Mapping[str, float], last: float) -> list[str]:
    """Returns the first keys, whose values are not beyond `last`."""
    return [key for key, _ in takewhile(lambda item: item[1] <= last, ordered.items())]


class QueueReader(SourceReader):
    """Reads a queue, which is one split."""

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        self._where = f"{settings.config}, queue {settings.queue!r}"
        self._split_id: str | None = None
        self._ids = ProcessedIds()
        self._finished = self._has_more = False
        self._connecting: Future[Consumer] | None = None
        self._next_try, self._wait = 0.0, _FIRST_WAIT
        self._lost_since: float | None = None
        settings.schema.open()
        try:
            self._take_over(self._connect())
        except Exception as error:
            raise self._error(error) from error

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, position in splits:
            self._split_id = split.split_id
            if position is not None:
                self._ids = ProcessedIds(position.ids)

    def poll(self, limit: int) -> list[SplitRecords]:
        if self._split_id is None or self._finished:
            return []
        consumer = self._live_consumer()
        records: list[Any] = []
        while consumer is not None and not records and not self._finished and (messages := consumer.take(limit)):
            records = self._records(messages)
        self._has_more = consumer is not None and consumer.has_messages
        if consumer is not None and not self._settings.checkpointing:
            consumer.acknowledge(self._tag)
        return [SplitRecords(self._split_id, records, finished=self._finished)]

    def snapshot(self) -> Mapping[str, QueuePosition]:
        if self._split_id is None or self._finished:
            return {}
        if self._consumer is not None:
            self._ids.acknowledged(self._consumer.acknowledged)
        return {self._split_id: QueuePosition(self._session, self._tag, self._ids.stored())}

    def notify_checkpoint_complete(self, positions: Mapping[str, QueuePosition]) -> None:
        if self._split_id is None or self._consumer is None:
            return
        position = positions.get(self._split_id)
        if position is None:
            if self._finished:
                self._consumer.acknowledge(self._tag)
        elif position.session == self._session:
            # Those of another session are delivered again, and acknowledged with a later checkpoint.
            self._consumer.acknowledge(position.tag)

    def next_due(self) -> float | None:
        # As it was at the last poll: what arrives meanwhile is found by the polls of an idle job, as long as this is None.
        return 0.0 if self._has_more else None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        if self._connecting is not None:
            self._connecting.add_done_callback(_close_again)

    # --- messages ---

    def _records(self, messages: list[Message]) -> list[Any]:
        """Returns the records of messages that have not been processed yet, up to the one that ends the stream."""
        schema = self._settings.schema
        self._tag = messages[-1].tag
        if type(schema).is_end_of_stream is DeserializationSchema.is_end_of_stream:
            return self._deserialized([message.body for message in messages if self._is_new(message)])
        records: list[Any] = []
        for message in messages:
            for record in self._deserialized([message.body] if self._is_new(message) else []):
                if schema.is_end_of_stream(record):
                    self._finished, self._tag = True, message.tag
                    return records
                records.append(record)
        return records

    def _is_new(self, message: Message) -> bool:
        if not self._settings.use_correlation_id:
            return True
        if message.correlation_id is None:
            raise SourceError(
                f"{self._where}: a message has no correlation id: {_shown(message.body)}. Have its producer set a "
                "unique one, or use RMQSource with use_correlation_id=False"
            )
        return self._ids.is_new(message.correlation_id, message.tag)

    def _deserialized(self, bodies: list[bytes]) -> list[Any]:
        try:
            records = self._settings.schema.deserialize_block(bodies)
        except Exception as error:
            raise self._error_in(bodies, error) from error
        return [record for record in records if record is not None]

    def _error_in(self, bodies: list[bytes], error: Exception) -> SourceError:
        for body in bodies:
            try:
                self._settings.schema.deserialize(body)
            except Exception as found:
                return SourceError(f"{self._where}: a message cannot be read: {found!r}: {_shown(body)}")
        return SourceError(f"{self._where}: messages cannot be read: {error!r}")

    # --- the connection ---

    def _connect(self) -> Consumer:
        transactional = self._settings.checkpointing and self._settings.use_correlation_id
        return Consumer(self._settings.config, self._settings.queue, transactional)

    def _take_over(self, consumer: Consumer) -> None:
        self._consumer: Consumer | None = consumer
        self._session, self._tag = uuid.uuid4().hex, 0
        self._lost_since, self._wait = None, _FIRST_WAIT

    def _live_consumer(self) -> Consumer | None:
        """Returns the consumer, or a new one if there is one by now. A poll must not wait, so another thread connects."""
        if self._consumer is not None and self._consumer.failure is not None:
            self._lose(self._consumer, self._consumer.failure)
        if self._consumer is None and self._connecting is None and time.monotonic() >= self._next_try:
            self._connecting = _in_background(self._connect)
        if self._connecting is not None and self._connecting.done():
            connecting, self._connecting = self._connecting, None
            failure = connecting.exception()
            if failure is None:
                self._take_over(connecting.result())
            else:
                self._back_off(failure)
        return self._consumer

    def _lose(self, consumer: Consumer, failure: Exception) -> None:
        self._ids.acknowledged(consumer.acknowledged)
        self._ids.reconnected()
        self._consumer = None
        self._lost_since = time.monotonic()
        _in_background(consumer.close)
        self._back_off(failure)

    def _back_off(self, failure: BaseException) -> None:
        """Schedules the next attempt, or fails the job."""
        config = self._settings.config
        seconds = 0.0 if config.is_automatic_recovery() is False else self._settings.retry_seconds
        interval = config.get_network_recovery_interval()
        wait = self._wait if interval is None else interval / 1000
        now = time.monotonic()
        if not is_temporary(failure):
            raise self._error(failure) from failure
        if self._lost_since is not None and now + wait > self._lost_since + seconds:
            raise self._error(failure, f"\nTried again for {seconds:g} seconds (retry_timeout_ms).") from failure
        self._next_try = now + wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def _error(self, error: BaseException, more: str = "") -> RabbitMqError:
        return RabbitMqError(f"{self._where}: {type(error).__name__}: {error}{more}")


def _close_again(connecting: Future[Consumer]) -> None:
    """Closes a connection that was made too late."""
    if connecting.exception() is None:
        connecting.result().close()


def _in_background(call: Callable[[], _T]) -> Future[_T]:
    """Runs a call on a daemon thread."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="rabbitmq", daemon=True).start()
    return future


def _shown(body: bytes) -> str:
    return repr(body[:200]) + ("…" if len(body) > 200 else "")
