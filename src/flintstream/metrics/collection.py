"""Collects the values of metrics as plain data, at intervals, so that neither their number nor a gauge hurts a job."""

from __future__ import annotations

import logging
import math
import numbers
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from typing import Any, Generic, TypeVar

from .metrics import Counter, Distribution, Gauge, Meter, Metric, MetricGroup, MetricValue

__all__ = ["MetricsCollector", "plain"]

Owner = TypeVar("Owner", bound=Hashable)

INTERVAL = 1.0
MOST_METRICS = 10_000
"""The most metrics of a slot."""
MOST_LETTERS = 1000
HUNG_SECONDS = 10.0
"""A gauge that takes longer is not asked again."""
_MOMENT = 0.002
"""How long the caller waits for gauges, most of which have a value at once. Others are a collection late."""
_KINDS: dict[type[Metric], str] = {Counter: "counter", Meter: "meter", Distribution: "distribution", Gauge: "gauge"}
_NOT_YET = object()
_log = logging.getLogger(__name__)


class MetricsCollector(Generic[Owner]):
    """Collects the metrics of groups, each of which belongs to an owner. Any thread may call it.

    Gauges are the user's code: they run on a thread of their own, and one that does not return is left out from then on.
    """

    def __init__(
        self,
        groups: Mapping[Owner, MetricGroup],
        interval: float = INTERVAL,
        most_metrics: int = MOST_METRICS,
        hung_seconds: float = HUNG_SECONDS,
    ) -> None:
        self._groups = groups
        self._interval = interval
        self._most = most_metrics
        self._lock = threading.Lock()
        self._due = 0.0
        self._too_many = False
        self._gauges = _Gauges(hung_seconds)

    def collect(self, now: bool = False, patience: float | None = _MOMENT) -> dict[Owner, list[MetricValue]] | None:
        """Returns the values of all metrics; None if the last time is less than an interval ago, unless `now`.

        It waits for gauges for at most `patience` seconds; those without a value yet are left out. None for `patience`
        does not ask them: they have the values that they had.
        """
        if not now and time.monotonic() < self._due:
            return None
        with self._lock:
            self._due = time.monotonic() + self._interval
            found: dict[Owner, list[tuple[MetricGroup, str, Metric]]] = {}
            left = self._most
            for owner, group in self._groups.items():
                metrics = list(group.items())
                found[owner] = metrics[:left]
                left -= len(found[owner])
                if len(found[owner]) < len(metrics) and not self._too_many:
                    self._too_many = True
                    _log.warning("there are more than %d metrics; further ones are not reported", self._most)
            gauges = {
                metric: ".".join((*group.get_scope_components(), name))
                for metrics in found.values()
                for group, name, metric in metrics
                if isinstance(metric, Gauge)
            }
            if patience is not None:
                self._gauges.ask(gauges, patience)
            return {
                owner: [value for each in metrics if (value := self._value(*each)) is not None]
                for owner, metrics in found.items()
            }

    def _value(self, group: MetricGroup, name: str, metric: Metric) -> MetricValue | None:
        value = self._gauges.value(metric) if isinstance(metric, Gauge) else _statistics(metric)
        kind = next((kind for type_, kind in _KINDS.items() if isinstance(metric, type_)), None)
        if value is _NOT_YET or kind is None:
            return None
        return MetricValue(
            _text(".".join((*group.get_scope_components(), name))),
            kind,
            value,
            {_text(key): _text(text) for key, text in group.get_all_variables().items()},
            _text(".".join((*group.get_logical_scope(), name))),
        )


class _Gauges:
    """Asks gauges on a thread of their own, and remembers their values."""

    def __init__(self, hung_seconds: float) -> None:
        self._hung_seconds = hung_seconds
        self._values: dict[Gauge, Any] = {}
        self._hung: set[Gauge] = set()
        self._round: _Round | None = None

    def value(self, gauge: Gauge) -> Any:
        """Returns the last known value of a gauge; `_NOT_YET` if there is none."""
        return self._values.get(gauge, _NOT_YET)

    def ask(self, gauges: Mapping[Gauge, str], patience: float) -> None:
        """Asks for new values, unless the last round has not ended."""
        last = self._round
        if last is not None and not last.ended.is_set():
            if last.current_seconds() < self._hung_seconds:
                return
            self._leave(last)
        wanted = {gauge: name for gauge, name in gauges.items() if gauge not in self._hung}
        self._values = {gauge: value for gauge, value in self._values.items() if gauge in gauges}
        if wanted:
            self._round = _Round(wanted, self._values)
            self._round.start(patience)

    def _leave(self, last: _Round) -> None:
        """Leaves the thread of a gauge that hangs behind."""
        last.left = True
        hung = last.current
        if hung is not None:
            self._hung.add(hung[0])
            self._values[hung[0]] = f"no value within {self._hung_seconds:g} s"
            _log.warning("the gauge '%s' has no value within %g s, and is not asked again", hung[1], self._hung_seconds)


class _Round:
    """One question to all gauges."""

    def __init__(self, gauges: Mapping[Gauge, str], values: dict[Gauge, Any]) -> None:
        self._gauges = gauges
        self._values = values
        self.ended = threading.Event()
        self.left = False
        self.current: tuple[Gauge, str, float] | None = None

    def start(self, patience: float) -> None:
        threading.Thread(target=self._run, name="gauges", daemon=True).start()
        self.ended.wait(patience)

    def current_seconds(self) -> float:
        """Returns how long the gauge that is asked now has had no value."""
        current = self.current
        return 0.0 if current is None else time.monotonic() - current[2]

    def _run(self) -> None:
        for gauge, name in self._gauges.items():
            self.current = (gauge, name, time.monotonic())
            value = _asked(gauge.get_value)
            if self.left:
                return
            self._values[gauge] = value
        self.current = None
        self.ended.set()


def _asked(question: Callable[[], Any]) -> Any:
    try:
        return plain(question())
    except BaseException as error:  # Also SystemExit: a gauge ends nothing.
        try:
            return _text(f"{type(error).__name__}: {error}")
        except Exception:
            return type(error).__name__


def _statistics(metric: Metric) -> Any:
    if isinstance(metric, Counter):
        return plain(metric.get_count())
    if isinstance(metric, Meter):
        return {"count": plain(metric.get_count()), "rate": plain(metric.get_rate())}
    if isinstance(metric, Distribution):
        return {name: plain(value) for name, value in metric.get_statistics().items()}
    return _NOT_YET


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: a number, a text, a truth value or None. Others become texts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real | Decimal):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    return _text(str(value))


def _text(value: str) -> str:
    """Returns a text that can be encoded, and is not too long."""
    return value[:MOST_LETTERS].encode("utf-8", "replace").decode("utf-8")
