"""The jobs of the benchmark `transports`, over the transport of FLINT_TRANSPORT: `transports_jobs SIZE SIZE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

from bench import timers, windows
from bench.functions import KEYS, WINDOW_RECORDS
from bench.jobs import environment, run_chain, run_many_keys_count, run_process_count
from bench.timing import Timing


def _windows(size: int) -> Timing:
    # Each window gets the same number of records.
    return windows.run_job(windows.TUMBLING, 1, size // WINDOW_RECORDS * WINDOW_RECORDS)


JOBS: Mapping[str, Callable[[int], Timing]] = {
    "running count of 10,000 keys": run_process_count,
    "running count of 1,000,000 keys": run_many_keys_count,
    "running count of 10,000 keys in RocksDB": lambda size: run_process_count(
        size, environment(state__backend__type="rocksdb")
    ),
    "windows of an hour": _windows,
    "a timer moved with each record": lambda size: timers.run_job(KEYS, size),
    "five maps and filters": run_chain,
}


def main() -> None:
    """Prints the timings of each job, as a line of JSON."""
    sizes = [int(size) for size in sys.argv[1:]]
    timings = {}
    for name, job in JOBS.items():
        job(min(sizes))  # Not counted.
        timings[name] = [(timing.records, timing.seconds) for timing in map(job, sizes)]
    print(json.dumps(timings), flush=True)


if __name__ == "__main__":
    main()
