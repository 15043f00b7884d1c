"""History: series for the charts of a job, over its whole life, of bounded length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

MOST_POINTS = 600
_FIRST_INTERVAL = 1.0


class _Point(NamedTuple):
    """What happened until some time, since the point before it."""

    time: float
    seconds: float
    read: int
    written: int
    epochs: int
    epoch_seconds: float
    watermark_lag: int | None
    state_size: int


class History:
    """Collects points, one a second at first. Whenever there are too many, two become one, and the interval doubles."""

    def __init__(
        self, clock: Callable[[], float], wall_clock: Callable[[], float], most_points: int = MOST_POINTS
    ) -> None:
        self._clock = clock
        self._wall_offset = wall_clock() - clock()
        self._most = most_points
        self._interval = _FIRST_INTERVAL
        self._points: list[_Point] = []
        self._open = _Point(clock(), 0.0, 0, 0, 0, 0.0, None, 0)
        """What has happened since the last point; its time is that of the last point."""

    def add(self, read: int, written: int, epoch_seconds: float, watermark_lag: int | None, state_size: int) -> None:
        """Adds an epoch that has just ended."""
        now = self._clock()
        begun = now - epoch_seconds
        if begun - self._open.time >= self._interval:
            self._close(begun)  # Until it began there was nothing to do.
        held = self._open
        self._open = _Point(
            held.time,
            held.seconds,
            held.read + read,
            held.written + written,
            held.epochs + 1,
            held.epoch_seconds + epoch_seconds,
            watermark_lag,
            state_size,
        )
        if now - held.time >= self._interval:
            self._close(now)

    def _close(self, now: float) -> None:
        held = self._open
        self._points.append(held._replace(time=now, seconds=now - held.time))
        self._open = _Point(now, 0.0, 0, 0, 0, 0.0, held.watermark_lag, held.state_size)
        if len(self._points) > self._most:
            pairs = zip(self._points[::2], self._points[1::2])
            odd = self._points[-1:] if len(self._points) % 2 else []
            self._points = [_merged(*pair) for pair in pairs] + odd
            self._interval *= 2

    def series(self, running: bool) -> dict[str, list[Any]]:
        """Returns the series by name, of equal length. Unless an epoch is `running`, they last until now."""
        points = list(self._points)
        now = self._clock()
        if not running and now - self._open.time >= 2 * self._interval:
            points.append(self._open._replace(time=now, seconds=now - self._open.time))
        return {
            "time": [round((point.time + self._wall_offset) * 1000) for point in points],
            "recordsInPerSecond": [round(point.read / point.seconds, 3) for point in points],
            "recordsOutPerSecond": [round(point.written / point.seconds, 3) for point in points],
            "epochDurationMs": [
                round(point.epoch_seconds / point.epochs * 1000) if point.epochs else None for point in points
            ],
            "watermarkLagMs": [point.watermark_lag for point in points],
            "stateSize": [point.state_size for point in points],
        }


def _merged(first: _Point, second: _Point) -> _Point:
    return _Point(
        second.time,
        first.seconds + second.seconds,
        first.read + second.read,
        first.written + second.written,
        first.epochs + second.epochs,
        first.epoch_seconds + second.epoch_seconds,
        second.watermark_lag,
        second.state_size,
    )
