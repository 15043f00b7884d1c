"""Writers: distribute the records of an edge over the channels to the target's subtasks.

One writer serves one edge of one subtask; there is a class for each partitioner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from flintstream.common.canonical_keys import canonical_key
from flintstream.common.keys import key_bytes, subtasks
from flintstream.graph.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    ShufflePartitioner,
    StreamPartitioner,
)
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.block import (
    ChannelBuffer,
    Control,
    EndOfInput,
    Idleness,
    LatencyMarker,
    Watermark,
    encode_block,
)
from flintstream.runtime.captured import close_function, open_function, unwrapped
from flintstream.runtime.faults import UserCodeError, record_at_fault, user_fault
from flintstream.runtime.loops import known_targets, spread, spread_records
from flintstream.runtime.operators.base import bound_method

SendBlock = Callable[[int, bytes], None]
"""Sends the bytes of a block to a target subtask."""

_ROUTES_LIMIT = 1 << 17


class Writer:
    """Base class of writers; sends everything to its only channel.

    `targets` are the subtasks that this subtask is connected to.
    """

    keyed = False
    functions: tuple[Any, ...] = ()
    """The user's key selector and partitioner, if any: objects may have `open` and `close`."""

    def __init__(self, targets: Sequence[int], send: SendBlock) -> None:
        self._buffers = [self._buffer(target, send) for target in targets]

    def open(self, runtime_context: Any) -> None:
        """Opens the user's functions."""
        for function in self.functions:
            open_function(function, runtime_context)

    def close(self) -> None:
        """Closes the user's functions."""
        for function in self.functions:
            close_function(function)

    def _buffer(self, target: int, send: SendBlock) -> ChannelBuffer:
        return ChannelBuffer(lambda data: send(target, data), self.keyed)

    def process(self, batch: Batch) -> None:
        """Writes records."""
        self._buffers[0].extend(batch)

    def process_watermark(self, timestamp: int) -> None:
        """Writes a watermark to every channel, after the records so far."""
        self._control(Watermark(timestamp))

    def process_idleness(self, idle: bool) -> None:
        """Writes idleness to every channel."""
        self._control(Idleness(idle))

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Writes a latency marker to one channel, chosen by chance whatever the partitioner, after the records so far."""
        random.choice(self._buffers).control(marker)

    def finish(self) -> None:
        """Ends every channel."""
        self._control(Watermark(MAX_WATERMARK))
        self._control(EndOfInput())

    def flush(self) -> None:
        """Sends all buffered elements; called at the end of an epoch."""
        for buffer in self._buffers:
            buffer.flush()

    @property
    def buffered(self) -> bool:
        """Returns whether elements wait to be sent."""
        return any(buffer.buffered for buffer in self._buffers)

    def _control(self, element: Control) -> None:
        for buffer in self._buffers:
            buffer.control(element)

    def _spread(self, batch: Batch, targets: list[int]) -> None:
        """Appends record i to the buffer `targets[i]`."""
        buffers = self._buffers
        for buffer in buffers:
            buffer.has_timestamps(batch.timestamps is not None)
        spread(batch.values, targets, [buffer.values for buffer in buffers])
        self._spread_timestamps(batch.timestamps, targets)

    def _spread_timestamps(self, timestamps: list[int] | None, targets: list[int]) -> None:
        """Completes records that were appended to the buffers; full buffers are sent."""
        if timestamps is not None:
            spread(timestamps, targets, [buffer.timestamps for buffer in self._buffers])
        for buffer in self._buffers:
            buffer.cut()


class RoundRobinWriter(Writer):
    """Writes to the next channel, record by record: rebalance over all subtasks, rescale over the connected ones."""

    def __init__(self, targets: Sequence[int], send: SendBlock, first: int) -> None:
        super().__init__(targets, send)
        self._next = first % len(self._buffers)

    def process(self, batch: Batch) -> None:
        count = len(self._buffers)
        for index, buffer in enumerate(self._buffers):
            start = (index - self._next) % count
            part = slice(start, None, count)
            if start < len(batch.values):
                buffer.extend(Batch(batch.values[part], None if batch.timestamps is None else batch.timestamps[part]))
        self._next = (self._next + len(batch.values)) % count


class ShuffleWriter(Writer):
    """Writes each record to a random channel."""

    def process(self, batch: Batch) -> None:
        self._spread(batch, random.choices(range(len(self._buffers)), k=len(batch.values)))


class BroadcastWriter(Writer):
    """Writes each record to every channel; a block is encoded once."""

    def __init__(self, targets: Sequence[int], send: SendBlock) -> None:
        def send_to_all(data: bytes) -> None:
            for target in targets:
                send(target, data)

        self._buffers = [ChannelBuffer(send_to_all, False)]
        self._targets = targets
        self._send = send

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Writes a latency marker to one channel, in a block of its own, since all others are for all channels."""
        self.flush()
        self._send(random.choice(self._targets), encode_block(Batch([]), [(0, marker)]))


class GlobalWriter(Writer):
    """Writes every record to subtask 0; the other channels get only control elements."""


class CustomWriter(Writer):
    """Writes each record to the channel returned by the user's partitioner."""

    def __init__(
        self, targets: Sequence[int], send: SendBlock, partitioner: CustomPartitioner, place: tuple[str, int]
    ) -> None:
        super().__init__(targets, send)
        self.functions = (unwrapped(partitioner.partitioner), unwrapped(partitioner.key_selector))
        self._partition = bound_method(partitioner.partitioner, "partition")
        self._key = bound_method(partitioner.key_selector, "get_key")
        self._place = place

    def process(self, batch: Batch) -> None:
        partition, key, count = self._partition, self._key, len(self._buffers)
        records = iter(batch.values)
        try:
            targets = [partition(key(value), count) for value in records]
        except Exception as error:
            raise user_fault(error, *self._place, record_at_fault(batch.values, records)) from error
        allowed = range(count)
        for value, target in zip(batch.values, targets):
            if not hasattr(target, "__index__") or target not in allowed:
                refusal = ValueError(
                    f"partition_custom: the partitioner returned {target!r} for {value!r}; it must return an integer "
                    f"from 0 to {count - 1}"
                )
                raise user_fault(refusal, *self._place, value) from refusal
        self._spread(batch, targets)


class Routes:
    """Maps keys to target subtasks by their key groups, with a bounded cache.

    Once there are more keys than the cache may hold, every block is computed.
    """

    def __init__(self, max_parallelism: int, parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._known: dict[Any, int] = {}
        self._overrun = False

    def targets(self, keys: list[Any]) -> list[int]:
        """Returns the target of each key."""
        if self._overrun:
            return subtasks(keys, self._max_parallelism, self._parallelism)
        known = self._known
        with suppress(KeyError):
            return known_targets(known, keys)
        return self._learn(keys)

    def _learn(self, keys: list[Any]) -> list[int]:
        targets = subtasks(keys, self._max_parallelism, self._parallelism)
        self._known.update(zip(keys, targets))
        if len(self._known) > _ROUTES_LIMIT:
            self._overrun = True
            self._known = {}
        return targets


class KeyGroupWriter(Writer):
    """Writes each record, with its key, to the subtask that owns its key group."""

    keyed = True

    def __init__(
        self,
        targets: Sequence[int],
        send: SendBlock,
        partitioner: KeyGroupPartitioner,
        max_parallelism: int,
        place: tuple[str, int],
    ) -> None:
        super().__init__(targets, send)
        self.functions = (unwrapped(partitioner.key_selector),)
        self._select = bound_method(partitioner.key_selector, "get_key")
        self._key_type = partitioner.key_type
        self._routes = Routes(max_parallelism, len(targets))
        self._place = (partitioner.name, place[1])

    def process(self, batch: Batch) -> None:
        select = self._select
        records = iter(batch.values)
        try:
            keys = [select(value) for value in records]
        except Exception as error:
            raise user_fault(error, *self._place, record_at_fault(batch.values, records)) from error
        if self._key_type is not None:
            try:
                keys = self._key_type.coerce(keys)
            except Exception as error:
                raise user_fault(error, *self._place) from error
        keys, targets = self._route(keys, batch.values)
        buffers = self._buffers
        if len(buffers) == 1:
            buffers[0].extend(Batch(batch.values, batch.timestamps, keys))
            return
        for buffer in buffers:
            buffer.has_timestamps(batch.timestamps is not None)
        value_lists, key_lists = [buffer.values for buffer in buffers], [buffer.keys for buffer in buffers]
        spread_records(batch.values, keys, targets, value_lists, key_lists)
        self._spread_timestamps(batch.timestamps, targets)

    def _route(self, keys: list[Any], values: list[Any]) -> tuple[list[Any], list[int]]:
        """Returns the keys as sent, and the target of each."""
        with suppress(Exception):
            return keys, self._routes.targets(keys)
        # A list, a NaN or an invalid key: rare, so that other keys do not pay for it.
        keys = [canonical_key(key) for key in keys]
        try:
            return keys, self._routes.targets(keys)
        except Exception as error:
            failed = error
        raise self._key_fault(keys, values, failed)

    def _key_fault(self, keys: list[Any], values: list[Any], error: Exception) -> UserCodeError:
        """Returns the error for the first invalid key: the encoding explains it better than an unhashable type."""
        for key, record in zip(keys, values):
            try:
                key_bytes(key)
            except Exception as better:
                return user_fault(better, *self._place, record)
        return user_fault(error, *self._place)


def make_writer(
    partitioner: StreamPartitioner,
    targets: Sequence[int],
    max_parallelism: int,
    send: SendBlock,
    place: tuple[str, int],
) -> Writer:
    """Returns the writer of a partitioner.

    `place` is the name of the sending operator and the index of its subtask, for errors.
    """
    writer = _writer(partitioner, targets, max_parallelism, send, place)
    for buffer in writer._buffers:
        buffer.place = place
    return writer


def _writer(
    partitioner: StreamPartitioner,
    targets: Sequence[int],
    max_parallelism: int,
    send: SendBlock,
    place: tuple[str, int],
) -> Writer:
    if isinstance(partitioner, KeyGroupPartitioner):
        return KeyGroupWriter(targets, send, partitioner, max_parallelism, place)
    if isinstance(partitioner, BroadcastPartitioner):
        return BroadcastWriter(targets, send)
    if isinstance(partitioner, CustomPartitioner):
        return CustomWriter(targets, send, partitioner, place)
    if len(targets) == 1:
        return Writer(targets, send)
    if isinstance(partitioner, ShufflePartitioner):
        return ShuffleWriter(targets, send)
    if isinstance(partitioner, GlobalPartitioner):
        return GlobalWriter(targets, send)
    return RoundRobinWriter(targets, send, first=place[1])
