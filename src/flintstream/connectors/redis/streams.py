"""Reads Redis Streams as consumers of a group: entries are acknowledged when the checkpoint with their effect has completed.

A split is a stream and one of its consumers. Ids of entries grow, and so do those that a consumer is given; so the last id
says which entries a checkpoint holds. What a consumer was given and has not acknowledged stays on the server as its pending
entries, and is read from there after a failure.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flintstream.connectors.redis.connection import RedisError, connect, driver, is_temporary
from flintstream.connectors.redis.options import FlinkJedisPoolConfig
from flintstream.runtime.source import SourceReader, Split, SplitRecords

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
_ACKNOWLEDGED_AT_A_TIME = 1000

EntryId = tuple[int, int]
"""The milliseconds and the number of an entry's id."""


class RedisStreamEntry(NamedTuple):
    """An entry of a stream.

    Example::

        RedisStreamEntry("orders", "1526919030474-0", {"item": "tea", "price": "2.5"})
    """

    stream: str
    entry_id: str
    fields: dict[str, str]


@dataclass(frozen=True)
class StreamSettings:
    """The settings of a reader."""

    config: FlinkJedisPoolConfig
    group: str
    consumer: str
    """The prefix of the names of consumers."""
    starting_id: str
    retry_seconds: float
    checkpointing: bool = True
    """If not, entries are acknowledged as they are read."""


class _Consumer:
    """A consumer of a stream, and its position."""

    def __init__(self, stream: str, name: str, position: str | None) -> None:
        self.stream = stream
        self.name = name
        self.last = (0, 0) if position is None else _parsed(position)
        """The id of the last entry that was emitted."""
        self.pending_from: EntryId | None = (0, 0)
        """The pending entry after which it reads next; None once all pending entries are emitted."""
        self.unacknowledged: deque[EntryId] = deque()
        self.has_more = True


class StreamReader(SourceReader):
    """Reads the consumers of a subtask in turn, over one connection."""

    def __init__(self, settings: StreamSettings) -> None:
        self._settings = settings
        self._consumers: dict[str, _Consumer] = {}
        self._turn: deque[str] = deque()
        self._completed: dict[str, EntryId] = {}
        """The last entries of splits in a completed checkpoint, until they are acknowledged."""
        self._client: Any = None
        self._next_try, self._wait = 0.0, _FIRST_WAIT
        self._lost_since: float | None = None
        try:
            self._client = connect(settings.config)
        except Exception as error:
            raise self._error(error) from error

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, position in splits:
            stream, number = split.content
            name = f"{self._settings.consumer}-{number}"
            self._consumers[split.split_id] = _Consumer(stream, name, position)
            self._turn.append(split.split_id)

    def poll(self, limit: int) -> list[SplitRecords]:
        looked: list[SplitRecords] = []
        # What could not be acknowledged is not left to a later checkpoint: an idle job takes none.
        if not self._is_connected() or not self._acknowledge_completed():
            return looked
        for _ in range(len(self._turn)):
            split_id = self._turn[0]
            self._turn.rotate(-1)
            try:
                records = self._read(split_id, limit)
            except Exception as error:
                self._lose(error, self._consumers[split_id].stream)
                break
            looked.append(records)
            self._lost_since, self._wait = None, _FIRST_WAIT
            if records.values:
                break
        return looked

    def snapshot(self) -> Mapping[str, str]:
        return {split_id: _shown(consumer.last) for split_id, consumer in self._consumers.items()}

    def notify_checkpoint_complete(self, positions: Mapping[str, str]) -> None:
        self._completed.update((split_id, _parsed(position)) for split_id, position in positions.items())
        self._acknowledge_completed()

    def next_due(self) -> float | None:
        # As it was at the last poll: what comes meanwhile is found by the polls of an idle job, as long as this is None.
        return 0.0 if any(consumer.has_more for consumer in self._consumers.values()) else None

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    # --- entries ---

    def _read(self, split_id: str, limit: int) -> SplitRecords:
        """Returns the pending entries of a consumer that were not emitted; then new ones."""
        consumer = self._consumers[split_id]
        values: list[RedisStreamEntry] = []
        while consumer.pending_from is not None and not values:
            entries = self._fetch(consumer, _shown(consumer.pending_from), limit)
            consumer.pending_from = _parsed(entries[-1][0]) if entries else None
            values = self._emitted(consumer, entries, was_pending=True)
        consumer.has_more = bool(values)
        if not values:
            values = self._emitted(consumer, self._fetch(consumer, ">", limit), was_pending=False)
            consumer.has_more = len(values) == limit
        return SplitRecords(split_id, values, [_parsed(value.entry_id)[0] for value in values])

    def _fetch(self, consumer: _Consumer, behind: str, limit: int) -> list[tuple[bytes, Any]]:
        streams, noack = {consumer.stream: behind}, not self._settings.checkpointing
        for attempt in range(2):
            try:
                found = self._client.xreadgroup(self._settings.group, consumer.name, streams, limit, noack=noack)
                break
            except driver().exceptions.ResponseError as error:
                if attempt or not str(error).startswith("NOGROUP"):
                    raise
                self._create_group(consumer)
        return _entries(found)

    def _create_group(self, consumer: _Consumer) -> None:
        """Creates the group, and an empty stream if there is none; a lost group resumes after the last entry emitted."""
        start = self._settings.starting_id if consumer.last == (0, 0) else _shown(consumer.last)
        try:
            self._client.xgroup_create(consumer.stream, self._settings.group, start, mkstream=True)
        except driver().exceptions.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):  # Another subtask was faster.
                raise

    def _emitted(
        self, consumer: _Consumer, entries: list[tuple[bytes, Any]], was_pending: bool
    ) -> list[RedisStreamEntry]:
        """Returns the records of entries, but those that were emitted before, or deleted."""
        numbered = [(_parsed(raw_id), fields) for raw_id, fields in entries]
        new = [(entry_id, fields) for entry_id, fields in numbered if entry_id > consumer.last and fields]
        if self._settings.checkpointing:
            emitted = {entry_id for entry_id, _ in new}
            self._acknowledge(consumer, [entry_id for entry_id, _ in numbered if entry_id not in emitted])
            consumer.unacknowledged.extend(entry_id for entry_id, _ in new)
        elif was_pending:  # By a run that took checkpoints; what is new is not to be acknowledged.
            self._acknowledge(consumer, [entry_id for entry_id, _ in numbered])
        if new:
            consumer.last = new[-1][0]
        return [
            RedisStreamEntry(
                consumer.stream, _shown(entry_id), {_text(name): _text(value) for name, value in fields.items()}
            )
            for entry_id, fields in new
        ]

    def _acknowledge_completed(self) -> bool:
        """Acknowledges the entries of completed checkpoints; returns whether there is still a connection."""
        while self._completed and self._client is not None:
            split_id, last = next(iter(self._completed.items()))
            consumer = self._consumers[split_id]
            done = [entry_id for entry_id in consumer.unacknowledged if entry_id <= last]
            try:
                self._acknowledge(consumer, done)
            except Exception as error:
                self._lose(error, consumer.stream)
                return False
            del self._completed[split_id]
            for _ in done:  # They come in the order of their ids.
                consumer.unacknowledged.popleft()
        return self._client is not None

    def _acknowledge(self, consumer: _Consumer, ids: list[EntryId]) -> None:
        if not ids or self._client is None:
            return
        pipeline = self._client.pipeline(transaction=False)
        for start in range(0, len(ids), _ACKNOWLEDGED_AT_A_TIME):
            some = ids[start : start + _ACKNOWLEDGED_AT_A_TIME]
            pipeline.xack(consumer.stream, self._settings.group, *map(_shown, some))
        pipeline.execute()

    # --- the connection ---

    def _is_connected(self) -> bool:
        if self._client is None and time.monotonic() >= self._next_try:
            try:
                self._client = connect(self._settings.config)
            except Exception as error:
                self._back_off(error)
        return self._client is not None

    def _lose(self, error: Exception, stream: str) -> None:
        """Drops the connection. Entries that the server has sent in the meantime are among the pending ones."""
        if not is_temporary(error):
            raise self._error(error, f", stream {stream!r}") from error
        self.close()
        for consumer in self._consumers.values():
            if consumer.pending_from is None:
                consumer.pending_from = consumer.last
            consumer.has_more = False
        if self._lost_since is None:
            self._lost_since = time.monotonic()
        self._back_off(error)

    def _back_off(self, error: Exception) -> None:
        now, since = time.monotonic(), self._lost_since
        if since is None or not is_temporary(error):
            raise self._error(error) from error
        if now + self._wait > since + self._settings.retry_seconds:
            waited = f"\nTried again for {self._settings.retry_seconds:g} seconds (retry_timeout_ms)."
            raise self._error(error, more=waited) from error
        self._next_try = now + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def _error(self, error: Exception, where: str = "", more: str = "") -> RedisError:
        group = f"group {self._settings.group!r}"
        return RedisError(f"{self._settings.config}, {group}{where}: {type(error).__name__}: {error}{more}")


def _entries(found: Any) -> list[tuple[bytes, Any]]:
    """Returns the entries of the one stream that was asked for; the answer's form depends on the protocol's version."""
    if not found:
        return []
    if isinstance(found, dict):
        ((entries,),) = found.values()
        return list(entries)
    ((_, entries),) = found
    return list(entries)


def _parsed(entry_id: str | bytes) -> EntryId:
    milliseconds, _, number = _text(entry_id).partition("-")
    return int(milliseconds), int(number or 0)


def _shown(entry_id: EntryId) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
