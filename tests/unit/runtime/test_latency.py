"""Latency markers: emitted by sources, on the way among the records, and recorded by each operator."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import SourceFunction
from flintstream.graph.partitioners import RebalancePartitioner
from flintstream.jobmaster.settings import JobSettings
from flintstream.runtime.batch import Batch
from flintstream.runtime.block import LatencyMarker, Watermark, decode_block, encode_block
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import EdgeDeployment, OperatorDeployment, VertexDeployment
from flintstream.runtime.latency import LatencyMarkers, LatencyStats, LatencyTracking
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.operators.stateless import FilterOperator, MapOperator
from flintstream.runtime.output import Output
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.task import Task
from flintstream.testing import LocalJob
from flintstream.testing.recording import Recorder

NUMBERS, LETTERS = "a" * 32, "b" * 32
EVERY_MILLISECOND = LatencyTracking(1)


class TestSettings:
    def test_it_is_off_unless_set(self):
        assert LatencyTracking.of({}) is None
        assert LatencyTracking.of({"metrics.latency.interval": "0"}) is None
        assert LatencyTracking.of({"metrics.latency.interval": "-1"}) is None

    def test_an_interval_turns_it_on(self):
        assert LatencyTracking.of({"metrics.latency.interval": "500"}) == LatencyTracking(500, "operator", 128)
        given = {
            "metrics.latency.interval": "2 s",
            "metrics.latency.granularity": "SUBTASK",
            "metrics.latency.history-size": "16",
        }
        assert LatencyTracking.of(given) == LatencyTracking(2000, "subtask", 16)

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("interval", "soon", "metrics.latency.interval"),
            ("granularity", "record", "must be one of single, operator, subtask, got 'record'"),
            ("history-size", "0", "metrics.latency.history-size must be at least 1"),
            ("intervall", "5", "There is no option 'metrics.latency.intervall'"),
        ],
    )
    def test_an_invalid_one_is_refused_before_anything_runs(self, key, value, message):
        with pytest.raises(ValueError, match=message):
            JobSettings("job", {f"metrics.latency.{key}": value}).check()

    def test_slots_know_it_but_not_in_batch_mode(self):
        given = {"metrics.latency.interval": "10 ms"}
        assert JobSettings("job", given).for_slots("f" * 32, 0, True)[0].latency == LatencyTracking(10)
        assert JobSettings("job", given, batch_mode=True).for_slots("f" * 32, 0, True)[0].latency is None

    def test_the_execution_config_sets_it(self):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.get_config().set_latency_tracking_interval(250)
        assert env.get_config().get_latency_tracking_interval() == 250
        assert LatencyTracking.of(env.get_configuration().to_dict()) == LatencyTracking(250)


class TestGranularity:
    @pytest.mark.parametrize(
        ("granularity", "found"),
        [
            ("single", {(None, None): 4}),
            ("operator", {(NUMBERS, None): 3, (LETTERS, None): 1}),
            ("subtask", {(NUMBERS, 0): 2, (NUMBERS, 1): 1, (LETTERS, 0): 1}),
        ],
    )
    def test_says_which_sources_an_operator_tells_apart(self, granularity, found):
        stats = LatencyStats("c" * 32, LatencyTracking(1, granularity), lambda: 130)
        for source, subtask in [(NUMBERS, 0), (NUMBERS, 1), (LETTERS, 0), (NUMBERS, 0)]:
            stats.record(LatencyMarker(100, source, subtask))
        reports = stats.report()
        assert {(each.source_id, each.source_subtask): each.statistics["count"] for each in reports} == found
        assert {each.operator_id for each in reports} == {"c" * 32}
        assert {each.statistics["max"] for each in reports} == {30}

    def test_the_last_latencies_are_remembered(self):
        stats = LatencyStats("c" * 32, LatencyTracking(1, history_size=2), lambda: 1000)
        for marked in (0, 900, 990):
            stats.record(LatencyMarker(marked, NUMBERS, 0))
        (report,) = stats.report()
        assert (report.statistics["max"], report.statistics["count"]) == (100, 3)


class TestSources:
    def test_emit_a_marker_every_interval(self):
        recorder, output = Recorder(False), Output("source", 2, None)
        output.add_receiver(recorder, False)
        times = [5000, 5001, 5099, 5100, 5350, 5449, 5450]
        markers = LatencyMarkers(output, LatencyTracking(100), NUMBERS, 2, iter(times).__next__)
        for _ in times:
            markers.emit_if_due()
        assert [each.marked_time for each in recorder.elements] == [5000, 5100, 5350, 5450]
        assert recorder.elements[0] == LatencyMarker(5000, NUMBERS, 2)
        assert markers.next_due == 5.55

    def test_a_clock_that_is_set_back_does_not_silence_them(self):
        recorder, output = Recorder(False), Output("source", 0, None)
        output.add_receiver(recorder, False)
        times = [900000, 10000, 10050, 10100]
        markers = LatencyMarkers(output, LatencyTracking(100), NUMBERS, 0, iter(times).__next__)
        for _ in times:
            markers.emit_if_due()
        assert [each.marked_time for each in recorder.elements] == [900_000, 10_000, 10_100]


def test_of_several_receivers_one_gets_the_marker():
    output = Output("operator", 0, None)
    recorders = [Recorder(False) for _ in range(3)]
    for recorder, tag in zip(recorders, (None, None, "late")):
        output.add_receiver(recorder, False, tag)
    for number in range(300):
        output.emit_latency_marker(LatencyMarker(number, NUMBERS, 0))
    assert sorted(each.marked_time for recorder in recorders for each in recorder.elements) == list(range(300))
    assert all(len(recorder.elements) > 50 for recorder in recorders)


def chain(now, *operators, edges=()):
    """A task with a chain of operators on a clock that says what `now` has, and the rows that it sends."""
    deployed = [
        OperatorDeployment(i, str(i) * 32, f"op {i}", each, None, {}, [(i + 1, None)] if i + 1 < len(operators) else [])
        for i, each in enumerate(operators)
    ]
    vertex = VertexDeployment(3, "chain", 1, 1, 128, deployed, list(edges), [[[0]]], [0])
    rows = []
    job = JobInfo("0" * 32, "test", latency=LatencyTracking(10))
    task = Task(vertex, 0, job, SlotServices(clock=lambda: now[0]), lambda *row: rows.append(row))
    task.open()
    return task, rows


class TestTasks:
    def test_a_marker_passes_by_the_functions_and_each_operator_records_it(self):
        seen, now = [], [130]
        edge = EdgeDeployment(1, None, RebalancePartitioner(), 9, 1, 50, [0, 1], 128, [[0, 1]])
        task, rows = chain(
            now, MapOperator(lambda x: seen.append(x) or x), FilterOperator(lambda x: True), edges=[edge]
        )
        marker = LatencyMarker(100, NUMBERS, 1)
        task.receive(0, 0, encode_block(Batch([1, 2]), [(1, marker), (2, Watermark(5))]))
        assert seen == [1, 2]
        assert [(each.operator_id[0], each.statistics["max"]) for each in task.report().latencies] == [
            ("0", 30),
            ("1", 30),
        ]
        assert task.report().records_in == 2
        assert task.buffered
        task.flush()
        assert not task.buffered
        blocks = [decode_block(row[-1]) for row in rows]
        markers = [
            (place, each) for _, controls in blocks for place, each in controls if isinstance(each, LatencyMarker)
        ]
        assert markers in ([(1, marker)], [(0, marker)]), "once, behind the first record or alone in the other channel"

    def test_a_marker_waits_for_the_records_before_it(self):
        now = [100]

        def slow(value):
            now[0] += 50
            return value

        task, _ = chain(now, MapOperator(slow), FilterOperator(lambda x: True))
        task.receive(0, 0, encode_block(Batch([1, 2]), [(2, LatencyMarker(100, NUMBERS, 0))]))
        assert [each.statistics["max"] for each in task.report().latencies] == [100, 100]

    def test_without_tracking_nothing_is_measured(self):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_sequence(1, 10).map(lambda x: x).print()
        job = LocalJob(env.generate_stream_graph(), pipelined=0)
        job.open()
        assert all(task.head.markers is None for task in job.tasks if isinstance(task.head, SourceHead))
        job.run_epoch()
        assert all(task.report().latencies == [] for task in job.tasks)
        job.close()


def counts(job):
    """How many markers each operator has recorded, over all subtasks, by its name."""
    names = {each.operator_id: each.name for task in job.tasks for each in task.vertex.operators}
    found = Counter()
    for task in job.tasks:
        for report in task.report().latencies:
            found[names[report.operator_id]] += report.statistics["count"]
    return found


@pytest.mark.parametrize("pipelined", [None, 0, 1])
def test_a_marker_reaches_every_operator_of_its_way_once(pipelined):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(3)
    stream = env.from_sequence(1, 60_000).map(lambda x: x).name("first").rebalance().map(lambda x: x).name("second")
    keyed = stream.key_by(lambda x: x % 10).map(lambda x: x).name("third")
    keyed.broadcast().map(lambda x: 1).name("fourth").filter(lambda x: False).name("fifth").print()
    job = LocalJob(
        env.generate_stream_graph(), pipelined=pipelined, latency=EVERY_MILLISECOND, records_per_epoch=2000
    ).run()
    found = counts(job)
    assert len(set(found.values())) == 1 and found["first"] >= 6, found
    assert set(found) >= {"first", "second", "third", "fourth", "fifth"}
    assert not any("Source" in name for name in found), "a source does not measure itself"


@pytest.mark.parametrize("pipelined", [None, 0])
def test_results_are_the_same_with_markers(pipelined):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    odd, even = env.from_sequence(1, 500), env.from_sequence(1, 500).map(lambda x: -x, Types.LONG())
    odd.union(even).key_by(lambda x: x % 5).reduce(lambda a, b: a + b).print()
    graph = env.generate_stream_graph()
    marked = LocalJob(graph, pipelined=pipelined, latency=LatencyTracking(1, "subtask"), records_per_epoch=50).run()
    assert len(marked.printed) == len(LocalJob(graph).run().printed) == 1000


class Silent(SourceFunction):
    """Emits some records, then nothing for a while."""

    def __init__(self, records):
        self.records = records

    def run(self, ctx):
        for record in range(self.records):
            ctx.collect(record)
        time.sleep(0.4)

    def cancel(self):
        pass


def silent_job(interval=20, records=1, **options):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_source(Silent(records)).rebalance().map(lambda x: x).name("map").print()
    return LocalJob(env.generate_stream_graph(), latency=LatencyTracking(interval), **options)


def test_a_source_without_records_emits_markers_in_a_pipelined_job():
    assert 8 <= counts(silent_job(pipelined=0).run())["map"] <= 22


@pytest.mark.parametrize("pipelined", [None, 0])
def test_the_next_marker_is_due_after_the_interval_but_no_epoch_runs_for_it_alone(pipelined):
    job = silent_job(interval=60_000, pipelined=pipelined)
    job.open()
    job.run_epoch()
    due = job.tasks[0].next_due()
    job.close()
    assert due is None if pipelined is None else 30 < due - time.time() <= 60


def test_a_source_that_is_not_read_emits_markers_by_the_clock():
    job = silent_job(interval=60_000, pipelined=0)
    job.open()
    source = job.tasks[0]
    assert source.next_due() <= time.time() and not source.buffered
    source.tick()
    assert source.next_due() > time.time() and source.buffered
    job.close()


@pytest.mark.parametrize("pipelined", [None, 0])
def test_an_epoch_without_records_has_a_marker(pipelined):
    job = silent_job(interval=60_000, records=0, pipelined=pipelined)
    job.open()
    job.run_epoch()
    assert counts(job)["map"] == 1
    job.close()


def test_a_long_epoch_has_markers_among_its_records():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_sequence(1, 100_000).rebalance().filter(lambda x: False).name("map").print()
    job = LocalJob(env.generate_stream_graph(), latency=EVERY_MILLISECOND, records_per_epoch=100_000)
    job.open()
    job.run_epoch()
    assert counts(job)["map"] >= 3
    job.close()


def test_markers_of_a_job_in_epochs_wait_for_an_epoch():
    job = silent_job().run()
    assert 1 <= counts(job)["map"] <= job.epochs <= 5


def test_the_head_of_an_iteration_is_no_source_of_markers():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    loop = env.from_sequence(1, 50).iterate()
    stepped = loop.map(lambda x: x - 1).name("step")
    loop.close_with(stepped.filter(lambda x: x > 0).name("again"))
    job = LocalJob(env.generate_stream_graph(), latency=LatencyTracking(1, "operator")).run()
    sources = {each.source_id for task in job.tasks for each in task.report().latencies}
    heads = {each.operator_id for task in job.tasks if task.vertex.iteration_head for each in task.vertex.operators}
    assert heads and len(sources) == 1 and not sources & heads
