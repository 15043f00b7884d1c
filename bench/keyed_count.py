"""keyed_count: a running count of 10,000 keys in a user function, against the limit and against the peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bench.jobs import run_process_count, run_reduce_count
from bench.peers import NEEDS_PROTOBUF, has_protobuf, run_peer
from bench.report import Result, Row
from bench.timing import Timing, TooSmallError, slope

PYFLINK_VARIABLE = "FLINT_BENCH_PYFLINK"
BYTEWAX_VARIABLE = "FLINT_BENCH_BYTEWAX"
LEAST_OF_BARE = 0.5
LEAST_OF_TRANSFORM_WITH_STATE = 50
LEAST_OF_PYFLINK = 50
LEAST_OF_BYTEWAX = 5


@dataclass(frozen=True)
class Sizes:
    """How much each side has to do: two sizes, and how often both are run."""

    flintstream: tuple[int, int] = (4_000_000, 16_000_000)
    bare: tuple[int, int] = (2_000_000, 12_000_000)
    transform_with_state: tuple[int, int] = (100_000, 500_000)
    bytewax: tuple[int, int] | None = (200_000, 1_000_000)
    pyflink: tuple[int, int] | None = (20_000, 80_000)
    repeat: int = 3


QUICK = Sizes(
    flintstream=(400_000, 2_000_000),
    bare=(200_000, 2_000_000),
    transform_with_state=(100_000, 200_000),
    bytewax=None,
    pyflink=None,
    repeat=1,
)


class _Timings(dict[str, list[Timing]]):
    def add(self, side: str, timings: Sequence[Timing]) -> None:
        self.setdefault(side, []).extend(timings)

    def rate(self, side: str) -> float:
        try:
            return slope(self[side])
        except TooSmallError as error:
            raise TooSmallError(f"{side}: {error}") from error


def run(quick: bool) -> Result:
    """Both variants beside the bare loop, in turn, then the peers."""
    sizes = QUICK if quick else Sizes()
    timings = _Timings()
    run_process_count(sizes.flintstream[0] // 10)  # Starts Spark, and is not counted.
    variants: dict[str, Callable[[int], Timing]] = {"process": run_process_count, "reduce": run_reduce_count}
    for _ in range(sizes.repeat):
        for variant, job in variants.items():
            timings.add(f"flintstream {variant}", [job(size) for size in sizes.flintstream])
            for processes in (2, 1):
                options = ("--work", variant, "--processes", str(processes))
                timings.add(f"bare {variant} {processes}", run_peer("bare", sizes.bare, 1, *options))
    rows = [row for variant in variants for row in _against_bare(timings, variant)]
    ours = timings.rate("flintstream process")
    rows += [
        _against_transform_with_state(sizes, timings, ours),
        *_against_pyflink(sizes, timings, ours),
        _against_bytewax(sizes, timings, ours),
    ]
    details = {
        "sizes": asdict(sizes),
        "timings": {side: [(timing.records, timing.seconds) for timing in runs] for side, runs in timings.items()},
    }
    return Result("keyed_count", "Running count of 10,000 keys, parallelism 2", rows, details)


def _against_bare(timings: _Timings, variant: str) -> list[Row]:
    ours = timings.rate(f"flintstream {variant}")
    two, one = (timings.rate(f"bare {variant} {processes}") for processes in (2, 1))
    name = {"process": "process function with ValueState", "reduce": "reduce"}[variant]
    return [
        Row(f"Flintstream, {name}", ours),
        Row(f"bare loop, {name}, 2 processes", two, ratio=ours / two, least_ratio=LEAST_OF_BARE),
        Row(f"bare loop, {name}, 1 process", one, ratio=ours / one),
    ]


def _against_transform_with_state(sizes: Sizes, timings: _Timings, ours: float) -> Row:
    what = "PySpark transformWithState, batches of 100,000"
    if not has_protobuf():
        return Row(what, None, note=NEEDS_PROTOBUF)
    timings.add("transformWithState", run_peer("transform_with_state", sizes.transform_with_state, sizes.repeat))
    theirs = timings.rate("transformWithState")
    return Row(what, theirs, ratio=ours / theirs, least_ratio=LEAST_OF_TRANSFORM_WITH_STATE)


def _against_pyflink(sizes: Sizes, timings: _Timings, ours: float) -> list[Row]:
    python = os.environ.get(PYFLINK_VARIABLE)
    if not python or not sizes.pyflink:
        return [Row("PyFlink", None, note=_not_run(PYFLINK_VARIABLE))]
    rows = []
    for mode in ("process", "thread"):
        runs = run_peer("pyflink_count", sizes.pyflink, sizes.repeat, "--mode", mode, python=python)
        timings.add(f"PyFlink {mode}", runs)
        theirs = timings.rate(f"PyFlink {mode}")
        rows.append(Row(f"PyFlink, {mode} mode", theirs, ratio=ours / theirs, least_ratio=LEAST_OF_PYFLINK))
    return rows


def _against_bytewax(sizes: Sizes, timings: _Timings, ours: float) -> Row:
    python = os.environ.get(BYTEWAX_VARIABLE)
    if not python or not sizes.bytewax:
        return Row("Bytewax", None, note=_not_run(BYTEWAX_VARIABLE))
    timings.add("Bytewax", run_peer("bytewax_count", sizes.bytewax, sizes.repeat, python=python))
    theirs = timings.rate("Bytewax")
    return Row("Bytewax, one worker", theirs, ratio=ours / theirs, least_ratio=LEAST_OF_BYTEWAX)


def _not_run(variable: str) -> str:
    return "not run by --quick" if os.environ.get(variable) else f"not run: {variable} is not set"
