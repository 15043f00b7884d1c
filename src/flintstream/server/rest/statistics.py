"""Statistics as Flink computes them: integer minimum, maximum and average, and percentiles between neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flintstream.metrics.histogram import percentile
from flintstream.server.rest.shapes import Number, Statistics, SubtaskStatistics

__all__ = ["percentile", "skew", "statistics", "subtask_statistics"]


def statistics(values: Iterable[int]) -> Statistics:
    """Returns the statistics that checkpoints have; zeros of no values."""
    ordered = sorted(values)
    low, high, mean = (ordered[0], ordered[-1], sum(ordered) // len(ordered)) if ordered else (0, 0, 0)

    def at(percent: float) -> Number:
        return percentile(ordered, percent) if ordered else 0.0

    return {
        "min": low,
        "max": high,
        "avg": mean,
        "p50": at(50),
        "p90": at(90),
        "p95": at(95),
        "p99": at(99),
        "p999": at(99.9),
    }


def subtask_statistics(values: Iterable[float]) -> SubtaskStatistics:
    """Returns the statistics of a metric over subtasks; zeros of no values."""
    ordered = sorted(int(value) for value in values) or [0]
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "sum": sum(ordered),
        "median": int(percentile(ordered, 50)),
        "p25": int(percentile(ordered, 25)),
        "p75": int(percentile(ordered, 75)),
        "p95": int(percentile(ordered, 95)),
    }


def skew(values: Sequence[float]) -> float:
    """Returns the mean absolute deviation in percent of the mean, at most 100."""
    mean = sum(values) / len(values) if values else 0.0
    if mean == 0.0:
        return 0.0
    deviation = sum(abs(mean - value) for value in values) / len(values)
    return min(deviation / mean * 100.0, 100.0)
