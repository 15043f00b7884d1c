"""From source to sink by PyFlink; runs in an interpreter that has it (FLINT_BENCH_PYFLINK).

A checkpoint each second, bundles of at most 10 ms, and Flintstream's buffer timeout of 5 ms instead of Flink's 100 ms.

The records come as lines from a socket, since PyFlink has no source functions in Python; a map function parses them, chained
to the one that PyFlink needs for keys. As in Flintstream's program, a function behind the process function takes the arrival
time: what the way back to Java takes does not count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from pyflink.common import Types
from pyflink.datastream import DataStream, FlatMapFunction, KeyedProcessFunction

from bench.latencies import Arrived, Latencies, LineServer, Sent, age, parsed
from bench.peers import latency_arguments, report_latencies
from bench.peers.pyflink_environment import environment

BUNDLE_MILLISECONDS = 10
COLLECTED = 500
_PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])


class PassOn(KeyedProcessFunction):
    """The same function as Flintstream's."""

    def process_element(self, value: Sent, ctx: KeyedProcessFunction.Context) -> Iterable[Sent]:
        yield value


class Ages(FlatMapFunction):
    """Emits when records arrived and how long they took, many at a time: PyFlink is slow to collect results."""

    def __init__(self) -> None:
        self._arrivals: list[Arrived] = []

    def flat_map(self, value: Sent) -> Iterable[list[Arrived]]:
        self._arrivals.append(age(value))
        if len(self._arrivals) == COLLECTED:
            yield self._arrivals
            self._arrivals = []


def run(directory: Path, seconds: float, warm_up: float) -> Latencies:
    """Runs the job until the records of so many seconds have passed."""
    env = environment(
        **{
            "python.fn-execution.bundle.time": str(BUNDLE_MILLISECONDS),
            "execution.buffer-timeout.interval": "5 ms",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": directory.as_uri(),
        }
    )
    server = LineServer()
    # A method of Java's that PyFlink lacks.
    lines = DataStream(env._j_stream_execution_environment.socketTextStream("localhost", server.port))
    passed = lines.map(parsed, _PAIR).key_by(lambda record: record[0], Types.LONG()).process(PassOn(), _PAIR)
    arrivals: list[Arrived] = []
    with passed.flat_map(Ages()).execute_and_collect("latency") as results:
        for some in results:
            if not arrivals:
                server.end_after(seconds)
            arrivals += some
    return Latencies.of(arrivals, warm_up)


if __name__ == "__main__":
    given = latency_arguments()
    with tempfile.TemporaryDirectory(prefix="flint-bench-", ignore_cleanup_errors=True) as temporary:
        report_latencies(run(Path(temporary), given.seconds, given.warm_up))
