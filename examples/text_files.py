"""Reads text files and writes text files: of each length, the word that comes first in the alphabet.

    flint run examples/text_files.py INPUT OUTPUT

INPUT is a file, a directory or a pattern; OUTPUT becomes a directory with one or more files.
"""

import sys

from flintstream.common import Encoder, Types, WatermarkStrategy
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    StreamFormat,
)


def main(input_path, output_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)  # one result for each key, at the end

    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_path).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    first = (
        lines.flat_map(lambda line: line.lower().split(), Types.STRING())
        .map(lambda word: (len(word), word), Types.TUPLE([Types.INT(), Types.STRING()]))
        .key_by(lambda pair: pair[0], Types.INT())
        .reduce(lambda one, other: min(one, other))
    )
    sink = (
        FileSink.for_row_format(output_path, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        .build()
    )
    first.map(lambda pair: f"{pair[0]}: {pair[1]}", Types.STRING()).sink_to(sink)
    env.execute("first word of each length")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: text_files.py INPUT OUTPUT")
    main(sys.argv[1], sys.argv[2])
