"""Cached streams: the operator that writes the records of a stream into a cache, and the source that reads them in later
jobs.
"""

from __future__ import annotations

import threading
import uuid
from typing import Any, Protocol

from flintstream.runtime.batch import Batch
from flintstream.runtime.block import ChannelBuffer
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.source import Split


class CachedRecords(Protocol):
    """The records of a stream, stored by Spark."""

    parallelism: int
    """The number of subtasks that produced them, and so of those that read them."""

    def stored(self) -> bool:
        """Returns whether Spark still has all of them."""

    def retain(self) -> None:
        """Keeps them until another `release`."""

    def release(self) -> None:
        """Removes them, unless someone else retains them."""


class StreamCache:
    """The records of a cached stream, from the end of the job that produces them until they are invalidated.

    On the driver only, and safe for several threads: jobs end on threads of their own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: CachedRecords | None = None

    def records(self) -> CachedRecords | None:
        """Returns the records, retained: whoever takes them releases them. None if there are none."""
        with self._lock:
            if self._records is not None:
                self._records.retain()
            return self._records

    def available(self) -> bool:
        """Returns whether the records are there. Records of which a part is lost are removed: a job computes them again."""
        records = self.records()
        if records is None:
            return False
        try:
            if records.stored():
                return True
        finally:
            records.release()
        self._remove(records)
        return False

    @property
    def parallelism(self) -> int | None:
        """Returns the number of subtasks that produced the records; None if there are none."""
        records = self._records
        return None if records is None else records.parallelism

    def fill(self, records: CachedRecords) -> None:
        """Takes over the records of a job that has finished. Those of the first of several jobs stay."""
        with self._lock:
            if self._records is None:
                self._records = records
                return
        records.release()

    def invalidate(self) -> None:
        """Removes the records; the next job that needs them computes them again."""
        self._remove(self._records)

    def _remove(self, records: CachedRecords | None) -> None:
        with self._lock:
            if records is None or self._records is not records:
                return
            self._records = None
        records.release()


class CacheOperator(Operator):
    """Spools the records of a stream as blocks, which the driver lets Spark store."""

    takes_declared_types = True

    def __init__(self, cache: StreamCache) -> None:
        self.cache: StreamCache | None = cache
        """On the driver only."""
        self.spool_name = f"cache-{uuid.uuid4().hex}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": None}

    def open(self) -> None:
        self._buffer = ChannelBuffer(self._append, keyed=False)
        self._buffer.place = (self.context.name, self.context.subtask)

    def _append(self, block: bytes) -> None:
        self.context.services.spool(self.spool_name, kept=True).append_page(block)

    def process(self, batch: Batch) -> None:
        self._buffer.extend(batch)

    def process_watermark(self, timestamp: int) -> None:
        """Does nothing: a cache holds records and their timestamps only."""

    def process_idleness(self, idle: bool) -> None:
        """Does nothing, likewise."""

    def end_epoch(self) -> None:
        self._buffer.flush()

    def seal(self) -> None:
        self.context.services.seal(self.spool_name)

    def finish(self) -> None:
        self._buffer.flush()


class CacheSourceOperator(SourceHead):
    """Receives the records of a cache, which Spark reads, with the timestamps they had."""

    emits_declared_type = True

    def open(self) -> None:
        self._complete = False

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        """Does nothing: a split is what one subtask has written, and all of it arrives."""

    def process_split(self, split: int, batch: Batch) -> None:
        self.output.emit(batch)
        if batch.values:
            self.note_emitted(batch.timestamps[-1] if batch.timestamps else None)

    def read_epoch(self, limit: int) -> None:
        """Does nothing: the records have arrived already."""

    def no_more_splits(self) -> None:
        self._complete = True

    @property
    def exhausted(self) -> bool:
        return self._complete
