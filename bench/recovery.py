"""recovery: how long a job with a million keys takes to go on, from a savepoint and after the death of a slot."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.functions import MANY_KEYS, key_of, to_one_of_many
from bench.jobs import RunningCount, environment, numbers
from bench.report import Result, Row
from flintstream.common import JobStatus, RestartStrategies
from flintstream.jobmaster.job_master import JobMaster

MOST_RESTORE_SECONDS = 5.0
MOST_RECOVERY_SECONDS = 5.0
_ENDLESS = 10**12
_PATIENCE_SECONDS = 120.0


def run(quick: bool) -> Result:
    """Fills a job with state, stops it, goes on from its savepoint, and kills one of its slots."""
    with tempfile.TemporaryDirectory(prefix="flint-recovery-") as directory:
        client = _start(Path(directory))
        _seconds_until_running(client.master)  # Starts Spark, and is not counted.
        _wait(lambda: client.master.progress.records_in > 2 * MANY_KEYS, "a million keys")
        savepoint = client.stop_with_savepoint(False, directory).result()
        size = sum(path.stat().st_size for path in Path(savepoint).iterdir())
        client = _start(Path(directory), savepoint)
        restored = _seconds_until_running(client.master)
        _wait(lambda: bool(client.master.checkpoints.statistics), "a checkpoint")
        recovery = _kill_a_slot(client.master)
        client.cancel().result()
    rows = [
        Row("start from a savepoint of 1,000,000 keys", restored, "s", most=MOST_RESTORE_SECONDS),
        Row("the savepoint", size / 1e6, "MB"),
        Row("from the death of a slot to RUNNING", recovery, "s", most=MOST_RECOVERY_SECONDS),
    ]
    return Result("recovery", "A job with 1,000,000 keys goes on, parallelism 2", rows)


def _start(directory: Path, savepoint: str | None = None) -> Any:
    env = environment()
    env.enable_checkpointing(1000)
    env.get_checkpoint_config().set_checkpoint_storage_dir((directory / "checkpoints").as_uri())
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    if savepoint is not None:
        env._configuration.set_string("execution.state-recovery.path", savepoint)
    counts = numbers(env, _ENDLESS).map(to_one_of_many).key_by(key_of).process(RunningCount())
    counts.filter(lambda count: False).print()
    return env.execute_async("recovery")


def _seconds_until_running(master: JobMaster) -> float:
    _wait(lambda: _since(master, JobStatus.RUNNING) is not None, "the start")
    running, created = _since(master, JobStatus.RUNNING), _since(master, JobStatus.CREATED)
    assert running is not None and created is not None
    return running - created


def _kill_a_slot(master: JobMaster) -> float:
    killed = time.time()
    assert master.attempt is not None and master.attempt.pool is not None
    os.kill(master.attempt.pool.handles[0].pid, signal.SIGKILL)
    _wait(lambda: (_since(master, JobStatus.RUNNING) or 0.0) > killed, "the recovery")
    running = _since(master, JobStatus.RUNNING)
    assert running is not None
    return running - killed


def _since(master: JobMaster, status: JobStatus) -> float | None:
    return next((since for known, since in reversed(master.status_times) if known is status), None)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.01)
