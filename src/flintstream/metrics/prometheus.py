"""The metrics of jobs in Prometheus' text format.

There are two ways to name them. Those of Prometheus are made from Flink's (`numRecordsIn` becomes
`flink_taskmanager_job_task_num_records_in_total`), with base units, so that `promtool check metrics` finds nothing to say.
Flink's own (`flink_taskmanager_job_task_numRecordsIn`) are those of Flink's reporter, for dashboards made for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from .samples import Sample, samples

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from flintstream.jobmaster.details import JobDetails

__all__ = ["CONTENT_TYPE", "NAMINGS", "Naming", "exposition", "naming_of"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PROMETHEUS, FLINK = "prometheus", "flink"
NAMINGS = (PROMETHEUS, FLINK)
_NO_NAME = re.compile(r"[^a-zA-Z0-9_:]")
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_QUANTILES = {"median": "0.5", "p75": "0.75", "p95": "0.95", "p98": "0.98", "p99": "0.99", "p999": "0.999"}
_MIN, _MAX = -(2**63), 2**63 - 1
"""Flink's values for a watermark that has not arrived, and for the end of the stream."""


@dataclass(frozen=True)
class Naming:
    """How metrics and their labels are named."""

    style: str = PROMETHEUS
    """One of `NAMINGS`."""
    without: frozenset[str] = frozenset()
    """Labels to leave out."""
    additional: Mapping[str, str] = field(default_factory=dict)
    """Labels to add."""
    filter_values: bool | None = None
    """Whether values of labels have only letters, digits, colons and underscores; by default with Flink's names, as in
    Flink.
    """

    def labels(self, sample: Sample) -> dict[str, str]:
        """Returns the labels of a sample."""
        filtered = self.style == FLINK if self.filter_values is None else self.filter_values
        return {
            self._label(name): _NO_NAME.sub("_", value) if filtered else value
            for name, value in {**sample.labels, **self.additional}.items()
            if name not in self.without
        }

    def _label(self, name: str) -> str:
        name = _NO_LABEL.sub("_", name if self.style == FLINK else _snake(name))
        # Two underscores at the beginning are reserved.
        return f"_{name.lstrip('_')}" if name[:1].isdigit() or name.startswith("__") else name


@dataclass
class _Family:
    """All samples of a name."""

    type: str
    help: str
    samples: dict[tuple[tuple[str, str], ...], tuple[str, dict[str, str], float]] = field(default_factory=dict)


def exposition(jobs: Iterable[JobDetails], naming: Naming | None = None) -> bytes:
    """Returns the metrics of jobs as text."""
    from prometheus_client.exposition import generate_latest  # Only when needed: most jobs have nobody who asks.

    naming = naming or Naming()
    families: dict[str, _Family] = {}
    for job in jobs:
        for sample in samples(job):
            labels = naming.labels(sample)
            for name, type_, suffix, value, quantile in _series(sample, naming):
                family = families.setdefault(name, _Family(type_, sample.definition.help))
                # One name has one type and one value for its labels, though users may give different ones the same name.
                if family.type == type_:
                    own = {**labels, "quantile": quantile} if quantile else labels
                    key = (("", suffix), *sorted(own.items()))
                    family.samples.setdefault(key, (name + suffix, own, value))
    return generate_latest(_Families(families))


def naming_of(query: str, naming: Naming) -> Naming:
    """Returns the naming that a request asks for by `names=flink` in its query; a ValueError for one there is not."""
    style = parse_qs(query).get("names", [naming.style])[-1]
    if style not in NAMINGS:
        raise ValueError(f"names must be one of {', '.join(NAMINGS)}, got {style!r}")
    return Naming(style, naming.without, naming.additional, naming.filter_values)


class _Families:
    """What the library takes for a registry."""

    def __init__(self, families: Mapping[str, _Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import Metric

        for name, family in sorted(self._families.items()):
            metric = Metric(name.removesuffix("_total") if family.type == "counter" else name, family.help, family.type)
            for sample_name, labels, value in family.samples.values():
                metric.add_sample(sample_name, labels, value)
            yield metric


class _Series(NamedTuple):
    name: str
    type: str
    suffix: str
    value: float
    quantile: str = ""


def _series(sample: Sample, naming: Naming) -> Iterator[_Series]:
    """Returns the series of a sample; nothing for a text."""
    value = sample.value
    if sample.kind == "histogram":
        yield from _histogram(sample, naming)
        return
    if sample.kind == "meter":
        value = value["rate"]
    if sample.kind == "distribution":
        name = _name(sample, sample.name, naming)
        for suffix in ("sum", "count"):
            yield _Series(name, "summary", f"_{suffix}", float(_number(value.get(suffix)) or 0.0))
        for statistic in ("min", "max", "mean"):
            if (number := _number(value.get(statistic))) is not None:
                yield _Series(f"{name}_{statistic}", "gauge", "", number)
        return
    number = _number(value)
    if number is None:
        return
    if naming.style == FLINK:
        # Gauges, as in Flink, whose counters may decrease.
        yield _Series(_name(sample, sample.name, naming), "gauge", "", number)
        return
    definition = sample.definition
    if definition.unit == "time" and number in (_MIN, _MAX, -1):
        return
    name, unit = _in_base_unit(sample.name, definition.unit)
    if unit:
        number /= 1000
    name = _name(sample, name, naming)
    counter = definition.counter
    yield _Series(f"{name}_total" if counter else name, "counter" if counter else "gauge", "", number)


def _histogram(sample: Sample, naming: Naming) -> Iterator[_Series]:
    """Returns the quantiles of a histogram and its count, as a summary: those of Flink's reporter."""
    name, unit = (sample.name, False) if naming.style == FLINK else _in_base_unit(sample.name, sample.definition.unit)
    name = _name(sample, name, naming)
    for statistic, quantile in _QUANTILES.items():
        if (number := _number(sample.value.get(statistic))) is not None:
            yield _Series(name, "summary", "", number / 1000 if unit else number, quantile)
    yield _Series(name, "summary", "_count", float(_number(sample.value.get("count")) or 0.0))


def _in_base_unit(name: str, unit: str) -> tuple[str, bool]:
    """Returns a name with its unit, and whether its value is in thousandths of it."""
    if unit == "ms/s":
        return name.removesuffix("TimeMsPerSecond") + "TimeRatio", True
    if unit in ("ms", "time"):
        return name.removesuffix("Ms") + "Seconds", True
    return name, False


def _name(sample: Sample, name: str, naming: Naming) -> str:
    parts = ("flink", *sample.scope, name)
    return _NO_NAME.sub("_", "_".join(parts if naming.style == FLINK else map(_snake, parts)))


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None
