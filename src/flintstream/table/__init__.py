"""The data types of tables, for the schemas of formats; there are no tables here."""

from flintstream.table.types import DataType, DataTypes, RowField, RowType

__all__ = ["DataType", "DataTypes", "RowField", "RowType"]
