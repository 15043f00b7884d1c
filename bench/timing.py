"""Timings of runs, and the throughput that two sizes give."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """One run."""

    records: int
    seconds: float


class MeasurementError(RuntimeError):
    """A number could not be taken; the message says all that the person at the terminal needs."""


class TooSmallError(MeasurementError):
    """The sizes are too close for the time between them to be measured."""


def slope(timings: Iterable[Timing]) -> float:
    """Records a second between the smallest and the largest size: what a run costs at its start drops out.

    Each size counts with the median of its runs.
    """
    by_size: dict[int, list[float]] = {}
    for timing in timings:
        by_size.setdefault(timing.records, []).append(timing.seconds)
    small, large = min(by_size), max(by_size)
    seconds = statistics.median(by_size[large]) - statistics.median(by_size[small])
    if large == small or seconds <= 0:
        raise TooSmallError(f"{large:,} records took no longer than {small:,}: the sizes are too small")
    return (large - small) / seconds


def repeated(run: Callable[[int], Timing], sizes: Sequence[int], repeat: int) -> list[Timing]:
    """Runs each size, `repeat` times in turn."""
    return [run(size) for _ in range(repeat) for size in sizes]
