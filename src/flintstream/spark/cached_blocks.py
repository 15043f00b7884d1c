"""CachedBlocks: the records of a cached stream, as blocks on the executors' disks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel

from flintstream.runtime.block import ends_block
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.protocol import DONE, ReadSpool
from flintstream.spark.exchange import ROW_SCHEMA, row_batch
from flintstream.spark.session import loss_of, session_like

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _ReadBlocks:
    """The function of a `mapInArrow`: reads the blocks of a spool, partition i being those of subtask i."""

    access: SlotAccess
    spool: str
    slots: tuple[int, ...]
    """The slot of each subtask."""
    first: int
    """The number of the first block."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for subtask in batch.column(0).to_pylist():
                try:
                    with self.access.connect(self.slots[subtask]) as connection:
                        yield from self._rows(subtask, connection)
                except (OSError, EOFError) as error:
                    raise RuntimeError(
                        f"the cached records of subtask {subtask} cannot be read from slot {self.slots[subtask]}, whose "
                        "job may have ended: Spark has lost them, or they were removed from its storage"
                    ) from error

    def _rows(self, subtask: int, connection: Any) -> Iterator[pa.RecordBatch]:
        connection.send(ReadSpool(self.spool))
        number, fragment = self.first, 0
        while (frame := connection.recv_bytes())[:1] != DONE:
            data = memoryview(frame)[1:]
            yield row_batch([[0], [0], [fragment], [subtask], [number], [data]])
            # All fragments have the number of their block, by which blocks are selected.
            number, fragment = (number + 1, 0) if ends_block(data) else (number, fragment + 1)


@dataclass(frozen=True)
class _Part:
    """Blocks that were stored together: the numbers from `first` to `end`, of each subtask."""

    frame: DataFrame
    rdd_id: int
    first: int
    end: int


class CachedBlocks:
    """The blocks of one cached stream. They are numbered by subtask; numbers may be missing, but are in order."""

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        self._spark = spark
        self.parallelism = parallelism
        self.ends: dict[int, int] = {}
        """The end of the block numbers of each subtask that has any."""
        self._parts: list[_Part] = []
        self._users = 1
        self._lock = threading.Lock()

    def store(self, access: SlotAccess, spool: str, slots: Sequence[int]) -> None:
        """Stores what the slots have in a spool; they may release it then."""
        session = session_like(self._spark)
        # Cached rows are pruned by batch statistics: with one block per batch, a range is cheap to select.
        session.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", "1")
        first = max(self.ends.values(), default=0)
        read = _ReadBlocks(access, spool, tuple(slots), first)
        frame = session.range(0, len(slots), 1, len(slots)).mapInArrow(read, ROW_SCHEMA)
        frame.persist(StorageLevel.DISK_ONLY)
        try:
            for row in frame.where("input = 0").groupBy("channel").max("seq").collect():
                self.ends[row[0]] = row[1] + 1
            relation: Any = frame._jdf.queryExecution().withCachedData()
            rdd_id = relation.cacheBuilder().cachedColumnBuffers().id()
        except BaseException:
            frame.unpersist()
            raise
        self._parts.append(_Part(frame, rdd_id, first, max(self.ends.values(), default=0)))

    def rows(self, first: int, end: int, vertex_id: int, slots: Sequence[int]) -> DataFrame | None:
        """Returns the blocks with numbers from `first` to `end` as rows of the exchange, for a source vertex."""
        places = ", ".join(map(str, slots))
        columns = [f"array({places})[channel] AS slot", f"{vertex_id} AS vertex", "input", "channel", "seq", "block"]
        found: DataFrame | None = None
        for part in self._parts:
            if part.first < end and first < part.end:
                some = part.frame.where(f"seq >= {first} AND seq < {end}").selectExpr(*columns)
                found = some if found is None else found.unionAll(some)
        return found

    def stored(self) -> bool:
        """Returns whether Spark still has all blocks."""
        if loss_of(self._spark) is not None:
            return False
        context: Any = self._spark.sparkContext._jsc
        infos = {info.id(): info for info in context.sc().getRDDStorageInfo()}
        found = (infos.get(part.rdd_id) for part in self._parts)
        return all(info is not None and info.numCachedPartitions() == info.numPartitions() for info in found)

    def retain(self) -> None:
        """Keeps the blocks until another `release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Removes the blocks, unless someone else retains them."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            parts, self._parts = self._parts, []
        if loss_of(self._spark) is None:
            for part in parts:
                part.frame.unpersist()
