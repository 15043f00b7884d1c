"""Records spooled in slots, as a Spark DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintstream.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TupleTypeInfo
from flintstream.runtime.faults import short_repr
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.protocol import DONE, ReadSpool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flintstream.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class _ReadSlots:
    """The function of a `mapInArrow`: reads the records of a spool, partition i from slot i."""

    slots: SlotAccess
    spool: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                with self.slots.connect(slot) as connection:
                    connection.send(ReadSpool(self.spool))
                    while (frame := connection.recv_bytes())[:1] != DONE:
                        yield _to_arrow(pickle.loads(memoryview(frame)[1:]), self.schema)


def spool_frame(
    spark: SparkSession,
    slots: SlotAccess,
    spool: str,
    declared: TypeInformation | None,
    first_page: bytes,
) -> DataFrame:
    """Returns a DataFrame of the records of a spool; it can be computed repeatedly until the spool is released."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = _spark_schema(spark, declared, pickle.loads(first_page))
    read = _ReadSlots(slots, spool, to_arrow_schema(schema, timezone="UTC"))
    count = len(slots.addresses)
    return spark.range(0, count, 1, count).mapInArrow(read, schema)


def _spark_schema(spark: SparkSession, declared: TypeInformation | None, page: list[Any]) -> StructType:
    """Returns the columns: those of the declared type or, without one, names from the first record and types from the
    first page.

    Records that do not fit are refused, never dropped.
    """
    from pyspark.sql.types import StructField, StructType

    names = _names(declared, page[0])
    columns = zip(
        names, _declared_types(declared) or [None] * len(names), zip(*(_by_column(record, names) for record in page))
    )
    fields = [(name, _spark_type(kind) or _infer(spark, values)) for name, kind, values in columns]
    return StructType([StructField(name, found, True) for name, found in fields])


def _declared_types(declared: TypeInformation | None) -> Sequence[TypeInformation | None] | None:
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        return list(declared.get_field_types())
    return [declared] if isinstance(declared, BasicTypeInfo) else None


def _spark_type(declared: TypeInformation | None) -> Any:
    """Returns Spark's type for a declared one; None if it is to be inferred from values."""
    from pyspark.sql import types

    if not isinstance(declared, BasicTypeInfo):
        return None
    return {
        BasicType.STRING: types.StringType(),
        BasicType.CHAR: types.StringType(),
        BasicType.BOOLEAN: types.BooleanType(),
        BasicType.BYTE: types.ByteType(),
        BasicType.SHORT: types.ShortType(),
        BasicType.INT: types.IntegerType(),
        BasicType.LONG: types.LongType(),
        BasicType.FLOAT: types.FloatType(),
        BasicType.DOUBLE: types.DoubleType(),
    }.get(declared.basic_type)


def _names(declared: TypeInformation | None, first: Any) -> list[str]:
    if isinstance(declared, RowTypeInfo):
        return list(declared.get_field_names())
    if isinstance(first, dict):
        return [str(name) for name in first]
    if getattr(first, "_fields", None):
        return list(first._fields)
    fields = _fields(first)
    return ["value"] if fields == (first,) else [f"f{index}" for index in range(len(fields))]


def _infer(spark: SparkSession, values: Sequence[Any]) -> Any:
    from pyspark.sql.types import StringType

    known = [value for value in values if value is not None]
    if not known:
        return StringType()
    return spark.createDataFrame([(value,) for value in known[:100]], ["value"]).schema[0].dataType


def _fields(record: Any) -> Sequence[Any]:
    if isinstance(record, dict):
        return list(record.values())
    if isinstance(record, tuple | list):
        return record
    values = getattr(record, "_values", None)
    return values if values is not None else (record,)


def _by_column(record: Any, names: Sequence[str]) -> Sequence[Any]:
    """Returns the values of a record by column. A dict may lack some of them."""
    if isinstance(record, dict):
        if record.keys() <= set(names):
            return [record.get(name) for name in names]
    elif len(fields := _fields(record)) == len(names):
        return fields
    raise TypeError(
        f"SparkSink: the columns are {', '.join(names)}, but the record {short_repr(record)} has other fields: "
        "declare the type of the stream, or use the same fields in all records"
    )


def _to_arrow(records: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    names = schema.names
    columns = [list(column) for column in zip(*(_by_column(record, names) for record in records))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
