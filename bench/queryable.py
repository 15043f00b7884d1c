"""queryable: what queries of its state cost a job at full throughput, and how long they take, then and on an idle job."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.functions import KEYS, Pair, key_of, to_pair
from bench.jobs import environment, numbers
from bench.report import Result, Row
from bench.timing import MeasurementError
from flintstream.common import Configuration, Types
from flintstream.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flintstream.datastream.functions import SourceFunction
from flintstream.datastream.state import ValueStateDescriptor

RATE = 1000
CORES = 2
LEAST_RATIO = 0.95
MOST_BUSY_MS, MOST_IDLE_MS = 100.0, 20.0
_ENDLESS = 10**12
_STATE = "counts"
_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_SECONDS = 300.0


class QueryableCount(KeyedProcessFunction):
    """The running count of the other benchmarks, whose state can be queried."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable(_STATE)
        self._count = runtime_context.get_state(descriptor)

    def process_element(self, value: Pair, ctx: KeyedProcessFunction.Context) -> Iterable[Pair]:
        count = (self._count.value() or 0) + value[1]
        self._count.update(count)
        yield value[0], count


class OneOfEach(SourceFunction):
    """Emits a pair of each key, and nothing more."""

    def __init__(self) -> None:
        self._runs = True

    def run(self, ctx: Any) -> None:
        """Ends when the job is cancelled."""
        for key in range(KEYS):
            ctx.collect((key, 1))
        while self._runs:
            time.sleep(0.1)

    def cancel(self) -> None:
        """Ends `run`."""
        self._runs = False


def run(quick: bool) -> Result:
    """A job with and without queries in turns, and then an idle one."""
    seconds, rounds = (6.0, 3) if quick else (15.0, 6)
    turns: dict[bool, list[_Turn]] = {False: [], True: []}
    busy: list[float] = []
    client = 0.0
    with _job(_busy) as job, _client(job) as ask:
        _wait_for_all(job)
        _turn(job, seconds)  # Spark and the size of epochs settle.
        for _ in range(rounds):
            for asked in (False, True):
                if asked:
                    ask.send(RATE, seconds)
                turns[asked].append(_turn(job, seconds))
                if asked:
                    answer = ask.answer()
                    busy += answer["latencies"]
                    client += answer["cpu"]
    idle: list[float] = []
    with _job(_idle) as job, _client(job) as ask:
        _wait_for_all(job)
        ask.send(RATE / 10, seconds)
        idle += ask.answer()["latencies"]
    rates = {asked: [turn.rate for turn in turns[asked]] for asked in turns}
    alone, queried = statistics.median(rates[False]), statistics.median(rates[True])
    each = statistics.median(asked / free for asked, free in zip(rates[True], rates[False]))
    client /= len(busy) / RATE
    driver = _extra(turns, lambda turn: turn.driver / turn.seconds)
    # What a record costs more, as a share of the time in which slots work.
    slots = _extra(turns, lambda turn: turn.slots / turn.records) * queried
    cost = (client + driver + slots) / CORES
    rows = [
        Row("a running count, nobody asks", alone),
        Row(
            f"with {RATE:,} queries a second, from a process on the same machine",
            queried,
            ratio=each,
            least_ratio=LEAST_RATIO,
            note=f"the median of {rounds} turns",
        ),
        Row(
            "CPU time for these queries, of two cores",
            100 * cost,
            "%",
            note=f"client {client / CORES:.1%}, driver {driver / CORES:.1%}, slots {slots / CORES:.1%}",
        ),
        Row("a query then, 99th percentile", _percentile(busy), "ms", most=MOST_BUSY_MS, note=_median(busy)),
        Row("a query of an idle job, 99th percentile", _percentile(idle), "ms", most=MOST_IDLE_MS, note=_median(idle)),
    ]
    title = f"Queryable state: {KEYS:,} keys, parallelism 2"
    return Result("queryable", title, rows, {"rates": [rates[False], rates[True]], "queries": len(busy) + len(idle)})


def _percentile(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98] * 1000


def _median(latencies: list[float]) -> str:
    return f"median {statistics.median(latencies) * 1000:.1f} ms, {len(latencies):,} queries"


# --- the jobs ---


def _busy(env: StreamExecutionEnvironment) -> None:
    counts = numbers(env, _ENDLESS).map(to_pair).key_by(key_of).process(QueryableCount())
    counts.filter(lambda count: False).print()


def _idle(env: StreamExecutionEnvironment) -> None:
    env.add_source(OneOfEach()).key_by(key_of).process(QueryableCount()).filter(lambda count: False).print()


@contextmanager
def _job(define: Callable[[StreamExecutionEnvironment], None]) -> Iterator[Any]:
    env = environment()
    env.configure(Configuration.from_dict({"queryable-state.enable": "true", "queryable-state.proxy.ports": "0"}))
    define(env)
    job = env.execute_async("queryable")
    try:
        yield job
    finally:
        job.cancel().result(_PATIENCE_SECONDS)


def _wait_for_all(job: Any) -> None:
    """Waits until every key has a count."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for key in range(KEYS):
        while True:
            [answer] = job.master.queryable.answers([(_STATE, key)])
            if answer.status == "ok":
                break
            if time.monotonic() > deadline:
                raise MeasurementError(f"key {key} has no count after {_PATIENCE_SECONDS:g} s: {answer.value}")
            time.sleep(0.1)


class _Turn(NamedTuple):
    """What was measured over some whole epochs; CPU times in seconds."""

    records: int
    seconds: float
    driver: float
    slots: float

    @property
    def rate(self) -> float:
        return self.records / self.seconds


def _extra(turns: dict[bool, list[_Turn]], share: Callable[[_Turn], float]) -> float:
    """Returns by how much a share is larger with queries."""
    return statistics.median(map(share, turns[True])) - statistics.median(map(share, turns[False]))


def _turn(job: Any, seconds: float) -> _Turn:
    slots = [psutil.Process(handle.pid) for handle in job.master.attempt.pool.handles]

    def next_end() -> tuple[int, float]:
        progress = job.master.progress
        before = len(progress.epochs) and progress.epochs[-1].epoch
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not progress.epochs or progress.epochs[-1].epoch == before:
            if time.monotonic() > deadline:
                raise MeasurementError(f"an epoch has taken more than {_PATIENCE_SECONDS:g} s")
            time.sleep(0.002)
        return progress.records_in, time.perf_counter()

    def used() -> tuple[float, float]:
        return time.process_time(), sum(sum(slot.cpu_times()[:2]) for slot in slots)

    read, began = next_end()
    before = used()
    while time.perf_counter() < began + seconds:
        now_read, now = next_end()
    after = used()
    return _Turn(now_read - read, now - began, after[0] - before[0], after[1] - before[1])


# --- the client ---


class _Client:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, rate: float, seconds: float) -> None:
        """Starts to ask."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{KEYS} {rate} {seconds + 1}\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Returns what was found."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise MeasurementError("the client of the queries has ended")
        answer = json.loads(line)
        if answer["failures"]:
            raise MeasurementError(f"{len(answer['failures'])} queries have failed: {answer['failures'][0]}")
        return answer


@contextmanager
def _client(job: Any) -> Iterator[_Client]:
    host, port = job.get_queryable_state_address()
    command = [sys.executable, "-m", "bench.queryable_client", host, str(port), str(job.get_job_id()), _STATE]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _Client(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_PATIENCE_SECONDS)
