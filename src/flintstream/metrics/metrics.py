"""Metric types. They are plain objects of a slot, reported by :meth:`MetricGroup.snapshot`."""

from __future__ import annotations

import time
from abc import ABC
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup", "MetricValue"]

_METER_BUCKETS = 12


class Metric(ABC):  # noqa: B024 - only marks what a group can hold
    """Base class of metrics."""


class Counter(Metric):
    """A number that is incremented and decremented.

    Example::

        >>> counter = Counter()
        >>> counter.inc(3)
        >>> counter.dec()
        >>> counter.get_count()
        2
    """

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Adds n."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtracts n."""
        self._count -= n

    def get_count(self) -> int:
        """Returns the current count."""
        return self._count


class Gauge(Metric):
    """A value computed when metrics are reported.

    Example::

        >>> Gauge(lambda: 5).get_value()
        5
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def get_value(self) -> Any:
        """Returns the current value."""
        return self._function()


class Meter(Metric):
    """The number of events, and the rate per second over the last time span.

    Example::

        >>> meter = Meter(time_span_in_seconds=60)
        >>> meter.mark_event(5)
        >>> meter.get_count()
        5
    """

    __slots__ = ("_bucket_seconds", "_clock", "_count", "_marks", "_span")

    def __init__(self, time_span_in_seconds: int = 60, clock: Callable[[], float] = time.monotonic) -> None:
        if time_span_in_seconds <= 0:
            raise ValueError(f"time_span_in_seconds must be more than 0, not {time_span_in_seconds}.")
        self._span = time_span_in_seconds
        self._bucket_seconds = time_span_in_seconds / _METER_BUCKETS
        self._clock = clock
        self._count = 0
        # (time, count before it) at the start of each bucket; the oldest is just outside the span.
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])

    def mark_event(self, value: int = 1) -> None:
        """Counts n events."""
        now, marks = self._clock(), self._marks
        if now - marks[-1][0] >= self._bucket_seconds:
            marks.append((now, self._count))
            while marks[1][0] <= now - self._span:
                marks.popleft()
        self._count += value

    def get_count(self) -> int:
        """Returns the total number of events."""
        return self._count

    def get_rate(self) -> float:
        """Returns events per second over the time span, or since the meter was created if that is shorter."""
        # Changes nothing: another thread may mark events meanwhile.
        now, count = self._clock(), self._count
        start, before = self._marks[0]
        for mark in tuple(self._marks):
            if mark[0] > now - self._span:
                break
            start, before = mark
        seconds = max(now - start, 1.0)
        return (count - before) / seconds


class Distribution(Metric):
    """Count, sum, minimum and maximum of values.

    Example::

        >>> distribution = Distribution()
        >>> distribution.update(2)
        >>> distribution.update(4)
        >>> distribution.get_statistics()
        {'count': 2, 'sum': 6, 'min': 2, 'max': 4, 'mean': 3.0}
    """

    __slots__ = ("_count", "_max", "_min", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0
        self._min: float = 0
        self._max: float = 0

    def update(self, value: float) -> None:
        """Adds a value."""
        if not self._count:
            self._min = self._max = value
        elif value < self._min:
            self._min = value
        elif value > self._max:
            self._max = value
        self._count += 1
        self._sum += value

    def get_statistics(self) -> dict[str, float]:
        """Returns the reported statistics; only the count before the first value."""
        if not self._count:
            return {"count": 0}
        mean = self._sum / self._count
        return {"count": self._count, "sum": self._sum, "min": self._min, "max": self._max, "mean": mean}


class MetricValue(NamedTuple):
    """A metric and its value at some time, as plain data."""

    name: str
    """With the names of its groups: `shop.berlin.orders`."""
    kind: str
    """`counter`, `gauge`, `meter` or `distribution`."""
    value: Any
    """A number, a text or None; `count` and `rate` of a meter; the statistics of a distribution."""
    variables: dict[str, str]
    """The variables of its groups: `{"shop": "berlin"}`."""
    logical_name: str
    """Without the values of variables: `shop.orders`."""


M = TypeVar("M", bound=Metric)


class MetricGroup:
    """Metrics and subgroups by name. A function gets its own from ``runtime_context.get_metrics_group()``.

    Example::

        >>> group = MetricGroup()
        >>> group.add_group("shop", "berlin").counter("orders").inc()
        >>> group.snapshot()
        {'shop.berlin.orders': 1}
    """

    def __init__(
        self,
        scope: tuple[str, ...] = (),
        variables: dict[str, str] | None = None,
        logical_scope: tuple[str, ...] = (),
    ) -> None:
        self._scope = scope
        self._logical_scope = logical_scope
        self._variables = dict(variables or {})
        self._metrics: dict[str, Metric] = {}
        self._groups: dict[tuple[str, ...], MetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Returns the subgroup of that name; with ``extra``, a pair of a variable's name and its value."""
        path = (_checked(name),) if extra is None else (_checked(name), _checked(extra))
        if path not in self._groups:
            variables = self._variables if extra is None else {**self._variables, name: extra}
            self._groups[path] = MetricGroup(self._scope + path, variables, (*self._logical_scope, name))
        return self._groups[path]

    def counter(self, name: str) -> Counter:
        """Returns the counter of that name."""
        return self._get(name, Counter, Counter)

    def __contains__(self, name: str) -> bool:
        """Returns whether this group has a metric of that name."""
        return name in self._metrics

    def count_of(self, name: str) -> int:
        """Returns the value of a counter of this group; 0 if there is none."""
        metric = self._metrics.get(name)
        return metric.get_count() if isinstance(metric, Counter) else 0

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Registers a gauge whose value is ``obj()`` when metrics are reported."""
        if not callable(obj):
            raise TypeError(f"The gauge {name!r} needs a function without parameters, not {obj!r}.")
        self._metrics[_checked(name)] = Gauge(obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Returns the meter of that name."""
        return self._get(name, Meter, lambda: Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """Returns the distribution of that name."""
        return self._get(name, Distribution, Distribution)

    def get_scope_components(self) -> tuple[str, ...]:
        """Returns the names from the outermost group to this one."""
        return self._scope

    def get_logical_scope(self) -> tuple[str, ...]:
        """Returns the names from the outermost group to this one, without the values of variables."""
        return self._logical_scope

    def get_all_variables(self) -> dict[str, str]:
        """Returns the variables of this group and its parents."""
        return dict(self._variables)

    def items(self) -> Iterator[tuple[MetricGroup, str, Metric]]:
        """Returns all metrics of this group and its subgroups, each with its group and name."""
        # Copies: another thread may register metrics meanwhile.
        for name, metric in list(self._metrics.items()):
            yield self, name, metric
        for group in list(self._groups.values()):
            yield from group.items()

    def snapshot(self) -> dict[str, Any]:
        """Returns the values of all metrics by dotted name; a gauge that fails shows its error."""
        return {".".join((*group._scope, name)): _value(metric) for group, name, metric in self.items()}

    def _get(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        metric = self._metrics.get(_checked(name))
        if metric is None:
            made = self._metrics[name] = make()
            return made
        if not isinstance(metric, kind):
            there = type(metric).__name__.lower()
            raise ValueError(f"The metric {name!r} is already a {there}, so it cannot be a {kind.__name__.lower()}.")
        return metric


def _value(metric: Metric) -> Any:
    if isinstance(metric, Counter):
        return metric.get_count()
    if isinstance(metric, Meter):
        return {"count": metric.get_count(), "rate": metric.get_rate()}
    if isinstance(metric, Distribution):
        return metric.get_statistics()
    if isinstance(metric, Gauge):
        try:
            return metric.get_value()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"A metric or group needs a name, not {name!r}.")
    return name
