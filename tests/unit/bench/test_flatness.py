"""The arithmetic of `make soak`."""

from __future__ import annotations

import math
import random

import pytest
from bench.flatness import MOST_POINTS, Limit, growth, slope, without_warm_up

LIMIT = Limit("MB", 0.05, 10)


def test_the_slope_of_a_line():
    assert slope([(x, 3 * x + 5) for x in range(50)]) == 3


def test_a_few_outliers_do_not_move_it():
    points = [(float(x), 1000.0 if x % 10 == 3 else 100 + x) for x in range(100)]
    assert slope(points) == pytest.approx(1, abs=0.05)


def test_a_long_series_is_thinned_out():
    assert slope([(float(x), -x / 2) for x in range(10 * MOST_POINTS)]) == -0.5


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 9.0)]])
def test_too_few_points_have_no_slope(points):
    assert slope(points) == 0


def test_noise_and_waves_are_flat():
    chance = random.Random(7)
    points = [(float(x), 500 + 20 * math.sin(x / 9) + chance.uniform(-5, 5)) for x in range(600)]
    assert growth(points, LIMIT).flat


def test_a_leak_is_not_flat():
    """40 MB in the measured time, within as much noise."""
    chance = random.Random(7)
    points = [(float(x), 500 + 40 * x / 600 + chance.uniform(-20, 20)) for x in range(600)]
    found = growth(points, LIMIT)
    assert not found.flat
    assert found.growth == pytest.approx(40, rel=0.15)
    assert found.per_hour == pytest.approx(240, rel=0.15)
    assert found.most == pytest.approx(10 + 0.05 * found.level)


def test_what_shrinks_is_flat():
    assert growth([(float(x), 1000.0 - x) for x in range(100)], LIMIT).flat


def test_nothing_measured_is_not_flat():
    with pytest.raises(ValueError, match="nothing was measured"):
        growth([], LIMIT)


def test_the_warm_up_is_left_out():
    points = [(10.0 + x, float(x)) for x in range(101)]
    assert without_warm_up(points, 0.25)[0] == (35.0, 25.0)
    assert without_warm_up([], 0.25) == []
