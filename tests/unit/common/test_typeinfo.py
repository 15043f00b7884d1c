"""What a declared type does to values.

Results without a comment are those of PyFlink 2.3.0, found by running its coders.
"""

import datetime
import math
import pickle
from array import array
from decimal import Decimal

import pytest

from flintstream.common import Instant, Row, RowKind, Types
from flintstream.common.basic_typeinfo import TypeInformation
from flintstream.common.types import make_row

UTC = datetime.timezone.utc
INT_STRING = [Types.INT(), Types.STRING()]
ROW = Types.ROW(INT_STRING)
NAMED = Types.ROW_NAMED(["a", "b"], INT_STRING)
TUPLE = Types.TUPLE(INT_STRING)

ACCEPTED = [
    (Types.INT(), True, 1),
    (Types.INT(), 1.0, 1),
    (Types.INT(), Decimal(3), 3),
    (Types.BOOLEAN(), 1, True),
    (Types.BOOLEAN(), 0, False),
    (Types.BYTE(), 127, 127),
    (Types.LONG(), -(2**63), -(2**63)),
    (Types.FLOAT(), 0.1, 0.10000000149011612),
    (Types.FLOAT(), 1, 1.0),
    (Types.FLOAT(), 1e40, math.inf),
    (Types.DOUBLE(), True, 1.0),
    (Types.DOUBLE(), 2**70, 1.1805916207174113e21),
    (Types.DOUBLE(), Decimal("0.1"), 0.1),
    (Types.STRING(), "é", "é"),
    (Types.CHAR(), "a", "a"),
    (Types.BIG_INT(), 2**100, 2**100),  # PyFlink: OverflowError
    (Types.BIG_DEC(), 1, Decimal("1")),
    (Types.BIG_DEC(), 1.5, Decimal("1.5")),
    (Types.BIG_DEC(), "1.5", Decimal("1.5")),
    (Types.SQL_DATE(), datetime.datetime(2020, 1, 2, 3), datetime.date(2020, 1, 2)),
    (Types.SQL_TIME(), datetime.time(1, 2, 3, 4567), datetime.time(1, 2, 3, 4000)),
    (
        Types.SQL_TIMESTAMP(),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 678901),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 678000),
    ),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, tzinfo=UTC), datetime.datetime(2020, 1, 2)),
    (  # PyFlink: ValueError
        Types.SQL_TIMESTAMP(),
        datetime.datetime(1960, 1, 2, 3, 4, 5, 678901),
        datetime.datetime(1960, 1, 2, 3, 4, 5, 678000),
    ),
    (Types.INSTANT(), Instant(1, 2), Instant(1, 2)),
    (Types.PICKLED_BYTE_ARRAY(), {"a": 1}, {"a": 1}),
    (TUPLE, (1, "a"), (1, "a")),
    (TUPLE, (True, "a"), (1, "a")),
    (TUPLE, [1, "a"], (1, "a")),  # PyFlink: TypeError
    (TUPLE, Row(1, "a"), (1, "a")),  # PyFlink: TypeError
    (ROW, Row(1, "a"), Row(f0=1, f1="a")),
    (ROW, Row(f1="x", f0=1), Row(f0=1, f1="x")),
    (ROW, Row(None, None), Row(f0=None, f1=None)),
    (ROW, (1, "a"), Row(f0=1, f1="a")),  # PyFlink: AttributeError, except from a collection
    (ROW, Row.of_kind(RowKind.DELETE, 1, "a"), Row.of_kind(RowKind.DELETE, f0=1, f1="a")),
    (NAMED, Row(1, "a"), Row(a=1, b="a")),
    (NAMED, Row(b="q", a=7), Row(a=7, b="q")),
    (NAMED, Row(b="q", c=0, a=7), Row(a=7, b="q")),
    (NAMED, {"b": "z", "a": 1}, Row(a=1, b="z")),  # PyFlink: only from a collection
    (Types.LIST(Types.INT()), [True, None], [1, None]),
    (Types.LIST(Types.INT()), (1, 2), [1, 2]),  # PyFlink: TypeError
    (Types.MAP(Types.STRING(), Types.INT()), {"a": None}, {"a": None}),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1}, {"a": 1.0}),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [1, 2.5], [1.0, 2.5]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), array("i", [1, 2]), [1, 2]),  # PyFlink: TypeError
    (Types.PRIMITIVE_ARRAY(Types.BOOLEAN()), [True, 0], [True, False]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"a\xff"), b"a\xff"),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None], ["a", None]),
    (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), [Row(1)], [Row(f0=1)]),
]


@pytest.mark.parametrize(("kind", "value", "expected"), ACCEPTED, ids=str)
def test_coerce_accepts(kind: TypeInformation, value: object, expected: object) -> None:
    [result] = kind.coerce([value])
    assert result == expected
    assert type(result) is type(expected)


REFUSED = [
    (Types.INT(), 1.7, "fraction"),  # PyFlink cuts it off silently
    (Types.INT(), 2**31, "-2147483648 to 2147483647"),
    (Types.INT(), None, "None"),
    (Types.INT(), "a", "'a' (str)"),
    (Types.INT(), math.nan, "nan"),
    (Types.BYTE(), -129, "-128 to 127"),
    (Types.SHORT(), 32768, "32767"),
    (Types.LONG(), 2**63, "9223372036854775807"),
    (Types.BOOLEAN(), "x", "'x'"),
    (Types.BOOLEAN(), None, "None"),
    (Types.DOUBLE(), "a", "'a'"),
    (Types.DOUBLE(), 10**400, "too large"),
    (Types.STRING(), 1, "1 (int)"),
    (Types.STRING(), b"a", "b'a'"),
    (Types.CHAR(), "ab", "one character"),  # PyFlink prints a NUL
    (Types.BIG_DEC(), Decimal("NaN"), "finite"),
    (Types.BIG_DEC(), "x", "no number"),
    (Types.SQL_DATE(), "2020-01-01", "2020-01-01"),
    (Types.SQL_TIME(), 5, "5"),
    (Types.SQL_TIMESTAMP(), datetime.date(2020, 1, 2), "date"),
    (
        Types.SQL_TIMESTAMP(),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        "time zone",  # PyFlink drops the zone silently
    ),
    (Types.INSTANT(), 5, "5"),
    (TUPLE, (1,), "2 fields, but the value has 1"),  # PyFlink's worker dies of a segmentation fault
    (TUPLE, (1, "a", 2), "2 fields, but the value has 3"),  # PyFlink drops the third silently
    (TUPLE, (None, None), "Integer"),
    (TUPLE, "ab", "tuples"),
    (ROW, Row(x=1, y="a"), "lacks the field 'f0', 'f1'"),
    (ROW, Row(1), "2 fields, but the value has 1"),
    (ROW, (1, "a", 2), "2 fields, but the value has 3"),
    (ROW, 5, "rows"),
    (NAMED, {"a": 1, "c": 2}, "no field 'c'"),
    (Types.LIST(Types.INT()), {1, 2}, "lists"),
    (Types.LIST(Types.INT()), "ab", "lists"),
    (Types.LIST(Types.INT()), [1.5], "fraction"),
    (Types.MAP(Types.STRING(), Types.INT()), {None: 1}, "None"),
    (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)], "dicts"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [None], "None"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, 2], "bytes"),
]


@pytest.mark.parametrize(("kind", "value", "words"), REFUSED, ids=str)
def test_coerce_refuses_and_says_why(kind: TypeInformation, value: object, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        kind.coerce([value])
    assert words in str(caught.value)
    assert "declared type" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Types.INT(), [1, 2]),
        (Types.STRING(), ["a"]),
        (Types.DOUBLE(), [1.5]),
        (TUPLE, [(1, "a"), (2, "b")]),
        (NAMED, [Row(a=1, b="x"), Row(a=2, b=None)]),
        (Types.LIST(Types.INT()), [[1], []]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a"]),
        (Types.PICKLED_BYTE_ARRAY(), [object]),
    ],
    ids=str,
)
def test_what_is_right_stays_the_same_object(kind: TypeInformation, values: list[object]) -> None:
    assert kind.coerce(values) is values
    assert kind.coerce([]) == []


def test_nested_types_are_coerced_all_the_way_down() -> None:
    kind = Types.ROW(
        [
            Types.TUPLE([Types.INT(), Types.LIST(Types.FLOAT())]),
            Types.MAP(Types.STRING(), Types.ROW_NAMED(["q"], [Types.BIG_DEC()])),
        ]
    )
    assert kind.coerce([((True, [1]), {"k": (2,)}), Row(None, None)]) == [
        Row(f0=(1, [1.0]), f1={"k": Row(q=Decimal(2))}),
        Row(f0=None, f1=None),
    ]


def test_types_without_fields() -> None:
    assert Types.ROW([]).coerce([(), Row()]) == [make_row([], ()), make_row([], ())]
    assert Types.TUPLE([]).coerce([(), Row()]) == [(), ()]


def test_the_users_row_is_not_changed() -> None:
    row = Row(True, "a")
    ROW.coerce([row])
    assert row == Row(True, "a")
    assert row[0] is True


def test_names_and_equality() -> None:
    assert repr(Types.MAP(Types.INT(), Types.LIST(NAMED))) == (
        "MapTypeInfo<Integer, ListTypeInfo<RowTypeInfo(a: Integer, b: String)>>"
    )
    assert repr(TUPLE) == "TupleTypeInfo(Integer, String)"
    assert repr(ROW) == "RowTypeInfo(Integer, String)"
    assert repr(Types.SQL_DATE()) == "DateTypeInfo"
    assert repr(Types.PICKLED_BYTE_ARRAY()) == "PickledByteArrayTypeInfo"
    assert Types.ROW_NAMED(["f0", "f1"], INT_STRING) == ROW
    assert NAMED != ROW
    assert Types.LONG() != Types.INT()
    assert len({Types.INT(), Types.INT(), Types.LIST(Types.INT())}) == 2
    assert pickle.loads(pickle.dumps(NAMED)) == NAMED


def test_row_type_fields() -> None:
    assert NAMED.get_field_names() == ["a", "b"]
    assert NAMED.get_field_index("b") == 1
    assert NAMED.get_field_index("c") == -1
    assert NAMED.get_field_types() == INT_STRING


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Types.ROW_NAMED(["a"], INT_STRING), ValueError),
        (lambda: Types.ROW_NAMED(["a", "a"], INT_STRING), ValueError),
        (lambda: Types.LIST(int), TypeError),  # type: ignore[arg-type]
        (lambda: Types.ROW([Types.INT]), TypeError),  # type: ignore[list-item]
    ],
)
def test_wrong_declarations_are_refused_at_once(make: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()  # type: ignore[operator]


def test_internal_forms() -> None:
    moment = datetime.datetime(2020, 1, 1)
    assert Types.SQL_DATE().to_internal_type(moment.date()) == 18262
    assert Types.SQL_TIMESTAMP().to_internal_type(moment) == 1577836800000000
    assert Types.SQL_TIME().to_internal_type(datetime.time(1, 2, 3, 4)) == 3723000004
    assert Types.ROW([Types.INT()]).to_internal_type((1,)) == (0, 1)
    for kind, value in [
        (Types.SQL_DATE(), moment.date()),
        (Types.SQL_TIMESTAMP(), moment),
        (Types.SQL_TIME(), datetime.time(1, 2, 3, 4)),
        (Types.INSTANT(), Instant(-5, 3)),
        (NAMED, Row.of_kind(RowKind.DELETE, a=1, b=None)),
    ]:
        assert kind.from_internal_type(kind.to_internal_type(value)) == value


def test_java_names_say_why_they_are_missing() -> None:
    with pytest.raises(NotImplementedError, match="JVM"):
        Types.INT().get_java_type_info()
