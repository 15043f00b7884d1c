"""Readings on Spark: shares are rows, read by tasks in parallel; their results are a DataFrame, or blocks of objects."""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintstream.common.pickling import dumps, dumps_by_value
from flintstream.runtime.slot.user_code import UserCode, collect_main
from flintstream.spark.exchange import settle_worker
from flintstream.spark.session import is_local
from flintstream.spark.shipping import ship_package
from flintstream.state_processor.columns import Columns
from flintstream.state_processor.readings import Reading
from flintstream.state_processor.shares import Share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHARES = pa.schema([("partition", pa.int32()), ("share", pa.binary())])
BLOCKS = pa.schema([("block", pa.binary())])
_TASKS_PER_CORE = 4
"""More tasks than cores, so that no core waits long for the last one."""


def user_code(spark: SparkSession) -> UserCode:
    """Returns the user's code for Python workers of Spark: the classes of state must be found there."""
    ship_package(spark)
    return UserCode(collect_main(), list(sys.path) if is_local(spark) else [])


def install(code: bytes) -> None:
    """Makes the user's code available in a Python worker of Spark."""
    settle_worker()
    if code not in _installed:
        _installed.add(code)
        found: UserCode = pickle.loads(code)
        found.install(tempfile.gettempdir())


_installed: set[bytes] = set()
"""What this worker, which is reused, has installed."""


@dataclass(frozen=True)
class ReadShares:
    """The function of a `mapInArrow`: reads the shares of a partition."""

    code: bytes
    """The pickled user code, installed before anything else is loaded."""
    reading: bytes
    columns: Columns | None
    """None for blocks of pickled results."""
    schema: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        install(self.code)
        reading: Reading = pickle.loads(self.reading)
        batch_of = _block_of if self.columns is None else self.columns.batches(self.schema)
        for batch in batches:
            for data in batch.column(1):
                share: Share = pickle.loads(data.as_buffer())
                for values in reading.chunks(share):
                    yield batch_of(values)


def _block_of(values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([dumps(values)], pa.binary())], schema=BLOCKS)


def read_frame(spark: SparkSession, shares: Sequence[Share], reading: Reading, columns: Columns | None) -> DataFrame:
    """Returns a DataFrame of all results; without columns, of blocks of pickled results."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    schema = from_arrow_schema(BLOCKS if columns is None else columns.schema())
    read = ReadShares(
        dumps(user_code(spark)), dumps_by_value(reading), columns, to_arrow_schema(schema, timezone="UTC")
    )
    if not shares:
        return spark.createDataFrame([], schema)
    count = min(len(shares), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    rows = share_rows(spark, list(_spread(shares, count)))
    return rows.repartitionById(count, "partition").mapInArrow(read, schema)


def share_rows(spark: SparkSession, shares: Sequence[tuple[int, Share]]) -> DataFrame:
    """Returns a DataFrame of numbered shares."""
    numbers, data = [number for number, _ in shares], [dumps(share) for _, share in shares]
    return spark.createDataFrame(pa.table([pa.array(numbers, pa.int32()), pa.array(data, pa.binary())], schema=_SHARES))


def _spread(shares: Sequence[Share], partitions: int) -> Iterator[tuple[int, Share]]:
    """Assigns shares to partitions of about the same size."""
    sizes = [0] * partitions
    for share in sorted(shares, key=lambda share: share.size, reverse=True):
        partition = sizes.index(min(sizes))
        sizes[partition] += share.size + 1
        yield partition, share
