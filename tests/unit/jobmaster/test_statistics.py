"""The metrics of a job, from hand-made reports of its slots."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flintstream.graph import RebalancePartitioner
from flintstream.jobmaster.statistics import JobStatistics
from flintstream.metrics import MetricValue
from flintstream.runtime.batch import MIN_WATERMARK
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.latency import LatencyReport
from flintstream.runtime.slot.protocol import EpochReport, OperatorReport, VertexReport
from flintstream.runtime.source import SourceTiming

from ..graph.programs import by, execution_graph, op, sink, source

WALL = 1_800_000_000.0


class Job:
    """A job with a source and a sink, on a clock of its own."""

    def __init__(self, parallelism: int = 1) -> None:
        self.now = 100.0
        mapped = op(by(source(parallelism=parallelism), RebalancePartitioner()), parallelism=parallelism)
        self.graph = execution_graph(sink(mapped, parallelism=parallelism))
        deployment = JobDeployment.of(self.graph)
        self.ids = [[each.operator_id for each in vertex.operators] for vertex in deployment.vertices]
        self.statistics = JobStatistics(
            self.graph, deployment, lambda: 77, lambda: self.now, lambda: WALL + self.now - 100.0
        )

    def epoch(self, seconds: float, *vertices: VertexReport, idle: float = 0.0) -> None:
        """Runs an epoch after some idle seconds."""
        self.now += idle
        self.statistics.begin_epoch()
        self.now += seconds
        reports = [EpochReport(frozenset(), list(vertices), {}, {}, None, {}, 1000)]
        self.statistics.epoch(seconds, reports)

    def task(self, vertex_id: int = 0, index: int = 0) -> dict[str, Any]:
        return self.statistics.subtask(vertex_id, index).task


def read(records: int, **more: Any) -> VertexReport:
    return VertexReport(0, 0, records, records, False, **more)


@pytest.fixture
def job() -> Job:
    return Job()


class TestCounts:
    def test_a_subtask_that_has_not_reported_has_zeros(self, job):
        task, operators, user, latencies = job.statistics.subtask(1, 0)
        assert (task["numRecordsIn"], task["numRecordsInPerSecond"], task["idleTimeMsPerSecond"]) == (0, 0, 1000)
        assert (operators, user, latencies) == ({}, [], [])

    def test_counts_are_those_of_the_last_report(self, job):
        job.epoch(1.0, read(10, bytes_out=100))
        job.epoch(1.0, read(30, bytes_out=300))
        task = job.task()
        assert (task["numRecordsIn"], task["numRecordsOut"], task["numBytesIn"], task["numBytesOut"]) == (
            30,
            30,
            0,
            300,
        )

    def test_a_new_attempt_counts_from_zero(self, job):
        job.epoch(1.0, read(10, busy=0.5))
        job.statistics.end_attempt()
        job.statistics.begin_attempt()
        assert job.task()["numRecordsIn"] == 0
        job.epoch(1.0, read(4, busy=0.25))
        task = job.task()
        assert (task["numRecordsIn"], task["accumulateBusyTimeMs"], task["busyTimeMsPerSecond"]) == (4, 250, 250)
        assert job.statistics.job_metrics()["numEpochs"] == 2, "which counts all attempts"

    def test_what_operators_do_when_they_are_closed_counts(self, job):
        job.epoch(1.0, read(10))
        closed = EpochReport(frozenset(), [read(12)], {}, {}, None, {}, 1000)
        job.statistics.close([closed])
        assert job.task()["numRecordsIn"] == 12
        assert job.statistics.job_metrics()["numEpochs"] == 1


class TestRates:
    def test_records_of_an_epoch_are_spread_over_it(self, job):
        job.epoch(2.0, read(1000))
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(500)

    def test_a_rate_covers_ten_seconds(self, job):
        for epoch in range(1, 31):
            job.epoch(1.0, read(100 * epoch if epoch <= 20 else 2000 + 10 * (epoch - 20)))
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(10)

    def test_a_long_epoch_counts_by_its_share_of_the_window(self, job):
        job.epoch(20.0, read(2000))
        job.epoch(5.0, read(2000))
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(50), "five of ten seconds at 100"

    def test_an_idle_job_falls_to_zero(self, job):
        job.epoch(1.0, read(100))
        job.now += 5
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(100 / 6)
        job.now += 5
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(0, abs=1e-9)

    def test_records_after_a_pause_are_not_spread_over_it(self, job):
        job.epoch(1.0, read(100))
        job.epoch(1.0, read(200), idle=30.0)
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(10)
        job.now += 10
        assert job.task()["numRecordsInPerSecond"] == 0

    def test_while_an_epoch_runs_the_rates_stay(self, job):
        job.epoch(1.0, read(100))
        job.statistics.begin_epoch()
        job.now += 60
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(100)
        assert job.statistics.job_metrics()["currentEpochDurationMs"] == 60_000

    def test_many_short_epochs_need_few_samples(self, job):
        for epoch in range(1, 1001):
            job.epoch(0.02, read(epoch), idle=0.01)
        assert len(job.statistics._samples) < 50
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(1000 / 30, rel=0.01)


class TestTimes:
    def test_busy_back_pressured_and_idle_are_a_whole(self, job):
        job.epoch(1.0, read(100, busy=0.2, blocked=0.1, held_back=True), VertexReport(1, 0, 100, 0, False, busy=0.5))
        source_task, sink_task = job.task(0), job.task(1)
        assert source_task["busyTimeMsPerSecond"] == 200
        assert source_task["hardBackPressuredTimeMsPerSecond"] == 100
        assert source_task["softBackPressuredTimeMsPerSecond"] == 500
        assert source_task["backPressuredTimeMsPerSecond"] == 600
        assert source_task["idleTimeMsPerSecond"] == 200
        assert source_task["isBackPressured"]
        assert source_task["accumulateBackPressuredTimeMs"] == 600
        assert source_task["accumulateIdleTimeMs"] == 200
        assert (sink_task["busyTimeMsPerSecond"], sink_task["backPressuredTimeMsPerSecond"]) == (500, 0)
        assert sink_task["idleTimeMsPerSecond"] == 500

    def test_back_pressure_is_never_longer_than_the_epoch(self, job):
        job.epoch(1.0, read(100, busy=0.7, held_back=True), VertexReport(1, 0, 100, 0, False, busy=0.9))
        task = job.task()
        assert (task["busyTimeMsPerSecond"], task["backPressuredTimeMsPerSecond"]) == (700, 300)

    def test_a_skewed_subtask_holds_back_what_is_before_it_and_not_its_neighbour(self):
        job = Job(parallelism=2)
        first = [VertexReport(0, index, 50, 50, False, busy=0.05, held_back=index == 0) for index in (0, 1)]
        second = [VertexReport(1, index, 50, 0, False, busy=busy) for index, busy in enumerate((0.1, 0.9))]
        job.epoch(1.0, *first, *second)
        assert [job.task(0, index)["backPressuredTimeMsPerSecond"] for index in (0, 1)] == [900, 900]
        assert [job.task(1, index)["busyTimeMsPerSecond"] for index in (0, 1)] == [100, 900]
        assert [job.task(1, index)["idleTimeMsPerSecond"] for index in (0, 1)] == [900, 100]

    def test_an_idle_job_is_idle(self, job):
        job.epoch(1.0, read(100, busy=0.9, held_back=True), VertexReport(1, 0, 100, 0, False, busy=0.1))
        job.now += 30
        for vertex in (0, 1):
            task = job.task(vertex)
            assert (task["busyTimeMsPerSecond"], task["idleTimeMsPerSecond"]) == (0, 1000)
        assert not job.task()["isBackPressured"]

    def test_a_source_that_the_driver_knows_to_have_more_is_held_back_too(self, job):
        job.statistics.begin_epoch()
        job.now += 1
        vertices = [read(1), VertexReport(1, 0, 1, 0, False, busy=0.5)]
        job.statistics.epoch(1.0, [EpochReport(frozenset(), vertices, {}, {}, None, {}, 0)], held_back=[0])
        assert job.task()["backPressuredTimeMsPerSecond"] == 500

    def test_idle_time_ends_with_the_attempt(self, job):
        job.epoch(1.0, read(100))
        job.statistics.end_attempt()
        job.now += 100
        assert job.task()["accumulateIdleTimeMs"] == 1000


class TestMeasuring:
    """What is known while an epoch runs for long, or nobody has anything to do."""

    def test_a_long_epoch_is_measured_and_its_end_counts_once(self, job):
        job.epoch(1.0, read(100))
        job.statistics.begin_epoch()
        job.now += 4
        slow = VertexReport(1, 0, 5, 0, False, busy=3.5)
        job.statistics.measure(lambda: [read(500, held_back=True, busy=0.1), slow])
        assert job.task()["numRecordsIn"] == 500
        assert job.task()["numRecordsInPerSecond"] == pytest.approx(100)
        assert job.task()["accumulateBackPressuredTimeMs"] == 3500
        assert job.task(1)["accumulateBusyTimeMs"] == 3500
        assert job.task(1)["busyTimeMsPerSecond"] == 700
        job.now += 1
        slow = VertexReport(1, 0, 9, 0, False, busy=4.5)
        reports = [EpochReport(frozenset(), [read(500, held_back=True, busy=0.1), slow], {}, {}, None, {}, 0)]
        job.statistics.epoch(5.0, reports)
        assert job.task()["numRecordsIn"] == 500
        assert job.task()["accumulateBackPressuredTimeMs"] == 4500
        assert job.statistics.job_metrics()["lastEpochRecords"] == 400

    def test_at_most_once_a_second_and_not_before_the_first_epoch(self, job):
        asked = []
        job.now += 10
        job.statistics.measure(lambda: asked.append("too early"))
        job.epoch(1.0, read(1))
        job.statistics.measure(lambda: asked.append("too soon"))
        job.now += 1
        job.statistics.measure(lambda: asked.append("first"))
        job.statistics.measure(lambda: asked.append("again"))
        job.now += 1
        job.statistics.measure(lambda: asked.append("second"))
        job.statistics.end_attempt()
        job.now += 1
        job.statistics.measure(lambda: asked.append("after the end"))
        assert asked == ["first", "second"]

    def test_an_idle_job_shows_new_values_of_its_metrics(self, job):
        (numbers,) = job.ids[0]
        job.epoch(1.0, read(1, metrics={numbers: [MetricValue("load", "gauge", 1, {}, "load")]}))
        job.now += 2
        job.statistics.measure(lambda: [read(1, metrics={numbers: [MetricValue("load", "gauge", 2, {}, "load")]})])
        assert [metric.value for metric in job.statistics.subtask(0, 0).user] == [2]

    def test_an_answer_from_before_the_end_of_an_epoch_is_dropped(self, job):
        job.epoch(1.0, read(100))
        job.statistics.begin_epoch()
        job.now += 2

        def late():
            vertices = [read(300)]
            job.statistics.epoch(2.0, [EpochReport(frozenset(), vertices, {}, {}, None, {}, 0)])
            return [read(200)]

        job.statistics.measure(late)
        assert job.task()["numRecordsIn"] == 300


class TestOperators:
    def test_each_has_its_counts_and_watermarks(self, job):
        mapped, printed = job.ids[1]
        operators = (
            OperatorReport(mapped, 100, 40, 5, 4, late_records=2),
            OperatorReport(printed, 40, 0, 4, MIN_WATERMARK),
        )
        job.epoch(1.0, VertexReport(1, 0, 100, 0, False, input_watermark=5, operators=operators))
        task, found, _, _ = job.statistics.subtask(1, 0)
        assert task["currentInputWatermark"] == 5
        assert found[mapped] == {
            "numRecordsIn": 100,
            "numRecordsInPerSecond": pytest.approx(100),
            "numRecordsOut": 40,
            "numRecordsOutPerSecond": pytest.approx(40),
            "currentInputWatermark": 5,
            "currentOutputWatermark": 4,
            "numLateRecordsDropped": 2,
        }
        assert found[printed]["numRecordsSend"] == 40
        assert "numLateRecordsDropped" not in found[printed]

    def test_a_source_has_its_lags_and_no_input_watermark(self, job):
        (numbers,) = job.ids[0]
        operators = (OperatorReport(numbers, 10, 10, 1, int(WALL * 1000) - 2000),)
        timing = SourceTiming(int(WALL * 1000), fetch_lag=30, emit_lag=40)
        registered = [
            MetricValue("pendingRecords", "gauge", 6, {}, "pendingRecords"),
            MetricValue("mine", "counter", 1, {}, "mine"),
        ]
        job.epoch(1.0, read(10, operators=operators, timing=timing, metrics={numbers: registered}))
        task, found, user, _ = job.statistics.subtask(0, 0)
        assert "currentInputWatermark" not in task
        assert found[numbers] == {
            "numRecordsIn": 10,
            "numRecordsInPerSecond": pytest.approx(10),
            "numRecordsOut": 10,
            "numRecordsOutPerSecond": pytest.approx(10),
            "currentOutputWatermark": int(WALL * 1000) - 2000,
            "watermarkLag": 3000,
            "sourceIdleTime": 1000,
            "currentFetchEventTimeLag": 30,
            "currentEmitEventTimeLag": 40,
            "pendingRecords": 6,
        }
        assert [metric.name for metric in user] == ["mine"]

    def test_latencies_are_those_of_the_last_report(self, job):
        def tracked(source, median):
            mapped = job.ids[1][0]
            return VertexReport(1, 0, 0, 0, False, latencies=[LatencyReport(mapped, source, None, {"median": median})])

        (numbers,), (mapped, _) = job.ids
        job.epoch(1.0, read(1), tracked(numbers, 7.0))
        job.statistics.begin_epoch()
        job.now += 2
        job.statistics.measure(lambda: [read(2), tracked(numbers, 9.0)])
        (latency,) = job.statistics.subtask(1, 0).latencies
        assert (latency.operator_id, latency.subtask, latency.statistics) == (mapped, 0, {"median": 9.0})
        assert latency.variables == {"source_id": numbers, "operator_id": mapped, "operator_subtask_index": "0"}
        assert job.statistics.subtask(0, 0).latencies == []
        job.statistics.begin_attempt()
        assert job.statistics.subtask(1, 0).latencies == []

    def test_user_metrics_stay_until_they_are_collected_again(self, job):
        (numbers,) = job.ids[0]
        job.epoch(1.0, read(1, metrics={numbers: [MetricValue("a.b", "gauge", "text", {"a": "b"}, "a")]}))
        job.epoch(1.0, read(2))
        (metric,) = job.statistics.subtask(0, 0).user
        assert (metric.operator_id, metric.name, metric.kind) == (numbers, "a.b", "gauge")
        assert (metric.value, metric.variables) == ("text", {"a": "b"})


class TestHistory:
    def test_a_point_has_the_rates_since_the_one_before(self, job):
        job.epoch(2.0, read(100), VertexReport(1, 0, 100, 0, False, records_left=50))
        job.epoch(2.0, read(300), VertexReport(1, 0, 100, 0, False, records_left=50))
        history = job.statistics.history()
        assert history["time"] == [int(WALL * 1000) + 2000, int(WALL * 1000) + 4000]
        assert history["recordsInPerSecond"] == [50, 100]
        assert history["recordsOutPerSecond"] == [25, 0]
        assert history["epochDurationMs"] == [2000, 2000]
        assert history["watermarkLagMs"] == [None, None]
        assert history["stateSize"] == [77, 77]

    def test_a_pause_shows_as_zeros(self, job):
        job.epoch(2.0, read(100))
        job.epoch(2.0, read(200), idle=30)
        job.now += 30
        history = job.statistics.history()
        assert history["recordsInPerSecond"] == [50, 0, 50, 0]
        assert history["epochDurationMs"] == [2000, None, 2000, None]

    def test_a_long_life_has_few_points_and_loses_no_record(self, job):
        for epoch in range(1, 5001):
            job.epoch(1.0, read(10 * epoch))
        history = job.statistics.history()
        assert {len(series) for series in history.values()} == {len(history["time"])}
        assert 200 < len(history["time"]) <= 600
        assert history["time"][0] < int(WALL * 1000) + 60_000
        assert set(history["recordsInPerSecond"]) == {10}


def test_another_thread_may_read_at_any_time(job):
    problems: list[BaseException] = []
    ended = threading.Event()

    def look() -> None:
        try:
            while not ended.is_set():
                task = job.statistics.subtask(0, 0).task
                assert task["numRecordsIn"] == task["numRecordsOut"]
                job.statistics.history()
                job.statistics.job_metrics()
        except BaseException as error:
            problems.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    for epoch in range(1, 501):
        job.epoch(0.3, read(epoch))
    ended.set()
    reader.join(60)
    assert not reader.is_alive()
    assert problems == []
