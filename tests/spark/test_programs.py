"""Whole programs on local Spark."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from tests.processes import alive, slot_pids
from tests.waiting import wait_until

from flintstream.common import Configuration, JobStatus, Row, Types, WatermarkStrategy
from flintstream.common.accumulators import ListAccumulator
from flintstream.datastream import (
    CoMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import RichSourceFunction, SinkFunction, SourceFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.jobmaster.errors import JobExecutionError


def numbers(env, first, last, name="numbers"):
    return env.from_source(NumberSequenceSource(first, last), WatermarkStrategy.no_watermarks(), name)


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


class CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


def test_a_keyed_count_over_many_epochs_counts_every_record_once(env):
    stream = numbers(env, 0, 99_999).key_by(lambda n: n % 7).process(CountPerKey())
    results = collect(stream)
    assert len(results) == 100_000
    last = dict(results)
    assert last == {key: len(range(key, 100_000, 7)) for key in range(7)}


def test_records_of_a_channel_keep_their_order(env):
    stream = numbers(env, 0, 49_999).key_by(lambda n: n % 3).map(lambda n: n).disable_chaining()
    seen: dict[int, list[int]] = {}
    # One source subtask reads 0..24,999, the other 25,000..49,999: each of them is a channel.
    for number in collect(stream):
        seen.setdefault((number % 3, number < 25_000), []).append(number)
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 50_000


def test_a_graph_with_branches_joins_and_edges_over_levels_is_computed_once(env):
    single = numbers(env, 1, 1000)
    doubled = single.rebalance().map(lambda n: n * 2, Types.LONG())
    six_fold = doubled.rebalance().map(lambda n: n * 3, Types.LONG())
    # The union's inputs stand on levels 0, 1 and 2.
    union = single.union(doubled, six_fold).rebalance().map(lambda n: n)
    assert Counter(collect(union)) == Counter(n * factor for factor in (1, 2, 6) for n in range(1, 1001))


def test_connected_streams_see_both_inputs(env):
    class Both(CoMapFunction):
        def map1(self, value):
            return f"number {value}"

        def map2(self, value):
            return f"word {value}"

    words = env.from_collection(["a", "b"])
    assert sorted(collect(numbers(env, 1, 2).connect(words).map(Both()))) == [
        "number 1",
        "number 2",
        "word a",
        "word b",
    ]


def test_side_outputs_carry_what_the_function_sends_to_them(env):
    odd = OutputTag("odd", Types.LONG())

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            if value % 2:
                yield odd, value
            else:
                yield value

    main = numbers(env, 1, 10).process(Split(), Types.LONG())
    merged = main.map(lambda n: ("even", n)).union(main.get_side_output(odd).map(lambda n: ("odd", n)))
    assert sorted(collect(merged)) == sorted((("odd" if n % 2 else "even"), n) for n in range(1, 11))


@dataclass(frozen=True)
class Visit:
    user: str
    page: int


def test_dataclasses_are_records_and_keys(env):
    visits = [Visit("ann", 1), Visit("bob", 1), Visit("ann", 1)]
    stream = env.from_collection(visits).rebalance().map(lambda v: v).key_by(lambda v: v).map(lambda v: (v, 1))
    counts = stream.key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert dict(collect(counts)) == {Visit("ann", 1): 2, Visit("bob", 1): 1}


def test_instances_of_local_classes_travel_too(env):
    class Local:
        def __init__(self, number):
            self.number = number

    stream = numbers(env, 1, 5).map(Local).rebalance().map(lambda local: local.number)
    assert sorted(collect(stream)) == [1, 2, 3, 4, 5]


def test_batch_mode_gives_only_final_values(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = numbers(env, 1, 1000).map(lambda n: (n % 3, n)).key_by(lambda t: t[0]).sum(1)
    assert sorted(collect(stream)) == [(k, sum(n for n in range(1, 1001) if n % 3 == k)) for k in range(3)]


def test_parallelism_beyond_the_cores(env):
    env.set_parallelism(5)
    stream = numbers(env, 1, 100).key_by(lambda n: n % 10).map(lambda n: n)
    assert sorted(collect(stream)) == list(range(1, 101))


def test_slot_sharing_groups_have_slots_of_their_own(env):
    class Where(MapFunction):
        def open(self, runtime_context):
            import os

            self.pid = os.getpid()

        def map(self, value):
            return self.pid

    first = numbers(env, 1, 20).map(Where()).slot_sharing_group("other")
    second = numbers(env, 1, 20).map(Where())
    merged = first.map(lambda pid: ("other", pid)).union(second.map(lambda pid: ("default", pid)))
    seen = set(collect(merged))
    others = {pid for group, pid in seen if group == "other"}
    defaults = {pid for group, pid in seen if group == "default"}
    assert others and defaults and not others & defaults


def test_print_shows_the_subtask_in_front(env, capsys):
    env.from_collection([1, 2, 3, 4], Types.INT()).rebalance().map(lambda n: n, Types.INT()).print()
    env.execute()
    lines = sorted(capsys.readouterr().out.split())
    assert [line for line in lines if line.endswith(">")] == ["1>", "1>", "2>", "2>"]


class Numbered(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_long_counter("seen")
        self.listed = ListAccumulator()
        runtime_context.add_accumulator("listed", self.listed)

    def map(self, value):
        self.seen.add(1)
        if value < 4:
            self.listed.add(value)
        return value


def test_accumulators_are_summed_over_subtasks(env):
    numbers(env, 1, 1000).map(Numbered()).filter(lambda n: False).print()
    result = env.execute("accumulate")
    assert result.get_accumulator_result("seen") == 1000
    assert sorted(result.get_accumulator_result("listed")) == [1, 2, 3]


class FileSink(SinkFunction):
    def __init__(self, path):
        self.path = path

    def open(self, runtime_context):
        self.file = open(f"{self.path}-{runtime_context.get_index_of_this_subtask()}", "w")

    def invoke(self, value, context):
        self.file.write(f"{value}\n")

    def close(self):
        self.file.close()


def test_a_sink_function_written_in_python_is_opened_and_closed(env, tmp_path):
    numbers(env, 1, 100).add_sink(FileSink(str(tmp_path / "out")))
    env.execute()
    lines = (tmp_path / "out-0").read_text().split() + (tmp_path / "out-1").read_text().split()
    assert sorted(map(int, lines)) == list(range(1, 101))


class Ticks(RichSourceFunction):
    """Emits some numbers, waits, emits some more, ends."""

    def __init__(self, pause):
        self.pause = pause

    def run(self, ctx):
        for number in range(10):
            ctx.collect(number)
        time.sleep(self.pause)
        for number in range(10, 20):
            ctx.collect_with_timestamp(number, number)

    def cancel(self):
        pass


def test_bounded_and_unbounded_sources_mix_and_the_job_ends_by_itself(env):
    ticks = env.add_source(Ticks(0.5)).map(lambda n: ("tick", n))
    merged = ticks.union(numbers(env, 1, 1000).map(lambda n: ("number", n)))
    results = collect(merged)
    assert sorted(n for kind, n in results if kind == "tick") == list(range(20))
    assert sum(kind == "number" for kind, _ in results) == 1000


class Forever(SourceFunction):
    """Emits one record, then nothing, until it is cancelled."""

    def __init__(self):
        self.running = True

    def run(self, ctx):
        ctx.collect("only")
        while self.running:
            time.sleep(0.01)

    def cancel(self):
        self.running = False


def test_an_idle_job_runs_no_epochs_and_a_cancel_leaves_nothing_running(env):
    env.add_source(Forever()).print()
    client = env.execute_async("idle")
    master = client.master
    wait_until(lambda: master.progress.records_in == 1)
    # The epochs of the record and of what follows from it, on a busy machine a while later.
    wait_until(lambda: _idle_for(master, 1.5))
    pids = slot_pids(client)
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert not any(map(alive, pids))


def _idle_for(master, seconds):
    """Whether no epoch runs for a while."""
    epochs = master.progress.epochs[-1].epoch
    time.sleep(seconds)
    return master.progress.epochs[-1].epoch == epochs


def test_two_jobs_run_side_by_side(spark):
    results: dict[str, int] = {}

    def run(name, last):
        own = StreamExecutionEnvironment.get_execution_environment()
        own.set_parallelism(2)
        results[name] = sum(collect(numbers(own, 1, last).key_by(lambda n: n % 5).map(lambda n: n)))

    jobs = [threading.Thread(target=run, args=(f"job {last}", last)) for last in (20_000, 30_000)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert results == {f"job {last}": last * (last + 1) // 2 for last in (20_000, 30_000)}


def divide(number):
    return 100 // (number - 50)


def test_a_users_exception_comes_back_with_operator_record_and_traceback(env):
    numbers(env, 1, 100).map(lambda n: n).map(divide).name("Divide").print()
    client = env.execute_async("fails")
    with pytest.raises(JobExecutionError) as caught:
        client.get_job_execution_result().result()
    message = str(caught.value)
    assert "Operator 'Divide'" in message
    assert "Record at fault: 50" in message
    assert "return 100 // (number - 50)" in message
    assert "flintstream/runtime" not in message
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert client.get_job_status().result() is JobStatus.FAILED
    assert not any(map(alive, slot_pids(client)))


def test_an_exception_in_open_is_told_as_well(env):
    class Broken(MapFunction):
        def open(self, runtime_context):
            raise ConnectionRefusedError("no database here")

        def map(self, value):
            return value

    numbers(env, 1, 3).map(Broken()).name("Look up").print()
    with pytest.raises(JobExecutionError, match="Operator 'Look up'.*no database here"):
        env.execute()


def test_a_backlog_never_becomes_one_epoch(spark):
    configuration = Configuration()
    configuration.set_string("flint.epoch.target-duration", "500 ms")
    # Epochs of a pipelined job have no size: its sources are slowed down by credits.
    configuration.set_string("flint.transport", "epochs")
    own = StreamExecutionEnvironment.get_execution_environment(configuration)
    own.set_parallelism(2)
    numbers(own, 1, 400_000).filter(lambda n: False).print()
    client = own.execute_async()
    client.get_job_execution_result().result()
    epochs = client.master.progress.epochs
    assert len(epochs) >= 3
    assert sum(epoch.records for epoch in epochs) == 400_000


def test_an_operator_that_multiplies_its_input_does_not_hold_it_in_memory(env):
    """20 MB in, 400 MB out, in blocks: slots stay far below the size of the output."""
    stream = numbers(env, 1, 20_000).flat_map(lambda n: ("x" * 1000 for _ in range(20)))
    stream.key_by(lambda text: 1).map(len).filter(lambda length: length != 1000).print()
    client = env.execute_async()
    client.get_job_execution_result().result()
    epochs = client.master.progress.epochs
    assert max(memory for epoch in epochs for memory in epoch.memory) < 250e6


def test_rows_keep_their_names_across_an_exchange(env):
    declared = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([("ann", 31), ("bob", 27)], declared).rebalance().map(lambda row: (row.name, row.age))
    assert sorted(collect(stream)) == [("ann", 31), ("bob", 27)]
    assert collect(env.from_collection([("ann", 31)], declared)) == [Row(name="ann", age=31)]


def test_a_record_may_be_larger_than_what_sparks_jvm_has_room_for(env):
    """Its heap has 464 MB, of which the rows of an exchange get less than 100."""
    size = 120 << 20
    large = env.from_collection([1, 2]).map(lambda n: bytes([n]) * size).key_by(lambda record: record[0])
    assert sorted(collect(large.map(lambda record: (record[0], len(record), record[-1])))) == [
        (1, size, 1),
        (2, size, 2),
    ]
