"""Keys: equal ones have equal bytes, whatever they are made of; groups are even and owned once."""

import copy
import dataclasses
import datetime
import enum
import pickle
import subprocess
import sys
import uuid
from collections import Counter, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Instant, Row, RowKind
from flintstream.common.canonical_keys import ListKey, canonical_key
from flintstream.common.keys import (
    SMALL_BLOCK,
    default_max_parallelism,
    key_bytes,
    key_group,
    key_group_range,
    key_groups,
    subtask_for_group,
    subtasks,
)


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any
    note: Any = dataclasses.field(default=None, compare=False)


class Colour(enum.Enum):
    RED = 1
    ROT = 1  # noqa: PIE796 - an alias is what is tested
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Word(str, enum.Enum):
    HI = "hi"


class Money:
    def __init__(self, amount: int, currency: str, order: bool = False) -> None:
        if order:
            self.currency = currency
        self.amount = amount
        self.currency = currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.amount, self.currency))


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.a == other.a

    def __hash__(self) -> int:
        return self.a


def kind_of(value: Any) -> str:
    """Names a case by what does not change from process to process, as addresses do."""
    return type(value).__name__


Pair = namedtuple("Pair", "a b")
CET = datetime.timezone(datetime.timedelta(hours=1))
UTC = datetime.timezone.utc

EQUAL = [
    (1, 1.0),
    (1, True),
    (0, -0.0),
    (0.0, -0.0),
    (1, Decimal("1.00")),
    (0.5, Decimal("0.50")),
    (0.5, Fraction(1, 2)),
    (Fraction(1, 10), Decimal("0.1")),
    (10**30, Decimal("1E+30")),
    (float(2**80), 2**80),
    (1, complex(1, 0)),
    (1, np.int64(1)),
    (1, np.uint8(1)),
    (True, np.bool_(True)),
    (0.5, np.float64(0.5)),
    (0.5, np.float32(0.5)),
    ("a", np.str_("a")),
    ((1, ("a", 2.0)), (True, ("a", 2))),
    (Pair(1, 2), (1, 2)),
    (Level.LOW, 1),
    (Word.HI, "hi"),
    (Colour.RED, Colour.ROT),
    (Row(1, "a"), Row(1.0, "a")),
    (frozenset([1, 2, "a", (3,)]), frozenset([(3.0,), "a", 2, True])),
    (Point(1, (2,)), Point(1.0, (2.0,), "other note")),
    (Money(1, "EUR"), Money(1, "EUR", order=True)),
    (Slotted(1), Slotted(1)),
    (datetime.datetime(2020, 1, 1, 12, tzinfo=UTC), datetime.datetime(2020, 1, 1, 13, tzinfo=CET)),
    (datetime.time(12, tzinfo=UTC), datetime.time(13, tzinfo=CET)),
    (datetime.timedelta(days=1), datetime.timedelta(hours=24)),
    (uuid.UUID(int=5), uuid.UUID(int=5)),
    (Instant(1, 2), Instant(1, 2)),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=kind_of)
def test_equal_keys_have_equal_bytes(one: Any, other: Any) -> None:
    assert one == other
    assert key_bytes(one) == key_bytes(other)
    assert key_bytes((one, "x")) == key_bytes((other, "x"))
    assert key_group(one, 128) == key_group(other, 128)


def test_different_keys_have_different_bytes() -> None:
    keys = [
        1, 2, -1, 0.5, 2**40, 2**100, "1", "a", "", b"1", b"a", (), (1,), ((1,),), (1, None), ("row",
        0), 1j, 0.1, Decimal("0.1"), Row(1), Row(a=1), Row(b=1), Row.of_kind(RowKind.DELETE, 1),
        frozenset([1]), frozenset(), frozenset([(1,)]), Point(1, 2), Point(2, 1), Money(1, "a"),
        Slotted(1), Colour.RED, Colour.BLUE, Instant(1, 0), datetime.date(2020, 1, 1),
        datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=UTC), datetime.time(1),
        datetime.timedelta(1), uuid.UUID(int=1), int, str, float("inf"), float("-inf"),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert len({key_bytes(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "None"),
        ({}, "dict"),
        ({1}, "use a frozenset"),
        (bytearray(b"a"), "use bytes"),
        (memoryview(b"a"), "use bytes"),
        ((1, [2]), "use a tuple"),
        (Row([1]), "use a tuple"),
        (float("nan"), "NaN"),
        (Point(1, float("nan")), "NaN"),
        (complex("nan"), "NaN"),
        (object(), "compares by identity"),
        (lambda: 1, "compares by identity"),
        (np.array([1]), "NumPy ndarray"),
        (np.datetime64("2020-01-01"), "NumPy datetime64"),
        (np.void(b"abc"), "NumPy void"),
        (Decimal("1E+100000"), "too large"),
        (dataclasses.make_dataclass("Loose", ["x"])(1), "frozen=True"),
    ],
    ids=kind_of,
)
def test_what_cannot_be_a_key_is_refused_in_words(key: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        key_bytes(key)


@pytest.mark.parametrize(
    "make",
    [
        lambda nan: nan(),
        lambda nan: -nan(),
        lambda nan: Decimal("-NaN"),
        lambda nan: Decimal("sNaN"),
        lambda nan: np.float64("nan"),
        lambda nan: np.float16("nan"),
        lambda nan: ("a", (nan(),)),
        lambda nan: [nan(), [1]],
        lambda nan: Row([nan()], 2),
        lambda nan: frozenset((nan(), "a")),
        lambda nan: {"a": nan(), "b": [1]},
        lambda nan: {nan(), (1,)},
        lambda nan: bytearray(b"a"),
    ],
)
def test_nan_and_lists_are_known_by_their_value(make: Any) -> None:
    """Also behind pickle and marks of copies: equal, and found in a dict."""
    one, other = (canonical_key(make(lambda: float("nan"))) for _ in range(2))
    copies = [one, other, canonical_key(one), pickle.loads(pickle.dumps(one)), copy.deepcopy(one)]
    assert len(dict.fromkeys(copies)) == 1
    assert len({key_bytes(each) for each in copies}) == 1


def test_collections_equal_what_they_equal_in_python() -> None:
    pairs = [
        ({"a": 1, "b": 2}, {"b": 2.0, "a": True}),
        ({1, 2}, frozenset((2, 1))),
        (bytearray(b"a"), b"a"),
        ([1, "a"], [True, "a"]),
    ]
    for one, other in pairs:
        assert canonical_key(one) == canonical_key(other)
        assert hash(canonical_key(one)) == hash(canonical_key(other))
        assert key_bytes(canonical_key(one)) == key_bytes(canonical_key(other))


def test_a_list_is_no_tuple() -> None:
    keys = [
        canonical_key(key)
        for key in ([], (), [1], (1,), [[1]], [(1,)], (ListKey([1]),), "[1]", ["list", 1], {}, {1: 2}, [(1, 2)])
    ]
    assert len(set(keys)) == len({key_bytes(key) for key in keys}) == len(keys)


def test_other_keys_stay_as_they_are() -> None:
    for key in (1, "a", 1.5, ("a", 1), Row(1, "a"), Point(1, 2), frozenset({1}), Decimal(1), True, np.int64(3)):
        assert canonical_key(key) == key
        assert type(canonical_key(key)) is type(key)


atoms = (
    st.integers()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, Decimal(1), Fraction(1, 2), 0.5])
)
keys = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(lambda values: Row(*values))
        | st.builds(Point, inner, inner)
        | st.frozensets(inner, max_size=3)
    ),
    max_leaves=6,
)


def _twin(key: Any) -> Any:
    """An equal key, of other types where there are some."""
    if isinstance(key, bool):
        return float(key)
    if isinstance(key, int):
        return Decimal(key) if abs(key) < 10**20 else int(str(key))
    if isinstance(key, float):
        return int(key) if key.is_integer() else float(repr(key))
    if isinstance(key, str):
        return "".join(list(key))
    if isinstance(key, tuple):
        return tuple(map(_twin, key))
    if isinstance(key, Row):
        return Row(*map(_twin, key))
    if isinstance(key, Point):
        return Point(_twin(key.x), _twin(key.y), "twin")
    if isinstance(key, frozenset):
        return frozenset(map(_twin, reversed(list(key))))
    return key


@given(keys)
def test_an_equal_twin_has_the_same_bytes_and_group(key: Any) -> None:
    twin = _twin(key)
    assert key == twin
    assert key_bytes(key) == key_bytes(twin)
    assert key_group(key, 128) == key_group(twin, 128)


@given(keys, keys)
def test_bytes_are_equal_exactly_when_keys_are(one: Any, other: Any) -> None:
    assert (one == other) == (key_bytes(one) == key_bytes(other))


@given(st.lists(keys, max_size=20), st.sampled_from([1, 7, 128]))
def test_a_block_of_keys(block: list[Any], groups: int) -> None:
    found = [key_group(key, groups) for key in block]
    assert key_groups(block, groups) == found
    # Many keys are done at once.
    times = 1 + SMALL_BLOCK // max(len(block), 1)
    assert key_groups(block * times, groups) == found * times
    assert subtasks(block * times, 128, 5) == [subtask_for_group(key_group(key, 128), 128, 5) for key in block] * times


@pytest.mark.parametrize(
    "make",
    [
        lambda i: i,
        lambda i: i * 128,
        lambda i: i << 32,
        lambda i: f"user-{i}",
        lambda i: (i, "a"),
        lambda i: (i // 100, i % 100),
        lambda i: i + 0.5,
        lambda i: Row(i),
    ],
)
def test_groups_are_even(make: Any) -> None:
    counts = Counter(key_group(make(i), 128) for i in range(32_000))
    assert len(counts) == 128
    assert min(counts.values()) > 170  # of 250; five standard deviations are 79
    assert max(counts.values()) < 330


def test_groups_are_the_same_in_another_process() -> None:
    code = (
        "from flintstream.common.keys import key_group\n"
        "print([key_group(k, 128) for k in (1, 'a', ('b', 2), frozenset(['x', 'y', 'z']))])"
    )
    here = [key_group(k, 128) for k in (1, "a", ("b", 2), frozenset(["x", "y", "z"]))]
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert there.strip() == str(here)


def test_groups_never_change() -> None:
    # Written into checkpoints: another value here means that old checkpoints can no longer be read.
    keys = (0, 1, -1, "a", "user-1", ("a", 1), b"x", 0.5)
    assert [key_group(key, 128) for key in keys] == [95, 48, 109, 84, 55, 69, 81, 45]


@given(st.integers(1, 300), st.integers(1, 300))
def test_every_group_has_exactly_one_owner(parallelism: int, more: int) -> None:
    max_parallelism = parallelism + more
    owned = [group for i in range(parallelism) for group in key_group_range(max_parallelism, parallelism, i)]
    assert owned == list(range(max_parallelism))
    for i in range(parallelism):
        for group in key_group_range(max_parallelism, parallelism, i):
            assert subtask_for_group(group, max_parallelism, parallelism) == i


def test_ranges_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="parallelism 3"):
        key_group_range(2, 3, 0)
    with pytest.raises(ValueError, match="subtask 2"):
        key_group_range(4, 2, 2)


def test_default_max_parallelism() -> None:
    assert [default_max_parallelism(p) for p in (1, 85, 86, 171, 30_000)] == [128, 128, 256, 256, 32768]
