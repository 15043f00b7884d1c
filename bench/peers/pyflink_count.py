"""The running count by PyFlink; runs in an interpreter that has it (FLINT_BENCH_PYFLINK)."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

from bench.functions import KEYS, IsCount, Pair, key_of, to_pair
from bench.peers import arguments, report
from bench.peers.pyflink_environment import environment
from bench.timing import Timing

_PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class RunningCount(KeyedProcessFunction):
    """The same function as Flintstream's."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Pair, ctx: KeyedProcessFunction.Context) -> Iterable[Pair]:
        count = (self._count.value() or 0) + value[1]
        self._count.update(count)
        yield value[0], count


def run(mode: str, records: int) -> Timing:
    """Counts so many records."""
    env = environment(mode)
    numbers = env.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    last = IsCount(records // KEYS)
    counts = (
        numbers.map(to_pair, _PAIR)
        .key_by(key_of, Types.LONG())
        .process(RunningCount(), _PAIR)
        .filter(lambda pair: last(pair))
    )
    started = time.perf_counter()
    with counts.execute_and_collect("count") as results:
        found = sum(1 for _ in results)
    seconds = time.perf_counter() - started
    if found != KEYS:
        raise AssertionError(f"{found} keys reached their count, not {KEYS}")
    return Timing(records, seconds)


if __name__ == "__main__":
    given = arguments(mode=("process", "thread"))
    report(lambda records: run(given.mode, records), given)
