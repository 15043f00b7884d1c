"""Analysed plans of Spark, and DataFrames made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frame_of_plan(plan: Any, spark: SparkSession) -> DataFrame:
    """A DataFrame of an analysed plan, to be planned and run anew, with that session's settings."""
    session: Any = spark
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    return DataFrame(dataset, session)


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same DataFrame in another session, so that it runs with that session's settings."""
    return frame_of_plan(frame._jdf.queryExecution().analyzed(), spark)
