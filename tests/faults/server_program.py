"""A job for the job server, `server_program.py OUT COUNT RATE`: counts numbers by key, and writes each count once."""

from __future__ import annotations

import sys

from flintstream.common import Encoder, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.file_system import FileSink

KEYS = 7


def main():
    out, count, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(300)
    source = DataGeneratorSource(lambda index: index, count, RateLimiterStrategy.per_second(rate), Types.LONG())
    sink = FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda number: (number % KEYS, 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
        .sink_to(sink)
    )
    env.execute("counts")


if __name__ == "__main__":
    main()
