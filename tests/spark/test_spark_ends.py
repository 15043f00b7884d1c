"""Spark at both ends of a job: DataFrames as sources, writers as sinks."""

from __future__ import annotations

import datetime
import json

import pytest

from flintstream.common import Row, Types, WatermarkStrategy
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.connectors.spark import SparkDataFrameSource, SparkSink
from flintstream.jobmaster.errors import JobExecutionError


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


def test_a_batch_dataframe_is_a_bounded_source_of_rows(env, spark):
    frame = spark.range(0, 1000, 1, 3).selectExpr("id", "cast(id % 7 as int) AS part", "concat('n', id) AS name")
    rows = collect(env.from_spark(frame).map(lambda row: (row.id, row.part, row.name)))
    assert sorted(rows) == [(n, n % 7, f"n{n}") for n in range(1000)]


def test_a_large_dataframe_does_not_become_one_epoch(env, spark):
    frame = spark.range(0, 300_000, 1, 2)
    env.from_spark(frame).key_by(lambda row: row.id % 10).map(lambda row: row.id).filter(lambda n: False).print()
    client = env.execute_async()
    client.get_job_execution_result().result()
    epochs = client.master.progress.epochs
    assert len(epochs) > 1
    assert sum(epoch.records for epoch in epochs) == 300_000


def test_times_and_nulls_of_a_dataframe_arrive_as_python_values(env, spark):
    frame = spark.sql(
        "SELECT timestamp'2026-01-02 03:04:05.678901 UTC' AS at, date'2026-01-02' AS day, cast(null AS string) AS nothing"
    )
    assert collect(env.from_spark(frame)) == [
        Row(at=datetime.datetime(2026, 1, 2, 3, 4, 5, 678901), day=datetime.date(2026, 1, 2), nothing=None)
    ]


def test_rows_of_a_dataframe_may_be_large(env, spark):
    """A hundred of them make a block of 100 MB, which is more than Spark's JVM has room for."""
    size = 1_000_000
    frame = spark.range(0, 100, 1, 1).selectExpr("id", f"repeat(cast(id % 10 AS string), {size}) AS text")
    found = collect(env.from_spark(frame).map(lambda row: (row.id, len(row.text), row.text[-1])))
    assert sorted(found) == [(n, size, str(n % 10)) for n in range(100)]


def test_an_empty_dataframe_ends_at_once(env, spark):
    assert collect(env.from_spark(spark.range(0))) == []


def test_a_streaming_dataframe_is_bridged_batch_by_batch(env, spark, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(
            "".join(json.dumps({"n": number * 100 + i}) + "\n" for i in range(100))
        )
    frame = spark.readStream.schema("n INT").option("maxFilesPerTrigger", 1).json(str(tmp_path))
    source = SparkDataFrameSource(frame, trigger={"availableNow": True})
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    assert sorted(collect(stream.key_by(lambda row: row.n % 3).map(lambda row: row.n))) == list(range(300))


def test_a_failing_streaming_query_fails_the_job(env, spark, tmp_path):
    (tmp_path / "bad.json").write_text('{"n": "not a number"}\n')
    frame = spark.readStream.schema("n INT").option("mode", "FAILFAST").json(str(tmp_path))
    env.from_spark(frame).print()
    with pytest.raises(JobExecutionError):
        env.execute()


def test_any_spark_writer_is_a_sink(env, spark, tmp_path):
    target = str(tmp_path / "out")
    declared = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])
    numbers = env.from_source(NumberSequenceSource(1, 5000), WatermarkStrategy.no_watermarks(), "numbers")
    rows = numbers.map(lambda n: Row(n=n, text=f"t{n}"), declared)
    rows.sink_to(SparkSink(lambda frame, epoch: frame.write.mode("append").parquet(target)))
    env.execute()
    written = spark.read.parquet(target)
    assert written.columns == ["n", "text"]
    assert sorted((row.n, row.text) for row in written.collect()) == [(n, f"t{n}") for n in range(1, 5001)]


def test_a_writer_may_compute_its_frame_more_than_once(env):
    counts = []
    numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: (n, n * n)).sink_to(
        SparkSink(lambda frame, epoch: counts.append((frame.count(), frame.selectExpr("max(f1)").first()[0])))
    )
    env.execute()
    assert counts == [(100, 10_000)]


def test_a_failing_writer_fails_the_job_by_name(env):
    def write(frame, epoch):
        raise PermissionError("read-only")

    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.sink_to(SparkSink(write)).name("To the lake")
    with pytest.raises(JobExecutionError, match="To the lake.*read-only"):
        env.execute()
