"""Channels of the pipelined transport: frames, and credits that bound what is in flight.

A *frame* is a block, a barrier or a credit of one channel. Frames for the same slot are concatenated into a *pack*,
which is one row of Spark's shuffle. A channel is in order: the blocks of an epoch arrive before its barrier, those of
the next behind it.

A receiver grants credits, in bytes (see `weight` of a block). A sender without credit keeps its blocks, and its task
takes no more input until the receiver has processed some. So a slow task slows the tasks before it, and finally the
sources, while the memory for blocks in flight stays bounded; so does that for blocks which are held back behind a
barrier. Credits are by channel: a task that waits for one channel keeps no other from being processed, and as long as
the last tasks of a graph can work, all can.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from flintstream.runtime.block import weight

BLOCK, BARRIER, CREDIT = 1, 2, 3
_HEADER = struct.Struct("<Biiii")
"""Kind, sending slot, vertex, channel, value: the size of a block, the bytes of a credit. The vertex and channel are
those of the receiver of blocks, also for credits, which travel the other way.
"""
WINDOW_BYTES = 2 << 20
"""The most bytes of a channel in flight, if a slot has few channels; a last block may exceed it."""
LEAST_WINDOW_BYTES = 64 << 10
SLOT_WINDOW_BYTES = 64 << 20
"""The most bytes in flight to a slot, unless it has more than a thousand channels."""


class Frame(NamedTuple):
    """A frame of a channel."""

    kind: int
    sender: int
    """The sending slot."""
    vertex: int
    channel: int
    value: int
    block: memoryview | bytes = b""

    def pack(self) -> tuple[bytes, bytes | memoryview]:
        """Returns the header and the block."""
        return _HEADER.pack(self.kind, self.sender, self.vertex, self.channel, self.value), self.block


def frames_of(pack: bytes | bytearray | memoryview) -> Iterator[Frame]:
    """Yields the frames of a pack."""
    view = memoryview(pack)
    start = 0
    while start < len(view):
        kind, sender, vertex, channel, value = _HEADER.unpack_from(view, start)
        start += _HEADER.size
        end = start + value if kind == BLOCK else start
        yield Frame(kind, sender, vertex, channel, value, view[start:end])
        start = end


def window(channels: int) -> int:
    """Returns the bytes that may be in flight in each of the channels of a slot."""
    return max(LEAST_WINDOW_BYTES, min(WINDOW_BYTES, SLOT_WINDOW_BYTES // max(1, channels)))


class OutChannel:
    """The sending end of a channel."""

    __slots__ = ("channel", "credit", "owner", "slot", "vertex", "waiting")

    def __init__(self, slot: int, vertex: int, channel: int, owner: Any) -> None:
        self.slot = slot
        """The receiving slot."""
        self.vertex = vertex
        self.channel = channel
        self.credit = LEAST_WINDOW_BYTES
        """The bytes that may still be sent; the last block may have made it negative."""
        self.owner = owner
        """The sending task, which is blocked while frames wait."""
        self.waiting: deque[tuple[int, int, bytes]] = deque()
        """Frames without credit, in order: kind, value, block."""

    def admit(self, kind: int, value: int, block: bytes) -> bool:
        """Returns whether a frame may be sent now; otherwise it waits."""
        if self.waiting or (kind == BLOCK and self.credit <= 0):
            self.waiting.append((kind, value, block))
            return False
        if kind == BLOCK:
            self.credit -= weight(block)
        return True

    def grant(self, credit: int) -> list[tuple[int, int, bytes]]:
        """Adds a credit; returns the frames that may be sent now."""
        self.credit += credit
        admitted = []
        while self.waiting and (self.waiting[0][0] != BLOCK or self.credit > 0):
            frame = self.waiting.popleft()
            if frame[0] == BLOCK:
                self.credit -= weight(frame[2])
            admitted.append(frame)
        return admitted


class InChannel:
    """The receiving end of a channel."""

    __slots__ = ("channel", "held", "input_index", "owed", "sender", "window")

    def __init__(self, channel: int, input_index: int, window: int) -> None:
        self.channel = channel
        self.input_index = input_index
        self.window = window
        self.held: list[Frame] | None = None
        """The frames behind the barrier, until the task passes it; None if the barrier has not arrived."""
        self.sender = -1
        """The sending slot; known with the first frame."""
        # The sender starts with the smallest window, and gets the rest with the first credit.
        self.owed = window - LEAST_WINDOW_BYTES
        """The bytes processed since the last credit."""

    def processed(self, block: bytes | memoryview) -> int:
        """Notes that a block was processed; returns the credit to grant now, or 0."""
        self.owed += weight(block)
        if 2 * self.owed < self.window:
            return 0
        owed, self.owed = self.owed, 0
        return owed
