"""A job with checkpoints, savepoint and files in another file system: `python -m tests.connectors.remote_files URL MARK`.

It fails once, is stopped with a savepoint, goes on from there, and its files are read.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.waiting import wait_until

from flintstream.common import Configuration, Encoder, RestartStrategies, Types, WatermarkStrategy
from flintstream.connectors.files import paths
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

LAST = 2000


class FailsOnce:
    """Fails in the middle, unless a file says that it has; takes its time, so that there are several epochs."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __call__(self, number: int) -> str:
        time.sleep(0.0005)
        if number == LAST // 2 and not Path(self.mark).exists():
            Path(self.mark).touch()
            raise RuntimeError("on purpose")
        return str(number)


def environment(checkpoints: str, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    env.get_checkpoint_config().set_checkpoint_storage_dir(checkpoints)
    return env


def written_numbers(env: StreamExecutionEnvironment, results: str, mark: Path) -> None:
    builder = FileSink.for_row_format(results, Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers").uid(
        "numbers"
    )
    numbers.map(FailsOnce(mark), Types.STRING()).uid("map").sink_to(sink).uid("files")


def check_each_record_once(directory: str, mark: Path) -> None:
    """Runs the job; raises an error unless each record was written once.

    :param directory: a URL below which there is nothing.
    :param mark: a file that does not exist; the job makes it when it fails.
    """
    checkpoints, savepoints, results = (f"{directory}/{name}" for name in ("checkpoints", "savepoints", "results"))
    first = environment(checkpoints)
    written_numbers(first, results, mark)
    job = first.execute_async()
    wait_until(lambda: paths.exists(results) and paths.find_files(results), what="the first results")
    savepoint = job.stop_with_savepoint(False, savepoints).result()
    assert savepoint.startswith(savepoints)
    again = environment(checkpoints, execution__state_recovery__path=savepoint)
    written_numbers(again, results, mark)
    again.execute()
    assert mark.exists()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), results).build()
    lines = environment(checkpoints).from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    with lines.execute_and_collect() as found:
        assert sorted(map(int, found)) == list(range(1, LAST + 1))


if __name__ == "__main__":
    check_each_record_once(sys.argv[1], Path(sys.argv[2]))
    print("each record once")
