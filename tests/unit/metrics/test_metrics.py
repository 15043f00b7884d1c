"""Metrics that functions keep."""

import pytest

from flintstream.metrics import MetricGroup
from flintstream.metrics.metrics import Meter


def test_a_group_reports_all_inside() -> None:
    group = MetricGroup()
    inner = group.add_group("shop").add_group("city", "berlin")
    inner.counter("orders").inc(3)
    inner.counter("orders").dec()
    group.gauge("load", lambda: 0.5)
    group.gauge("broken", lambda: 1 / 0)
    group.distribution("size").update(2)
    assert group.snapshot() == {
        "load": 0.5,
        "broken": "ZeroDivisionError: division by zero",
        "size": {"count": 1, "sum": 2, "min": 2, "max": 2, "mean": 2.0},
        "shop.city.berlin.orders": 2,
    }
    assert inner.get_all_variables() == {"city": "berlin"}
    assert inner.get_scope_components() == ("shop", "city", "berlin")
    assert group.add_group("shop") is group.add_group("shop")


def test_a_name_has_one_kind() -> None:
    group = MetricGroup()
    group.counter("x")
    with pytest.raises(ValueError, match="'x' is already a counter"):
        group.meter("x")
    with pytest.raises(TypeError):
        group.gauge("y", 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        group.counter("")


def test_a_meter_forgets_what_is_older_than_its_span() -> None:
    now = [0.0]
    meter = Meter(60, clock=lambda: now[0])
    for second in range(120):
        now[0] = float(second)
        meter.mark_event(10 if second < 60 else 2)
    assert meter.get_count() == 720
    assert meter.get_rate() == pytest.approx(2, rel=0.5)
    now[0] = 500.0
    meter.mark_event(0)
    now[0] = 600.0
    assert meter.get_rate() == 0


def test_a_distribution() -> None:
    distribution = MetricGroup().distribution("d")
    assert distribution.get_statistics() == {"count": 0}
    for value in (5, 1, 3):
        distribution.update(value)
    assert distribution.get_statistics() == {"count": 3, "sum": 9, "min": 1, "max": 5, "mean": 3.0}
