"""rocksdb: state on disk beside state in memory, and the memory that five million keys take."""

from __future__ import annotations

import time

from bench.functions import MANY_KEYS, MOST_KEYS, IsSomeCount, key_of, to_one_of_many, to_one_of_most
from bench.jobs import RunningCount, environment, numbers
from bench.report import Result, Row
from bench.timing import Timing, slope
from flintstream.datastream import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend
from flintstream.jobmaster.job_master import JobMaster

LEAST_OF_HEAP = 0.8
MOST_SLOT_BYTES = 1e9


def run(quick: bool) -> Result:
    """Both backends in turn; then the many keys."""
    sizes = (2 * MANY_KEYS, 3 * MANY_KEYS) if quick else (4 * MANY_KEYS, 16 * MANY_KEYS)
    heap: list[Timing] = []
    rocksdb: list[Timing] = []
    _run_count(sizes[-1], HashMapStateBackend())  # Starts Spark, lets Java compile its code, and is not counted.
    for _ in range(1 if quick else 3):
        for size in sizes:
            heap.append(_run_count(size, HashMapStateBackend())[0])
            rocksdb.append(_run_count(size, EmbeddedRocksDBStateBackend())[0])
    in_memory, on_disk = slope(heap), slope(rocksdb)
    timing, memory = _run_count(2 * MOST_KEYS, EmbeddedRocksDBStateBackend(), MOST_KEYS)
    rows = [
        Row("state in memory, 1,000,000 keys", in_memory),
        Row("state in RocksDB, 1,000,000 keys", on_disk, ratio=on_disk / in_memory, least_ratio=LEAST_OF_HEAP),
        Row("state in RocksDB, 5,000,000 keys, from start to end", timing.records / timing.seconds),
        Row("the larger slot with 5,000,000 keys", memory / 1e6, "MB", most=MOST_SLOT_BYTES / 1e6),
    ]
    details = {
        side: [(t.records, t.seconds) for t in timings] for side, timings in (("heap", heap), ("rocksdb", rocksdb))
    }
    return Result("rocksdb", "Running count with state in RocksDB, parallelism 2", rows, details)


def _run_count(records: int, backend: StateBackend, keys: int = MANY_KEYS) -> tuple[Timing, int]:
    """The running count by a process function; also the most memory that a slot took."""
    env = environment()
    env.set_state_backend(backend)
    pairs = numbers(env, records).map(to_one_of_many if keys == MANY_KEYS else to_one_of_most).key_by(key_of)
    started = time.perf_counter()
    with pairs.process(RunningCount()).filter(IsSomeCount(records // keys)).execute_and_collect("bench") as results:
        master: JobMaster = results.get_job_client().master
        found = len(list(results))
    timing = Timing(records, time.perf_counter() - started)
    if found != keys // 1000:
        raise AssertionError(f"{found} keys gave their result, not {keys // 1000}")
    return timing, max(size for epoch in master.progress.epochs for size in epoch.memory)
