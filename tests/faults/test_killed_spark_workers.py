"""Spark's own Python workers, which carry the blocks between slots, are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.faults.helpers import Gate, assert_a_new_job_works, failure, numbers, open_gate, reached, seen, wait_until
from tests.processes import alive

from flintstream.spark import epoch
from flintstream.spark.exchange import LevelTask

pytestmark = pytest.mark.usefixtures("in_epochs")


@pytest.fixture
def worker_of(monkeypatch, tmp_path):
    """Gives the process of the Spark task that serves a level of a slot."""
    directory = tmp_path

    class Recorded(LevelTask):
        def __call__(self, batches):
            from pyspark import TaskContext

            (directory / f"worker-{self.level}-{TaskContext.get().partitionId()}").write_text(str(os.getpid()))
            yield from super().__call__(batches)

    monkeypatch.setattr(epoch, "LevelTask", Recorded)

    def worker(level: int, slot: int) -> int:
        return int((Path(directory) / f"worker-{level}-{slot}").read_text())

    return worker


@pytest.mark.parametrize("level", [0, 1])
def test_a_spark_worker_killed_in_the_middle_of_an_epoch_fails_the_job_and_nothing_is_counted_twice(
    env, tmp_path, worker_of, level
):
    gates = [tmp_path / "first", tmp_path / "second"]
    for directory in gates:
        directory.mkdir()
    first = numbers(env, 1, 1000).map(Gate(gates[0], 500 if level == 0 else None))
    first.key_by(lambda n: n).map(Gate(gates[1], 500 if level == 1 else None)).print()
    client = env.execute_async()
    busy = reached(gates[level])
    slot = next(handle.slot for handle in client.master.attempt.pool.handles if handle.pid == busy)
    killed = worker_of(level, slot)
    assert alive(killed)
    os.kill(killed, signal.SIGKILL)
    # Not even a zombie: as long as one of its threads is left, its connections are open.
    wait_until(lambda: not Path(f"/proc/{killed}").exists(), what="the end of the worker")
    open_gate(gates[level])
    assert "the Spark task of epoch 1 went away" in failure(client)
    for directory in gates:
        processed = seen(directory)
        assert len(processed) == len(set(processed))
    assert_a_new_job_works(env)


def test_a_slot_that_is_busy_when_its_spark_worker_dies_is_ended_too(env, tmp_path, worker_of):
    """The gate stays shut: the slot cannot notice by itself that nobody waits for its results."""
    numbers(env, 1, 1000).map(Gate(tmp_path, 500)).print()
    client = env.execute_async()
    busy = reached(tmp_path)
    slot = next(handle.slot for handle in client.master.attempt.pool.handles if handle.pid == busy)
    os.kill(worker_of(0, slot), signal.SIGKILL)
    assert "Python worker exited unexpectedly" in failure(client)
    assert_a_new_job_works(env)
