"""Iterations run in one process: results, the end, time, and their queues in checkpoints."""

from __future__ import annotations

import pickle
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import (
    CoFlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    ProcessFunction,
    SourceFunction,
)
from flintstream.datastream.output_tag import OutputTag
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.graph import StreamGraph
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.checkpoint.metadata import Piece
from flintstream.runtime.checkpoint.pieces import read_piece
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.feedback import FedBack, FeedbackQueue
from flintstream.runtime.operators.iteration import DROPPED_RECORDS
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.testing import LocalJob

LIMIT = 10


def environment(parallelism: int) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def numbers(env: StreamExecutionEnvironment, last: int, strategy: WatermarkStrategy | None = None) -> Any:
    source = NumberSequenceSource(1, last)
    return env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def collect(stream: Any, name: str = "c") -> None:
    stream._sink(name, CollectOperator(name))


def halve(number: int) -> int:
    while number >= LIMIT:
        number //= 2
    return number


def halving(
    parallelism: int, last: int, partition: Callable[[Any], Any] = lambda stream: stream, loop_by: Any = None
) -> StreamGraph:
    """Numbers halved until they are below the limit, with the first number of each."""
    env = environment(parallelism)
    loop = numbers(env, last).map(lambda x: (x, x)).iterate().uid("loop")
    halved = (loop_by(loop) if loop_by else loop).map(
        lambda pair: (pair[0], pair[1] // 2 if pair[1] >= LIMIT else pair[1])
    )
    loop.close_with(partition(halved.filter(lambda pair: pair[1] >= LIMIT)))
    collect(halved.filter(lambda pair: pair[1] < LIMIT))
    return env.generate_stream_graph()


class Spread(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key) % num_partitions


PARTITIONINGS: dict[str, Callable[[Any], Any]] = {
    "forward": lambda stream: stream,
    "rebalance": lambda stream: stream.rebalance(),
    "shuffle": lambda stream: stream.shuffle(),
    "global": lambda stream: stream.global_(),
    "keyed": lambda stream: stream.key_by(lambda pair: pair[0]),
    "custom": lambda stream: stream.partition_custom(Spread(), lambda pair: pair[0]),
}


# --- results ---


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("records_per_epoch", [1, 7, 20_000])
def test_what_is_fed_back_comes_round_until_it_leaves_the_loop(parallelism: int, records_per_epoch: int) -> None:
    job = LocalJob(halving(parallelism, 60), records_per_epoch=records_per_epoch).run()
    assert sorted(job.collected["c"]) == [(x, halve(x)) for x in range(1, 61)]


@pytest.mark.parametrize("partitioning", PARTITIONINGS)
def test_feedback_of_any_partitioning(partitioning: str) -> None:
    job = LocalJob(halving(3, 60, PARTITIONINGS[partitioning]), records_per_epoch=5).run()
    assert sorted(job.collected["c"]) == [(x, halve(x)) for x in range(1, 61)]


def test_broadcast_feedback_reaches_every_subtask() -> None:
    env = environment(3)
    loop = numbers(env, 4).map(lambda x: (x, 0)).iterate()
    loop.close_with(loop.filter(lambda pair: pair[1] < 2).map(lambda pair: (pair[0], pair[1] + 1)).broadcast())
    collect(loop)
    found = Counter(LocalJob(env.generate_stream_graph(), records_per_epoch=1).run().collected["c"])
    assert found == Counter({(x, step): 3**step for x in range(1, 5) for step in range(3)})


def test_several_feedback_streams() -> None:
    env = environment(2)
    loop = numbers(env, 40).iterate()
    collatz = loop.map(lambda x: x, Types.LONG())
    loop.close_with(collatz.filter(lambda x: x % 2 == 0).map(lambda x: x // 2, Types.LONG()))
    loop.close_with(collatz.filter(lambda x: x % 2 == 1 and x > 1).map(lambda x: 3 * x + 1, Types.LONG()).rebalance())
    collect(collatz.filter(lambda x: x == 1))
    assert LocalJob(env.generate_stream_graph()).run().collected["c"] == [1] * 40


def test_feedback_of_a_type_of_its_own() -> None:
    class Spell(CoFlatMapFunction):
        def flat_map1(self, value: int) -> Any:
            yield "x" * value

        def flat_map2(self, value: str) -> Any:
            yield value[1:]

    env = environment(2)
    loop = numbers(env, 5).iterate().with_feedback_type(Types.STRING())
    spelt = loop.flat_map(Spell(), Types.STRING())
    loop.close_with(spelt.filter(lambda text: text != ""))
    collect(spelt)
    found = Counter(LocalJob(env.generate_stream_graph()).run().collected["c"])
    assert found == Counter("x" * left for number in range(1, 6) for left in range(number + 1))


def test_keyed_state_in_a_loop() -> None:
    class Rounds(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            seen = (self.seen.value() or 0) + 1
            self.seen.update(seen)
            yield value, seen

    env = environment(3)
    loop = numbers(env, 20).iterate()
    counted = loop.key_by(lambda x: x % 7).process(Rounds())
    loop.close_with(counted.filter(lambda pair: pair[1] < 30).map(lambda pair: pair[0], Types.LONG()))
    collect(counted)
    found = LocalJob(env.generate_stream_graph(), records_per_epoch=3).run().collected["c"]
    for key in range(7):
        seen = sorted(count for value, count in found if value % 7 == key)
        assert seen == list(range(1, len(seen) + 1)), "the state of a key is in one place"
        assert max(seen) >= 30


def test_a_side_output_is_fed_back_and_has_its_type() -> None:
    again = OutputTag("again", Types.LONG())

    class Step(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            if value > 3:
                yield again, value - 3
            else:
                yield value

    env = environment(2)
    loop = numbers(env, 30).iterate()
    left = loop.process(Step(), Types.LONG())
    loop.close_with(left.get_side_output(again))
    collect(left)
    assert Counter(LocalJob(env.generate_stream_graph()).run().collected["c"]) == {1: 10, 2: 10, 3: 10}


class Unwritable:
    """Can be copied, but not written down."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("not this one")


def test_a_record_that_cannot_be_fed_back_is_blamed_on_the_iteration() -> None:
    env = environment(1)
    loop = numbers(env, 3).map(lambda x: x).iterate()
    loop.close_with(loop.map(lambda x: Unwritable()))
    with pytest.raises(UserCodeError, match="IterationSink"):
        LocalJob(env.generate_stream_graph()).run()


# --- iterations within and after each other ---


def test_an_iteration_within_another() -> None:
    env = environment(2)
    outer = numbers(env, 25).map(lambda x: (x, 0, 0)).iterate()
    inner = outer.map(lambda r: (r[0], r[1], 0)).iterate()
    stepped = inner.map(lambda r: (r[0], r[1], r[2] + 1))
    inner.close_with(stepped.filter(lambda r: r[2] < 3))
    once_round = stepped.filter(lambda r: r[2] == 3).map(lambda r: (r[0], r[1] + 1, r[2]))
    outer.close_with(once_round.filter(lambda r: r[1] < 4).rebalance())
    collect(once_round.filter(lambda r: r[1] == 4))
    job = LocalJob(env.generate_stream_graph(), records_per_epoch=4).run()
    assert sorted(job.collected["c"]) == [(x, 4, 3) for x in range(1, 26)]


def test_an_iteration_after_another() -> None:
    env = environment(2)
    first = numbers(env, 50).iterate()
    halved = first.map(lambda x: x // 2, Types.LONG())
    first.close_with(halved.filter(lambda x: x >= 20))
    second = halved.filter(lambda x: x < 20).iterate()
    down = second.map(lambda x: x - 1, Types.LONG())
    second.close_with(down.filter(lambda x: x > 0))
    collect(down.filter(lambda x: x <= 0))
    job = LocalJob(env.generate_stream_graph(), records_per_epoch=2).run()
    assert len(job.collected["c"]) == 50


# --- the end ---


class Gated(SourceFunction):
    """Emits numbers, and stays until the test lets it end."""

    gate = threading.Event()

    def run(self, ctx: Any) -> None:
        for number in (40, 50):
            ctx.collect(number)
        Gated.gate.wait(60)

    def cancel(self) -> None:
        Gated.gate.set()


def test_a_silent_input_does_not_end_an_iteration() -> None:
    Gated.gate.clear()
    env = environment(1)
    loop = env.add_source(Gated(), "gated", Types.LONG()).iterate()
    halved = loop.map(lambda x: x // 2, Types.LONG())
    loop.close_with(halved.filter(lambda x: x >= LIMIT))
    collect(halved.filter(lambda x: x < LIMIT))
    job = LocalJob(env.generate_stream_graph())
    job.open()
    try:
        until(lambda: (job.is_due() and job.run_epoch()) or len(job.collected.get("c", ())) == 2)
        assert not any(task.finished for task in job.tasks)
        Gated.gate.set()
        until(lambda: job.is_due() and job.run_epoch())
        assert all(task.finished for task in job.tasks)
    finally:
        job.close()


def test_an_iteration_ends_after_its_waiting_time_though_its_input_goes_on() -> None:
    Gated.gate.clear()
    env = environment(1)
    loop = env.add_source(Gated(), "gated", Types.LONG()).iterate(50)
    halved = loop.map(lambda x: x // 2, Types.LONG())
    loop.close_with(halved.filter(lambda x: x >= LIMIT))
    collect(halved.filter(lambda x: x < LIMIT))
    job = LocalJob(env.generate_stream_graph())
    job.open()
    try:
        head = next(task for task in job.tasks if task.vertex.iteration_head)
        until(lambda: (job.is_due() and job.run_epoch()) or head.finished)
        assert head.finished and not all(task.finished for task in job.tasks)
        assert sorted(job.collected["c"]) == [halve(40), halve(50)]
    finally:
        Gated.gate.set()
        job.close()


class Late(SourceFunction):
    """Emits a number after the test has seen the iteration end."""

    gate = threading.Event()

    def run(self, ctx: Any) -> None:
        Late.gate.wait(60)
        ctx.collect(80)

    def cancel(self) -> None:
        Late.gate.set()


def test_what_is_fed_back_after_the_end_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    Late.gate.clear()
    env = environment(1)
    loop = env.add_source(Late(), "late", Types.LONG()).iterate(1)
    loop.close_with(loop.map(lambda x: x // 2, Types.LONG()))
    job = LocalJob(env.generate_stream_graph())
    job.open()
    try:
        head = next(task for task in job.tasks if task.vertex.iteration_head)
        until(lambda: (job.is_due() and job.run_epoch()) or head.finished)
        Late.gate.set()
        until(lambda: job.is_due() and job.run_epoch())
        groups = [group for task in job.tasks for group in task.metrics.values() if DROPPED_RECORDS in group]
        counts = [group.count_of(DROPPED_RECORDS) for group in groups]
    finally:
        job.close()
    assert counts == [1]
    assert "drops records that are fed back after the iteration has ended" in caplog.text


# --- time ---


class ByValue(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Times(KeyedProcessFunction):
    """Emits the time in which records arrive, and when a timer fires."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value + 2)
        yield "record", value, ctx.timer_service().current_watermark(), ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", timestamp, ctx.timer_service().current_watermark(), timestamp


def test_feedback_neither_holds_time_back_nor_advances_it() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByValue())
    env = environment(1)
    loop = numbers(env, 5, strategy).iterate()
    seen = loop.key_by(lambda x: 0).process(Times())
    loop.close_with(seen.filter(lambda each: each[0] == "record" and each[1] == 2).map(lambda each: 100, Types.LONG()))
    collect(seen)
    job = LocalJob(env.generate_stream_graph(), records_per_epoch=1).run()
    records = [each[1:] for each in job.collected["c"] if each[0] == "record"]
    timers = [each[1] for each in job.collected["c"] if each[0] == "timer"]
    assert sorted(records)[:5] == [(1, -(2**63), 1), (2, 0, 2), (3, 1, 3), (4, 2, 4), (5, 3, 5)]
    assert (100, 1, 2) in records or (100, 2, 2) in records, "with its timestamp; the time is that of the input"
    assert timers == [3, 4, 5, 6, 7, 102], "all fire with the end of the input"


def test_the_last_watermark_enters_the_loop_before_its_feedback_has_ended() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByValue())
    env = environment(1)
    loop = numbers(env, 1, strategy).iterate()
    seen = loop.key_by(lambda x: 0).process(Times())
    loop.close_with(seen.filter(lambda each: each[0] == "timer").map(lambda each: 50, Types.LONG()))
    collect(seen)
    job = LocalJob(env.generate_stream_graph()).run()
    assert job.collected["c"] == [
        ("record", 1, -(2**63), 1),
        ("timer", 3, MAX_WATERMARK, 3),
        ("record", 50, MAX_WATERMARK, 3),
    ], "what a timer of the end feeds back comes round; its own timer is too late, as in Flink"


# --- queues ---


def queue(tmp_path: Any, memory_bytes: int = 1 << 20) -> FeedbackQueue:
    return FeedbackQueue(lambda: str(tmp_path), memory_bytes)


def drained(feedback: FeedbackQueue) -> list[Any]:
    found = []
    while (block := feedback.take()) is not None:
        found += block.batch().values
    return found


@pytest.mark.parametrize("memory_bytes", [0, 300, 1 << 20])
def test_a_queue_keeps_the_order_in_memory_and_on_disk(tmp_path: Any, memory_bytes: int) -> None:
    feedback, expected, chance = queue(tmp_path, memory_bytes), [], random.Random(3)
    put = 0
    found: list[Any] = []
    for _ in range(200):
        if chance.random() < 0.6:
            values = list(range(put, put + chance.randrange(1, 40)))
            put += len(values)
            feedback.put(0, Batch(values, [value * 2 for value in values]))
            expected += values
        elif (block := feedback.take()) is not None:
            assert block.batch().timestamps == [value * 2 for value in block.batch().values]
            found += block.batch().values
        assert feedback.records == put - len(found)
    left = [value for block in feedback.blocks() for value in block.batch().values]
    assert found + left == expected
    assert drained(feedback) == left
    assert feedback.records == 0 and feedback.take() is None


def test_a_full_queue_frees_its_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintstream.runtime.feedback._FILE_BYTES", 1000)
    feedback = queue(tmp_path, 0)
    for start in range(0, 3000, 100):
        feedback.put(0, Batch(list(range(start, start + 100))))
    files = {block.file for block in feedback._blocks}  # type: ignore[union-attr]
    assert len(files) > 2
    assert drained(feedback) == list(range(3000))
    assert all(file._file.closed for file in files)
    assert list(tmp_path.iterdir()) == []


def test_large_batches_become_several_blocks(tmp_path: Any) -> None:
    feedback = queue(tmp_path)
    feedback.put(1, Batch(list(range(10_000)), None, list(range(10_000))))
    blocks = list(feedback.blocks())
    assert [block.records for block in blocks] == [4096, 4096, 1808] and {block.tail for block in blocks} == {1}
    assert blocks[2].batch().keys == list(range(8192, 10_000))


# --- checkpoints ---


def waiting(job: LocalJob) -> list[list[Any]]:
    """The records in the queue of each subtask."""
    heads = [task.head for task in job.tasks if task.vertex.iteration_head]
    return [
        [value for block in head._queue.blocks() for value in block.batch().values]  # type: ignore[attr-defined]
        for head in sorted(heads, key=lambda head: head.context.subtask)
    ]


@pytest.mark.parametrize("partitioning", PARTITIONINGS)
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 3), (3, 1)])
def test_a_checkpoint_in_the_middle_loses_and_doubles_nothing(partitioning: str, before: int, after: int) -> None:
    for epochs in (1, 3, 6):
        first = LocalJob(halving(before, 200, PARTITIONINGS[partitioning]), records_per_epoch=25)
        first.open()
        for _ in range(epochs - 1):
            first.run_epoch()
        taken = first.take_savepoint()
        in_flight = sorted(value for values in waiting(first) for value in values)
        assert in_flight, "otherwise this proves nothing"
        collected = list(first.collected.get("c", ()))
        first.close()
        second = LocalJob(halving(after, 200, PARTITIONINGS[partitioning]), restored=taken, records_per_epoch=25)
        second.open()
        left = waiting(second)
        assert sorted(value for values in left for value in values) == in_flight
        if partitioning == "global":
            assert not any(left[1:])
        if partitioning == "custom":
            assert all(value[0] % after == subtask for subtask, values in enumerate(left) for value in values)
        while not second.run_epoch():
            pass
        second.close()
        assert sorted(collected + second.collected["c"]) == [(x, halve(x)) for x in range(1, 201)]


def test_keyed_feedback_is_where_its_key_belongs_after_rescaling() -> None:
    class Here(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.subtask = runtime_context.get_index_of_this_subtask()

        def map(self, value: Any) -> Any:
            return (*value[:2], self.subtask, value[3] + 1)

    def graph(parallelism: int) -> StreamGraph:
        env = environment(parallelism)
        loop = numbers(env, 100).map(lambda x: (x, x % 10, -1, 0)).key_by(lambda r: r[1]).iterate().uid("loop")
        placed = loop.map(Here())
        loop.close_with(placed.filter(lambda r: r[3] < 4).key_by(lambda r: r[1]))
        collect(placed)
        return env.generate_stream_graph()

    first = LocalJob(graph(2), records_per_epoch=20)
    first.open()
    first.run_epoch()
    taken = first.take_savepoint()
    assert sum(map(len, waiting(first)))
    first.close()
    second = LocalJob(graph(3), restored=taken, records_per_epoch=20).run()
    places: dict[int, set[int]] = {}
    for _, key, subtask, _ in second.collected["c"]:
        places.setdefault(key, set()).add(subtask)
    assert all(len(found) == 1 for found in places.values()), places
    assert len(set().union(*places.values())) > 1


@pytest.mark.parametrize("after", [1, 2, 3])
def test_broadcast_feedback_is_in_every_subtask_after_rescaling(after: int) -> None:
    def graph(parallelism: int) -> StreamGraph:
        env = environment(parallelism)
        loop = numbers(env, 6).iterate().uid("loop")
        loop.close_with(loop.filter(lambda x: x < 100).map(lambda x: x + 100, Types.LONG()).broadcast())
        collect(loop)
        return env.generate_stream_graph()

    first = LocalJob(graph(2), records_per_epoch=2)
    first.open()
    taken = first.take_savepoint()
    copies = waiting(first)
    assert sorted(copies[0]) == sorted(copies[1]) != []
    first.close()
    second = LocalJob(graph(after), restored=taken)
    second.open()
    assert [sorted(values) for values in waiting(second)] == [sorted(copies[0])] * after
    second.close()


def test_a_block_of_a_tail_that_the_program_has_no_more_is_kept() -> None:
    first = LocalJob(halving(1, 50), records_per_epoch=50)
    first.open()
    taken = first.take_savepoint()
    first.close()
    for operator in taken.operators.values():
        for subtask, stored in operator.subtasks.items():
            states = {} if stored.operator is None else pickle.loads(read_piece(stored.operator, None))
            if "feedback" in states:
                elements = [pickle.loads(data) for data in states["feedback"].elements]
                states["feedback"].elements[:] = [pickle.dumps((o, p, (7, *block[1:]))) for o, p, block in elements]
                data = pickle.dumps(states)
                operator.subtasks[subtask] = replace(stored, operator=Piece(len(data), zlib.crc32(data), data))
    second = LocalJob(halving(2, 50), restored=taken).run()
    assert len(second.collected["c"]) + len(first.collected.get("c", ())) == 50


def test_blocks_remember_their_tail() -> None:
    assert FedBack.of(3, Batch([1, 2])).tail == 3


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)
