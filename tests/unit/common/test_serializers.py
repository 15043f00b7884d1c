"""Values of every type become bytes, and the same values again."""

import datetime
import io
import math
import pickle
import struct
from collections import OrderedDict
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Instant, Row, RowKind, TypeInformation, Types, TypeSerializer
from flintstream.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo
from flintstream.common.types import make_row
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

LOCAL = {kind.name: LocalTimeTypeInfo(kind) for kind in LocalTimeTypeInfo.TimeType}


class ComplexSerializer(TypeSerializer):
    """As one writes it for PyFlink: two methods, and the stream is read to its end."""

    def serialize(self, element, stream):
        stream.write(struct.pack(">dd", element.real, element.imag))

    def deserialize(self, stream):
        return complex(*struct.unpack(">dd", stream.read()))


class ComplexType(TypeInformation):
    def create_serializer(self):
        return ComplexSerializer()


def milliseconds(moment):
    return unfolded(moment.replace(microsecond=moment.microsecond // 1000 * 1000))


def unfolded(moment):
    return moment.replace(fold=0)  # which says something only of a time in a zone


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
SIMPLE = [
    (Types.STRING(), st.text(st.characters(exclude_categories=()))),
    (Types.BYTE(), integers(8)),
    (Types.BOOLEAN(), st.booleans()),
    (Types.SHORT(), integers(16)),
    (Types.INT(), integers(32)),
    (Types.LONG(), integers(64)),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.CHAR(), st.characters()),
    (Types.BIG_INT(), st.integers()),
    (Types.BIG_DEC(), DECIMALS),
    (Types.INSTANT(), st.builds(Instant, st.integers(), st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times().map(milliseconds)),
    (Types.SQL_TIMESTAMP(), st.datetimes().map(milliseconds)),
    (LOCAL["LOCAL_DATE"], st.dates()),
    (LOCAL["LOCAL_TIME"], st.times().map(unfolded)),
    (LOCAL["LOCAL_DATE_TIME"], st.datetimes().map(unfolded)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), st.lists(integers(64))),
    (Types.PRIMITIVE_ARRAY(Types.FLOAT()), st.lists(st.floats(width=32, allow_nan=False))),
    (Types.PICKLED_BYTE_ARRAY(), st.recursive(PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner))),
    (ExternalTypeInfo(Types.INT()), integers(32)),
    (ComplexType(), st.complex_numbers(allow_nan=False)),
]
HASHABLE = SIMPLE[:18]


def nullable(strategy):
    return st.none() | strategy


@st.composite
def typed(draw, depth=3, hashable=False):
    """A type, and a strategy of its values."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(HASHABLE if hashable else SIMPLE))
    kind = draw(st.sampled_from(["tuple", "row"] if hashable else ["tuple", "row", "list", "basic", "object", "map"]))
    if kind in ("tuple", "row"):
        fields = draw(st.lists(typed(depth=depth - 1, hashable=hashable), max_size=3))
        types, values = [field for field, _ in fields], st.tuples(*(nullable(value) for _, value in fields))
        if kind == "tuple":
            return Types.TUPLE(types), values
        names = tuple(f"name{i}" for i in range(len(types)))
        kinds = st.sampled_from(RowKind)
        return Types.ROW_NAMED(names, types), st.builds(
            lambda value, change: make_row(list(value), names, change), values, kinds
        )
    item, value = draw(typed(depth=depth - 1))
    if kind == "map":
        key_type, key = draw(typed(depth=depth - 1, hashable=True))
        return Types.MAP(key_type, item), st.dictionaries(nullable(key), nullable(value), max_size=3)
    make = {"list": Types.LIST, "basic": Types.BASIC_ARRAY, "object": Types.OBJECT_ARRAY}[kind]
    return make(item), st.lists(nullable(value), max_size=3)


TYPED_VALUES = typed().flatmap(lambda pair: st.tuples(st.just(pair[0]), st.lists(nullable(pair[1]), max_size=5)))


def exactly(value):
    """The value with all that equality does not see."""
    if isinstance(value, Row):
        return ("row", list(map(exactly, value)))
    if isinstance(value, (list, tuple)):
        return (type(value), list(map(exactly, value)))
    if isinstance(value, dict):
        return (type(value), exactly(list(value.items())))
    return repr(value)


@given(TYPED_VALUES)
def test_blocks_come_back_in_every_detail(typed_values):
    type_info, values = typed_values
    serializer = type_info.create_serializer()
    found = serializer.deserialize_all(serializer.serialize_all(values))
    assert found == values
    assert exactly(found) == exactly(values)


@given(TYPED_VALUES)
def test_single_values_come_back(typed_values):
    type_info, values = typed_values
    serializer = type_info.create_serializer()
    for value in values:
        if value is None and type_info == ComplexType():
            continue  # a user's serialiser knows no None by itself
        assert serializer.from_bytes(serializer.to_bytes(value)) == value
        again = serializer.from_bytes(serializer.to_bytes(value, canonical=False))
        assert exactly(again) == exactly(value)


@given(TYPED_VALUES)
def test_values_follow_each_other_on_a_stream(typed_values):
    type_info, values = typed_values
    if type_info == ComplexType():
        return  # reads to the end, as PyFlink allows
    serializer, stream = type_info.create_serializer(), io.BytesIO()
    for value in values:
        serializer.serialize(value, stream)
    assert stream.getvalue() == b"".join(map(serializer.to_bytes, values))
    stream.seek(0)
    assert [serializer.deserialize(stream) for _ in values] == values
    assert stream.read() == b""


def alike(value):
    """An equal value that shares no object with the first, and has its dicts in another order."""
    if isinstance(value, Row):
        return make_row(list(map(alike, value)), value._fields, value.get_row_kind())
    if isinstance(value, (list, tuple)):
        return type(value)(map(alike, value))
    if isinstance(value, dict):
        return {alike(key): alike(item) for key, item in reversed(value.items())}
    if isinstance(value, float) and value == 0:
        return -value
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        return Decimal((sign, (*digits, 0, 0), exponent - 2))
    return pickle.loads(pickle.dumps(value))


@given(TYPED_VALUES)
def test_equal_values_have_equal_bytes(typed_values):
    type_info, values = typed_values
    serializer = type_info.create_serializer()
    for value in values:
        if value is None or type_info == ComplexType():
            continue
        other = alike(value)
        assert other == value
        assert serializer.to_bytes(other) == serializer.to_bytes(value)


@given(TYPED_VALUES)
def test_different_values_have_different_bytes(typed_values):
    type_info, values = typed_values
    serializer = type_info.create_serializer()
    by_bytes = {}
    for value in values:
        if value is not None:
            assert by_bytes.setdefault(serializer.to_bytes(value), value) == value


def test_a_value_has_the_bytes_of_what_it_is_converted_to():
    cases = [
        (Types.INT(), True, 1),
        (Types.LONG(), 2.0, 2),
        (Types.DOUBLE(), 1, 1.0),
        (Types.FLOAT(), 0.1, np.float32(0.1).item()),
        (Types.BIG_DEC(), "1.50", Decimal("1.5")),
        (Types.ROW([Types.INT()]), (1,), Row(f0=1)),
        (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), {"b": 2, "a": 1}, Row(a=1, b=2)),
        (Types.TUPLE([Types.DOUBLE()]), [1], (1.0,)),
        (Types.LIST(Types.INT()), np.array([1, 2]), [1, 2]),
        (Types.MAP(Types.STRING(), Types.INT()), OrderedDict(a=True), {"a": 1}),
        (Types.LONG(), IntEnum("Level", ["LOW", "HIGH"]).HIGH, 2),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    ]
    for type_info, given_value, value in cases:
        serializer = type_info.create_serializer()
        assert serializer.to_bytes(given_value) == serializer.to_bytes(value)
        assert serializer.deserialize_all(serializer.serialize_all([given_value, None])) == [value, None]


@pytest.mark.parametrize(
    ("type_info", "value", "message"),
    [
        (Types.INT(), "a", r"'a' \(str\) is not a value of the declared type Integer"),
        (Types.BYTE(), 128, r"128 \(int\) is not a value of the declared type Byte: it holds -128 to 127"),
        (Types.STRING(), 5, r"5 \(int\) is not a value of the declared type String"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", "b"), r"'b' \(str\) is not .* Integer"),
        (Types.TUPLE([Types.STRING()]), ("a", "b"), "it has 1 fields, but the value has 2"),
        (Types.LIST(Types.INT()), {1}, "it holds lists"),
        (Types.MAP(Types.INT(), Types.INT()), [1], "it holds dicts"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), Row(b=1), "it lacks the field 'a'"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [None], "None is not a value of the declared type Integer"),
        (LOCAL["LOCAL_TIME"], datetime.time(1, tzinfo=datetime.timezone.utc), "without a time zone"),
        (LOCAL["LOCAL_DATE"], datetime.datetime(2020, 1, 1), "LOCAL_DATE"),
    ],
)
def test_a_value_that_does_not_fit_is_named(type_info, value, message):
    serializer = type_info.create_serializer()
    for write in (serializer.to_bytes, lambda value: serializer.serialize_all([value])):
        with pytest.raises(TypeError, match=message):
            write(value)


def test_nan():
    for type_info in (Types.FLOAT(), Types.DOUBLE()):
        serializer = type_info.create_serializer()
        assert math.isnan(serializer.from_bytes(serializer.to_bytes(math.nan)))
        assert math.isnan(serializer.deserialize_all(serializer.serialize_all([math.nan]))[0])


class Node:
    def __init__(self):
        self.next = self


def test_any_object_can_be_pickled():
    serializer = Types.PICKLED_BYTE_ARRAY().create_serializer()

    class Local:
        value = 3

    assert serializer.from_bytes(serializer.to_bytes(Local())).value == 3
    assert serializer.deserialize_all(serializer.serialize_all([Local(), None]))[0].value == 3
    node = serializer.from_bytes(serializer.to_bytes(Node()))
    assert node.next is node
    shared = [1]
    first, second = serializer.from_bytes(serializer.to_bytes([shared, shared], canonical=False))
    assert first is second


def test_the_bytes_of_a_pickled_object_do_not_depend_on_identity():
    serializer = Types.PICKLED_BYTE_ARRAY().create_serializer()
    text = "".join(["a", "b"])
    assert serializer.to_bytes((text, text)) == serializer.to_bytes(("ab", "".join(["a", "b"])))


def test_serializers_are_equal_by_their_types_and_can_be_pickled():
    row = Types.ROW([Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.BIG_DEC()), Types.TUPLE([Types.LONG()])])
    serializer = row.create_serializer()
    assert serializer == row.create_serializer() == pickle.loads(pickle.dumps(serializer))
    assert serializer != Types.ROW([Types.INT()]).create_serializer()
    assert "RowTypeInfo" in repr(serializer)


def test_a_type_of_ones_own_is_pickled_after_its_conversion():
    class Upper(TypeInformation):
        def coerce(self, values):
            return [value.upper() for value in values]

    serializer = Types.LIST(Upper()).create_serializer()
    assert serializer.deserialize_all(serializer.serialize_all([["a", None]])) == [["A", None]]
    assert Upper().create_serializer().from_bytes(Upper().create_serializer().to_bytes("b")) == "B"


def test_a_user_serializer_needs_two_methods():
    serializer = ComplexSerializer()
    data = serializer.serialize_all([1j, None, 2 + 3j])
    assert serializer.deserialize_all(data) == [1j, None, 2 + 3j]
    assert serializer.to_bytes(1j) == struct.pack(">dd", 0, 1)
    assert serializer.from_bytes(serializer.to_bytes(1j)) == 1j
    assert serializer.deserialize_all(serializer.serialize_all([])) == []


def test_a_user_serializer_serves_states():
    point = ComplexType()
    values = ValueStateDescriptor("values", point).type_info.create_serializer()
    assert isinstance(values, ComplexSerializer)
    lists = ListStateDescriptor("lists", point).type_info.create_serializer()
    assert lists.from_bytes(lists.to_bytes([1j, None])) == [1j, None]
    maps = MapStateDescriptor("maps", Types.STRING(), point).type_info.create_serializer()
    assert maps.deserialize_all(maps.serialize_all([{"a": 1j}])) == [{"a": 1j}]
