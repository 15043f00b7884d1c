"""sum, min, max, min_by and max_by: which fields change, which record stays, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
from collections import namedtuple
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Row, Types
from flintstream.datastream.aggregations import aggregation
from flintstream.graph import InvalidProgramException

Sale = namedtuple("Sale", "shop amount")


@dataclasses.dataclass(frozen=True)
class Order:
    shop: str
    amount: int


def roll(name: str, position: Any, values: list[Any]) -> Any:
    return functools.reduce(aggregation(name, position, None).reduce, values)


def test_other_fields_are_those_of_the_first_record() -> None:
    records = [("a", 3, 1.5), ("b", 1, 2.5), ("c", 5, 0.0)]
    assert roll("sum", 1, records) == ("a", 9, 1.5)
    assert roll("min", 1, records) == ("a", 1, 1.5)
    assert roll("max", 1, records) == ("a", 5, 1.5)
    assert roll("max", -1, records) == ("a", 3, 2.5)


def test_by_keeps_whole_records_and_the_first_of_equal_ones() -> None:
    records = [("a", 3), ("b", 1), ("c", 1), ("d", 5), ("e", 5)]
    assert roll("min_by", 1, records) == ("b", 1)
    assert roll("max_by", 1, records) == ("d", 5)


def test_plain_values() -> None:
    assert roll("sum", 0, [1, 2, 3]) == 6
    assert roll("min", 0, ["b", "a", "c"]) == "a"
    assert roll("max_by", 0, [1, 3, 2]) == 3
    assert roll("sum", 0, ["a", "b"]) == "ab"


@pytest.mark.parametrize("name", ["sum", "min", "max", "min_by", "max_by"])
def test_plain_values_have_no_fields(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}: the record \d of type int has no field 1"):
        roll(name, 1, [1, 2])


@pytest.mark.parametrize("name", ["sum", "min", "max", "min_by", "max_by"])
@pytest.mark.parametrize("position", [3, "amount"])
@pytest.mark.parametrize("kind", [tuple, list])
def test_a_position_that_a_record_does_not_have(name: str, position: Any, kind: Any) -> None:
    with pytest.raises(TypeError, match=rf"{name}: the record .* of type {kind.__name__} has no field {position!r}"):
        roll(name, position, [kind("abcd"), kind("ef")])


@pytest.mark.parametrize("name", ["sum", "max", "min_by"])
def test_what_cannot_be_combined_fails_as_it_does_in_python(name: str) -> None:
    with pytest.raises(TypeError, match="str"):
        roll(name, 2, [(0, 0, "a"), (0, 0, 1)])


def test_rows_by_name_and_position() -> None:
    records = [Row(shop="n", amount=5), Row(shop="s", amount=2)]
    assert roll("sum", "amount", records) == Row(shop="n", amount=7)
    assert roll("min", 1, records) == Row(shop="n", amount=2)
    assert roll("min_by", "amount", records) == Row(shop="s", amount=2)


def test_nothing_is_changed_in_place() -> None:
    row, rest = Row(shop="n", amount=5), Row(shop="s", amount=2)
    aggregation("sum", "amount", None).reduce(row, rest)
    assert row == Row(shop="n", amount=5)
    listed = [1, 5]
    assert aggregation("sum", 1, None).reduce(listed, [1, 2]) == [1, 7]
    assert listed == [1, 5]
    nested = (0, [1])
    assert aggregation("sum", 1, None).reduce(nested, (0, [2])) == (0, [1, 2])
    assert nested == (0, [1])


def test_named_tuples_and_dataclasses_stay_what_they_are() -> None:
    summed = roll("sum", 1, [Sale("n", 5), Sale("s", 2)])
    assert summed == Sale("n", 7)
    assert summed.amount == 7
    assert roll("sum", "amount", [Order("n", 5), Order("s", 2)]) == Order("n", 7)
    assert roll("min_by", "amount", [Order("n", 5), Order("s", 2)]) == Order("s", 2)


@given(st.lists(st.tuples(st.text(max_size=2), st.integers(), st.integers()), min_size=1))
def test_against_the_definition(records: list[tuple[str, int, int]]) -> None:
    shop, _, last = records[0]
    amounts = [amount for _, amount, _ in records]
    assert roll("sum", 1, records) == (shop, sum(amounts), last)
    assert roll("min", 1, records) == (shop, min(amounts), last)
    assert roll("max", 1, records) == (shop, max(amounts), last)
    assert roll("min_by", 1, records) == min(records, key=lambda record: record[1])
    assert roll("max_by", 1, records) == max(records, key=lambda record: record[1])


@pytest.mark.parametrize("position", [1.5, None, True, (0,)])
def test_what_is_no_position(position: Any) -> None:
    with pytest.raises(TypeError, match="sum: the field must be a position"):
        aggregation("sum", position, None)


@pytest.mark.parametrize(
    ("type_info", "position"),
    [
        (Types.TUPLE([Types.INT(), Types.INT()]), 2),
        (Types.TUPLE([Types.INT(), Types.INT()]), -3),
        (Types.TUPLE([Types.INT(), Types.INT()]), "f0"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "b"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), 1),
        (Types.INT(), 1),
        (Types.STRING(), "a"),
    ],
)
def test_fields_that_a_declared_type_lacks(type_info: Any, position: Any) -> None:
    with pytest.raises(InvalidProgramException, match="max: "):
        aggregation("max", position, type_info)


def test_they_can_be_shipped() -> None:
    for name in ("sum", "min", "max", "min_by", "max_by"):
        function = cloudpickle.loads(cloudpickle.dumps(aggregation(name, 1, None)))
        assert function.reduce(("a", 1), ("b", 1))[0] == "a"
