"""Metrics: by name with their values as texts, and aggregated over subtasks, jobs or task managers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from flintstream.jobmaster.details import JobDetails, SubtaskDetails, UserMetric, VertexDetails
from flintstream.server.rest import shapes
from flintstream.server.rest.statistics import percentile, skew

__all__ = [
    "AGGREGATIONS",
    "aggregated",
    "filter_characters",
    "job_metrics",
    "listed",
    "subtask_metrics",
    "text_of",
    "vertex_metrics",
]

_FILTERED = str.maketrans(dict.fromkeys(" .:,", "_"))
AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: math.fsum(values) / len(values),
    "sum": math.fsum,
    "skew": skew,
    "p50": lambda values: percentile(sorted(values), 50),
    "p90": lambda values: percentile(sorted(values), 90),
    "p99": lambda values: percentile(sorted(values), 99),
}
DEFAULT_AGGREGATIONS = ("min", "max", "avg", "sum", "skew")
"""What Flink computes unless `agg` selects."""


def filter_characters(name: str) -> str:
    """Returns a name as Flink writes it within the name of a metric: a blank, dot, colon or comma is an underscore."""
    return name.translate(_FILTERED)


def text_of(value: object) -> str:
    """Returns the value of a metric as Flink writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return str(value)


def job_metrics(details: JobDetails) -> dict[str, str]:
    """Returns the metrics of a job, and the latencies of its operators, which Flink counts among them."""
    latencies = {
        ".".join(("latency", *(part for pair in each.variables.items() for part in pair), "latency")): each.statistics
        for vertex in details.vertices
        for subtask in vertex.subtasks
        for each in subtask.latencies
    }
    return _texts(details.metrics) | _texts(latencies)


def subtask_metrics(vertex: VertexDetails, subtask: SubtaskDetails) -> dict[str, str]:
    """Returns the metrics of a subtask, and those of its operators as `<operator>.<metric>`."""
    names = {operator.operator_id: filter_characters(operator.name) for operator in vertex.operators}
    found = _texts(subtask.metrics)
    for operator_id, metrics in subtask.operator_metrics.items():
        prefix = names.get(operator_id, operator_id)
        found.update((f"{prefix}.{name}", value) for name, value in _texts(metrics).items())
    for metric in subtask.user_metrics:
        prefix = names.get(metric.operator_id, metric.operator_id)
        found.update((f"{prefix}.{name}", value) for name, value in _user_metric(metric).items())
    return found


def vertex_metrics(vertex: VertexDetails) -> dict[str, str]:
    """Returns the metrics of all subtasks, as `<subtask>.<metric>`."""
    return {
        f"{subtask.index}.{name}": value
        for subtask in vertex.subtasks
        for name, value in subtask_metrics(vertex, subtask).items()
    }


def _user_metric(metric: UserMetric) -> dict[str, str]:
    if metric.kind == "meter" and isinstance(metric.value, Mapping):
        return _texts({metric.name: metric.value.get("rate")})
    return _texts({metric.name: metric.value})


def _texts(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Returns metrics as texts; one with several statistics becomes several metrics, as a histogram does in Flink."""
    found: dict[str, str] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found.update((f"{name}_{part}", text_of(each)) for part, each in value.items() if each is not None)
        elif value is not None:
            found[name] = text_of(value)
    return found


def listed(metrics: Mapping[str, str], wanted: Sequence[str] | None) -> list[shapes.Metric]:
    """Returns the names of all metrics, or the values of the wanted ones; those that there are not are left out."""
    if wanted is None:
        return [{"id": name} for name in sorted(metrics)]
    return [{"id": name, "value": metrics[name]} for name in dict.fromkeys(wanted) if name in metrics]


def aggregated(
    parts: Iterable[Mapping[str, str]], wanted: Sequence[str] | None, aggregations: Collection[str]
) -> list[shapes.AggregatedMetric]:
    """Returns the names of the metrics of several subtasks, jobs or task managers, or the aggregates of the wanted
    ones. A value that is no number is left out, as in Flink.
    """
    parts = list(parts)
    if wanted is None:
        return [{"id": name} for name in sorted({name for part in parts for name in part})]
    found = []
    for name in dict.fromkeys(wanted):
        values = [value for part in parts if (value := _number(part.get(name))) is not None]
        if values:
            numbers = {kind: AGGREGATIONS[kind](values) for kind in aggregations}
            found.append(cast(shapes.AggregatedMetric, {"id": name, **numbers}))
    return found


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
