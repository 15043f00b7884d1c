"""Rows, as PyFlink 2.3.0's behave."""

import copy
import pickle

import cloudpickle
import pytest

from flintstream.common import Row, RowKind
from flintstream.runtime.batch import Batch
from flintstream.runtime.block import decode_block, encode_block
from flintstream.runtime.detach import copied


def test_fields_by_position_and_by_name() -> None:
    row = Row(a=1, b="x")
    assert (row[0], row[-1], row["a"], row.a, row[0:1], len(row)) == (1, "x", 1, 1, [1], 2)
    assert list(row) == [1, "x"]
    assert ("a" in row, 1 in row, 1 in Row(1)) == (True, False, True)
    assert row.as_dict() == {"a": 1, "b": "x"}
    assert row.get_fields_by_names(["b"]) == ["x"]
    assert Row(1, "x").get_fields_by_names(["b"]) == [1, "x"]


def test_setting() -> None:
    row = Row(a=1, b="x")
    row[0] = 5
    row["b"] = 6
    assert row == Row(a=5, b=6)
    with pytest.raises(AttributeError):
        row.new = 1  # type: ignore[attr-defined]
    unnamed = Row(1, 2)
    unnamed.set_field_names(["p", "q"])
    assert unnamed.q == 2
    with pytest.raises(ValueError, match="1 names"):
        unnamed.set_field_names(["p"])


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no field 'zz'; it has \\['a'\\]"):
        _ = Row(a=1).zz
    with pytest.raises(AttributeError, match="no names"):
        _ = Row(1).a
    with pytest.raises(KeyError):
        _ = Row(a=1)["b"]
    with pytest.raises(ValueError, match="'zz'"):
        Row(a=1).get_fields_by_names(["a", "zz"])
    with pytest.raises(TypeError):
        Row(1).as_dict()
    with pytest.raises(ValueError):
        Row(1, b=2)


def test_equality_hash_and_kind() -> None:
    assert Row(1, 2) == Row(1, 2.0)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1, 2) != (1, 2)
    deleted = Row.of_kind(RowKind.DELETE, 1, 2)
    assert deleted != Row(1, 2)
    deleted.set_row_kind(RowKind.INSERT)
    assert deleted == Row(1, 2)
    assert hash(Row(a=1)) == hash(Row(1))
    assert {Row(1, "a"): 5}[Row(1, "a")] == 5
    with pytest.raises(TypeError):
        hash(Row([1]))
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_text() -> None:
    assert repr(Row(a=1, b="x")) == str(Row(a=1, b="x")) == "Row(a=1, b='x')"
    assert repr(Row(1, None)) == "<Row(1, None)>"
    assert repr(Row()) == "<Row()>"


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("Bob", 3) == Row(name="Bob", age=3)
    assert repr(person("x")) == "Row(name='x')"
    with pytest.raises(ValueError):
        person(1, 2, 3)


def test_as_dict_recursive() -> None:
    row = Row(a=[Row(b=1)], m={"k": Row(c=2)}, r=Row(d=3))
    assert row.as_dict(recursive=True) == {"a": [{"b": 1}], "m": {"k": {"c": 2}}, "r": {"d": 3}}


@pytest.mark.parametrize(
    "row", [Row(1, "x"), Row(a=1, b=[2]), Row.of_kind(RowKind.UPDATE_AFTER, a=Row(1)), Row()], ids=repr
)
def test_copies_and_pickles(row: Row) -> None:
    for again in (
        pickle.loads(pickle.dumps(row)),
        cloudpickle.loads(cloudpickle.dumps(row)),
        copy.deepcopy(row),
    ):
        assert again == row
        assert again.get_row_kind() is row.get_row_kind()


class Order(Row):
    """As a user may write one: with a method, and an attribute that is no field."""

    def __init__(self, note: str, **fields: int) -> None:
        super().__init__(**fields)
        self.note = note

    def total(self) -> int:
        return self["price"] * self["count"]


class SlottedOrder(Order):
    __slots__ = ("__hidden", "urgent")

    def __init__(self, urgent: bool, note: str, **fields: int) -> None:
        super().__init__(note, **fields)
        self.urgent = urgent
        self.__hidden = 7

    def hidden(self) -> int:
        return self.__hidden


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_subclasses_keep_their_class_and_attributes(protocol: int) -> None:
    order, slotted = Order("today", price=3, count=5), SlottedOrder(True, "now", price=2, count=2)
    order.set_row_kind(RowKind.DELETE)
    for again in (pickle.loads(pickle.dumps(order, protocol)), copy.copy(order), copy.deepcopy(order), copied(order)):
        assert type(again) is Order and again == order and again.get_row_kind() is RowKind.DELETE
        assert (again.total(), again.note) == (15, "today")
    for again in (pickle.loads(pickle.dumps(slotted, protocol)), copy.copy(slotted), copied(slotted)):
        assert type(again) is SlottedOrder and again == slotted
        assert (again.total(), again.note, again.urgent, again.hidden()) == (4, "now", True, 7)


def test_subclasses_travel_between_tasks() -> None:
    orders = [Order("today", price=price, count=2) for price in range(100)]
    batch, _ = decode_block(encode_block(Batch(orders)))
    assert [(type(each), each.total(), each.note) for each in batch.values] == [
        (Order, 2 * price, "today") for price in range(100)
    ]


def test_pickles_of_many_rows_are_compact() -> None:
    names = ("alpha", "beta")
    rows = [Row(alpha=i, beta="x") for i in range(1000)]
    for row in rows:
        row._fields = names
    assert len(pickle.dumps(rows, protocol=5)) < 30 * 1000
