"""Epochs are sized towards the target, by what the slots' work costs."""

from __future__ import annotations

import pytest

from flintstream.jobmaster.sizing import FIRST_LIMIT, EpochSizer


def settled(target, seconds_a_record, overhead, backlog=10**9, epochs=50):
    """The size of epochs and their duration after some epochs of a steady job."""
    sizer = EpochSizer(target)
    for _ in range(epochs):
        records = min(sizer.limit, backlog)
        busy = records * seconds_a_record
        sizer.observe(overhead + busy, busy, records)
    return sizer.limit, overhead + sizer.limit * seconds_a_record


def test_a_backlog_is_cut_into_epochs_of_the_target_duration():
    limit, seconds = settled(target=1.0, seconds_a_record=1e-6, overhead=0.25)
    assert seconds == pytest.approx(1.0, rel=0.1)
    assert limit == pytest.approx(750_000, rel=0.1)


def test_a_slow_operator_slows_the_source():
    limit, _seconds = settled(target=1.0, seconds_a_record=1e-3, overhead=0.25)
    assert limit == pytest.approx(750, rel=0.1)


def test_dear_epochs_do_not_become_ever_smaller():
    limit, _ = settled(target=1.0, seconds_a_record=1e-6, overhead=3.0)
    assert limit == pytest.approx(500_000, rel=0.1)


def test_a_trickle_leaves_the_limit_alone():
    limit, _ = settled(target=1.0, seconds_a_record=1e-6, overhead=0.25, backlog=10)
    assert limit == FIRST_LIMIT


def test_one_step_is_bounded():
    sizer = EpochSizer(1.0)
    sizer.observe(0.2, 1e-9, FIRST_LIMIT)
    assert sizer.limit == 4 * FIRST_LIMIT
    sizer.observe(1000.0, 1000.0, sizer.limit)
    assert sizer.limit == FIRST_LIMIT


def test_a_target_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"flint\.epoch\.target-duration.*0"):
        EpochSizer(0.0)
