"""Whole programs on Spark that end in a database, and whose slots are killed on the way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.faults.helpers import wait_until

from flintstream.common import Configuration, RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.jdbc import JdbcSink
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata
from flintstream.runtime.checkpoint.store import CompletedCheckpoints

from .databases import Database

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

LAST = 3000
PAIR = Types.ROW([Types.INT(), Types.LONG()])
INSERT = "INSERT INTO items (n, square) VALUES (?, ?)"


class Trip(MapFunction):
    """Squares numbers, slowly, so that there are several epochs; kills its process at some of them, once each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, value: int) -> Any:
        time.sleep(0.0003)
        mark = self.directory / f"tripped-{value}"
        if value in (1400, 2200) and not mark.exists():
            mark.touch()
            os._exit(9)
        return value, value * value


def test_each_row_is_there_once_although_slots_were_killed(
    env: StreamExecutionEnvironment, database: Database, tmp_path: Path
) -> None:
    database.run("CREATE TABLE items (n INT, square BIGINT)")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Trip(tmp_path), PAIR).add_sink(JdbcSink.exactly_once_sink(INSERT, PAIR, database.options))
    env.execute()
    assert (tmp_path / "tripped-1400").exists() and (tmp_path / "tripped-2200").exists()
    expected = [(number, number * number) for number in range(1, LAST + 1)]
    assert database.run("SELECT n, square FROM items ORDER BY n") == expected
    assert database.prepared == []


def test_the_last_transactions_are_committed_without_checkpointing_too(
    env: StreamExecutionEnvironment, database: Database
) -> None:
    database.run("CREATE TABLE items (n INT, square BIGINT)")
    rows = [(number, number * number) for number in range(1000)]
    env.from_collection(rows, PAIR).rebalance().add_sink(JdbcSink.exactly_once_sink(INSERT, PAIR, database.options))
    env.execute()
    assert database.run("SELECT n, square FROM items ORDER BY n") == rows
    assert database.prepared == []


class Square(MapFunction):
    """Squares numbers, slowly, so that there are several epochs."""

    def map(self, value: int) -> Any:
        time.sleep(0.0003)
        return value, value * value


def squares(database: Database, directory: Path, **settings: str) -> StreamExecutionEnvironment:
    """A job that does not restart by itself, and leaves its checkpoints behind."""
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.no_restart())
    env.enable_checkpointing(100)
    env.get_checkpoint_config().set_checkpoint_storage_dir(directory.as_uri())
    env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(10_000)
    env.get_checkpoint_config().set_externalized_checkpoint_retention(
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    )
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers").uid(
        "numbers"
    )
    rows = numbers.map(Square(), PAIR).uid("squares")
    rows.add_sink(JdbcSink.exactly_once_sink(INSERT, PAIR, database.options)).uid("items")
    return env


def test_a_job_killed_between_prepare_and_completion_is_restored_under_another_id(
    spark: Any, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost or doubled, and no insert waits for a transaction of the dead job, although each has a primary key."""
    database.run("CREATE TABLE items (n INT PRIMARY KEY, square BIGINT)")
    add = CompletedCheckpoints.add

    def never_complete(self: CompletedCheckpoints, metadata: CheckpointMetadata, attempt: int) -> None:
        if metadata.checkpoint_id > 2:
            raise OSError("the storage is away")
        add(self, metadata, attempt)

    with monkeypatch.context() as patched:
        patched.setattr(CompletedCheckpoints, "add", never_complete)
        client = squares(database, tmp_path).execute_async()
        wait_until(lambda: _prepared_behind(database, 2), 120.0, "a transaction of a checkpoint that is never complete")
        for handle in client.master.attempt.pool.handles:
            os.kill(handle.pid, signal.SIGKILL)
        with pytest.raises(Exception, match="slot"):
            client.get_job_execution_result().result()
    assert _prepared_behind(database, 2)
    (directory,) = tmp_path.iterdir()
    env = squares(database, tmp_path, execution__state_recovery__path=str(directory))
    assert str(env.execute_async().get_job_execution_result().result().get_job_id()) != directory.name
    expected = [(number, number * number) for number in range(1, LAST + 1)]
    assert database.run("SELECT n, square FROM items ORDER BY n") == expected
    assert database.prepared == []


def _prepared_behind(database: Database, checkpoint_id: int) -> bool:
    return any(int(gid.rpartition(":")[2]) > checkpoint_id for gid in database.prepared)
