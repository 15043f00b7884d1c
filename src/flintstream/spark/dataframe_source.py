"""Spark DataFrames as sources: converts their rows to blocks for level 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintstream.runtime.batch import Batch
from flintstream.runtime.block import encode_block, fragments_of
from flintstream.spark.exchange import ROW_SCHEMA, row_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BLOCK_RECORDS = 4096
"""Rows per block; only the last block of a partition may have fewer."""


@dataclass(frozen=True)
class RowsToBlocks:
    """The function of a reader's `mapInArrow`: converts rows of a DataFrame to blocks, each partition being a split."""

    vertex_id: int
    slots: tuple[int, ...]
    """The slot of each source subtask."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        partition = context.partitionId()
        slot = self.slots[partition % len(self.slots)]
        for number, records in enumerate(row_chunks(batches)):
            # All fragments have the number of their block, by which blocks are selected; a source has no inputs to
            # distinguish.
            for fragment, data in enumerate(fragments_of(encode_block(Batch(records)))):
                yield row_batch([[slot], [self.vertex_id], [fragment], [partition], [number], [data]])


def blocks_of(frame: DataFrame, vertex_id: int, slots: tuple[int, ...]) -> DataFrame:
    """Returns the rows of a DataFrame as rows of the exchange, for a source vertex."""
    return frame.mapInArrow(RowsToBlocks(vertex_id, slots), ROW_SCHEMA)


def row_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[list[tuple[Any, ...]]]:
    """Yields the rows of a DataFrame's batches as tuples, some at a time."""
    pending: list[tuple[Any, ...]] = []
    for batch in batches:
        pending.extend(zip(*(_values(column) for column in batch.columns)))
        while len(pending) >= BLOCK_RECORDS:
            yield pending[:BLOCK_RECORDS]
            del pending[:BLOCK_RECORDS]
    if pending:
        yield pending


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        # Arrow's own conversion to datetimes takes microseconds per value; numpy's does not. Times are UTC without a
        # zone.
        naive = column.cast(pa.timestamp("us"))
        return naive.to_numpy(zero_copy_only=False).astype("datetime64[us]").tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]
