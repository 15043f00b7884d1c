"""The pipelined transport without Spark: whole graphs in this process, with packs that arrive late and in any order."""

from __future__ import annotations

import math
import time
from collections import Counter

import pytest

from flintstream.common import Types
from flintstream.common.time import Duration, Time
from flintstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flintstream.datastream.async_data_stream import AsyncDataStream
from flintstream.datastream.functions import AsyncFunction, KeyedProcessFunction, SourceFunction
from flintstream.datastream.window import TumblingEventTimeWindows
from flintstream.runtime.slot import channels
from flintstream.testing import LocalJob, UserCodeError
from flintstream.testing.local_pipeline import LocalPipeline

from .counting import Count, environment

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_graph_with_branches_joins_and_several_exchanges_gives_what_epochs_give(seed):
    env = environment(3)
    numbers = env.from_sequence(1, 3000)
    counted = numbers.rebalance().map(lambda n: n * 2).key_by(lambda n: n % 10).process(Count())
    odd = numbers.filter(lambda n: n % 2 == 1).map(lambda n: ("odd", n)).set_parallelism(2)
    counted.union(odd).broadcast().filter(lambda pair: pair[1] % 100 == 0).print()
    graph = env.generate_stream_graph()
    assert Counter(LocalJob(graph, pipelined=seed).run().printed) == Counter(LocalJob(graph).run().printed)


@pytest.mark.parametrize("seed", SEEDS)
def test_full_channels_slow_the_senders_and_nothing_deadlocks(seed, monkeypatch):
    monkeypatch.setattr(channels, "LEAST_WINDOW_BYTES", 200)
    monkeypatch.setattr(channels, "WINDOW_BYTES", 400)
    env = environment(4)
    grown = env.from_sequence(1, 400).rebalance().flat_map(lambda n: [(n, i, "x" * 50) for i in range(20)])
    counted = grown.key_by(lambda t: t[1]).process(Count()).rebalance().map(lambda t: t)
    counted.key_by(lambda t: t[0]).filter(lambda t: t[1] == 400).print()
    assert len(LocalJob(env.generate_stream_graph(), pipelined=seed).run().printed) == 20


class Stalled(LocalPipeline):
    """The slots but the first do nothing for a while."""

    turns = 3000

    def _turn(self, number, pipeline):
        if number and self.turns:
            self.turns -= 1
            return True
        return super()._turn(number, pipeline)


@pytest.mark.parametrize(("window", "least", "most"), [(1000, 0, 300_000), (1 << 30, 500_000, math.inf)])
def test_what_is_in_flight_to_a_slow_slot_is_bounded_by_credits(window, least, most, monkeypatch):
    # The last block in flight may exceed the credit: it has up to 32,768 of these texts, of nine bytes each.
    monkeypatch.setattr(channels, "LEAST_WINDOW_BYTES", window)
    monkeypatch.setattr(channels, "WINDOW_BYTES", window)
    env = environment(2)
    texts = env.from_sequence(1, 300_000).map(lambda n: f"{n:08}").set_parallelism(1)
    texts.rebalance().map(lambda text: text).filter(lambda text: int(text) % 100_000 == 0).print()
    job = LocalJob(env.generate_stream_graph(), pipelined=0)
    job._transport = transport = Stalled(job.slots)
    assert len(job.run().printed) == 3
    assert least <= transport.most_in_flight <= most


@pytest.mark.parametrize("seed", SEEDS)
def test_event_time_windows_are_complete(seed):
    class Assigner(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value * 10

    env = environment(3)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50)).with_timestamp_assigner(
        Assigner()
    )
    numbers = env.from_sequence(1, 2000).assign_timestamps_and_watermarks(strategy)
    keyed = numbers.map(lambda n: (n % 3, 1)).key_by(lambda t: t[0])
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
    graph = env.generate_stream_graph()
    assert Counter(LocalJob(graph, pipelined=seed).run().printed) == Counter(LocalJob(graph).run().printed)


def test_processing_time_timers_fire_within_an_epoch_though_no_record_comes():
    class Later(KeyedProcessFunction):
        def process_element(self, value, ctx):
            self.at = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(self.at + 30)

        def on_timer(self, timestamp, ctx):
            yield time.time() * 1000 - timestamp

    class Waiting(SourceFunction):
        def run(self, ctx):
            ctx.collect(1)
            time.sleep(0.3)

        def cancel(self):
            pass

    env = environment(1)
    env.add_source(Waiting()).key_by(lambda n: n).process(Later()).print()
    job = LocalJob(env.generate_stream_graph(), pipelined=0)
    [late] = job.run().printed
    assert float(late) >= 0


def test_asynchronous_results_come_while_the_epoch_runs():
    class Twice(AsyncFunction):
        async def async_invoke(self, value):
            return [2 * value]

    env = environment(2)
    numbers = env.from_sequence(1, 100)
    AsyncDataStream.unordered_wait(numbers, Twice(), Time.seconds(60), 10, Types.INT()).print()
    printed = LocalJob(env.generate_stream_graph(), pipelined=0).run().printed
    assert sorted(int(line.rpartition(" ")[2]) for line in printed) == [2 * n for n in range(1, 101)]


def test_a_failing_function_names_operator_and_record():
    env = environment(2)
    env.from_sequence(1, 10).key_by(lambda n: n).map(lambda n: 1 // (n - 7)).name("Divide").print()
    with pytest.raises(UserCodeError, match=r"Divide.*\b7\b|\b7\b.*Divide"):
        LocalJob(env.generate_stream_graph(), pipelined=0).run()
