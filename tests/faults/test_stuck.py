"""Slots that do not come to an end with what they do, and a Spark that does not begin."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest
from tests.faults.helpers import (
    ENOUGH_SECONDS,
    Gate,
    descendants,
    failure,
    idle_job,
    numbers,
    open_gate,
    reached,
    wait_until,
)
from tests.processes import slot_pids

from flintstream.common import Configuration, JobStatus, RestartStrategies
from flintstream.runtime.checkpoint.coordinator import CheckpointFailedError
from flintstream.spark import timeouts


def configure(env, settings):
    env.configure(Configuration.from_dict(settings))
    env.set_restart_strategy(RestartStrategies.no_restart())


def error_of(future) -> str:
    with pytest.raises(CheckpointFailedError) as caught:
        future.result(ENOUGH_SECONDS)
    return str(caught.value)


@pytest.mark.usefixtures("in_epochs")
def test_a_checkpoint_times_out_within_an_epoch_and_names_the_operator_and_its_line(env, tmp_path, caplog):
    configure(env, {"flint.slot.report-after": "500 ms"})
    env.enable_checkpointing(100)
    numbers(env, 1, 100).key_by(lambda n: n).map(Gate(tmp_path, 50)).name("gate").print()
    client = env.execute_async()
    reached(tmp_path)
    # Not before: how long it takes to get there is Spark's matter.
    coordinator = client.master.checkpoints
    coordinator.settings = replace(coordinator.settings, timeout=1.0)
    message = failure(client)
    assert "Operator 'gate' (subtask " in message
    assert "a checkpoint could not start for 1 s, since epoch " in message
    assert "in map\n" in message and "time.sleep(0.01)" in message
    assert "epoch 1 has taken " in caplog.text, "it was reported before"


@pytest.mark.usefixtures("in_epochs")
def test_a_savepoint_that_is_wanted_while_an_epoch_hangs_ends_with_the_reason(env, tmp_path):
    configure(env, {"execution.checkpointing.timeout": "5 s"})
    numbers(env, 1, 100).map(Gate(tmp_path, 50)).name("gate").print()
    client = env.execute_async()
    reached(tmp_path)
    message = error_of(client.trigger_savepoint(str(tmp_path / "savepoints")))
    assert "the savepoint could not start for 5 s: epoch " in message
    assert "in operator 'gate'" in message and "in map\n" in message
    open_gate(tmp_path)
    client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FINISHED, "the job itself goes on"


def test_a_slot_that_is_not_heard_of_any_more_fails_the_job(env, tmp_path):
    configure(env, {"heartbeat.interval": "500 ms"})
    numbers(env, 1, 100).map(Gate(tmp_path, 50)).print()
    client = env.execute_async()
    reached(tmp_path)
    pid = slot_pids(client)[0]
    os.kill(pid, signal.SIGSTOP)
    # Not before: on a busy machine a slot that starts may be silent for a while.
    pool = client.master.attempt.pool
    pool.timeouts = replace(pool.timeouts, heartbeat_timeout=5.0)
    assert f"slot 0 (process {pid} on " in (message := failure(client))
    assert "has not been heard of for 5 s (heartbeat.timeout)" in message


@pytest.fixture
def busy_spark(spark, tmp_path):
    """A Spark all of whose cores are taken by another job."""
    directory = str(tmp_path)
    cores = spark.sparkContext.defaultParallelism

    def hold(number):
        open(os.path.join(directory, f"held-{number}"), "w").close()
        deadline = time.monotonic() + ENOUGH_SECONDS
        while not os.path.exists(os.path.join(directory, "let-go")) and time.monotonic() < deadline:
            time.sleep(0.05)

    holding = threading.Thread(
        target=lambda: spark.sparkContext.parallelize(range(cores), cores).foreach(hold), daemon=True
    )
    holding.start()
    wait_until(lambda: len(list(tmp_path.glob("held-*"))) == cores, what="the other job")
    yield
    (tmp_path / "let-go").touch()
    holding.join(ENOUGH_SECONDS)


def test_a_cancel_while_slots_start_ends_the_start(env, busy_spark):
    configure(env, {})
    numbers(env, 1, 10).print()
    client = env.execute_async()
    wait_until(lambda: client.master.attempt is not None)
    client.cancel().result(ENOUGH_SECONDS / 2)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_slots_that_spark_cannot_start_in_time_fail_the_job_with_the_setting(env, busy_spark):
    configure(env, {"slot.request.timeout": "500 ms"})
    numbers(env, 1, 10).print()
    with pytest.raises(Exception, match=r"has not started 2 slots within 0\.5 s \(slot\.request\.timeout\)"):
        env.execute()


def idle_workers() -> list[psutil.Process]:
    """The Python workers of Spark that have no task; they are forked from a daemon, which looks like them."""
    found = {process.pid: process.ppid() for process in descendants(os.getpid()) if is_worker(process)}
    return [psutil.Process(pid) for pid, parent in found.items() if parent in found]


def is_worker(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def a_hung_worker(spark, parallelism):
    """One of as many idle workers of Spark as there are slots hangs; gives its process id."""
    for worker in idle_workers():
        worker.kill()
    wait_until(lambda: not idle_workers(), what="the end of other workers")

    def one_each(numbers):
        time.sleep(1)  # So that each task needs a worker of its own.
        yield os.getpid()

    workers = spark.sparkContext.parallelize(range(parallelism), parallelism).mapPartitions(one_each).collect()
    assert len(set(workers)) == parallelism
    os.kill(workers[0], signal.SIGSTOP)
    try:
        yield workers[0]
    finally:
        if psutil.pid_exists(workers[0]):
            os.kill(workers[0], signal.SIGCONT)


def started_again(caplog) -> list[int]:
    """The slots that were started again, by what was logged."""
    assert "started again" in caplog.text
    return [int(slot) for slot in re.search(r"Slots \[([\d, ]+)\] of job", caplog.text)[1].split(",")]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_slots_whose_spark_worker_hangs_are_started_again(env, spark, parallelism, monkeypatch, caplog):
    monkeypatch.setattr(timeouts, "_LAUNCH_SECONDS", 2.0)
    with a_hung_worker(spark, parallelism) as hung:
        configure(env, {"slot.request.timeout": f"{ENOUGH_SECONDS:g} s"})
        env.set_parallelism(parallelism)
        numbers(env, 1, 10).print()
        env.execute()
        assert len(started_again(caplog)) == 1
        wait_until(lambda: not psutil.pid_exists(hung), what="the end of the hung worker")


def test_the_loss_of_a_slot_that_was_not_started_again_is_noticed(env, spark, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(timeouts, "_LAUNCH_SECONDS", 2.0)
    with a_hung_worker(spark, 2):
        configure(env, {"slot.request.timeout": f"{ENOUGH_SECONDS:g} s"})
        client = idle_job(env, tmp_path)
        [again] = started_again(caplog)
        os.kill(slot_pids(client)[1 - again], signal.SIGKILL)
        assert f"slot {1 - again} (process " in failure(client)
