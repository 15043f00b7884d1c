"""Histograms: statistics over the last values."""

from __future__ import annotations

import pytest

from flintstream.metrics.histogram import Histogram


def filled(size, values):
    histogram = Histogram(size)
    for value in values:
        histogram.update(value)
    return histogram


def test_statistics_by_flinks_names():
    found = filled(128, range(1, 101)).get_statistics()
    assert found.pop("mean") == 50.5
    assert found.pop("stddev") == pytest.approx(29.0115, abs=1e-4)
    assert found == {
        "count": 100,
        "min": 1,
        "max": 100,
        "median": 50.5,
        "p75": 75.75,
        "p90": 90.9,
        "p95": 95.95,
        "p98": 98.98,
        "p99": 99.99,
        "p999": 100,
    }


def test_only_the_last_values_count_but_for_the_count():
    found = filled(3, [1000, 1, 2, 3]).get_statistics()
    assert (found["count"], found["min"], found["max"], found["median"]) == (4, 1, 3, 2)


def test_one_value_and_none():
    assert Histogram(3).get_statistics() == {"count": 0}
    found = filled(3, [7]).get_statistics()
    assert (found["stddev"], found["p999"]) == (0, 7)


def test_they_are_computed_again_only_for_new_values():
    histogram = filled(3, [7])
    first = histogram.get_statistics()
    assert histogram.get_statistics() is first
    histogram.update(9)
    assert (first["max"], histogram.get_statistics()["max"]) == (7, 9)
