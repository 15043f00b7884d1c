"""Metrics of user functions: counters, gauges, meters and distributions, in named groups."""

from .metrics import Counter, Distribution, Gauge, Meter, Metric, MetricGroup, MetricValue

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup", "MetricValue"]
