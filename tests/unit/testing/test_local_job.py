"""Whole graphs in one process: runtime and graph together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.common.output_tag import OutputTag
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import (
    CoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    SourceFunction,
)
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.graph import (
    KeyGroupPartitioner,
    OneInputTransformation,
    PartitionTransformation,
    SinkTransformation,
    StreamGraph,
    StreamGraphConfig,
    StreamGraphGenerator,
    Transformation,
)
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.testing import LocalJob, UserCodeError, run_graph_locally


def environment(parallelism: int) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    return env


def numbers(env: StreamExecutionEnvironment, last: int, strategy: WatermarkStrategy | None = None) -> Any:
    return env.from_source(NumberSequenceSource(1, last), strategy or WatermarkStrategy.no_watermarks(), "numbers")


def collected(stream: Any, **options: Any) -> list[Any]:
    """What a stream gives when its program runs locally."""
    return collecting_job(stream, **options).run().collected.get("c", [])


def collecting_job(stream: Any, **options: Any) -> LocalJob:
    transformation: Transformation = stream._transformation
    sink = SinkTransformation(transformation, "collect", CollectOperator("c"))
    env = stream.get_execution_environment()
    return LocalJob(
        StreamGraphGenerator([sink], StreamGraphConfig(parallelism=env.get_parallelism())).generate(),
        **options,
    )


class CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.total = runtime_context.get_int_counter("total")

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.total.add(1)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count, self.subtask


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("records_per_epoch", [1, 7, 20_000])
def test_a_keyed_count(parallelism: int, records_per_epoch: int) -> None:
    env = environment(parallelism)
    counts = numbers(env, 50).key_by(lambda value: value % 5).process(CountPerKey())
    job = collecting_job(counts, records_per_epoch=records_per_epoch).run()
    results = job.collected["c"]
    assert Counter(key for key, _, _ in results) == dict.fromkeys(range(5), 10)
    for wanted in range(5):
        assert [count for key, count, _ in results if key == wanted] == list(range(1, 11))
    owners = {key: subtask_for_group(key_group(key, 128), 128, parallelism) for key in range(5)}
    assert {(key, subtask) for key, _, subtask in results} == set(owners.items())
    assert job.accumulators == {"total": 50}
    assert job.epochs >= 50 / parallelism / records_per_epoch


@pytest.mark.parametrize("records_per_epoch", [1, 2, 100])
def test_epochs_do_not_change_a_single_channel(records_per_epoch: int) -> None:
    stream = numbers(environment(1), 20).map(lambda v: v * 2).filter(lambda v: v % 3 == 0)
    assert collected(stream, records_per_epoch=records_per_epoch) == [v for v in range(2, 41, 2) if v % 3 == 0]


def test_exchanges_between_different_parallelisms() -> None:
    class Where(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.subtask = runtime_context.get_index_of_this_subtask()

        def map(self, value: Any) -> Any:
            return value, self.subtask

    env = environment(2)
    stream = numbers(env, 12).rebalance().map(Where()).set_parallelism(3)
    results = collected(stream)
    assert sorted(value for value, _ in results) == list(range(1, 13))
    assert Counter(subtask for _, subtask in results) == {0: 4, 1: 4, 2: 4}
    assert {s for _, s in collected(numbers(env, 12).global_().map(Where()).set_parallelism(3))} == {0}
    broadcast = collected(numbers(env, 4).broadcast().map(Where()).set_parallelism(3))
    assert sorted(broadcast) == sorted((v, s) for v in range(1, 5) for s in range(3))
    custom = numbers(env, 6).partition_custom(lambda key, count: key % count, lambda v: v)
    assert set(collected(custom.map(Where()).set_parallelism(3))) == {(v, v % 3) for v in range(1, 7)}


def test_a_diamond_with_a_side_output_and_a_union() -> None:
    tag = OutputTag("odd", Types.LONG())

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            yield (tag, value) if value % 2 else value

    split = numbers(environment(2), 10).process(Split())
    odd = split.get_side_output(tag).map(lambda v: -v)
    even = split.key_by(lambda v: v).map(lambda v: v)
    assert sorted(collected(even.union(odd))) == [-9, -7, -5, -3, -1, 2, 4, 6, 8, 10]


def test_connected_streams_and_time() -> None:
    class Both(CoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield "left", value, ctx.timestamp()

        def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield "right", value, ctx.timestamp()

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v * 100)
    env = environment(2)
    left, right = numbers(env, 3, strategy), numbers(env, 2, strategy)
    assert sorted(collected(left.connect(right.rebalance()).process(Both()))) == [
        ("left", 1, 100),
        ("left", 2, 200),
        ("left", 3, 300),
        ("right", 1, 100),
        ("right", 2, 200),
    ]


def test_printed_lines_of_a_program() -> None:
    env = environment(1)
    env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()])).print()
    assert LocalJob(env.generate_stream_graph()).run().printed == ["(a,1)", "(b,2)"]


@pytest.mark.parametrize("records_per_epoch", [2, 100])
def test_reduce_in_both_modes(records_per_epoch: int) -> None:
    def reduced(batch_mode: bool) -> list[Any]:
        stream = numbers(environment(1), 5).key_by(lambda v: v % 2).reduce(lambda a, b: a + b)
        return collected(stream, batch_mode=batch_mode, records_per_epoch=records_per_epoch)

    assert reduced(False) == [1, 2, 4, 6, 9]
    assert sorted(reduced(True)) == [6, 9]


def test_one_function_object_in_two_operators_has_two_lives() -> None:
    function = CountPerKey()
    env = environment(1)
    first = numbers(env, 3).key_by(lambda v: 0).process(function)
    second = numbers(env, 4).key_by(lambda v: 0).process(function)
    results = collected(first.union(second))
    assert sorted(count for _, count, _ in results) == [1, 1, 2, 2, 3, 3, 4]


def test_a_source_function() -> None:
    class Slow(SourceFunction):
        def run(self, ctx: Any) -> None:
            for i in range(5):
                ctx.collect(i)
                time.sleep(0.002)

    stream = environment(1).add_source(Slow()).map(lambda v: v + 1)
    assert collected(stream) == [1, 2, 3, 4, 5]


def test_a_job_that_does_not_end_is_an_error() -> None:
    class Silent(SourceFunction):
        running = True

        def run(self, ctx: Any) -> None:
            while self.running:
                time.sleep(0.001)

        def cancel(self) -> None:
            self.running = False

    with pytest.raises(TimeoutError, match="not ended in time"):
        collecting_job(environment(1).add_source(Silent())).run(timeout=0.05)


def test_a_failure_names_the_operator_and_closes_the_rest() -> None:
    stream = numbers(environment(2), 10).map(lambda v: 1 // (v - 7)).name("Divide")
    with pytest.raises(UserCodeError, match=r"Operator 'Divide'.*ZeroDivisionError") as caught:
        collected(stream)
    assert caught.value.fault.record == "7"


def test_stepping_epoch_by_epoch() -> None:
    job = collecting_job(numbers(environment(1), 5).rebalance().map(lambda v: v), records_per_epoch=2)
    with pytest.raises(RuntimeError, match="not open"):
        job.run_epoch()
    job.open()
    assert not job.run_epoch()
    assert job.collected == {"c": [1, 2]}
    assert not job.run_epoch()
    assert job.run_epoch()
    job.close()
    assert job.collected == {"c": [1, 2, 3, 4, 5]}


def test_run_graph_locally_takes_a_graph_made_by_hand() -> None:
    from flintstream.graph import SourceTransformation
    from flintstream.runtime.operators.process import ProcessOperator
    from flintstream.runtime.operators.source import SourceOperator

    source = NumberSequenceSource(1, 6)
    read = SourceTransformation("numbers", SourceOperator(source), source, bounded=True)
    keyed = PartitionTransformation(read, KeyGroupPartitioner(lambda v: v % 2))
    count = OneInputTransformation(keyed, "count", ProcessOperator(CountPerKey(), keyed=True))
    graph: StreamGraph = StreamGraphGenerator(
        [SinkTransformation(count, "out", CollectOperator("out"))], StreamGraphConfig(parallelism=2)
    ).generate()
    results = run_graph_locally(graph)["out"]
    assert Counter(key for key, _, _ in results) == {0: 3, 1: 3}


@pytest.mark.parametrize(("declared", "kind"), [(None, "int"), (Types.DOUBLE(), "float")])
def test_a_sequence_comes_in_its_declared_type(declared: Any, kind: str) -> None:
    source = NumberSequenceSource(1, 2)
    stream = environment(1).from_source(source, WatermarkStrategy.no_watermarks(), "numbers", declared)
    assert collected(stream.map(lambda value: type(value).__name__)) == [kind, kind]


def test_messages_go_through_blocks_between_subtasks() -> None:
    job = collecting_job(numbers(environment(2), 4).key_by(lambda v: v).map(lambda v: v))
    job.open()
    job.run_epoch()
    assert {sent.slot for sent in job.sent} == {0, 1}, "both slots are addressed"
    assert all(isinstance(sent.block, bytes) for sent in job.sent)
    job.close()


class EvenAndOdd(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield (OutputTag("odd"), value) if value % 2 else value


class Many(ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from range(1 if value < 20_000 else 100)


@pytest.mark.parametrize("listened", [False, True])
def test_side_results_never_reach_the_main_output_over_many_blocks(listened: bool) -> None:
    evens = numbers(environment(1), 50_000).rebalance().process(EvenAndOdd())
    stream = evens.union(evens.get_side_output(OutputTag("odd"))) if listened else evens
    results = sorted(collected(stream))
    assert results == (list(range(1, 50_001)) if listened else list(range(2, 50_001, 2)))


def test_a_function_that_begins_to_give_many_results_loses_none() -> None:
    results = Counter(collected(numbers(environment(1), 40_000).rebalance().process(Many())))
    assert results[0] == 40_000 and results[99] == 20_001
