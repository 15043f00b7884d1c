"""The Spark that Spark's own sides run on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(directory: Path) -> SparkSession:
    """A Spark of its own, with Spark's defaults but for what the benchmarks need."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
