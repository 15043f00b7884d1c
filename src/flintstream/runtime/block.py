"""Block: the unit of data sent from one subtask to another, as bytes.

A block holds records, column by column, and control elements (watermarks, idleness, latency markers, end of input),
each with its position among the records. Blocks of numbers, strings and tuples of them are written as `columns`, others
by pickle; a block with instances of local classes falls back to cloudpickle. A block with a single large record is sent
in fragments, since a row must fit several times into the memory of Spark's JVM.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from flintstream.common.pickling import dumps
from flintstream.runtime import columns
from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import user_fault

TARGET_BLOCK_BYTES = 512 * 1024
"""The target size of blocks, so that few exceed the limit."""
MAX_BLOCK_BYTES = 1024 * 1024
"""The maximum size of a block, unless it holds a single record; that is sent in fragments of this size."""
_FEWEST_FOR_COLUMNS = 4
_LEAST_RECORD_WEIGHT = 8


class Watermark(NamedTuple):
    """No record with a timestamp at or below this one is expected after it."""

    timestamp: int


class Idleness(NamedTuple):
    """The channel has become idle or active."""

    idle: bool


class EndOfInput(NamedTuple):
    """The end of this channel."""


class LatencyMarker(NamedTuple):
    """Was emitted by a subtask of a source at that time, in milliseconds since 1970. It is in one channel only."""

    marked_time: int
    operator_id: str
    subtask: int


Control = Watermark | Idleness | LatencyMarker | EndOfInput
PlacedControl = tuple[int, Control]
"""A control element, and the number of records of its block that precede it."""


def encode_block(batch: Batch, controls: list[PlacedControl] | None = None) -> bytes:
    """Encodes a block."""
    if len(batch.values) >= _FEWEST_FOR_COLUMNS:
        block = columns.encode(batch.values, batch.timestamps, batch.keys)
        if block is not None:
            return block + dumps(controls) if controls else block
    timestamps = None if batch.timestamps is None else array("q", batch.timestamps)
    return dumps((batch.values, timestamps, batch.keys, controls or None))


def decode_block(data: bytes | memoryview) -> tuple[Batch, list[PlacedControl] | None]:
    """Decodes the batch and the positioned control elements of a block."""
    if data[0] == columns.MARK:
        values, timestamps, keys, end = columns.decode(data)
        return Batch(values, timestamps, keys), pickle.loads(data[end:]) if end < len(data) else None
    values, timestamps, keys, controls = pickle.loads(data)
    return Batch(values, None if timestamps is None else timestamps.tolist(), keys), controls


# The first byte of a fragment, which differs from those of whole blocks.
_WHOLE = (pickle.PROTO[0], columns.MARK)
_FRAGMENT, _LAST_FRAGMENT = b"\x01", b"\x02"


def fragments_of(block: bytes) -> Iterator[bytes]:
    """Returns a block as sent: itself, or several fragments."""
    if len(block) <= MAX_BLOCK_BYTES:
        yield block
        return
    view = memoryview(block)
    for start in range(0, len(block), MAX_BLOCK_BYTES):
        end = start + MAX_BLOCK_BYTES
        yield b"".join((_FRAGMENT if end < len(block) else _LAST_FRAGMENT, view[start:end]))


def ends_block(data: bytes | memoryview) -> bool:
    """Returns whether this is a whole block, or the last fragment of one."""
    return data[0] in _WHOLE or data[0] == _LAST_FRAGMENT[0]


def weight(block: bytes | memoryview) -> int:
    """Returns what a block counts for while it is in flight: its bytes, and at least some for each record of columns, which
    may need less than a byte.
    """
    if len(block) > columns.HEADER_BYTES and block[0] == columns.MARK:
        return max(len(block), _LEAST_RECORD_WEIGHT * columns.count(block))
    return len(block)


class BlockAssembler:
    """Reassembles the blocks of a receiver's channels. The fragments of a block arrive in order, interleaved with
    those of other channels.
    """

    def __init__(self) -> None:
        self._fragments: dict[int, list[bytes | memoryview]] = {}

    @property
    def incomplete(self) -> bool:
        """Returns whether fragments of a block are missing."""
        return bool(self._fragments)

    def add(self, channel: int, data: bytes | memoryview) -> bytes | memoryview | None:
        """Returns the block that has arrived on a channel; None while fragments of it are missing."""
        if data[0] in _WHOLE:
            return data
        fragments = self._fragments.setdefault(channel, [])
        fragments.append(memoryview(data)[1:])
        return b"".join(self._fragments.pop(channel)) if data[0] == _LAST_FRAGMENT[0] else None


class ChannelBuffer:
    """Buffers the elements of one channel and cuts them into blocks of bounded size.

    `send` is called with the bytes of each block or fragment, in order.
    """

    __slots__ = ("_controls", "_limit", "_send", "keys", "place", "records", "timestamps", "values")

    def __init__(self, send: Any, keyed: bool) -> None:
        self._send = send
        self._limit = 4096
        self.values: list[Any] = []
        self.keys: list[Any] | None = [] if keyed else None
        self.timestamps: list[int] | None = None
        self._controls: list[PlacedControl] = []
        self.records = 0
        self.place: tuple[str, int] | None = None
        """The sending operator and its subtask, for errors about records that cannot be encoded."""

    def has_timestamps(self, wanted: bool) -> None:
        """Prepares the buffer for records with or without timestamps: a block never mixes the two."""
        if (self.timestamps is not None) != wanted:
            if self.values:
                self.flush()
            self.timestamps = [] if wanted else None

    def extend(self, batch: Batch) -> None:
        """Appends the records of a batch."""
        self.has_timestamps(batch.timestamps is not None)
        self.values.extend(batch.values)
        if self.keys is not None and batch.keys is not None:
            self.keys.extend(batch.keys)
        if self.timestamps is not None and batch.timestamps is not None:
            self.timestamps.extend(batch.timestamps)
        self.cut()

    def control(self, element: Control) -> None:
        """Appends a control element after the records so far."""
        self._controls.append((len(self.values), element))

    @property
    def buffered(self) -> bool:
        """Returns whether elements wait to be sent."""
        return bool(self.values or self._controls)

    def cut(self) -> None:
        """Sends the buffered elements if they fill a block."""
        if len(self.values) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Sends all buffered elements."""
        if not self.buffered:
            return
        batch = Batch(self.values, self.timestamps, self.keys)
        controls, self._controls = self._controls, []
        self.values = []
        if self.keys is not None:
            self.keys = []
        if self.timestamps is not None:
            self.timestamps = []
        self.records += len(batch.values)
        self._emit(batch, controls)

    def _emit(self, batch: Batch, controls: list[PlacedControl]) -> None:
        count = len(batch.values)
        if count > 2 * self._limit:
            self._halve(batch, controls)
            return
        data = self._encode(batch, controls)
        if count:
            fitting = count * TARGET_BLOCK_BYTES // len(data)
            self._limit = max(1, min(16384, fitting, 4 * self._limit))
        if len(data) > MAX_BLOCK_BYTES and count > 1:
            self._halve(batch, controls)
        elif len(data) <= MAX_BLOCK_BYTES:
            self._send(data)
        else:
            for fragment in fragments_of(data):
                self._send(fragment)

    def _encode(self, batch: Batch, controls: list[PlacedControl]) -> bytes:
        try:
            return encode_block(batch, controls)
        except Exception as error:
            if self.place is None:
                raise
            record = _unencodable(batch)
            raise user_fault(_beyond_64_bits(batch, record) or error, *self.place, record) from error

    def _halve(self, batch: Batch, controls: list[PlacedControl]) -> None:
        half = len(batch.values) // 2
        first = [(place, element) for place, element in controls if place < half]
        rest = [(place - half, element) for place, element in controls if place >= half]
        self._emit(batch.slice(0, half), first)
        self._emit(batch.slice(half, len(batch.values)), rest)


def _beyond_64_bits(batch: Batch, record: Any) -> ValueError | None:
    """Returns the error of a record with a timestamp that no block can hold; None if that is not what is wrong with it."""
    for value, timestamp in zip(batch.values, batch.timestamps or ()):
        if value is record and isinstance(timestamp, int) and not -(2**63) <= timestamp < 2**63:
            return ValueError(
                f"the record has the timestamp {timestamp}: timestamps are milliseconds since 1970, in 64 bits"
            )
    return None


def _unencodable(batch: Batch) -> Any:
    """Returns the record that prevents a batch from being encoded."""
    for index in range(len(batch.values)):
        try:
            encode_block(batch.slice(index, index + 1))
        except Exception:
            return batch.values[index]
    return None
