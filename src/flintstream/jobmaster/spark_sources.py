"""Coordinators of sources read by Spark: batch DataFrames, and streaming ones through their own StreamingQuery."""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

from flintstream.jobmaster.control import JobFailed
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.protocol import SourceWork, VertexReport
from flintstream.runtime.source import Split
from flintstream.spark.cached_blocks import CachedBlocks
from flintstream.spark.dataframe_source import BLOCK_RECORDS, blocks_of
from flintstream.spark.session import in_session, session_like

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STOP_SECONDS = 30.0
"""How long Spark may take to stop the query of a streaming DataFrame."""


class FrameBlocks:
    """A batch DataFrame as blocks on the executors' disks: computed once, and read by each attempt of the job."""

    def __init__(self, frame: DataFrame, vertex_id: int, slots: tuple[int, ...]) -> None:
        session = session_like(frame.sparkSession)
        # Cached rows are pruned by batch statistics: with one block per batch, a range is cheap to select.
        session.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", "1")
        self.blocks = blocks_of(in_session(frame, session), vertex_id, slots)
        self.blocks.persist(StorageLevel.DISK_ONLY)
        try:
            first_parts = self.blocks.where("input = 0").select("channel")
            self.counts = Counter(row["channel"] for row in first_parts.collect())
            """The number of blocks of each partition."""
        except BaseException:
            self.release()
            raise

    def rows(self, first: int, end: int) -> DataFrame | None:
        """Returns the blocks with numbers from `first` to `end`."""
        return self.blocks.where(f"seq >= {first} AND seq < {end}")

    def release(self) -> None:
        """Removes the blocks."""
        self.blocks.unpersist()


class CacheBlocks:
    """The blocks of a cached stream, for the source vertex that reads them."""

    def __init__(self, name: str, cached: CachedBlocks, vertex_id: int, slots: tuple[int, ...]) -> None:
        if not cached.stored():
            lost = (
                f"source '{name}': the records of the cached stream are lost, because an executor or Spark's storage has "
                "lost them: run the job again, and it computes them again"
            )
            raise JobFailed(Fault(None, None, None, lost, lost, permanent=True))
        self._cached = cached
        self._vertex_id = vertex_id
        self._slots = slots
        self.counts = Counter(cached.ends)

    def rows(self, first: int, end: int) -> DataFrame | None:
        """Returns the blocks with numbers from `first` to `end`."""
        return self._cached.rows(first, end, self._vertex_id, self._slots)


class DataFrameCoordinator(SourceCoordinator):
    """A batch DataFrame or a cached stream, read in ranges of blocks.

    The rows are converted to blocks once and stored on the executors' disks; an epoch reads the next blocks of each
    partition. A large DataFrame therefore never becomes one epoch, and Spark computes it once.
    """

    def __init__(
        self, vertex_id: int, name: str, parallelism: int, make_blocks: Callable[[], FrameBlocks | CacheBlocks]
    ) -> None:
        super().__init__(vertex_id, name, parallelism)
        self._make_blocks = make_blocks
        self._left: Counter[int] = Counter()
        self._epoch_range = (0, 0)
        self._next = 0
        self._last = 0
        self._announced = False
        self._resumed_counts: dict[int, int] | None = None

    def start(self) -> None:
        self._blocks = self._make_blocks()
        self._left = self._blocks.counts
        self._last = max(self._left.values(), default=0)
        if self._resumed_counts is not None and self._resumed_counts != dict(self._left):
            raise ValueError(
                f"source '{self.name}': the partitions or row counts of the DataFrame have changed since the "
                "checkpoint was taken, so its position is invalid: read it from an immutable source"
            )

    def position(self) -> dict[str, Any]:
        return {"next": self._next, "blocks": dict(self._left)}

    def resume(self, position: dict[str, Any]) -> None:
        self._next = position["next"]
        self._resumed_counts = position["blocks"]

    def work(self, limit: int) -> SourceWork:
        active = sum(count > self._next for count in self._left.values())
        share = max(1, -(-active // self.parallelism))
        blocks = max(1, limit // (BLOCK_RECORDS * share))
        self._epoch_range = (self._next, min(self._next + blocks, self._last))
        self._next = self._epoch_range[1]
        splits: dict[int, list[tuple[Split, Any]]] = {}
        if not self._announced:
            self._announced = True
            for channel in self._left:
                splits.setdefault(channel % self.parallelism, []).append((Split(str(channel)), None))
        return SourceWork(limit, splits, complete=self._next >= self._last)

    def reader(self) -> DataFrame | None:
        first, end = self._epoch_range
        if first >= end:
            return None
        return self._blocks.rows(first, end)

    def next_due(self) -> float | None:
        return 0.0 if self._next < self._last else None


class StreamingCoordinator(SourceCoordinator):
    """A streaming DataFrame, read in batches by its own StreamingQuery.

    `foreachBatch` returns only when the epoch with the batch is complete or, with checkpoints, when the checkpoint that
    contains it is: Spark commits after us. A repeated batch that the checkpoint already contains is skipped.
    """

    def __init__(
        self,
        vertex_id: int,
        name: str,
        slots: tuple[int, ...],
        frame: DataFrame,
        on_data: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        trigger: dict[str, Any],
        directory: str,
        checkpointing: bool,
    ) -> None:
        super().__init__(vertex_id, name, len(slots))
        self._frame = frame
        self._slots = slots
        self._on_data = on_data
        self._on_failure = on_failure
        self._trigger = trigger
        self._directory = directory
        """The directory in which Spark stores the query's position."""
        self._checkpointing = checkpointing
        self._batches: queue.SimpleQueue[_Batch] = queue.SimpleQueue()
        self._taken: _Batch | None = None
        self._unsafe: list[_Batch] = []
        """Batches read, but not yet in a completed checkpoint."""
        self._last_batch = -1
        self._resumed_query: str | None = None
        """The restored query; Spark identifies it by its directory."""
        self._ended = False
        self._closed = threading.Event()
        self._query: Any = None

    def start(self) -> None:
        _remove_unfinished(self._directory)
        writer = self._frame.writeStream.option("checkpointLocation", self._directory)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        self._query = writer.foreachBatch(self._hand_over).start()
        if self._resumed_query not in (None, str(self._query.id)):
            raise ValueError(
                f"source '{self.name}': {self._directory}, where Spark stores the position of the query, was changed "
                "or removed after the checkpoint was taken: Spark has started over, and cannot resume after batch "
                f"{self._last_batch}"
            )
        threading.Thread(target=self._watch, name=f"bridge {self.name}", daemon=True).start()

    def _hand_over(self, frame: DataFrame, batch_id: int) -> None:
        if batch_id <= self._last_batch:
            return
        if batch_id > self._last_batch + 1:
            raise RuntimeError(
                f"source '{self.name}': Spark continues with batch {batch_id}, but the checkpoint ends with batch "
                f"{self._last_batch}: {self._directory} is ahead of the checkpoint, and the batches in between are "
                "lost"
            )
        batch = _Batch(frame, batch_id, threading.Event())
        self._batches.put(batch)
        self._on_data()
        while not batch.done.wait(0.2):
            if self._closed.is_set():
                raise RuntimeError(f"the job of source '{self.name}' has ended")

    def _watch(self) -> None:
        try:
            self._query.awaitTermination()
        except Exception as error:
            if not self._closed.is_set():
                self._on_failure(error)
        self._ended = True
        self._on_data()

    def work(self, limit: int) -> SourceWork:
        ended = self._ended
        try:
            self._taken = self._batches.get_nowait()
        except queue.Empty:
            self._taken = None
        return SourceWork(limit, complete=ended and self._taken is None)

    def reader(self) -> DataFrame | None:
        if self._taken is None:
            return None
        return blocks_of(self._taken.frame, self.vertex_id, self._slots)

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._last_batch = taken.batch_id
            if self._checkpointing:
                self._unsafe.append(taken)
            else:
                taken.done.set()

    def position(self) -> dict[str, Any]:
        return {"directory": self._directory, "batch": self._last_batch, "query": str(self._query.id)}

    def resume(self, position: dict[str, Any]) -> None:
        self._directory = position["directory"]
        self._last_batch = position["batch"]
        if self._last_batch >= 0:
            self._resumed_query = position["query"]

    @property
    def waits_for_checkpoint(self) -> bool:
        return bool(self._unsafe)

    def checkpoint_complete(self, position: dict[str, Any]) -> None:
        for batch in self._unsafe:
            if batch.batch_id <= position["batch"]:
                batch.done.set()
        self._unsafe = [batch for batch in self._unsafe if not batch.done.is_set()]

    def close(self) -> None:
        self._closed.set()
        if self._query is not None and self._query.isActive:
            stopping = threading.Thread(target=self._query.stop, name=f"stop {self.name}", daemon=True)
            stopping.start()
            stopping.join(STOP_SECONDS)
            if stopping.is_alive():
                raise TimeoutError(f"source '{self.name}': Spark has not stopped its query within {STOP_SECONDS:g} s")


def _remove_unfinished(directory: str) -> None:
    """Removes what an interrupted write has left behind in the logs of a query that has no batch yet: Spark would refuse to
    write the first batch for ever, since its log is not empty.
    """
    for log in ("offsets", "commits"):
        place = os.path.join(directory, log)
        names = os.listdir(place) if os.path.isdir(place) else []
        if not any(name.isdecimal() for name in names):
            for name in names:
                with suppress(FileNotFoundError):
                    os.remove(os.path.join(place, name))


@dataclass(frozen=True)
class _Batch:
    """A batch of Spark's, and the event to set when it is committed."""

    frame: DataFrame
    batch_id: int
    done: threading.Event
