"""Fixtures every test may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintstream.datastream import StreamExecutionEnvironment

# How long an example takes says nothing on a machine that has other work. CI tries the same examples each time; a
# developer tries new ones.
settings.register_profile("flintstream", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("flintstream")


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one Spark session of this test process; it is stopped when the process exits."""
    from flintstream.spark.session import get_or_create_session

    return get_or_create_session({})


@pytest.fixture
def env(spark: SparkSession) -> StreamExecutionEnvironment:
    """A fresh environment with parallelism 2 on the shared Spark session."""
    from flintstream.datastream import StreamExecutionEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(2)
    return environment
