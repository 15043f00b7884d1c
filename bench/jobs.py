"""The Flintstream programs that are measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from bench.functions import (
    KEYS,
    MANY_KEYS,
    IsCount,
    IsSomeCount,
    Pair,
    add,
    add_one,
    double,
    is_rare,
    key_of,
    minus_seven,
    not_third,
    to_one_of_many,
    to_pair,
)
from bench.timing import Timing
from flintstream.common import Configuration, Types, WatermarkStrategy
from flintstream.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.state import ValueStateDescriptor

PARALLELISM = 2


class RunningCount(KeyedProcessFunction):
    """Counts the records of each key, and says the count after each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Pair, ctx: KeyedProcessFunction.Context) -> Iterable[Pair]:
        count = (self._count.value() or 0) + value[1]
        self._count.update(count)
        yield value[0], count


def environment(parallelism: int = PARALLELISM, **settings: str) -> StreamExecutionEnvironment:
    """An environment with the parallelism of all benchmarks, or another one; dots in the keys of settings are double
    underscores.
    """
    given = {key.replace("__", "."): value for key, value in settings.items()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    env.set_parallelism(parallelism)
    return env


def numbers(env: StreamExecutionEnvironment, records: int) -> DataStream:
    """The numbers from 0."""
    return env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")


def keyed_pairs(env: StreamExecutionEnvironment, records: int) -> KeyedStream:
    """Pairs of a key and a one, by key."""
    return numbers(env, records).map(to_pair).key_by(key_of)


def run_process_count(records: int, env: StreamExecutionEnvironment | None = None) -> Timing:
    """The running count by a process function with a value state."""
    counts = keyed_pairs(env or environment(), records).process(RunningCount())
    return _checked_count(counts, records)


def run_many_keys_count(records: int) -> Timing:
    """The running count by a process function, of MANY_KEYS."""
    pairs = numbers(environment(), records).map(to_one_of_many).key_by(key_of)
    timing, results = _timed(pairs.process(RunningCount()).filter(IsSomeCount(records // MANY_KEYS)), records)
    _check_some(results, MANY_KEYS)
    return timing


def run_reduce_count(records: int) -> Timing:
    """The running count by `reduce`."""
    return _checked_count(keyed_pairs(environment(), records).reduce(add), records)


def run_chain(records: int) -> Timing:
    """Five maps and filters on integers."""
    stream = numbers(environment(), records).map(add_one).filter(not_third).map(double).map(minus_seven).filter(is_rare)
    timing, results = _timed(stream, records)
    expected = _chain_results(records)
    if len(results) != expected:
        raise AssertionError(f"the chain let {len(results)} of {records} records through, not {expected}")
    return timing


def _chain_results(records: int) -> int:
    """How many numbers pass: the chain turns n into 2n - 5, and keeps odd multiples of 100,003."""
    return sum(1 for value in range(100_003, 2 * records - 6, 200_006) if not_third((value + 7) // 2))


def _checked_count(counts: DataStream, records: int) -> Timing:
    timing, results = _timed(counts.filter(IsCount(records // KEYS)), records)
    if sorted(result[0] for result in results) != list(range(KEYS)):
        raise AssertionError(f"of {records} records {len(results)} keys reached their count, not {KEYS}")
    return timing


def _check_some(results: list[Any], keys: int) -> None:
    if sorted(result[0] for result in results) != list(range(0, keys, 1000)):
        raise AssertionError(f"{len(results)} keys gave their result, not {keys // 1000}")


def _timed(stream: DataStream, records: int) -> tuple[Timing, list[Any]]:
    started = time.perf_counter()
    with stream.execute_and_collect("bench") as iterator:
        results = list(iterator)
    return Timing(records, time.perf_counter() - started), results
