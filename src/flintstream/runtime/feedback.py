"""FeedbackQueue: the records on their way from the tails of an iteration to its head, within a slot.

A tail encodes what it receives, so that functions may change their objects afterwards, and so that the queue can be stored
as it is. Up to `MEMORY_BYTES` stay in memory; what comes after that is on disk until its turn.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from flintstream.runtime.batch import Batch
from flintstream.runtime.block import decode_block, encode_block

BLOCK_RECORDS = 4096
"""The most records of a block, which is emitted as a whole."""
MEMORY_BYTES = 64 * 1024 * 1024
"""How much a queue keeps in memory."""
_FILE_BYTES = 64 * 1024 * 1024
"""The size from which another file is begun, so that the disk is freed while the queue is in use."""


class FedBack(NamedTuple):
    """A block of records that were fed back, and the number of their tail."""

    tail: int
    records: int
    data: bytes

    @staticmethod
    def of(tail: int, batch: Batch) -> FedBack:
        """Returns records as a block."""
        return FedBack(tail, len(batch.values), encode_block(batch))

    def batch(self) -> Batch:
        """Returns the records; with keys, if the feedback stream is keyed."""
        return decode_block(self.data)[0]


class _SpillFile:
    """A file without a name, which goes with its last block."""

    def __init__(self, directory: str) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="feedback-", dir=directory)
        self._blocks = 0
        self.size = 0

    def append(self, data: bytes) -> int:
        """Adds a block; returns its offset."""
        self._file.seek(self.size)
        self._file.write(data)
        self._blocks += 1
        offset, self.size = self.size, self.size + len(data)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """Returns a block."""
        self._file.seek(offset)
        return self._file.read(length)

    def release(self) -> bool:
        """Removes a block; returns whether it was the last one, with which the file is closed."""
        self._blocks -= 1
        if not self._blocks:
            self._file.close()
        return not self._blocks


class _Spilled(NamedTuple):
    tail: int
    records: int
    file: _SpillFile
    offset: int
    length: int

    def load(self) -> FedBack:
        return FedBack(self.tail, self.records, self.file.read(self.offset, self.length))


class FeedbackQueue:
    """The queue of one iteration in one slot, in the order in which records were fed back."""

    def __init__(self, directory: Callable[[], str], memory_bytes: int = MEMORY_BYTES) -> None:
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._blocks: deque[FedBack | _Spilled] = deque()
        self._in_memory = 0
        self._file: _SpillFile | None = None
        self.records = 0
        """The number of records that wait."""
        self.closed = False
        """Whether the head has ended, and takes nothing more."""

    def put(self, tail: int, batch: Batch) -> None:
        """Adds records."""
        for start in range(0, len(batch.values), BLOCK_RECORDS):
            self.put_block(FedBack.of(tail, batch.slice(start, start + BLOCK_RECORDS)))

    def put_block(self, block: FedBack) -> None:
        """Adds a block."""
        self.records += block.records
        if self._in_memory + len(block.data) <= self._memory_bytes:
            self._in_memory += len(block.data)
            self._blocks.append(block)
            return
        if self._file is None or self._file.size >= _FILE_BYTES:
            self._file = _SpillFile(self._directory())
        offset = self._file.append(block.data)
        self._blocks.append(_Spilled(block.tail, block.records, self._file, offset, len(block.data)))

    def take(self) -> FedBack | None:
        """Removes and returns the oldest block; None if there is none."""
        if not self._blocks:
            return None
        oldest = self._blocks.popleft()
        self.records -= oldest.records
        if isinstance(oldest, FedBack):
            self._in_memory -= len(oldest.data)
            return oldest
        block = oldest.load()
        if oldest.file.release() and oldest.file is self._file:
            self._file = None
        return block

    def blocks(self) -> Iterator[FedBack]:
        """Yields all blocks, the oldest first; they stay in the queue."""
        for block in self._blocks:
            yield block if isinstance(block, FedBack) else block.load()
