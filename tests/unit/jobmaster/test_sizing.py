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


def run(sizer, epochs, records=None, seconds_a_record=1e-6, overhead=0.25):
    """Lets epochs of a steady job run: full ones, or such that find so many records."""
    for _ in range(epochs):
        read = sizer.limit if records is None else records
        busy = read * seconds_a_record
        sizer.observe(overhead + busy, busy, read)


def test_epochs_grow_while_there_is_a_backlog():
    sizer = EpochSizer(1.0, 2.0)
    run(sizer, 2)
    assert sizer.seconds == 1.0
    run(sizer, 20)
    assert sizer.seconds == 2.0
    assert sizer.limit == pytest.approx(1_750_000, rel=0.1)


def test_epochs_are_as_short_as_before_once_the_backlog_is_gone():
    sizer = EpochSizer(1.0, 2.0)
    run(sizer, 20)
    run(sizer, 1, records=1000)
    assert sizer.seconds == 1.0
    run(sizer, 2)
    assert sizer.seconds == 1.0
    assert sizer.limit == pytest.approx(750_000, rel=0.1)


def test_an_epoch_that_the_clock_has_ended_is_no_end_of_the_backlog():
    sizer = EpochSizer(1.0, 2.0)
    run(sizer, 20)
    run(sizer, 1, records=sizer.limit // 2, seconds_a_record=4e-6)
    assert sizer.seconds == 2.0


@pytest.mark.parametrize(("records", "seconds_a_record"), [(10, 0.2), (3, 0.01)])
def test_slow_records_alone_are_no_backlog(records, seconds_a_record):
    sizer = EpochSizer(1.0, 2.0)
    run(sizer, 20, records, seconds_a_record)
    assert sizer.seconds == 1.0
