"""Metrics collected for a report: often enough, as plain data, and whatever their gauges do."""

from __future__ import annotations

import json
import logging
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from tests.waiting import wait_until

from flintstream.metrics import MetricGroup, MetricValue
from flintstream.metrics.collection import MetricsCollector, plain

LONG = 60.0


@pytest.fixture
def group() -> MetricGroup:
    return MetricGroup()


def collected(collector: MetricsCollector[str], **options: float | None) -> dict[str, object]:
    values = collector.collect(now=True, **{"patience": LONG, **options})
    assert values is not None
    return {value.name: value.value for value in values["owner"]}


def test_all_kinds_with_their_groups(group):
    shop = group.add_group("shop").add_group("city", "berlin")
    shop.counter("orders").inc(3)
    shop.gauge("load", lambda: 0.5)
    group.meter("events").mark_event(7)
    group.distribution("size").update(2)
    (values,) = (MetricsCollector({"owner": group}).collect(patience=LONG) or {}).values()
    assert values == [
        MetricValue("events", "meter", {"count": 7, "rate": 7.0}, {}, "events"),
        MetricValue("size", "distribution", {"count": 1, "sum": 2, "min": 2, "max": 2, "mean": 2.0}, {}, "size"),
        MetricValue("shop.city.berlin.orders", "counter", 3, {"city": "berlin"}, "shop.city.orders"),
        MetricValue("shop.city.berlin.load", "gauge", 0.5, {"city": "berlin"}, "shop.city.load"),
    ]


def test_at_most_once_an_interval(group):
    asked = []
    group.gauge("load", lambda: asked.append(1))
    collector = MetricsCollector({"owner": group}, interval=LONG)
    assert collector.collect(patience=LONG) is not None
    assert collector.collect() is None
    assert collector.collect(now=True, patience=LONG) is not None
    assert len(asked) == 2


def test_without_asking_gauges_keep_their_values(group):
    values = iter((1, 2))
    group.gauge("load", lambda: next(values))
    collector = MetricsCollector({"owner": group})
    assert collected(collector) == {"load": 1}
    assert collected(collector, patience=None) == {"load": 1}
    assert collected(collector) == {"load": 2}


def test_a_gauge_that_fails_shows_its_error_and_spoils_no_other(group):
    group.gauge("broken", lambda: 1 / 0)
    group.gauge("exits", lambda: exit(3))
    group.gauge("good", lambda: 4)
    assert collected(MetricsCollector({"owner": group})) == {
        "broken": "ZeroDivisionError: division by zero",
        "exits": "SystemExit: 3",
        "good": 4,
    }


def test_a_gauge_that_hangs_delays_nobody_and_is_not_asked_again(group, caplog):
    never, asked = threading.Event(), []
    group.gauge("before", lambda: 1)
    group.gauge("hangs", lambda: asked.append(1) or never.wait(LONG))
    group.gauge("after", lambda: 2)
    group.counter("orders").inc()
    collector = MetricsCollector({"owner": group}, hung_seconds=0.05)
    try:
        first = collected(collector, patience=0.0)
        assert first["orders"] == 1 and "hangs" not in first and "after" not in first
        with caplog.at_level(logging.WARNING):
            wait_until(lambda: collected(collector, patience=0.01).get("after") == 2)
        last = collected(collector, patience=0.01)
        assert last == {"orders": 1, "before": 1, "hangs": "no value within 0.05 s", "after": 2}
        assert asked == [1]
        assert [record.message for record in caplog.records] == [
            "the gauge 'hangs' has no value within 0.05 s, and is not asked again"
        ]
    finally:
        never.set()


def test_too_many_metrics_are_cut(group, caplog):
    for number in range(20):
        group.counter(f"c{number}")
    collector = MetricsCollector({"first": group, "second": group}, most_metrics=30)
    values = collector.collect()
    assert values is not None
    assert [len(each) for each in values.values()] == [20, 10]
    collector.collect(now=True)
    assert [record.message for record in caplog.records] == [
        "there are more than 30 metrics; further ones are not reported"
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (None, None),
        (5, 5),
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (Decimal("1.5"), 1.5),
        (Fraction(1, 4), 0.25),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("text", "text"),
        ("\ud800", "?"),
        ([1, 2], "[1, 2]"),
        ("x" * 5000, "x" * 1000),
    ],
)
def test_values_become_plain(value, expected):
    found = plain(value)
    assert found == expected and type(found) is type(expected)
    json.dumps(found, allow_nan=False).encode("utf-8")
