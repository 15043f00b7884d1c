"""The session that Flintstream starts, on a real local Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.faults.helpers import wait_until

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.spark.session import get_or_create_session, is_local, job_session, work_directory

PROGRAM = """
from flintstream.spark.session import get_or_create_session, job_session
spark = job_session(get_or_create_session({"spark.master": "local[1]"}))
print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
"""


def test_a_session_is_quiet_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_session_is_shared(spark: SparkSession) -> None:
    assert get_or_create_session({"spark.master": "local[7]"}).sparkContext is spark.sparkContext
    assert is_local(spark)


def test_whoever_connects_to_a_local_session_must_know_a_secret(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"


def test_a_jobs_settings_are_its_own(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    job = job_session(spark)
    assert job.conf.get("spark.sql.adaptive.enabled") == "false"
    assert spark.conf.get("spark.sql.adaptive.enabled") == before


def shuffle_files() -> set[Path]:
    return {path for path in work_directory().rglob("shuffle_*") if path.is_file()}


def test_the_files_of_an_epochs_exchanges_go_with_it(env) -> None:
    before = shuffle_files()
    numbers = DataGeneratorSource(lambda index: index, 60, RateLimiterStrategy.per_second(20), Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.key_by(lambda n: n % 7).map(lambda n: n).filter(lambda n: False).print()
    client = env.execute_async()
    client.get_job_execution_result().result()
    assert len(client.master.progress.epochs) > 3
    wait_until(lambda: shuffle_files() <= before, what="the end of all shuffle files")
