"""Statistics, with the numbers that Flink 2.3 gave for the same values."""

from __future__ import annotations

import math

import pytest

from flintstream.server.rest.statistics import percentile, skew, statistics, subtask_statistics


def test_two_subtasks_as_flink_has_recorded_them():
    assert subtask_statistics([133_853, 92_703]) == {
        "p25": 92_703,
        "min": 92_703,
        "avg": 113_278,
        "median": 113_278,
        "max": 133_853,
        "sum": 226_556,
        "p95": 133_853,
        "p75": 133_853,
    }
    assert subtask_statistics([1_532, 1_533])["avg"] == 1_532, "an integer, rounded down"


def test_percentiles_lie_between_neighbours():
    ten = list(range(1, 11))
    assert percentile(ten, 50) == 5.5
    assert percentile(ten, 90) == pytest.approx(9.9)
    assert percentile(ten, 99) == 10.0
    assert percentile([7], 99) == 7.0
    assert math.isnan(percentile([], 50))


def test_no_values_have_zeros():
    assert set(statistics([]).values()) == {0}
    assert set(subtask_statistics([]).values()) == {0}


def test_skew():
    assert skew([5.0, 5.0]) == 0.0
    assert skew([1.0, 3.0]) == pytest.approx(50.0)
    assert skew([0.0, 0.0, 0.0, 10.0]) == 100.0, "at most"
    assert skew([]) == skew([0.0]) == 0.0
