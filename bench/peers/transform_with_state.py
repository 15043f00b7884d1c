"""The running count by PySpark's transformWithState (Row API, RocksDB), over files that are there already."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.functions import KEYS, MANY_KEYS, STRIDE
from bench.peers import arguments, report
from bench.peers.spark_session import session
from bench.timing import Timing

BATCH_RECORDS = 100_000


class RunningCount(StatefulProcessor):
    """Reads and writes the state once for all rows that a key has in a batch, as one would."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        state = self._count.get()
        count = state[0] if state is not None else 0
        for row in rows:
            count += row.one
            yield Row(key=key[0], count=count)
        self._count.update((count,))

    def close(self) -> None:
        """Nothing to release."""


def run(spark: SparkSession, directory: Path, records: int, batch_records: int, keys: int) -> Timing:
    """Counts so many records, in micro-batches of one file each; some keys say how far they came."""
    work = Path(tempfile.mkdtemp(dir=directory))
    files = records // batch_records
    numbers = spark.range(0, records, 1, files)
    pairs = numbers.select((col("id") * STRIDE % keys).cast("int").alias("key"), lit(1).alias("one"))
    pairs.write.parquet(str(work / "input"))
    counts = (
        spark.readStream.schema(pairs.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(work / "input"))
        .groupBy("key")
        .transformWithState(RunningCount(), "key INT, count LONG", "Append", "None")
        .where((col("count") == max(1, records // keys)) & (col("key") % (keys // 1000) == 0))
    )
    started = time.perf_counter()
    query = (
        counts.writeStream.format("memory")
        .queryName(f"counts_{work.name}")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    found = spark.table(f"counts_{work.name}").count()
    expected = 1000 * min(records, keys) // keys
    if found != expected:
        raise AssertionError(f"{found} of {expected} keys reached their count")
    return Timing(records, seconds)


if __name__ == "__main__":
    given = arguments(batch=(str(BATCH_RECORDS), "20000", "500000"), keys=(str(KEYS), str(MANY_KEYS)))
    with tempfile.TemporaryDirectory(prefix="flint-bench-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        spark = session(directory)
        report(lambda records: run(spark, directory, records, int(given.batch), int(given.keys)), given)
        spark.stop()
