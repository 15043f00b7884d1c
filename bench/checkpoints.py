"""checkpoints: what a checkpoint a second costs, with a million keys of which one in a hundred changes in between."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.functions import HOT_KEYS, MANY_KEYS, IsCount, key_of, to_mostly_hot
from bench.jobs import RunningCount, environment, numbers
from bench.report import Result, Row
from bench.timing import Timing, slope
from flintstream.jobmaster.job_master import JobMaster
from flintstream.runtime.checkpoint.coordinator import CheckpointStatistics

LEAST_OF_UNCHECKED = 0.85


def run(quick: bool) -> Result:
    """With checkpoints and without, in turn."""
    sizes = (2 * MANY_KEYS, 4 * MANY_KEYS) if quick else (3 * MANY_KEYS, 11 * MANY_KEYS)
    without: list[Timing] = []
    with_them: list[Timing] = []
    statistics: list[CheckpointStatistics] = []
    run_mostly_hot(sizes[-1], None)  # Starts Spark, lets Java compile its code, and is not counted.
    for _ in range(1 if quick else 3):
        for size in sizes:
            without.append(run_mostly_hot(size, None)[0])
            with tempfile.TemporaryDirectory(prefix="flint-checkpoints-") as directory:
                timing, statistics = run_mostly_hot(size, Path(directory))
                with_them.append(timing)
    free, checked = slope(without), slope(with_them)
    full = max(each.all_bytes for each in statistics)
    changes = sorted(each.new_bytes for each in statistics[-5:])[len(statistics[-5:]) // 2]
    rows = [
        Row("without checkpoints", free),
        Row("a checkpoint a second, in a directory", checked, ratio=checked / free, least_ratio=LEAST_OF_UNCHECKED),
        Row("all state", full / 1e6, "MB"),
        Row("one of the last checkpoints, as stored", changes / 1e6, "MB", most=full / 1e6 / 20),
        Row("checkpoints in the last run", len(statistics), ""),
    ]
    details = {
        "without": [(t.records, t.seconds) for t in without],
        "with": [(t.records, t.seconds) for t in with_them],
        "checkpoints": [(each.new_bytes, each.all_bytes, each.seconds) for each in statistics],
    }
    return Result("checkpoints", "Running count of 1,000,000 keys, 1 % of them hot, parallelism 2", rows, details)


def run_mostly_hot(records: int, directory: Path | None) -> tuple[Timing, list[CheckpointStatistics]]:
    """The running count by a process function; checkpoints go into a directory if there is one."""
    env = environment()
    if directory is not None:
        env.enable_checkpointing(1000)
        env.get_checkpoint_config().set_checkpoint_storage_dir(directory.as_uri())
    last = 1 + (records - MANY_KEYS) // HOT_KEYS
    counts = numbers(env, records).map(to_mostly_hot).key_by(key_of).process(RunningCount()).filter(IsCount(last))
    started = time.perf_counter()
    with counts.execute_and_collect("bench") as results:
        master: JobMaster = results.get_job_client().master
        found = sorted(result[0] for result in results)
    timing = Timing(records, time.perf_counter() - started)
    if found != list(range(HOT_KEYS)):
        raise AssertionError(f"of {records} records {len(found)} keys reached their count, not {HOT_KEYS}")
    return timing, list(master.checkpoints.statistics)
