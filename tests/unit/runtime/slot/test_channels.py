"""Frames of the pipelined transport, and the credits of its channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flintstream.runtime.slot.channels import (
    BARRIER,
    BLOCK,
    CREDIT,
    LEAST_WINDOW_BYTES,
    WINDOW_BYTES,
    Frame,
    InChannel,
    OutChannel,
    frames_of,
    window,
)

numbers = st.integers(0, 2**31 - 1)
blocks = st.builds(
    lambda s, v, c, b: Frame(BLOCK, s, v, c, len(b), b), numbers, numbers, numbers, st.binary(max_size=50)
)
others = st.builds(
    lambda *header: Frame(*header), st.sampled_from([BARRIER, CREDIT]), numbers, numbers, numbers, numbers
)


@given(st.lists(blocks | others))
def test_a_pack_gives_its_frames_again(frames):
    pack = b"".join(part for frame in frames for part in frame.pack())
    assert [frame._replace(block=bytes(frame.block)) for frame in frames_of(pack)] == frames


def test_a_channel_without_credit_keeps_blocks_and_all_that_follows_in_order():
    out = OutChannel(1, 2, 3, owner=None)
    big = b"x" * (LEAST_WINDOW_BYTES + 1)
    assert out.admit(BLOCK, len(big), big)  # The last block may exceed the credit.
    assert not out.admit(BLOCK, 1, b"a")
    assert not out.admit(BARRIER, 0, b"")
    assert out.grant(1) == []  # Still none left.
    assert out.grant(1) == [(BLOCK, 1, b"a"), (BARRIER, 0, b"")]
    assert out.credit == 0


def test_a_barrier_needs_no_credit():
    out = OutChannel(1, 2, 3, owner=None)
    out.credit = 0
    assert out.admit(BARRIER, 0, b"")


@given(st.lists(st.integers(1, WINDOW_BYTES), max_size=30), st.integers(1, 200))
def test_credits_grant_what_was_processed_and_no_more(sizes, channels):
    most = window(channels)
    receiver, granted = InChannel(3, 0, most), 0
    for size in sizes:
        granted += receiver.processed(bytes(size))
    assert granted + receiver.owed == sum(sizes) + most - LEAST_WINDOW_BYTES
    assert 2 * receiver.owed < most or not sizes


def test_the_window_of_a_channel_shrinks_with_their_number():
    assert window(1) == WINDOW_BYTES
    assert window(100) < WINDOW_BYTES
    assert window(10_000_000) == LEAST_WINDOW_BYTES
