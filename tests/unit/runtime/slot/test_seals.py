"""Seals of packs: what the slots of a job have sent arrives once and in order, and nothing else is taken."""

from __future__ import annotations

import pytest

from flintstream.runtime.slot.seals import ForgedPack, Seals


def sealed(seals: Seals, receiver: int, *parts: bytes) -> bytes:
    return b"".join((seals.seal(receiver, parts), *parts))


@pytest.fixture
def one() -> Seals:
    return Seals(1, 0, b"secret")


@pytest.fixture
def two() -> Seals:
    return Seals(2, 0, b"secret")


def test_packs_of_several_slots_are_opened_in_any_row(one, two):
    three = Seals(3, 0, b"secret")
    first = sealed(one, 2, b"a", b"bc") + sealed(three, 2) + sealed(one, 2, b"d")
    second = sealed(three, 2, b"e") + sealed(one, 2, b"f" * 100_000)
    assert [bytes(pack) for row in (first, second) for pack in two.open(row)] == [
        b"abc",
        b"",
        b"d",
        b"e",
        b"f" * 100_000,
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row[:-1],
        lambda row: row[:5],
        lambda row: row[:-1] + b"?",
        lambda row: row + b"?",
        lambda row: bytes([row[0] ^ 1]) + row[1:],
        lambda row: row[:4] + b"\xff" * 8 + row[12:],
        lambda row: row + row,
        lambda row: b"no pack at all, but something that somebody has sent to the port",
    ],
    ids=["cut off", "no header", "altered", "longer", "another sender", "negative length", "repeated", "garbage"],
)
def test_whatever_is_not_what_was_sent_is_refused(one, two, change):
    with pytest.raises(ForgedPack, match="slot 2 has received"):
        list(two.open(change(sealed(one, 2, b"pack"))))


def test_a_pack_that_was_left_out_or_has_changed_places_is_missed(one, two):
    sealed(one, 2, b"left out")
    with pytest.raises(ForgedPack, match="not the next one of slot 1"):
        list(two.open(sealed(one, 2, b"next")))


@pytest.mark.parametrize("other", [Seals(1, 0, b"guess"), Seals(1, 1, b"secret")], ids=["key", "attempt"])
def test_packs_of_another_job_or_attempt_are_refused(two, other):
    with pytest.raises(ForgedPack):
        list(two.open(sealed(other, 2, b"pack")))


def test_a_pack_for_another_slot_is_refused(one, two):
    with pytest.raises(ForgedPack):
        list(two.open(sealed(one, 3, b"pack")))
