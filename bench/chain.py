"""chain: five maps and filters on integers, against the bare loop."""

from __future__ import annotations

from bench.jobs import run_chain
from bench.peers import run_peer
from bench.report import Result, Row
from bench.timing import Timing, slope

LEAST_OF_BARE = 0.8
SIZES = (8_000_000, 64_000_000)
QUICK_SIZES = (1_000_000, 6_000_000)
REPEAT = 3


def run(quick: bool) -> Result:
    """Both sides, in turn."""
    sizes = QUICK_SIZES if quick else SIZES
    run_chain(sizes[0] // 10)  # Starts Spark, and is not counted.
    ours: list[Timing] = []
    bare: dict[int, list[Timing]] = {1: [], 2: []}
    for _ in range(1 if quick else REPEAT):
        ours += [run_chain(size) for size in sizes]
        for processes, timings in bare.items():
            timings += run_peer("bare", sizes, 1, "--work", "chain", "--processes", str(processes))
    rate = slope(ours)
    two, one = slope(bare[2]), slope(bare[1])
    rows = [
        Row("Flintstream", rate),
        Row("bare loop, 2 processes", two, ratio=rate / two, least_ratio=LEAST_OF_BARE),
        Row("bare loop, 1 process", one, ratio=rate / one),
    ]
    details = {
        "flintstream": [(timing.records, timing.seconds) for timing in ours],
        "bare": {processes: [(t.records, t.seconds) for t in timings] for processes, timings in bare.items()},
    }
    return Result("chain", "A chain of five maps and filters, parallelism 2", rows, details)
