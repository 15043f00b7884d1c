"""The shapes of metrics, and of statistics over several."""

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict

from flintstream.server.rest.shapes.common import Number


class Metric(TypedDict):
    """A metric, with its value if it was asked for."""

    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    """A metric over subtasks, jobs or task managers, with the aggregations that were asked for."""

    id: str
    min: NotRequired[Number]
    max: NotRequired[Number]
    avg: NotRequired[Number]
    sum: NotRequired[Number]
    skew: NotRequired[Number]
    p50: NotRequired[Number]
    p90: NotRequired[Number]
    p99: NotRequired[Number]


class Statistics(TypedDict):
    """The statistics of checkpoints."""

    min: int
    max: int
    avg: int
    p50: Number
    p90: Number
    p95: Number
    p99: Number
    p999: Number


class SubtaskStatistics(TypedDict):
    """The statistics of a metric over the subtasks of a vertex."""

    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int
