"""Coordinators of sources that Spark reads: batch DataFrames, and streaming ones through a StreamingQuery of their own."""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.protocol import SourceWork, VertexReport
from flintstream.runtime.source import Split
from flintstream.spark.dataframe_source import BLOCK_RECORDS, blocks_of
from flintstream.spark.plans import in_session
from flintstream.spark.session import session_like

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DataFrameCoordinator(SourceCoordinator):
    """A batch DataFrame, read in ranges of blocks.

    The rows are turned into blocks once and kept on the executors' disks; an epoch takes the next blocks of each
    partition. So a large DataFrame never becomes one epoch, and Spark computes it once.
    """

    def __init__(self, vertex_id: int, name: str, slots: tuple[int, ...], frame: DataFrame) -> None:
        super().__init__(vertex_id, name, len(slots))
        session = session_like(frame.sparkSession)
        # Cached rows are pruned by the statistics of their batches: one block a batch makes a range cheap to take.
        session.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", "1")
        self._blocks = blocks_of(in_session(frame, session), vertex_id, slots)
        self._left: Counter[int] = Counter()
        """How many blocks each partition has."""
        self._epoch_range = (0, 0)
        self._next = 0
        self._last = 0
        self._announced = False

    def start(self) -> None:
        self._blocks.persist(StorageLevel.DISK_ONLY)
        self._left = Counter(row["channel"] for row in self._blocks.select("channel").collect())
        self._last = max(self._left.values(), default=0)

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
        return self._blocks.where(f"seq >= {first} AND seq < {end}")

    def next_due(self) -> float | None:
        return 0.0 if self._next < self._last else None

    def close(self) -> None:
        self._blocks.unpersist()


class StreamingCoordinator(SourceCoordinator):
    """A streaming DataFrame: its own StreamingQuery hands over batch after batch.

    `foreachBatch` returns only when the epoch that took the batch in has been completed, so Spark's commit follows ours.
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
    ) -> None:
        super().__init__(vertex_id, name, len(slots))
        self._frame = frame
        self._slots = slots
        self._on_data = on_data
        self._on_failure = on_failure
        self._trigger = trigger
        self._batches: queue.SimpleQueue[tuple[Any, threading.Event]] = queue.SimpleQueue()
        self._taken: tuple[Any, threading.Event] | None = None
        self._ended = False
        self._closed = threading.Event()
        self._directory = tempfile.mkdtemp(prefix="flint-bridge-")
        self._query: Any = None

    def start(self) -> None:
        writer = self._frame.writeStream.option("checkpointLocation", self._directory)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        self._query = writer.foreachBatch(self._hand_over).start()
        threading.Thread(target=self._watch, name=f"bridge {self.name}", daemon=True).start()

    def _hand_over(self, frame: DataFrame, batch_id: int) -> None:
        done = threading.Event()
        self._batches.put((frame, done))
        self._on_data()
        while not done.wait(0.2):
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
        return blocks_of(self._taken[0], self.vertex_id, self._slots)

    def epoch_done(self, reports: Sequence[VertexReport]) -> None:
        if self._taken is not None:
            self._taken[1].set()
            self._taken = None

    def close(self) -> None:
        self._closed.set()
        if self._query is not None and self._query.isActive:
            self._query.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
