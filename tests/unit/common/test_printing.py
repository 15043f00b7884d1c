"""The text of printed values: taken from PyFlink 2.3.0's ``print()`` unless said otherwise."""

import datetime
import math
from decimal import Decimal

import pytest

from flintstream.common import Instant, Row, RowKind, Types
from flintstream.common.printing import line_formatter, to_java_string
from flintstream.common.typeinfo import TypeInformation

MIXED = [Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]

PRINTED = [
    (Types.BOOLEAN(), True, "true"),
    (Types.INT(), -5, "-5"),
    (Types.STRING(), "it's", "it's"),
    *[
        (Types.FLOAT(), value, text)
        for value, text in [
            (1.0, "1.0"),
            (0.10000000149011612, "0.1"),
            (1e10, "1.0E10"),
            (9.999999747378752e-06, "1.0E-5"),
            (123456.7890625, "123456.79"),
            (3.3999999521443642e38, "3.4E38"),
            (16777216.0, "1.6777216E7"),
            (9999999.0, "9999999.0"),
            (0.0009899999713525176, "9.9E-4"),
            (1.1754943508222875e-38, "1.1754944E-38"),  # as since Java 19; Java 17 shows a digit more
            (1.401298464324817e-45, "1.4E-45"),
            (3.363116314379561e-44, "3.4E-44"),
            (math.inf, "Infinity"),
            (-0.0, "-0.0"),
        ]
    ],
    *[
        (Types.DOUBLE(), value, text)
        for value, text in [
            (1.0, "1.0"),
            (1e10, "1.0E10"),
            (1e-5, "1.0E-5"),
            (math.nan, "NaN"),
            (-math.inf, "-Infinity"),
            (1e7, "1.0E7"),
            (9999999.0, "9999999.0"),
            (12345678.9, "1.23456789E7"),
            (0.001, "0.001"),
            (0.00099, "9.9E-4"),
            (1.5e-300, "1.5E-300"),
            (5e-324, "4.9E-324"),
            (2e-323, "2.0E-323"),
            (123456789012.0, "1.23456789012E11"),
            (1 / 3, "0.3333333333333333"),
            (1e23, "1.0E23"),  # as since Java 19; Java 17 shows 9.999999999999999E22
            (0.002, "0.002"),
            (100.0, "100.0"),
            (4.35, "4.35"),
            (-0.0, "-0.0"),
        ]
    ],
    (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
    (Types.BIG_DEC(), Decimal("1E+3"), "1E+3"),
    (Types.BIG_DEC(), Decimal("0.0000001"), "1E-7"),
    (Types.BIG_DEC(), Decimal("-0.0"), "0.0"),
    (Types.SQL_DATE(), datetime.date(1960, 1, 2), "1960-01-02"),
    (Types.SQL_TIME(), datetime.time(1, 2, 3, 4000), "01:02:03"),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5, 678000), "2020-01-02 03:04:05.678"),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2), "2020-01-02 00:00:00.0"),
    (Types.INSTANT(), Instant(1, 0), "1970-01-01T00:00:01Z"),
    (Types.INSTANT(), Instant(1, 2), "1970-01-01T00:00:01.000000002Z"),
    (Types.INSTANT(), Instant(1577934245, 678000000), "2020-01-02T03:04:05.678Z"),
    (Types.INSTANT(), Instant(-5, 0), "1969-12-31T23:59:55Z"),
    *[
        (Types.PICKLED_BYTE_ARRAY(), value, text)
        for value, text in [
            (True, "True"),
            (None, "None"),
            ("a", "a"),
            ((1, "b"), "(1, 'b')"),
            ({"a": 1}, "{'a': 1}"),
            (Row(1, "x"), "<Row(1, 'x')>"),
            (Row(a=1, b="z"), "Row(a=1, b='z')"),
            (1e10, "10000000000.0"),
        ]
    ],
    (Types.TUPLE(MIXED), (1, "a", 1e10, True), "(1,a,1.0E10,true)"),
    (Types.TUPLE([Types.STRING()]), ("x",), "(x)"),
    (
        Types.TUPLE([Types.ROW([Types.INT()]), Types.PRIMITIVE_ARRAY(Types.INT()), Types.LIST(Types.STRING())]),
        (Row(1), [1, 2], ["x"]),
        "(+I[1],[1, 2],[x])",
    ),
    (Types.ROW(MIXED), Row(1, "a", 1.0, True), "+I[1,a,1.0,True]"),
    (Types.ROW(MIXED), Row(None, None, None, None), "+I[None,None,None,None]"),
    (
        Types.ROW(MIXED),
        Row.of_kind(RowKind.UPDATE_BEFORE, 1, "a", 1e10, False),
        "-U[1,a,10000000000.0,False]",
    ),
    (Types.LIST(Types.STRING()), ["a", "b"], "[a, b]"),
    (Types.LIST(Types.DOUBLE()), [1.0, 1e10], "[1.0, 1.0E10]"),
    (Types.LIST(Types.BOOLEAN()), [True], "[true]"),
    (Types.LIST(Types.ROW(MIXED[:2])), [Row(1, "a")], "[+I[1, a]]"),
    (Types.LIST(Types.TUPLE(MIXED[:3])), [(1, "a", 1.0)], "[(1,a,1.0)]"),
    (Types.LIST(Types.INT()), [None, 1], "[null, 1]"),  # not from PyFlink, which fails
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": 2}, "{a=1, b=2}"),
    (Types.MAP(Types.STRING(), Types.ROW_NAMED(["q"], [Types.INT()])), {"k": Row(1)}, "{k=+I[1]}"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], "[1, 2]"),  # PyFlink shows an address, as of here
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a\xff", "[97, -1]"),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None], "[a, null]"),
]


@pytest.mark.parametrize(("kind", "value", "text"), PRINTED, ids=str)
def test_printed(kind: TypeInformation, value: object, text: str) -> None:
    assert to_java_string(value, kind) == text


def test_a_row_in_a_file_is_as_java_shows_it() -> None:
    show = line_formatter(Types.ROW(MIXED))
    assert show(Row(1, "a", 1e10, True)) == "+I[1, a, 1.0E10, true]"
    assert show(Row(None, None, None, None)) == "+I[null, null, null, null]"


def test_bytes_in_a_row_in_a_file_are_as_java_counts_them() -> None:
    show = line_formatter(Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY()]))
    assert show(Row(bytearray(b"fl\xff"), "text")) == "+I[[102, 108, -1], text]"


def test_without_a_type() -> None:
    assert to_java_string((1, None, True)) == "(1, None, True)"
