"""The data types of tables, for the schemas of formats; there is no Table API."""

from typing import NoReturn

from flintstream.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]


def __getattr__(name: str) -> NoReturn:
    if name[0].isupper():  # A PyFlink class: an import would hide the message of an AttributeError.
        raise ImportError(
            f"flintstream.table has no {name}: only the data types that formats use are supported of PyFlink's Table "
            "API. For SQL use Spark SQL, before (env.from_spark) or after (SparkSink)",
            name=name,
        )
    raise AttributeError(f"module 'flintstream.table' has no attribute {name!r}")
