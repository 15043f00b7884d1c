"""many_keys: the running count of keyed_count with a million keys, against the limit and transformWithState."""

from __future__ import annotations

from bench.functions import MANY_KEYS
from bench.jobs import run_many_keys_count
from bench.peers import NEEDS_PROTOBUF, has_protobuf, run_peer
from bench.report import Result, Row
from bench.timing import Timing, slope

LEAST_OF_BARE = 0.4
LEAST_OF_TRANSFORM_WITH_STATE = 50


def run(quick: bool) -> Result:
    """Both sides in turn, then the peer."""
    sizes = (2 * MANY_KEYS, 4 * MANY_KEYS) if quick else (4 * MANY_KEYS, 16 * MANY_KEYS)
    ours: list[Timing] = []
    bare: list[Timing] = []
    run_many_keys_count(sizes[-1])  # Starts Spark, lets Java compile its code, and is not counted.
    for _ in range(1 if quick else 3):
        ours += [run_many_keys_count(size) for size in sizes]
        bare += run_peer("bare", sizes, 1, "--work", "many keys", "--processes", "2")
    rate, limit = slope(ours), slope(bare)
    rows = [
        Row("Flintstream, process function with ValueState", rate),
        Row("bare loop, 2 processes", limit, ratio=rate / limit, least_ratio=LEAST_OF_BARE),
        _against_transform_with_state(rate, quick),
    ]
    details = {side: [(t.records, t.seconds) for t in timings] for side, timings in (("ours", ours), ("bare", bare))}
    return Result("many_keys", "Running count of 1,000,000 keys, parallelism 2", rows, details)


def _against_transform_with_state(ours: float, quick: bool) -> Row:
    what = "PySpark transformWithState, batches of 100,000"
    if quick:
        return Row(what, None, note="not run by --quick")
    if not has_protobuf():
        return Row(what, None, note=NEEDS_PROTOBUF)
    # Each record has a key of its own: a whole round of a million would take a quarter of an hour.
    theirs = slope(run_peer("transform_with_state", (100_000, 400_000), 1, "--keys", str(MANY_KEYS)))
    return Row(what, theirs, ratio=ours / theirs, least_ratio=LEAST_OF_TRANSFORM_WITH_STATE)
