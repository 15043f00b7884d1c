"""Records of a spool as columns: those of the declared type, or of the first record; nothing is left out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flintstream.common import Row, Types
from flintstream.spark.spool_frame import _spark_schema, _to_arrow

NAMED = Types.ROW_NAMED(["id", "price"], [Types.INT(), Types.DOUBLE()])
NO_SPARK: Any = None


@pytest.mark.parametrize(
    ("declared", "page", "columns"),
    [
        (NAMED, [Row(1, None)], [("id", "int"), ("price", "double")]),
        (Types.TUPLE([Types.STRING(), Types.SHORT()]), [("a", None)], [("f0", "string"), ("f1", "smallint")]),
        (Types.LONG(), [1], [("value", "bigint")]),
    ],
)
def test_declared_types_decide(declared: Any, page: list[Any], columns: list[Any]) -> None:
    """Whatever the first values are: None here, which say nothing."""
    schema = _spark_schema(NO_SPARK, declared, page)
    assert [(field.name, field.dataType.simpleString()) for field in schema] == columns


@pytest.mark.parametrize(
    ("records", "names"),
    [
        ([(1, 2), (1, 2, 3)], ["f0", "f1"]),
        ([(1, 2, 3), (1, 2)], ["f0", "f1", "f2"]),
        ([{"a": 1}, {"a": 1, "b": 2}], ["a"]),
        ([Row(1, 2), Row(1)], ["a", "b"]),
        ([(1,), (2,)], ["f0", "f1"]),
    ],
)
def test_a_record_with_other_fields_is_refused(records: list[Any], names: list[str]) -> None:
    """It is neither cut nor are all others cut to its length."""
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pytest.raises(TypeError, match="SparkSink: the columns are .* has other fields: declare the type"):
        _to_arrow(records, schema)


def test_a_dict_may_lack_fields_and_stand_among_tuples() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    batch = _to_arrow([(1, 2), {"b": 3}, Row(4, 5)], schema)
    assert batch.to_pydict() == {"a": [1, None, 4], "b": [2, 3, 5]}
