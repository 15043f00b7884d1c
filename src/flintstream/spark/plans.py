"""Analysed Spark plans, and DataFrames created from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frame_of_plan(plan: Any, spark: SparkSession) -> DataFrame:
    """Returns a DataFrame of an analysed plan, which is planned and run anew with that session's settings."""
    session: Any = spark
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return DataFrame(dataset, session)


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Returns the same DataFrame in another session, with that session's settings."""
    return frame_of_plan(frame._jdf.queryExecution().analyzed(), spark)
