"""The count by the hour with PySpark's built-in windows (no Python a record), over files that are there already."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, timestamp_millis, window
from pyspark.sql.functions import sum as sum_of

from bench.functions import KEYS, STRIDE, WINDOW_MILLIS
from bench.peers import arguments, report
from bench.peers.spark_session import session
from bench.timing import Timing

_FILE_RECORDS = 480_000


def run(spark: SparkSession, directory: Path, records: int) -> Timing:
    """Counts so many records, in micro-batches of one file each."""
    work = Path(tempfile.mkdtemp(dir=directory))
    numbers = spark.range(0, records, 1, max(1, records // _FILE_RECORDS))
    timed = numbers.select(
        (col("id") * STRIDE % KEYS).cast("int").alias("key"),
        timestamp_millis((col("id") * 15 / 4).cast("long")).alias("time"),
    )
    timed.write.parquet(str(work / "input"))
    counts = (
        spark.readStream.schema(timed.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(work / "input"))
        .withWatermark("time", "1 second")
        .groupBy(window("time", f"{WINDOW_MILLIS} milliseconds"), "key")
        .count()
        .where(col("key") % 1000 == 0)
    )
    started = time.perf_counter()
    query = (
        counts.writeStream.format("memory")
        .queryName(f"counts_{work.name}")
        .outputMode("complete")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    (found,) = spark.table(f"counts_{work.name}").agg(sum_of("count")).collect()[0]
    if found != records // 1000:
        raise AssertionError(f"{found} records were counted, not {records // 1000}")
    return Timing(records, seconds)


if __name__ == "__main__":
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="flint-bench-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        spark = session(directory)
        report(lambda records: run(spark, directory, records), given)
        spark.stop()
