"""Records that wait in slots, as a Spark DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintstream.common.typeinfo import RowTypeInfo
from flintstream.runtime.connections import Address, Credentials, connect
from flintstream.runtime.protocol import DONE, ReadSpool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flintstream.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class _ReadSlots:
    """The function of a `mapInArrow`: the records of a spool, partition i from slot i."""

    addresses: tuple[Address, ...]
    credentials: Credentials
    spool: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                with connect(self.addresses[slot], self.credentials) as connection:
                    connection.send(ReadSpool(self.spool))
                    while (frame := connection.recv_bytes())[:1] != DONE:
                        yield _to_arrow(pickle.loads(memoryview(frame)[1:]), self.schema)


def spool_frame(
    spark: SparkSession,
    addresses: Sequence[Address],
    credentials: Credentials,
    spool: str,
    declared: TypeInformation | None,
    first_page: bytes,
) -> DataFrame:
    """A DataFrame over the records of a spool; it can be computed as often as wanted until the spool is released."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = _spark_schema(spark, declared, pickle.loads(first_page))
    read = _ReadSlots(tuple(addresses), credentials, spool, to_arrow_schema(schema, timezone="UTC"))
    slots = len(addresses)
    return spark.range(0, slots, 1, slots).mapInArrow(read, schema)


def _spark_schema(spark: SparkSession, declared: TypeInformation | None, sample: list[Any]) -> StructType:
    """The columns: names from the declared type or the first record, types from the values."""
    from pyspark.sql.types import StructField, StructType

    columns = zip(_names(declared, sample[0]), zip(*map(_fields, sample)))
    return StructType([StructField(name, _infer(spark, values), True) for name, values in columns])


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


def _to_arrow(records: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    if records and isinstance(records[0], dict):
        columns = [[record.get(name) for record in records] for name in schema.names]
    else:
        columns = [list(column) for column in zip(*map(_fields, records))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
