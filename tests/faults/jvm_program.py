"""A driver whose JVM is killed in the middle of a job: `jvm_program.py DIRECTORY own|foreign`.

A job with checkpoints numbers its records into files of DIRECTORY/out; then another job runs in the same process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.helpers import numbers

from flintstream.common import Encoder, RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.file_system import FileSink

RECORDS = 1800


def main():
    directory, way = Path(sys.argv[1]), sys.argv[2]
    if way == "foreign":
        from pyspark.sql import SparkSession

        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(300)
    env.get_checkpoint_config().set_checkpoint_storage_dir((directory / "checkpoints").as_uri())
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(100, 10))
    source = DataGeneratorSource(lambda index: index, RECORDS, RateLimiterStrategy.per_second(300), Types.LONG())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    counted = stream.map(lambda n: (n % 7, 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    counted.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).sink_to(sink)
    env.execute("counts")
    print("the next job:", len(list(numbers(env, 1, 100).execute_and_collect())), flush=True)


if __name__ == "__main__":
    main()
