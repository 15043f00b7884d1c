"""From source to sink by Spark's micro-batches, with the default trigger: a batch starts as soon as the last one has ended.

The records come as lines from a socket, which Spark's source reads at once, and say when they were made. (Its rate source
would make them once a second.) After an exchange by key, `transformWithState` (Row API, RocksDB) takes the arrival time of
each row: that is before the batch is committed, and so before a sink would show it. Each batch is a checkpoint.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import split
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.latencies import Latencies, LineServer, age
from bench.peers import latency_arguments, report_latencies
from bench.peers.spark_session import session


class Age(StatefulProcessor):
    """Emits for each row when it arrived, and how long it took."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Has no state, like the other sides."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for row in rows:
            arrived, milliseconds = age((row.key, row.made))
            yield Row(arrived=arrived, milliseconds=milliseconds)

    def close(self) -> None:
        """Nothing to release."""


def run(spark: SparkSession, directory: Path, seconds: float, warm_up: float) -> Latencies:
    """Runs the query until the records of so many seconds have passed."""
    server = LineServer()
    lines = spark.readStream.format("socket").option("host", "localhost").option("port", server.port).load()
    fields = split("value", " ")
    query = (
        lines.select(fields[0].cast("int").alias("key"), fields[1].cast("double").alias("made"))
        .groupBy("key")
        .transformWithState(Age(), "arrived DOUBLE, milliseconds DOUBLE", "Append", "None")
        .writeStream.format("memory")
        .queryName("arrivals")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    while not any(progress["numInputRows"] for progress in query.recentProgress):
        query.awaitTermination(1)
    server.end_after(seconds)
    server.join()
    query.processAllAvailable()
    query.stop()
    return Latencies.of(((row.arrived, row.milliseconds) for row in spark.table("arrivals").collect()), warm_up)


if __name__ == "__main__":
    given = latency_arguments()
    with tempfile.TemporaryDirectory(prefix="flint-bench-", ignore_cleanup_errors=True) as temporary:
        spark = session(Path(temporary))
        report_latencies(run(spark, Path(temporary), given.seconds, given.warm_up))
        spark.stop()
