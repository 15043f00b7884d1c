"""Iterations on local Spark: savepoints with records on their way round, and the end of a job that is drained."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.waiting import wait_until

from flintstream.common import Configuration, JobStatus, Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.state import MapStateDescriptor
from flintstream.jobmaster.reporting import collect_details

pytestmark = pytest.mark.usefixtures("spark")
DONE = OutputTag("done", Types.TUPLE([Types.LONG(), Types.LONG()]))


class Rounds(KeyedProcessFunction):
    """Counts the rounds of each number; after the last one it leaves the loop."""

    def __init__(self, rounds):
        self.rounds = rounds

    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(MapStateDescriptor("rounds", Types.LONG(), Types.LONG()))
        self.entered = runtime_context.get_int_counter("entered")
        self.left = runtime_context.get_int_counter("left")

    def process_element(self, number, ctx):
        count = (self.counts.get(number) or 0) + 1
        self.entered.add(int(count == 1))
        if count < self.rounds:
            self.counts.put(number, count)
            yield number
        else:
            self.counts.remove(number)
            self.left.add(1)
            yield DONE, (number, count)


def rounds(stream, times):
    loop = stream.iterate().name("rounds").uid("loop")
    stepped = loop.key_by(lambda number: number % 7, Types.LONG()).process(Rounds(times), Types.LONG()).uid("steps")
    loop.close_with(stepped.rebalance())
    return stepped.get_side_output(DONE)


def environment(parallelism, restored=None):
    configuration = Configuration()
    if restored is not None:
        configuration.set_string("execution.state-recovery.path", restored)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)


def test_a_savepoint_holds_what_is_on_its_way_round(tmp_path):
    def run(env):
        numbers = env.from_source(NumberSequenceSource(1, 300), WatermarkStrategy.no_watermarks(), "numbers")
        return rounds(numbers.uid("numbers"), 8).execute_and_collect("rounds")

    first = run(environment(2))
    client = first.get_job_client()
    wait_until(lambda: len(client.master.progress.epochs) >= 2, what="the first rounds")
    savepoint = client.stop_with_savepoint(False, str(tmp_path)).result()
    seen = Counter(first)
    assert not seen, "all are still on their way"

    second = run(environment(3, savepoint))
    assert Counter(second) == {(number, 8): 1 for number in range(1, 301)}
    master = second.get_job_client().master
    assert master.progress.records_in == 0, "the numbers had been read before; what is fed back does not count as read"
    vertices = {vertex.name: vertex for vertex in collect_details(master).vertices}
    head, tail = vertices["IterationSource-rounds"], vertices["IterationSink-rounds"]
    assert tail.feeds_back_to == [head.vertex_id] and head.inputs == [] and head.feeds_back_to == []
    assert {subtask.status for subtask in head.subtasks} == {"FINISHED"}


def test_a_drained_job_lets_everything_come_round(tmp_path):
    env = environment(2)
    endless = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(500), Types.LONG())
    rounds(env.from_source(endless, WatermarkStrategy.no_watermarks(), "endless"), 4).print()
    client = env.execute_async("drained")
    wait_until(lambda: client.get_accumulators().result().get("left"), what="the first number that is done")
    client.stop_with_savepoint(True, str(tmp_path)).result()
    assert client.get_job_status().result() is JobStatus.FINISHED
    counted = client.get_job_execution_result().result().get_all_accumulator_results()
    assert counted["entered"] == counted["left"] > 0
