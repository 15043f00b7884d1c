"""Sinks of whole programs that fail on the way: each record arrives once."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.partly import Partly
from tests.waiting import wait_until

from flintstream.common import Configuration, Encoder, RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import (
    GenericWriteAheadSink,
    MapFunction,
    SourceFunction,
    StreamExecutionEnvironment,
    TwoPhaseCommitSinkFunction,
)
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RecordWiseFileCompactor,
    RollingPolicy,
    StreamingFileSink,
)
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.formats.parquet import ParquetBulkWriters

pytestmark = pytest.mark.usefixtures("spark")
LAST = 3000


class Trip(MapFunction):
    """Takes its time, so that there are several epochs; kills its process at some records, once each."""

    def __init__(self, directory: Path):
        self.directory = directory

    def map(self, value):
        time.sleep(0.0003)
        mark = self.directory / f"tripped-{value}"
        if value in (1400, 2200) and not mark.exists():
            mark.touch()
            os._exit(9)
        return value


def text_builder(kind, path, policy):
    builder = kind.for_row_format(str(path), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def text_sink(kind, path, policy):
    return text_builder(kind, path, policy).build()


def parquet_builder(path):
    builder = FileSink.for_bulk_format(str(path), ParquetBulkWriters.for_row_type(ROW))
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def visible(path: Path) -> list[Path]:
    return [file for file in path.iterdir() if not file.name.startswith(".")]


def lines(path: Path) -> list[int]:
    return sorted(int(line) for file in visible(path) for line in file.read_text().splitlines())


class Files(TwoPhaseCommitSinkFunction):
    def __init__(self, directory: Path):
        super().__init__()
        self.directory = directory

    def begin_transaction(self):
        return f".{uuid.uuid4()}"

    def invoke(self, transaction, value, context):
        with (self.directory / transaction).open("a") as file:
            file.write(f"{value}\n")

    def pre_commit(self, transaction):
        pass

    def commit(self, transaction):
        if (self.directory / transaction).exists():
            (self.directory / transaction).rename(self.directory / transaction[1:])

    def abort(self, transaction):
        (self.directory / transaction).unlink(missing_ok=True)


class Replacing(GenericWriteAheadSink):
    """Sends to a file of its own for each subtask and checkpoint, so that sending again does no harm."""

    def __init__(self, directory: Path):
        super().__init__()
        self.directory = directory

    def send_values(self, values, checkpoint_id, timestamp):
        taken = list(values)
        (self.directory / f"{checkpoint_id}-{min(taken)}").write_text("".join(f"{value}\n" for value in taken))
        return True


ROW = Types.ROW_NAMED(["number"], [Types.LONG()])


def with_all_sinks(numbers, directory: Path) -> None:
    going_on, on_checkpoint = RollingPolicy.default_rolling_policy(), RollingPolicy.on_checkpoint_rolling_policy()
    numbers.sink_to(text_sink(FileSink, directory / "files that go on", going_on))
    numbers.add_sink(text_sink(StreamingFileSink, directory / "files of checkpoints", on_checkpoint))
    for name, sink in (("transactions", Files), ("written ahead", Replacing)):
        (directory / name).mkdir()
        numbers.add_sink(sink(directory / name))
    rows = numbers.map(lambda number: (number,), ROW)
    rows.sink_to(parquet_builder(directory / "parquet").build())
    every_second = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    compacted = text_builder(FileSink, directory / "compacted", on_checkpoint)
    numbers.sink_to(compacted.enable_compact(every_second, FileCompactor.concat_file_compactor()).build())
    compacted = parquet_builder(directory / "compacted parquet")
    rows.sink_to(compacted.enable_compact(every_second, RecordWiseFileCompactor()).build())


def check_all_sinks(directory: Path) -> None:
    for name in ("files that go on", "files of checkpoints", "transactions", "written ahead", "compacted"):
        assert lines(directory / name) == list(range(1, LAST + 1)), name
    for name in ("parquet", "compacted parquet"):
        tables = [pq.read_table(file) for file in visible(directory / name)]
        assert sorted(number for table in tables for number in table["number"].to_pylist()) == list(range(1, LAST + 1))
    assert len(visible(directory / "files that go on")) == 2, "one for each subtask"


def test_a_job_whose_slots_are_killed(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    source = NumberSequenceSource(1, LAST)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(Trip(tmp_path), Types.LONG())
    with_all_sinks(numbers, tmp_path)
    env.execute()
    assert (tmp_path / "tripped-1400").exists() and (tmp_path / "tripped-2200").exists()
    check_all_sinks(tmp_path)
    small, large = visible(tmp_path / "files of checkpoints"), visible(tmp_path / "compacted")
    assert len(small) > 2
    assert len(large) < len(small)
    assert len(visible(tmp_path / "compacted parquet")) == len(large)


def test_without_checkpointing_all_is_committed_at_the_end(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = NumberSequenceSource(1, LAST)
    with_all_sinks(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"), tmp_path)
    env.execute()
    check_all_sinks(tmp_path)
    assert len(visible(tmp_path / "files of checkpoints")) == 2
    assert len(visible(tmp_path / "compacted")) == 1


class UntilCompacted(SourceFunction):
    """Emits records, and then nothing until they are in a visible file."""

    def __init__(self, directory: Path):
        self.directory = directory

    def run(self, ctx):
        for number in range(10):
            ctx.collect(number)
        deadline = time.monotonic() + 120
        while not list(self.directory.glob("compacted-*")):
            assert time.monotonic() < deadline, "the files stay hidden"
            time.sleep(0.02)

    def cancel(self):
        pass


def test_files_of_an_idle_job_are_compacted(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.no_restart())
    env.enable_checkpointing(100)
    builder = text_builder(FileSink, tmp_path, RollingPolicy.on_checkpoint_rolling_policy())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()
    sink = builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()
    env.add_source(UntilCompacted(tmp_path), type_info=Types.INT()).rebalance().sink_to(sink)
    env.execute()
    assert lines(tmp_path) == list(range(10))


def slow(value):
    time.sleep(0.0005)
    return value


def test_a_job_that_compacts_is_stopped_and_goes_on_without(tmp_path):
    last, out = 6000, tmp_path / "out"
    builder = text_builder(FileSink, out, RollingPolicy.on_checkpoint_rolling_policy())
    strategy = FileCompactStrategy.builder().set_size_threshold(10**9).build()

    def program(sink, parallelism, share=1.0, **options):
        configuration = Configuration()
        for name, value in options.items():
            configuration.set_string(name.replace("__", ".").replace("_", "-"), value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(parallelism)
        env.enable_checkpointing(100)
        numbers = env.from_source(Partly(last, share), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.uid("numbers").map(slow, Types.LONG()).uid("slow").sink_to(sink).uid("out")
        return env

    env = program(builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build(), 2, share=0.5)
    client = env.execute_async()
    wait_until(lambda: list(out.glob(".part-*")), what="the first file")
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert visible(out) == [] and list(out.glob(".part-*")), "the files are to be compacted"

    program(builder.disable_compact().build(), 1, execution__state_recovery__path=savepoint).execute()
    assert lines(out) == list(range(1, last + 1))
    assert {file.name.split("-")[0] for file in visible(out)} == {"compacted", "part"}
    assert not list(out.glob(".*"))
