"""A job that is hurt while it stops with a savepoint: what that contains is committed once, and nothing older returns."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.faults.hurt_program import Transactions
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Configuration, JobStatus, RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

pytestmark = pytest.mark.timeout(600)
LAST = 1200


class KilledAtCommit(Transactions):
    """Once told so, a slot dies in the midst of a commit: of all but the first subtask."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def commit(self, transaction):
        if self.subtask and (self.directory / "kill").exists():
            (self.directory / "kill").rename(self.directory / "killed")
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(transaction)


def program(out: Path, checkpoints: Path, restored: str | None = None) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(checkpoints))
    # One periodic checkpoint at the start: behind it, all waits for the savepoint.
    configuration.set_string("execution.checkpointing.interval", "300 s" if restored is None else "500 ms")
    if restored is not None:
        configuration.set_string("execution.state-recovery.path", restored)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    numbers = DataGeneratorSource(lambda index: index, LAST, RateLimiterStrategy.per_second(LAST // 6), Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream.add_sink(KilledAtCommit(out)).uid("sink")
    return env


def committed(out: Path) -> list[int]:
    files = [path for path in out.iterdir() if not path.name.startswith(".") and path.name not in ("kill", "killed")]
    return sorted(int(line) for path in files for line in path.read_text().split())


def test_a_slot_that_dies_while_a_stop_is_committed_doubles_and_loses_nothing(spark, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    client = program(out, tmp_path / "checkpoints").execute_async("stopped")
    master = client.master
    wait_until(lambda: master.progress.epochs, what="the first epoch")
    (out / "kill").touch()
    location = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert master.result.exception(ENOUGH_SECONDS) is None
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert (out / "killed").exists() and master.restarts == 1
    seen = committed(out)
    assert seen and len(set(seen)) == len(seen)

    program(out, tmp_path / "checkpoints", location).execute("goes on")
    assert committed(out) == list(range(LAST))
