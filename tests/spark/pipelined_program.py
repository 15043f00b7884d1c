"""Pipelined jobs in a Spark of their own: each case, or those that are named, prints a line of JSON. Run by
test_pipelined.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from flintstream.common import Configuration, Types
from flintstream.datastream import KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import CheckpointedFunction, MapFunction
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flintstream.jobmaster.reporting import collect_details
from flintstream.queryable_state import QueryableStateClient, UnknownKeyOrNamespaceException

DIRECTORY = Path(sys.argv[1])
LIMIT = 300.0


def environment(parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("flint.transport", "pipelined")
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", "5")
    configuration.set_string("restart-strategy.fixed-delay.delay", "10 ms")
    configuration.set_string("execution.checkpointing.dir", (DIRECTORY / "checkpoints").as_uri())
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


class Count(KeyedProcessFunction):
    """Gives (key, how many of the key so far)."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class Numbers(SourceFunction, CheckpointedFunction):
    """Emits numbers, slowly, until a file exists; goes on where a checkpoint has left it."""

    def __init__(self, last: int, until: str | None = None) -> None:
        self.last, self.until = last, until
        self.next, self.running = 0, True

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("next", Types.INT()))
        self.next = max(self.state.get(), default=0)

    def snapshot_state(self, context):
        self.state.update([self.next])

    def run(self, ctx):
        while self.running and self.next < self.last:
            with ctx.get_checkpoint_lock():
                for _ in range(50):
                    ctx.collect(self.next)
                    self.next += 1
            time.sleep(0.01)
        while self.running and self.until is not None and not os.path.exists(self.until):
            time.sleep(0.01)

    def cancel(self):
        self.running = False


class FailOnce(MapFunction):
    """Fails with one record, the first time."""

    def __init__(self, at: int, note: Path) -> None:
        self.at, self.note = at, note

    def map(self, value):
        if value == self.at and not self.note.exists():
            self.note.touch()
            raise ValueError(f"{value} is not wanted")
        return value


def counts() -> dict:
    """A graph with two exchanges."""
    env = environment(3)
    stream = env.from_sequence(1, 20_000).rebalance().key_by(lambda n: n % 10).process(Count())
    with stream.key_by(lambda pair: pair[1] % 7).filter(lambda pair: pair[1] == 2000).execute_and_collect() as found:
        return {"found": sorted(found)}


def failure() -> dict:
    """A function fails behind a checkpoint: the counts are exact all the same."""
    env = environment(execution__checkpointing__interval="200 ms")
    numbers = env.add_source(Numbers(3000)).map(FailOnce(2000, DIRECTORY / "failed"))
    counted = numbers.key_by(lambda n: n % 10).process(Count())
    with counted.execute_and_collect() as found:
        most = Counter()
        seen = 0
        for key, count in found:
            most[key] = max(most[key], count)
            seen += 1
    return {"most": sorted(most.items()), "results": seen}


def hurt(name: str, is_victim, how: signal.Signals, **options: str) -> dict:
    """A process of the job is killed, or stalls: the job goes on from its checkpoint."""
    env = environment(execution__checkpointing__interval="200 ms", **options)
    hurt = DIRECTORY / name
    stream = env.add_source(Numbers(3000, str(hurt))).key_by(lambda n: n % 10).process(Count())
    iterator = stream.execute_and_collect()
    first = next(iter(iterator))  # A checkpoint is complete.
    victims = [process for process in psutil.Process().children(recursive=True) if is_victim(process)]
    for victim in victims:
        with suppress(psutil.NoSuchProcess):  # It may have ended with another victim.
            victim.send_signal(how)
    hurt.touch()
    found = [first, *iterator]
    return {"victims": len(victims), "results": len(found), "most": sorted(max_by_key(found).items())}


def max_by_key(pairs) -> Counter:
    most: Counter = Counter()
    for key, count in pairs:
        most[key] = max(most[key], count)
    return most


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def is_slot(process: psutil.Process) -> bool:
    return "flintstream.runtime.slot.process" in command(process) and "sh" not in process.name()


def is_worker(process: psutil.Process) -> bool:
    """Returns whether it is a worker that is connected to a slot. Others are idle, and Spark starts slots with them."""
    with suppress(psutil.Error):
        parent = process.parent()
        return (
            "pyspark.daemon" in command(process)
            and parent is not None
            and "pyspark.daemon" in command(parent)
            and any(not each.laddr for each in process.net_connections("unix"))
        )
    return False


def savepoint() -> dict:
    """A job stops with a savepoint, and goes on from it with another parallelism."""
    stop = DIRECTORY / "stop"
    env = environment(2)
    counted = (
        env.add_source(Numbers(2000, str(stop))).uid("numbers").key_by(lambda n: n % 10).process(Count()).uid("count")
    )
    seen = DIRECTORY / "seen"
    counted.map(Mark(seen)).uid("mark").filter(lambda pair: False).print()
    client = env.execute_async("stopped")
    wait_for(seen)
    path = client.stop_with_savepoint(False, str(DIRECTORY / "savepoints")).result(LIMIT)
    env = environment(3, execution__state_recovery__path=path)
    numbers = env.add_source(Numbers(3000)).uid("numbers")
    with numbers.key_by(lambda n: n % 10).process(Count()).uid("count").execute_and_collect() as found:
        return {"most": sorted(max_by_key(found).items())}


class Mark(MapFunction):
    """Creates a file with the first record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def map(self, value):
        self.path.touch()
        return value


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} has not come")
        time.sleep(0.05)


def idle_timer() -> dict:
    """A timer fires though no record comes, and the job is cancelled while it waits."""
    env = environment(2)
    fired = DIRECTORY / "fired"
    env.add_source(Numbers(50, str(DIRECTORY / "never"))).key_by(lambda n: n % 2).process(Later()).map(
        Mark(fired)
    ).print()
    client = env.execute_async("idle")
    wait_for(fired)
    client.cancel().result(LIMIT)
    return {"status": client.get_job_status().result().name}


def queries() -> dict:
    """State is queried while records come, and then of the idle job, whose epoch goes on."""
    env = environment(2, queryable_state__enable="true", queryable_state__proxy__ports="0")
    counted = env.add_source(Numbers(3000, str(DIRECTORY / "never"))).key_by(lambda n: n % 10).process(Count())
    counted.key_by(lambda pair: pair[0]).as_queryable_state("counts")
    client = env.execute_async("queries")
    seen: dict[int, list[int]] = {key: [0] for key in range(10)}
    deadline = time.monotonic() + LIMIT
    with QueryableStateClient(*client.get_queryable_state_address(), timeout=LIMIT) as asking:
        while any(counts[-1] < 300 for counts in seen.values()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the counts are {seen}")
            for key, counts in seen.items():
                try:
                    counts.append(asking.get_kv_state(client.get_job_id(), "counts", key).result(LIMIT).value()[1])
                except UnknownKeyOrNamespaceException:
                    time.sleep(0.01)
    client.cancel().result(LIMIT)
    return {"grow": all(counts == sorted(counts) for counts in seen.values()), "last": [seen[key][-1] for key in seen]}


def latency() -> dict:
    """Markers travel with the records: none is lost or doubled on the way through two exchanges."""
    env = environment(2, metrics__latency__interval="20 ms")
    counted = env.add_source(Numbers(3000)).key_by(lambda n: n % 10).process(Count()).name("count").rebalance()
    counted.filter(lambda pair: False).name("none").print()
    client = env.execute_async("latency")
    client.get_job_execution_result().result(LIMIT)
    vertices = collect_details(client.master).vertices
    names = {each.operator_id: each.name for vertex in vertices for each in vertex.operators}
    markers: Counter = Counter()
    for vertex in vertices:
        for latency in (each for subtask in vertex.subtasks for each in subtask.latencies):
            markers[names[latency.operator_id]] += latency.statistics["count"]
    return {"operators": list(markers), "equal": len(set(markers.values())) == 1}


class Later(KeyedProcessFunction):
    """Sets a timer for each key."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 300)

    def on_timer(self, timestamp, ctx):
        yield timestamp


def main() -> None:
    cases = {
        "counts": counts,
        "failure": failure,
        "killed slot": lambda: hurt("slot", is_slot, signal.SIGKILL),
        "killed workers": lambda: hurt("workers", is_worker, signal.SIGKILL),
        "stalled workers": lambda: hurt(
            "stalled", is_worker, signal.SIGSTOP, heartbeat__timeout="4 s", heartbeat__interval="1 s"
        ),
        "savepoint": savepoint,
        "idle timer": idle_timer,
        "queries": queries,
        "latency": latency,
    }
    for name in sys.argv[2:] or cases:
        print(json.dumps({"case": name, **cases[name]()}), flush=True)


if __name__ == "__main__":
    main()
