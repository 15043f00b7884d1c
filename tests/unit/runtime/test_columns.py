"""Columns: what the compiled module writes, it and plain Python read; the rest is left to pickle."""

from __future__ import annotations

import copyreg
import math
import pickle
import struct
import subprocess
import sys
from contextlib import suppress
from enum import Enum, IntEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common.types import Row, RowKind, make_row
from flintstream.runtime import columns
from flintstream.runtime.batch import Batch
from flintstream.runtime.block import EndOfInput, Watermark, decode_block, encode_block, weight

compiled = pytest.mark.skipif(columns.decode is columns.decode_in_python, reason="not compiled")
READERS = [columns.decode, columns.decode_in_python]


class Pair(NamedTuple):
    one: int
    other: int


def unnamed_row(values: tuple[Any, ...]) -> Row:
    return Row(*values)


def named_row(values: tuple[Any, ...]) -> Row:
    return make_row(list(values), tuple(f"field {number}" for number in range(len(values))))


def compound(shape: tuple[list[Any], Any]) -> Any:
    """Tuples of some shapes, or Rows."""
    parts, make = shape
    if make == "pair":
        first, second = ([*parts, st.just(0), st.just("")])[:2]
        return st.builds(Pair, first, second)
    return st.tuples(*parts) if make is None else st.tuples(*parts).map(make)


_SIXTY_FOUR = st.integers(-(2**63), 2**63 - 1)
_OTHERS = st.decimals(allow_nan=False) | st.datetimes() | st.dates() | st.timedeltas() | st.uuids()
_ATOMS = [
    st.integers()
    | st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=3),
    _OTHERS,
    st.none() | st.decimals(allow_nan=False),
    _SIXTY_FOUR,
    st.integers(-3, 300),
    st.just(7),
    st.booleans(),
    st.none(),
    st.floats(),
    st.text(),
    st.text(st.characters(max_codepoint=127)),
    st.binary(),
    st.text(st.characters(categories=["Cs"])),
]
_SHAPES = st.recursive(
    st.sampled_from(_ATOMS),
    lambda shape: st.tuples(st.lists(shape, max_size=3), st.sampled_from([None, unnamed_row, named_row, "pair"])).map(
        compound
    ),
    max_leaves=6,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same classes, NaN and the zeros too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Row):
        described = (one._fields, one.get_row_kind()) == (other._fields, other.get_row_kind())
        return described and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return bool(one == other)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    values = draw(st.lists(draw(_SHAPES), min_size=1, max_size=40))
    count = len(values)
    timestamps = draw(st.none() | st.lists(_SIXTY_FOUR, min_size=count, max_size=count))
    keys = draw(
        st.none()
        | st.just(values)
        | st.lists(draw(_SHAPES), min_size=count, max_size=count)
        | st.just([value[0] if isinstance(value, tuple) and value else value for value in values])
    )
    return Batch(values, timestamps, keys)


@compiled
@given(batches())
def test_every_column_comes_back(batch: Batch) -> None:
    data = columns.encode(batch.values, batch.timestamps, batch.keys)
    assert data is not None
    assert data[0] == columns.MARK
    assert columns.count(data) == len(batch.values)
    for read in READERS:
        values, timestamps, keys, end = read(memoryview(b"." + data + b"rest")[1:])
        assert end == len(data)
        assert all(map(same, values, batch.values))
        assert timestamps == batch.timestamps
        assert (keys is None) == (batch.keys is None)
        assert batch.keys is None or all(map(same, keys, batch.keys))


class OtherPair(NamedTuple):
    one: int
    other: int


class SubPair(Pair):
    pass


class OddPair(NamedTuple):
    one: int
    other: int

    def __reduce__(self) -> Any:
        return OddPair, (self.one, self.other)


class Kind(IntEnum):
    ONE = 1


class Text(str):
    pass


@compiled
@pytest.mark.parametrize(
    "values",
    [
        [1, 2, Kind.ONE],
        ["a", "b", Text("c")],
        [(1, 2), (3, 4), Pair(5, 6)],
        [(1, 2), (3, 4), (5,)],
        [Pair(1, 2), Pair(3, 4), (5, 6)],
        [Pair(1, 2), Pair(3, 4), OtherPair(5, 6)],
        [SubPair(1, 2)] * 3,
        [OddPair(1, 2)] * 3,
        [Pair(1, [2]), Pair(3, [4]), Pair(5, [6])],
        [(1, 2), (3, 4), [5, 6]],
        [(1, 2), (3, 4), 5],
        [b"a", b"b", bytearray(b"c")],
        [(1, [2])] * 3,
        [Row(1), Row(2), Row.of_kind(RowKind.DELETE, 3)],
        [Row(1), Row(2), Row(a=3)],
        [Row(b=1), Row(b=2), Row(a=3)],
        [Row(1), Row(2), Row(3, 4)],
        [Row(1), Row(2), (3,)],
        [Row([1]), Row([2]), Row([3])],
    ],
    ids=repr,
)
def test_a_single_record_that_can_be_changed_or_is_of_another_class_makes_the_block_a_pickle(values: list[Any]) -> None:
    for position in range(len(values)):
        rotated = values[position:] + values[:position]
        assert columns.encode(rotated, None, None) is None
        assert columns.encode([1] * len(rotated), None, rotated) is None
        found = decode_block(encode_block(Batch(rotated * 3, None, None)))[0].values
        assert found == rotated * 3
        assert [*map(type, found)] == [*map(type, rotated)] * 3


@compiled
def test_tuples_in_tuples_too_deep_for_columns_are_pickled() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = (deep,)
    assert columns.encode([deep] * 5, None, None) is None
    assert decode_block(encode_block(Batch([deep] * 5)))[0].values == [deep] * 5


@compiled
@given(batches(), st.data())
def test_a_block_that_is_cut_off_or_altered_raises_or_gives_something_else(batch: Batch, data: st.DataObject) -> None:
    block = columns.encode(batch.values, batch.timestamps, batch.keys)
    assert block is not None
    length = data.draw(st.integers(6, len(block) - 1))
    for read in READERS:
        with pytest.raises(ValueError, match="cut off|column"):
            read(block[:length])
    place, byte = data.draw(st.integers(6, len(block) - 1)), data.draw(st.integers(0, 255))
    altered = block[:place] + bytes([byte]) + block[place + 1 :]
    for read in READERS:
        with suppress(Exception):
            read(altered)


@compiled
def test_columns_of_numbers_take_few_bytes_and_count_for_more() -> None:
    block = encode_block(
        Batch([(number % 1000, 1) for number in range(10_000)], None, [n % 1000 for n in range(10_000)])
    )
    assert len(block) < 40_100
    assert weight(block) == 80_000
    assert weight(encode_block(Batch([f"{n:0100}" for n in range(1000)]))) > 100_000
    assert weight(encode_block(Batch([[1]]))) == len(encode_block(Batch([[1]])))


@compiled
def test_columns_with_controls() -> None:
    controls = [(2, Watermark(5)), (8, EndOfInput())]
    batch, placed = decode_block(memoryview(encode_block(Batch(list(range(8))), list(controls))))
    assert (batch.values, placed) == (list(range(8)), controls)
    assert decode_block(encode_block(Batch(list(range(8))), []))[1] is None


@compiled
def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="as many timestamps"):
        columns.encode([1, 2], [1], None)
    with pytest.raises(ValueError, match="as many keys"):
        columns.encode([1, 2], None, [1])


@pytest.mark.parametrize("kind", [str, str.encode])
@pytest.mark.parametrize("length", [40, 50_000])
def test_what_records_share_is_written_once(kind: Any, length: int) -> None:
    document = kind("x" * length)
    others = [kind(f"{n:0{length}}") for n in range(2)]
    for documents in ([document] * 4000, [document, *others] * 1300 if length > 1000 else [document] * 4000):
        records = [(text, number) for number, text in enumerate(documents)]
        block = encode_block(Batch(records))
        assert len(block) < 250_000
        found = decode_block(block)[0].values
        assert found == records
        assert len({id(text) for text, _ in found}) == len(set(documents))


@pytest.mark.parametrize("kind", [str, str.encode])
def test_what_many_records_share_is_written_once(kind: Any) -> None:
    names = [kind(f"{n:030}") for n in range(50)]
    records = [(names[number * 7 % 50], number) for number in range(4000)]
    block = encode_block(Batch(records))
    assert len(block) < 40_000
    found = decode_block(block)[0].values
    assert found == records
    assert len({id(text) for text, _ in found}) == 50


@compiled
def test_bytes_of_any_format_are_read() -> None:
    block = bytearray(encode_block(Batch([1, 2, 3, 4])))
    for decode in READERS:
        for code in "Bbc":
            assert decode(memoryview(block).cast(code))[0] == [1, 2, 3, 4]


class Backwards(NamedTuple):
    one: int
    other: int

    def __iter__(self) -> Any:
        return iter((self.other, self.one))

    def __getnewargs_ex__(self) -> Any:
        return tuple.__getitem__(self, slice(None)), {}


class Registered(NamedTuple):
    one: int
    other: int


class WithState(NamedTuple):
    one: int
    other: int

    def __getstate__(self) -> Any:
        return {"seen": True}

    def __setstate__(self, state: Any) -> None:
        assert state == {"seen": True}


class Repaired(NamedTuple):
    one: int
    other: int


Repaired.__getnewargs__ = lambda self: (self[0] + 100, self[1])  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", [Backwards, Registered, WithState, Repaired])
def test_named_tuples_with_a_pickling_of_their_own(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda value: (Registered, (value.one, 0)))
    columns._NAMED_TUPLES.clear()
    value = kind(1, 2)
    expected = pickle.loads(pickle.dumps(value))
    [found, *_] = decode_block(encode_block(Batch([value] * 4)))[0].values
    assert (found.one, found.other) == (expected.one, expected.other)
    assert not columns.is_named_tuple(kind)
    columns._NAMED_TUPLES.clear()


def test_rows_whose_names_are_equal_but_no_plain_strings_keep_their_names() -> None:
    class Name(str, Enum):
        ONE = "one"

    rows = [make_row([1], (name,)) for name in ("one", Name.ONE, "one", "one")]
    for row, (name,) in zip(decode_block(encode_block(Batch(rows)))[0].values, [row._fields for row in rows]):
        assert type(row._fields[0]) is type(name)


@pytest.mark.parametrize("decode", READERS)
def test_columns_in_columns_without_end_are_refused(decode: Any) -> None:
    with pytest.raises((ValueError, RecursionError)):
        decode(bytes([columns.MARK, 0]) + struct.pack("<I", 4) + b"R\x01\x00" * 300_000)


def test_without_compiled_modules_blocks_are_pickled_and_columns_are_read() -> None:
    block = encode_block(Batch([(1, "ä"), (2, "b"), (3, "c"), (4, "d")], [1, 2, 3, 4], [1, 2, 3, 4]))
    program = (
        "import sys\n"
        "from flintstream.runtime import block, columns, loops\n"
        "from flintstream.runtime.batch import Batch\n"
        "from flintstream.runtime.state import views\n"
        "assert all(module.__file__.endswith('.py') for module in (columns, loops, views))\n"
        "assert columns.decode is columns.decode_in_python\n"
        "batch, _ = block.decode_block(bytes.fromhex(sys.argv[1]))\n"
        "print(batch)\n"
        "print(block.encode_block(batch)[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, block.hex()],
        env={"FLINT_PURE_PYTHON": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    shown = Batch([(1, "ä"), (2, "b"), (3, "c"), (4, "d")], [1, 2, 3, 4], [1, 2, 3, 4])
    assert done.stdout == f"{shown}\n128\n"
