"""The data types of tables, for the schemas of formats; there are no tables here."""

from typing import NoReturn

from flintstream.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]


def __getattr__(name: str) -> NoReturn:
    if name[0].isupper():  # A class of PyFlink's: an AttributeError would not be shown where it is imported.
        raise ImportError(
            f"flintstream.table has no {name}: of PyFlink's tables there are only the data types that formats take. For SQL "
            "use Spark's, before (env.from_spark) and after (SparkSink)",
            name=name,
        )
    raise AttributeError(f"module 'flintstream.table' has no attribute {name!r}")
