"""Data types of tables, as formats use them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.common.basic_typeinfo import DecimalTypeInfo
from flintstream.table import DataTypes, RowType


@pytest.mark.parametrize(
    ("data_type", "text", "type_info"),
    [
        (DataTypes.TINYINT(), "TINYINT", Types.BYTE()),
        (DataTypes.BIGINT(False), "BIGINT NOT NULL", Types.LONG()),
        (DataTypes.VARCHAR(10).not_null(), "VARCHAR(10) NOT NULL", Types.STRING()),
        (DataTypes.BYTES().not_null().nullable(), "BYTES", Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (DataTypes.DATE().bridged_to("java.sql.Date"), "DATE", Types.SQL_DATE()),
        (DataTypes.TIMESTAMP(3), "TIMESTAMP(3)", Types.SQL_TIMESTAMP()),
        (DataTypes.TIMESTAMP_LTZ(3), "TIMESTAMP_LTZ(3)", Types.INSTANT()),
        (DataTypes.DECIMAL(5, 2), "DECIMAL(5, 2)", DecimalTypeInfo(5, 2)),
        (DataTypes.ARRAY(DataTypes.INT()), "ARRAY<INT>", Types.LIST(Types.INT())),
        (
            DataTypes.MAP(DataTypes.STRING(), DataTypes.DOUBLE()),
            "MAP<STRING, DOUBLE>",
            Types.MAP(Types.STRING(), Types.DOUBLE()),
        ),
    ],
)
def test_each_is_one_of_types(data_type: Any, text: str, type_info: Any) -> None:
    assert str(data_type) == text
    assert data_type.type_info() == type_info


def test_rows() -> None:
    row = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING(), "who")])
    assert isinstance(row, RowType)
    assert row.field_names() == ["id", "name"]
    assert row.type_info() == Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    assert row == DataTypes.ROW(row.fields) != row.not_null()
    assert str(row) == "ROW<`id` INT, `name` STRING>"


@pytest.mark.parametrize(
    ("number", "fitting"),
    [("1.005", "1.01"), ("-2.345", "-2.35"), ("0", "0.00"), ("999.994", "999.99"), ("999.995", None), ("1e40", None)],
)
def test_decimals_are_rounded_half_up(number: str, fitting: str | None) -> None:
    kind = DecimalTypeInfo(5, 2)
    assert kind.fit(Decimal(number)) == (None if fitting is None else Decimal(fitting))
    if fitting is None:
        with pytest.raises(TypeError, match=r"declared type DECIMAL\(5, 2\): it has too many digits"):
            kind.coerce([Decimal(number)])
    else:
        assert [str(value) for value in kind.coerce([Decimal(number)])] == [fitting]


def test_what_is_refused() -> None:
    for call, named in (
        (lambda: DataTypes.DECIMAL(39, 2), r"DECIMAL\(39, 2\): precision must be an integer from 1 to 38"),
        (lambda: DataTypes.DECIMAL(4, 5), "scale must be an integer from 0 to 4"),
        (lambda: DataTypes.CHAR(0), "CHAR: the length must be"),
        (lambda: DataTypes.TIMESTAMP(10), "TIMESTAMP: the precision must be an integer from 0 to 9"),
        (lambda: DataTypes.ARRAY(Types.INT()), "ARRAY: expected one of DataTypes"),  # type: ignore[arg-type]
        (lambda: DataTypes.ROW([DataTypes.INT()]), "fields made by DataTypes.FIELD"),  # type: ignore[list-item]
        (lambda: DataTypes.FIELD("", DataTypes.INT()), "non-empty string"),
    ):
        with pytest.raises((TypeError, ValueError), match=named):
            call()  # type: ignore[no-untyped-call]


def test_the_table_api_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(ImportError, match=r"has no StreamTableEnvironment: .*env\.from_spark"):
        from flintstream.table import StreamTableEnvironment  # noqa: F401
    import flintstream.table

    assert not hasattr(flintstream.table, "other")
