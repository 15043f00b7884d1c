"""Values of declared types become columns; what does not fit is named."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from flintstream.common import Instant, Row, Types
from flintstream.state_processor.columns import Columns


def table(type_info, values, *names):
    columns = Columns.of(type_info, "here", names or None)
    return columns.batches(columns.schema())(values)


def test_rows_and_tuples_have_a_column_for_each_field():
    named = Types.ROW_NAMED(["name", "tags"], [Types.STRING(), Types.MAP(Types.STRING(), Types.INT())])
    assert table(named, [Row("a", {"x": 1}), Row(None, None)]).to_pylist() == [
        {"name": "a", "tags": [("x", 1)]},
        {"name": None, "tags": None},
    ]
    assert table(Types.TUPLE([Types.INT(), Types.LIST(Types.DOUBLE())]), [(1, [2.5])]).to_pylist() == [
        {"f0": 1, "f1": [2.5]}
    ]
    assert table(Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a")], "key", "value").schema.names == [
        "key",
        "value",
    ]


def test_other_values_have_one_column():
    day, moment = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    assert table(Types.SQL_DATE(), [day]).column(0).to_pylist() == [day]
    assert table(Types.SQL_TIMESTAMP(), [moment]).column(0).to_pylist() == [moment]
    assert table(Types.SQL_TIME(), [moment.time()]).column(0).to_pylist() == [moment.time()]
    assert table(Types.BIG_DEC(), [Decimal("1.5")]).column(0).to_pylist() == [Decimal("1.5")]
    found = table(Types.INSTANT(), [Instant(1, 5_000)])
    assert found.schema.field(0) == pa.field("value", pa.timestamp("us", "UTC"))
    assert found.column(0).cast(pa.int64()).to_pylist() == [1_000_005]


def test_what_does_not_fit_is_named():
    pair = Types.ROW_NAMED(["key", "count"], [Types.STRING(), Types.LONG()])
    with pytest.raises(TypeError, match="here: column 'count' is declared as int64, but got 'many'"):
        table(pair, [Row("a", 1), Row("b", "many")])
    with pytest.raises(TypeError, match=r"here: the declared type has the fields key, count, but got <Row\('b'\)>"):
        table(pair, [Row("a", 1), Row("b")])
    with pytest.raises(TypeError, match="the declared type has the fields key, count, but got 5"):
        table(pair, [5])
    with pytest.raises(TypeError, match="here: column 'value': values of type .* cannot be stored in a column"):
        table(Types.PICKLED_BYTE_ARRAY(), [1])
