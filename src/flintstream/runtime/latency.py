"""Latency markers: how long records take from a source to each operator, as Flink tracks it.

At an interval, each subtask of a source emits a marker with the time. It travels among the records, through queues and
exchanges, overtakes none, and passes by the functions; each operator that it reaches records how old it is. Where there are
several ways it takes one of them by chance, so that a marker is never in two places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from flintstream.common.config_values import parse_duration, parse_integer
from flintstream.metrics.histogram import Histogram
from flintstream.runtime.block import LatencyMarker

if TYPE_CHECKING:
    from flintstream.runtime.output import Output

SINGLE, OPERATOR, SUBTASK = "single", "operator", "subtask"
GRANULARITIES = (SINGLE, OPERATOR, SUBTASK)
_PREFIX = "metrics.latency."
INTERVAL, GRANULARITY, HISTORY_SIZE = (_PREFIX + name for name in ("interval", "granularity", "history-size"))


@dataclass(frozen=True)
class LatencyTracking:
    """The settings of latency tracking."""

    interval: int
    """The milliseconds between two markers of a source subtask; more than 0."""
    granularity: str = OPERATOR
    """What an operator tells apart: nothing (`single`), sources (`operator`), or their subtasks (`subtask`)."""
    history_size: int = 128
    """The number of latencies that a histogram remembers."""

    @staticmethod
    def of(configuration: Mapping[str, str]) -> LatencyTracking | None:
        """Returns the settings of a configuration; None if latency is not tracked. An invalid one is a ValueError."""
        known = (INTERVAL, GRANULARITY, HISTORY_SIZE)
        for key in configuration:
            if key.startswith(_PREFIX) and key not in known:
                raise ValueError(f"There is no option '{key}': those of latency tracking are {', '.join(known)}")
        granularity = configuration.get(GRANULARITY, OPERATOR).strip().lower()
        if granularity not in GRANULARITIES:
            raise ValueError(f"{GRANULARITY} must be one of {', '.join(GRANULARITIES)}, got {granularity!r}")
        size = parse_integer(configuration.get(HISTORY_SIZE, 128), HISTORY_SIZE)
        if size < 1:
            raise ValueError(f"{HISTORY_SIZE} must be at least 1, got {size}")
        given = str(configuration.get(INTERVAL, "0")).strip()
        # As in Flink, also a negative interval turns it off.
        interval = 0 if given.startswith("-") else parse_duration(given, INTERVAL).to_millis()
        return LatencyTracking(interval, granularity, size) if interval > 0 else None


class LatencyReport(NamedTuple):
    """The latency from a source to an operator of a subtask, in milliseconds."""

    operator_id: str
    source_id: str | None
    """None if sources are not told apart."""
    source_subtask: int | None
    """None if the subtasks of a source are not told apart."""
    statistics: dict[str, float]


class LatencyStats:
    """The latencies of the markers that an operator of a subtask has received."""

    def __init__(self, operator_id: str, tracking: LatencyTracking, clock: Callable[[], int]) -> None:
        self._operator_id = operator_id
        self._tracking = tracking
        self._clock = clock
        self._histograms: dict[tuple[str | None, int | None], Histogram] = {}

    def record(self, marker: LatencyMarker) -> None:
        """Records how old a marker is."""
        granularity = self._tracking.granularity
        key = (
            None if granularity == SINGLE else marker.operator_id,
            marker.subtask if granularity == SUBTASK else None,
        )
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = Histogram(self._tracking.history_size)
        histogram.update(self._clock() - marker.marked_time)

    def report(self) -> list[LatencyReport]:
        """Returns the latencies so far; any thread may ask."""
        return [
            LatencyReport(self._operator_id, *key, histogram.get_statistics())
            for key, histogram in list(self._histograms.items())
        ]


class LatencyMarkers:
    """Emits the latency markers of a source subtask into the output of its operator."""

    def __init__(
        self, output: Output, tracking: LatencyTracking, operator_id: str, subtask: int, clock: Callable[[], int]
    ) -> None:
        self._output = output
        self._interval = tracking.interval
        self._operator_id = operator_id
        self._subtask = subtask
        self._clock = clock
        self._due = 0

    @property
    def next_due(self) -> float:
        """Returns when (seconds since 1970) the next marker is due."""
        return self._due / 1000

    def emit_if_due(self) -> None:
        """Emits a marker, unless the last one is less than an interval ago."""
        now = self._clock()
        # A clock that was set back must not silence the source for long.
        if now >= self._due or now < self._due - self._interval:
            self._due = now + self._interval
            self._output.emit_latency_marker(LatencyMarker(now, self._operator_id, self._subtask))
