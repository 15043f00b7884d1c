"""Whether a series of measurements stays flat, by the slope of Theil and Sen, which a few outliers do not move."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MOST_POINTS = 300
"""Of a longer series every second, third, … point is taken: the slopes are those of all pairs."""


@dataclass(frozen=True)
class Limit:
    """How much a series may grow over its whole length: by a part of its level, and a little besides."""

    unit: str
    part: float
    besides: float


@dataclass(frozen=True)
class Growth:
    """What became of a series."""

    level: float
    """The median."""
    per_hour: float
    growth: float
    """Over the whole series, as its slope has it."""
    most: float

    @property
    def flat(self) -> bool:
        """Whether it grew by no more than allowed."""
        return self.growth <= self.most


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes of all pairs of points (x, y); 0 for fewer than two of them."""
    taken = points[:: max(1, -(-len(points) // MOST_POINTS))]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(taken)
        for later in taken[index + 1 :]
        if later[0] != earlier[0]
    ]
    return statistics.median(slopes) if slopes else 0.0


def growth(points: Sequence[tuple[float, float]], limit: Limit) -> Growth:
    """Judges a series of (seconds, value)."""
    if not points:
        raise ValueError("nothing was measured")
    level = statistics.median(value for _, value in points)
    by_second = slope(points)
    grown = by_second * (points[-1][0] - points[0][0])
    return Growth(level, by_second * 3600, grown, limit.part * level + limit.besides)


def without_warm_up(points: Sequence[tuple[float, float]], part: float) -> list[tuple[float, float]]:
    """The points behind the first part of the time."""
    if not points:
        return []
    begin = points[0][0] + part * (points[-1][0] - points[0][0])
    return [point for point in points if point[0] >= begin]
