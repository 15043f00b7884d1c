"""Sinks of whole programs that fail on the way: each record arrives once."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flintstream.common import Encoder, RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import (
    GenericWriteAheadSink,
    MapFunction,
    StreamExecutionEnvironment,
    TwoPhaseCommitSinkFunction,
)
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
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


def text_sink(kind, path, policy):
    builder = kind.for_row_format(str(path), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


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
    builder = FileSink.for_bulk_format(str(directory / "parquet"), ParquetBulkWriters.for_row_type(ROW))
    parquet = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    numbers.map(lambda number: (number,), ROW).sink_to(parquet)


def check_all_sinks(directory: Path) -> None:
    for name in ("files that go on", "files of checkpoints", "transactions", "written ahead"):
        assert lines(directory / name) == list(range(1, LAST + 1)), name
    read = [number for file in visible(directory / "parquet") for number in pq.read_table(file)["number"].to_pylist()]
    assert sorted(read) == list(range(1, LAST + 1))
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
    assert len(visible(tmp_path / "files of checkpoints")) > 2


def test_without_checkpointing_all_is_committed_at_the_end(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = NumberSequenceSource(1, LAST)
    with_all_sinks(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers"), tmp_path)
    env.execute()
    check_all_sinks(tmp_path)
    assert len(visible(tmp_path / "files of checkpoints")) == 2
