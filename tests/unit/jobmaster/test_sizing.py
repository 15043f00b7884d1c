"""Epochs are sized towards the target, by what the slots' work costs."""

from __future__ import annotations

import pytest

from flintstream.jobmaster.sizing import FIRST_LIMIT, EpochSizer


def settled(target, seconds_a_record, overhead, backlog=10**9, epochs=50):
    """The size of epochs and their duration after some epochs of a steady job."""
    sizer = EpochSizer(target, target)
    for _ in range(epochs):
        records = min(sizer.limit, backlog)
        busy = records * seconds_a_record
        sizer.observe(overhead + busy, busy, records, awaited=True)
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
    sizer = EpochSizer(1.0, 1.0)
    sizer.observe(0.2, 1e-9, FIRST_LIMIT, awaited=True)
    assert sizer.limit == 4 * FIRST_LIMIT
    sizer.observe(1000.0, 1000.0, sizer.limit, awaited=True)
    assert sizer.limit == FIRST_LIMIT


def epochs_of(sizer, count, busy_share=0.8, **observed):
    """Epochs of a backlog that take as long as the target says; returns the targets behind each."""
    targets = []
    for _ in range(count):
        sizer.observe(sizer.target, busy_share * sizer.target, sizer.limit, **observed)
        targets.append(sizer.target)
    return targets


def test_a_backlog_for_which_nobody_waits_is_cut_into_longer_epochs():
    sizer = EpochSizer(1.0, 4.0)
    before = sizer.limit
    assert epochs_of(sizer, 4, awaited=False) == [2.0, 4.0, 4.0, 4.0]
    assert sizer.limit > 3 * before


def test_epochs_do_not_get_longer_before_they_fill_the_present_target():
    sizer = EpochSizer(1.0, 4.0)
    sizer.observe(0.2, 0.1, sizer.limit, awaited=False)
    assert sizer.target == 1.0


def test_results_that_are_awaited_or_the_end_of_the_backlog_shorten_epochs_at_once():
    for end in (
        {"seconds": 4.0, "busy_seconds": 3.2, "most_records": 10**7, "awaited": True},
        {"seconds": 0.2, "busy_seconds": 0.01, "most_records": 5, "awaited": False},
        {"seconds": 0.2, "busy_seconds": 0.01, "most_records": 5, "awaited": True},
    ):
        sizer = EpochSizer(1.0, 4.0)
        epochs_of(sizer, 3, awaited=False)
        limit = sizer.limit
        sizer.observe(**end)
        assert sizer.target == 1.0
        assert sizer.limit <= limit / 4


def test_the_target_stays_as_it_is_where_it_is_also_the_longest():
    assert epochs_of(EpochSizer(1.0, 1.0), 3, awaited=False) == [1.0, 1.0, 1.0]


def test_a_target_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"flint\.epoch\.target-duration.*0"):
        EpochSizer(0.0, 4.0)
