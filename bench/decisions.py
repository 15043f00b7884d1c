"""The figures behind docs/decisions 0001 and 0002: `python -m bench.decisions`.

Epochs without slots: the tasks of a level only pass a row on, so what is left is what Spark itself costs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from flintstream.spark.exchange import ROW_SCHEMA, row_batch
from flintstream.spark.session import frame_of_plan, get_or_create_session, job_session

EPOCHS = 40
WARM_UP = 20


def level(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Takes all rows, gives one for each of two slots."""
    for _ in batches:
        pass
    yield row_batch([[0, 1], [0, 0], [0, 0], [0, 0], [0, 0], [b"block", b"block"]])


def plan(spark: SparkSession, levels: int) -> DataFrame:
    """The straight chain of an epoch."""
    frame = spark.range(0, 2, 1, 2).mapInArrow(level, ROW_SCHEMA)
    for _ in range(levels - 1):
        exchanged = frame.repartitionById(2, "slot").sortWithinPartitions("seq", "input", "channel")
        frame = exchanged.mapInArrow(level, ROW_SCHEMA)
    return frame


def milliseconds(ways: list[Callable[[], DataFrame]]) -> list[float]:
    """The median time of a job for each way, all of them in turn, so that noise hits all alike."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(WARM_UP + EPOCHS):
        for way, taken in zip(ways, times):
            before = time.perf_counter()
            way().collect()
            taken.append(time.perf_counter() - before)
    return [1000 * statistics.median(taken[WARM_UP:]) for taken in times]


def main() -> None:
    spark = job_session(get_or_create_session({"spark.master": "local[2]"}))
    analysed = {levels: plan(spark, levels)._jdf.queryExecution().analyzed() for levels in (2, 3)}
    ways: list[Callable[[], DataFrame]] = []
    for levels in (2, 3):
        ways.append(lambda levels=levels: plan(spark, levels))  # type: ignore[misc]
        ways.append(lambda levels=levels: frame_of_plan(analysed[levels], spark))  # type: ignore[misc]
    anew2, reused2, anew3, reused3 = milliseconds(ways)
    print("levels   built anew   reused")
    print(f"2        {anew2:6.0f} ms   {reused2:6.0f} ms")
    print(f"3        {anew3:6.0f} ms   {reused3:6.0f} ms")


if __name__ == "__main__":
    main()
