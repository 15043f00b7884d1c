"""Barriers of the pipelined transport: what a snapshot contains while records are in flight. Without Spark."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import Types
from flintstream.common.time import Duration, Time
from flintstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.async_data_stream import AsyncDataStream
from flintstream.datastream.functions import (
    AsyncFunction,
    CheckpointedFunction,
    CoMapFunction,
    MapFunction,
    SourceFunction,
)
from flintstream.datastream.window import TumblingEventTimeWindows
from flintstream.graph.stream_graph import StreamGraph
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.slot import channels
from flintstream.runtime.slot.messages import PassBarrier
from flintstream.testing import LocalJob

from .counting import Count, environment

SEEDS = range(12)


class Tens(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 10


def counted_twice(env: StreamExecutionEnvironment) -> None:
    """Counts by key behind two exchanges, with a branch that joins again."""
    numbers = env.from_sequence(1, 3000)
    odd = numbers.filter(lambda n: n % 2 == 1).rebalance().map(lambda n: n, Types.LONG()).set_parallelism(2)
    counted = numbers.union(odd).key_by(lambda n: n % 10).process(Count())
    counted.key_by(lambda pair: pair[0] % 3).process(Count()).print()


def windows(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50)).with_timestamp_assigner(Tens())
    numbers = env.from_sequence(1, 3000).assign_timestamps_and_watermarks(strategy)
    keyed = numbers.map(lambda n: (n % 3, 1)).key_by(lambda t: t[0])
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: (a[0], a[1] + b[1])).print()


def connected(env: StreamExecutionEnvironment) -> None:
    class Both(CoMapFunction):
        def map1(self, value):
            return value

        def map2(self, value):
            return -value

    left, right = env.from_sequence(1, 2000), env.from_sequence(1, 500)
    left.connect(right.broadcast()).map(Both()).key_by(lambda n: n % 7).process(Count()).print()


def asynchronous(env: StreamExecutionEnvironment) -> None:
    class Twice(AsyncFunction):
        async def async_invoke(self, value):
            return [2 * value]

    numbers = env.from_sequence(1, 1000).rebalance()
    doubled = AsyncDataStream.unordered_wait(numbers, Twice(), Time.seconds(60), 10, Types.INT())
    doubled.key_by(lambda n: n % 5).process(Count()).print()


def graph_of(program: Any, parallelism: int) -> StreamGraph:
    env = environment(parallelism)
    program(env)
    return env.generate_stream_graph()


def lines(printed: list[str]) -> Counter[str]:
    """Without the subtask, which another parallelism changes."""
    return Counter(line.rpartition("> ")[2] for line in printed)


@pytest.mark.parametrize("program", [counted_twice, windows, connected, asynchronous], ids=lambda each: each.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_restored_from_a_barrier_loses_and_doubles_nothing(program, seed, monkeypatch):
    monkeypatch.setattr(channels, "LEAST_WINDOW_BYTES", 300)
    monkeypatch.setattr(channels, "WINDOW_BYTES", 600)
    graph = graph_of(program, 3)
    whole = LocalJob(graph).run().printed
    first = LocalJob(graph, pipelined=seed, records_per_epoch=20)
    first.open()
    for _ in range(seed % 3):
        first.run_epoch()
    savepoint = first.take_savepoint()
    before = list(first.printed)
    first.run_epoch()  # What comes behind the barrier is not in the savepoint.
    first.close()
    # A broadcast has as many copies as there are subtasks, and records may be late if splits are read in another order.
    may_rescale = program in (counted_twice, asynchronous)
    other = graph_of(program, 2 if seed % 2 and may_rescale else 3)
    after = LocalJob(other, pipelined=seed + 100, restored=savepoint).run().printed
    assert lines(before + after) == lines(whole)


def test_a_savepoint_of_one_transport_is_restored_by_the_other():
    graph = graph_of(counted_twice, 2)
    whole = lines(LocalJob(graph).run().printed)
    for one, other in [(None, 7), (7, None)]:
        job = LocalJob(graph, pipelined=one, records_per_epoch=20)
        job.open()
        job.run_epoch()
        savepoint = job.take_savepoint()
        job.close()
        assert lines(job.printed + LocalJob(graph, pipelined=other, restored=savepoint).run().printed) == whole


class Numbers(SourceFunction):
    """Emits numbers until it is cancelled; one at a time, with the lock held."""

    def __init__(self) -> None:
        self.running = True

    def run(self, ctx):
        number = 0
        while self.running:
            with ctx.get_checkpoint_lock():
                ctx.collect(number)
                number += 1

    def cancel(self):
        self.running = False


def pass_barrier(job: LocalJob, halts: bool = False) -> None:
    """Lets a barrier pass through the only slot of a job."""
    [slot] = job.slots
    slot.pass_barrier(PassBarrier(halts=halts))
    while not slot.pipeline.passed:
        slot.pipeline.step()


def work(job: LocalJob, steps: int) -> int:
    """Lets the only slot work; returns how many records its sources have read meanwhile."""
    [slot] = job.slots
    heads = [task.head for task in slot.tasks if isinstance(task.head, SourceHead)]
    before = sum(head.output.records for head in heads)
    for _ in range(steps):
        slot.pipeline.step()
    return sum(head.output.records for head in heads) - before


def test_sources_go_on_behind_a_barrier_and_stop_at_one_that_halts():
    env = environment(1)
    env.add_source(Numbers()).map(lambda n: n).print()
    job = LocalJob(env.generate_stream_graph(), pipelined=0, records_per_epoch=10)
    job.open()
    job.begin_epoch()
    for halts in (False, True):
        pass_barrier(job, halts)
        assert (work(job, 1000) == 0) == halts
        job.slots[0].end_pipelined_epoch()
    job.begin_epoch()
    assert work(job, 1000) > 0, "the next epoch goes on"
    job.close()


def test_a_task_waits_at_a_barrier_for_its_requests_and_lets_others_work(tmp_path, monkeypatch):
    class Slow(AsyncFunction):
        def __init__(self, released: str) -> None:
            self.released = released

        async def async_invoke(self, value):
            while not os.path.exists(self.released):
                await asyncio.sleep(0.001)
            return [value]

    env = environment(1)
    slow = Slow(str(tmp_path / "released"))
    AsyncDataStream.ordered_wait(env.from_sequence(1, 3), slow, Time.seconds(600), 10, Types.INT()).print()
    env.add_source(Numbers()).print()
    job = LocalJob(env.generate_stream_graph(), pipelined=0, records_per_epoch=10)
    job.open()
    job.begin_epoch()
    [slot] = job.slots
    wait_until(lambda: work(job, 10) >= 0 and any(task.in_flight for task in slot.tasks), what="requests")
    slot.pass_barrier(PassBarrier())
    assert work(job, 2000) > 0, "the other source goes on"
    assert not slot.pipeline.passed, "the requests are in flight"
    (tmp_path / "released").touch()
    wait_until(lambda: work(job, 10) >= 0 and slot.pipeline.passed, what="the barrier")
    noted: list[bool] = []
    monkeypatch.setattr(slot.pipeline, "_on_activity", lambda: noted.append(True))
    slot.end_pipelined_epoch()
    assert noted, "what the other source has read behind the barrier is of the next epoch: that is not idle"
    pass_barrier(job, halts=True)
    noted.clear()
    slot.end_pipelined_epoch()
    assert not noted
    job.close()


def test_a_drained_source_ends_before_the_barrier():
    env = environment(1)
    env.add_source(Numbers()).key_by(lambda n: n % 2).process(Count()).print()
    job = LocalJob(env.generate_stream_graph(), pipelined=0)
    job.open()
    job.begin_epoch(drain=True)
    pass_barrier(job)
    assert all(report.finished for report in job.slots[0].end_pipelined_epoch().vertices)
    job.close()


def test_a_snapshot_that_fails_leaves_the_job_running():
    class Broken(MapFunction, CheckpointedFunction):
        def map(self, value):
            return value

        def initialize_state(self, context):
            pass

        def snapshot_state(self, context):
            raise ValueError("no state today")

    env = environment(2)
    env.from_sequence(1, 100).map(Broken()).print()
    job = LocalJob(env.generate_stream_graph(), pipelined=1)
    job.open()
    with pytest.raises(RuntimeError, match="no state today"):
        job.take_savepoint()
    while not job.run_epoch():
        pass
    job.close()
    assert len(job.printed) == 100
