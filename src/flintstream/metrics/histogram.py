"""Histogram: statistics over the last values, as Flink computes them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from .metrics import Metric

__all__ = ["Histogram", "percentile"]

_PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p98": 98, "p99": 99, "p999": 99.9}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns a percentile of ordered values, interpolated at `percent * (n + 1) / 100`; NaN of none."""
    count = len(ordered)
    if count == 0:
        return math.nan
    position = percent * (count + 1) / 100
    if position < 1 or count == 1:
        return float(ordered[0])
    if position >= count:
        return float(ordered[-1])
    below = math.floor(position)
    lower, upper = ordered[below - 1], ordered[below]
    return lower + (position - below) * (upper - lower)


class Histogram(Metric):
    """The distribution of the last `size` values; `count` is that of all.

    One thread updates it, any thread may read.

    Example::

        >>> histogram = Histogram(2)
        >>> for value in (7, 1, 3):
        ...     histogram.update(value)
        >>> found = histogram.get_statistics()
        >>> found["count"], found["min"], found["max"], found["median"]
        (3, 1, 3, 2.0)
    """

    __slots__ = ("_count", "_known", "_values")

    def __init__(self, size: int) -> None:
        self._values: deque[float] = deque(maxlen=size)
        self._count = 0
        self._known: dict[str, float] = {"count": 0}

    def update(self, value: float) -> None:
        """Adds a value."""
        self._values.append(value)
        self._count += 1

    def get_statistics(self) -> dict[str, float]:
        """Returns the statistics by Flink's names; only the count before the first value."""
        known = self._known
        if known["count"] != self._count:  # Computed once for a value, however often somebody asks.
            known = self._known = self._computed()
        return known

    def _computed(self) -> dict[str, float]:
        count = self._count
        ordered = sorted(self._values)
        mean = math.fsum(ordered) / len(ordered)
        squares = math.fsum((value - mean) ** 2 for value in ordered)
        return {
            "count": count,
            "min": ordered[0],
            "max": ordered[-1],
            "mean": mean,
            "stddev": math.sqrt(squares / max(1, len(ordered) - 1)),
            **{name: percentile(ordered, percent) for name, percent in _PERCENTILES.items()},
        }
