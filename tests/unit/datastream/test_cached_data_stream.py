"""Cached streams: what becomes of them in graphs, and who owns the records."""

from __future__ import annotations

import pickle

import pytest

from flintstream.common import Types
from flintstream.datastream import RuntimeExecutionMode
from flintstream.graph.transformations import InvalidProgramException
from flintstream.runtime.block import decode_block
from flintstream.runtime.operators.cache import CacheOperator, StreamCache
from flintstream.testing.harness import OneInputOperatorHarness


class Records:
    """Records in a Spark that the test plays."""

    parallelism = 3

    def __init__(self):
        self.users = 1
        self.lost = False

    def stored(self):
        assert self.users > 1  # Nobody may remove them meanwhile.
        return not self.lost

    def retain(self):
        self.users += 1

    def release(self):
        self.users -= 1


def nodes(env, clear=False):
    return {node.name: node.parallelism for node in env.generate_stream_graph(clear).nodes.values()}


def cached(env):
    env.set_parallelism(1)
    stream = env.from_collection([1]).map(lambda n: n, Types.LONG()).set_parallelism(2)
    return stream.cache()


def test_batch_mode_writes_a_stream_into_its_cache_with_the_parallelism_of_its_operator(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    cached(env).print()
    assert nodes(env) == {"Source: Collection Source": 1, "Map": 2, "CacheWrite": 2, "Sink: Print to Std. Out": 1}


def test_a_stream_that_nobody_reads_is_not_cached(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    cached(env)
    assert nodes(env) == {"Source: Collection Source": 1, "Map": 2}


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.AUTOMATIC])
def test_streaming_mode_fills_no_cache(env, mode):
    from flintstream.datastream.functions import SourceFunction

    class Endless(SourceFunction):
        def run(self, ctx):
            ctx.collect(1)

    env.set_runtime_mode(mode)
    cached(env).union(env.add_source(Endless(), type_info=Types.LONG())).print()
    assert "CacheWrite" not in nodes(env)


def test_a_filled_cache_replaces_the_operators_before_it_until_it_is_invalidated_or_lost(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = cached(env)
    env.generate_stream_graph(True)
    stream.filter(lambda n: n > 0)
    records = Records()
    stream._cache.fill(records)
    assert nodes(env) == {"Source: CacheRead": 3, "Filter": 1}
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert nodes(env) == {"Source: CacheRead": 3, "Filter": 1}
    records.lost = True
    assert nodes(env) == {"Source: Collection Source": 1, "Map": 2, "Filter": 1}
    assert records.users == 0
    again = Records()
    stream._cache.fill(again)
    stream.invalidate()
    stream.invalidate()
    assert again.users == 0
    assert "Map" in nodes(env)


def test_closing_the_environment_invalidates_its_caches(env):
    stream, records = cached(env), Records()
    stream._cache.fill(records)
    env.close()
    assert records.users == 0


def test_of_two_jobs_that_fill_a_cache_the_first_wins_and_readers_retain_what_they_read():
    cache, first, second = StreamCache(), Records(), Records()
    cache.fill(first)
    cache.fill(second)
    assert (first.users, second.users) == (1, 0)
    assert cache.records() is first
    cache.invalidate()
    assert first.users == 1
    assert cache.records() is None


def test_settings_belong_before_the_cache_and_virtual_streams_cannot_be_cached(env):
    stream = cached(env)
    for change in (
        lambda: stream.name("x"),
        lambda: stream.set_parallelism(2),
        stream.get_name,
        lambda: stream.uid("x"),
    ):
        with pytest.raises(InvalidProgramException, match="before cache"):
            change()
    numbers = env.from_collection([1])
    for virtual in (numbers.union(numbers), numbers.rebalance()):
        with pytest.raises(InvalidProgramException, match="output of an operator"):
            virtual.cache()
    with pytest.raises(InvalidProgramException, match="keyed stream"):
        numbers.key_by(lambda n: n).cache()
    assert numbers.map(lambda n: n, Types.LONG()).cache().get_type() == Types.LONG()


def test_the_operator_spools_blocks_with_timestamps():
    operator = pickle.loads(pickle.dumps(CacheOperator(StreamCache())))
    assert operator.cache is None
    with OneInputOperatorHarness(operator) as harness:
        harness.process_element("a", 5)
        harness.process_element("b", 7)
        harness.end_epoch()
        spool = harness.operator.context.services.sealed[operator.spool_name]
        batch, controls = decode_block(spool.page(0))
    assert (batch.values, batch.timestamps, batch.keys, controls) == (["a", "b"], [5, 7], None, None)
