"""Fence: who may feed a slot, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.runtime.slot.fence import EnteredTwice, Fence, Refused
from flintstream.runtime.slot.protocol import Hello

JOB = "f" * 32


@pytest.fixture
def fence() -> Fence:
    fence = Fence(JOB, attempt=2, slot=1)
    fence.begin_epoch(7)
    return fence


def hello(**other: Any) -> Hello:
    return Hello(JOB, 2, 7, 0, 1)._replace(**other)


def test_the_levels_of_an_epoch_in_order_and_some_may_be_missing(fence):
    for level in (0, 1, 3):
        fence.enter(hello(level=level))
    fence.begin_epoch(8)
    fence.enter(hello(epoch=8))


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        (hello(job_id="0" * 32), f"this is slot 1 of job {JOB}"),
        (hello(slot=0), f"this is slot 1 of job {JOB}"),
        ("let me in", f"this is slot 1 of job {JOB}"),
        (hello(attempt=1), "attempt 1 has ended, this is attempt 2"),
        (hello(epoch=6), "epoch 6 is not the one that runs, 7"),
        (hello(epoch=8), "epoch 8 is not the one that runs, 7"),
    ],
)
def test_strangers_and_stragglers_are_refused_and_do_no_harm(fence, stranger, why):
    with pytest.raises(Refused, match=why) as refused:
        fence.enter(stranger)
    assert not isinstance(refused.value, EnteredTwice)
    fence.enter(hello())


@pytest.mark.parametrize("again", [0, 1])
def test_no_level_is_entered_twice_nor_after_a_later_one(fence, again):
    fence.enter(hello(level=0))
    fence.enter(hello(level=1))
    with pytest.raises(EnteredTwice, match=rf"level {again} of epoch 7 .* records must not be counted twice"):
        fence.enter(hello(level=again))


def test_nobody_enters_before_the_first_epoch_or_after_a_failure(fence):
    with pytest.raises(Refused, match="not the one that runs"):
        Fence(JOB, 2, 1).enter(hello())
    fence.broken = True
    with pytest.raises(Refused, match="epoch 7 has failed in this slot"):
        fence.enter(hello())
