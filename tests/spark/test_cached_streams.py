"""Cached streams: computed by the first job that needs them, read by later ones."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import MapFunction, OutputTag, ProcessFunction, RuntimeExecutionMode
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.jobmaster.errors import JobExecutionError
from flintstream.jobmaster.source_factory import SourceFactory


class Counted(MapFunction):
    """Adds a line to a file for each record."""

    def __init__(self, path):
        self.path = str(path)

    def open(self, runtime_context):
        self.file = open(f"{self.path}-{runtime_context.get_index_of_this_subtask()}", "a")

    def map(self, value):
        self.file.write(f"{value}\n")
        return value * 10

    def close(self):
        self.file.close()


def calls(path):
    return [int(line) for each in path.parent.glob(f"{path.name}-*") for line in each.read_text().split()]


def numbers(env, last):
    return env.from_source(NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "numbers")


def collected(stream):
    with stream.execute_and_collect() as records:
        return sorted(records)


def stored_rdds():
    context = SparkSession.getActiveSession().sparkContext
    return {info.id() for info in context._jsc.sc().getRDDStorageInfo()}


@pytest.fixture
def batch(env):
    env.set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    yield env
    env.close()


def test_the_operators_before_a_cache_run_once_for_all_jobs_until_it_is_invalidated(batch, tmp_path):
    seen = tmp_path / "seen"
    cached = numbers(batch, 9_000).map(Counted(seen), Types.LONG()).cache()
    everything = [10 * n for n in range(1, 9_001)]
    assert collected(cached.map(lambda n: n + 1)) == [n + 1 for n in everything]
    assert sorted(calls(seen)) == [*range(1, 9_001)]
    before = stored_rdds()

    assert collected(cached) == everything
    totals = cached.key_by(lambda n: n % 20, Types.LONG()).sum()
    assert collected(totals)[-1] in (sum(everything[::2]), sum(everything[1::2]))
    assert collected(cached.union(numbers(batch, 3)))[:3] == [1, 2, 3]
    assert sorted(calls(seen)) == [*range(1, 9_001)]

    cached.invalidate()
    assert len(before - stored_rdds()) == 1
    assert collected(cached) == everything
    assert collected(cached) == everything
    assert sorted(calls(seen)) == sorted([*range(1, 9_001)] * 2)
    before = stored_rdds()
    batch.close()
    assert len(before - stored_rdds()) == 1


class Described(ProcessFunction):
    """Subtask, number, length and timestamp of each record."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        yield self.subtask, int(value[:5]), len(value), ctx.timestamp()


def test_records_keep_their_timestamps_subtasks_and_order_however_large_they_are(batch, monkeypatch):
    monkeypatch.setattr("flintstream.jobmaster.cache_writers.STORED_PAGES", 1)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, before: n * 1000)
    stream = batch.from_collection([*range(40)]).assign_timestamps_and_watermarks(timed).rebalance()
    # Two of them are sent in fragments, of a megabyte each.
    cached = stream.map(lambda n: f"{n:05}" + "x" * (1_500_000 if n in (20, 21) else n)).cache()
    expected = [(n, 5 + (1_500_000 if n in (20, 21) else n), n * 1000) for n in range(40)]
    computed, read = [list(cached.process(Described()).execute_and_collect()) for _ in range(2)]
    assert sorted(each[1:] for each in computed) == sorted(each[1:] for each in read) == expected
    for subtask in range(2):
        assert [each for each in read if each[0] == subtask] == [each for each in computed if each[0] == subtask] != []


def test_records_that_spark_has_lost_are_computed_again(batch, tmp_path):
    seen = tmp_path / "seen"
    cached = numbers(batch, 50).map(Counted(seen), Types.LONG()).cache()
    assert len(collected(cached)) == 50
    SparkSession.getActiveSession().catalog.clearCache()
    assert collected(cached) == [10 * n for n in range(1, 51)]
    assert sorted(calls(seen)) == sorted([*range(1, 51)] * 2)


def test_a_job_before_whose_first_epoch_they_are_lost_is_run_again(batch, tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    cached = numbers(batch, 50).map(Counted(seen), Types.LONG()).cache()
    assert len(collected(cached)) == 50
    hold = SourceFactory.hold

    def losing(factory, graph):
        hold(factory, graph)
        SparkSession.getActiveSession().catalog.clearCache()

    monkeypatch.setattr(SourceFactory, "hold", losing)
    cached.map(Counted(tmp_path / "read"))
    batch.execute()
    assert sorted(calls(tmp_path / "read")) == [10 * n for n in range(1, 51)]
    assert sorted(calls(seen)) == sorted([*range(1, 51)] * 2)


def test_a_job_that_fails_fills_no_cache(batch, tmp_path):
    seen = tmp_path / "seen"
    before = stored_rdds()
    cached = numbers(batch, 50).map(Counted(seen), Types.LONG()).cache()
    cached.map(lambda n: 1 // 0)
    with pytest.raises(JobExecutionError, match="division"):
        batch.execute()
    assert stored_rdds() == before
    assert len(collected(cached)) == 50
    assert sorted(calls(seen)) != [*range(1, 51)]


def test_a_running_job_reads_a_cache_that_is_invalidated_meanwhile(batch, tmp_path):
    cached = numbers(batch, 50).cache()
    assert len(collected(cached)) == 50
    results = cached.execute_and_collect()
    cached.invalidate()
    assert len(list(results)) == 50


def test_streaming_mode_reads_a_filled_cache_and_fills_none(batch, tmp_path):
    seen = tmp_path / "seen"
    stream = numbers(batch, 50).map(Counted(seen), Types.LONG())
    cached = stream.cache()
    batch.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert len(collected(cached)) == len(collected(cached)) == 50
    assert len(calls(seen)) == 100
    batch.set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert len(collected(cached)) == 50
    assert len(calls(seen)) == 150
    batch.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert len(collected(cached)) == 50
    assert len(calls(seen)) == 150


def test_a_side_output_is_cached(batch, tmp_path):
    odd = OutputTag("odd", Types.LONG())

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            if value % 2:
                yield odd, value
            else:
                yield value

    cached = numbers(batch, 10).process(Split(), Types.LONG()).get_side_output(odd).cache()
    assert collected(cached) == collected(cached) == [1, 3, 5, 7, 9]
