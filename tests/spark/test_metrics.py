"""The metrics of a real job with a slow operator, as its details have them."""

from __future__ import annotations

import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import wait_until

from flintstream.common import Configuration, Types, WatermarkStrategy
from flintstream.datastream import MapFunction, ProcessFunction, SinkFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource
from flintstream.jobmaster.details import JobDetails, SubtaskDetails
from flintstream.jobmaster.reporting import collect_details

SLOW_SECONDS = 0.004
MEGABYTE = 1 << 20


def generated(index: int) -> int:
    time.sleep(0.0005)
    return index


class Measured(MapFunction):
    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("parity", "even")
        self.even = group.counter("numbers")
        runtime_context.get_metrics_group().gauge("hangs", lambda: time.sleep(600))
        self.last = -1
        group.gauge("last", lambda: self.last)

    def map(self, value):
        self.even.inc(value % 2 == 0)
        self.last = value
        return value


class Slow(ProcessFunction):
    def process_element(self, value, ctx):
        time.sleep(SLOW_SECONDS)
        yield value


class Nothing(SinkFunction):
    def invoke(self, value, context=None):
        pass


class Job:
    def __init__(self, client):
        self.master = client.master

    def details(self) -> JobDetails:
        return collect_details(self.master)

    def subtasks(self) -> tuple[SubtaskDetails, ...]:
        """Of source, map, slow operator and sink."""
        return tuple(vertex.subtasks[0] for vertex in self.details().vertices)

    def rates(self, name: str) -> list[float]:
        return [subtask.metrics[name] for subtask in self.subtasks()]


@pytest.fixture(scope="module")
def job(spark):
    configuration = Configuration()
    configuration.set_string("metrics.reporter.prom.port", "0")
    configuration.set_string("metrics.latency.interval", "1 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = DataGeneratorSource(generated, None, None, Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.for_monotonous_timestamps(), "numbers").rebalance()
    slow = stream.map(Measured(), Types.LONG()).rebalance().process(Slow(), Types.LONG()).name("slow").rebalance()
    slow.add_sink(Nothing())
    client = env.execute_async("a slow operator")
    yield Job(client)
    client.cancel().result()


def test_the_slow_operator_is_busy_and_what_is_before_it_back_pressured(job):
    def visible():
        busy, held = job.rates("busyTimeMsPerSecond"), job.rates("backPressuredTimeMsPerSecond")
        return busy[2] > 500 and held[0] > 500 and held[1] > 500

    wait_until(visible)
    subtasks = job.subtasks()
    for subtask in subtasks:
        shares = [subtask.metrics[f"{name}TimeMsPerSecond"] for name in ("busy", "backPressured", "idle")]
        assert sum(shares) == 1000
    assert subtasks[3].metrics["idleTimeMsPerSecond"] > 500
    assert subtasks[0].metrics["isBackPressured"] and not subtasks[3].metrics["isBackPressured"]


def test_the_source_reads_what_the_slow_operator_takes_and_memory_stays_flat(job):
    most = 1.2 / SLOW_SECONDS
    wait_until(lambda: job.details().metrics["numEpochs"] > 1 and 0 < job.rates("numRecordsInPerSecond")[0] < most)
    before = job.details()
    epochs = before.metrics["numEpochs"]
    wait_until(lambda: job.details().metrics["numEpochs"] >= epochs + 4)
    after = job.details()
    assert after.slots[0].memory < before.slots[0].memory + 20 * MEGABYTE
    assert job.rates("numRecordsInPerSecond")[0] < most


def test_counts_agree_along_the_job(job):
    source, mapped, slow, sink = job.subtasks()
    assert source.metrics["numRecordsOut"] >= mapped.metrics["numRecordsIn"] > 0
    assert source.metrics["numBytesOut"] >= mapped.metrics["numBytesIn"] > 0
    assert "currentInputWatermark" in slow.metrics and "currentInputWatermark" not in source.metrics
    (operator,) = sink.operator_metrics.values()
    assert operator["numRecordsSend"] == sink.metrics["numRecordsIn"]
    history = job.details().history
    assert history["recordsInPerSecond"] and {len(series) for series in history.values()} == {len(history["time"])}


def test_metrics_of_functions_arrive_although_a_gauge_hangs(job):
    def found():
        user = {metric.name: metric for metric in job.subtasks()[1].user_metrics}
        return user if "parity.even.last" in user else None

    user = wait_until(found)
    counter, last = user["parity.even.numbers"], user["parity.even.last"]
    assert (counter.kind, counter.variables, counter.logical_name) == ("counter", {"parity": "even"}, "parity.numbers")
    assert 0 < counter.value <= last.value
    assert last.kind == "gauge"


def test_latency_is_measured_from_the_source_to_each_operator(job):
    def measured():
        source, *others = job.details().vertices
        return (source, others) if all(each.subtasks[0].latencies for each in others) else None

    source, others = wait_until(measured)
    assert source.subtasks[0].latencies == []
    latencies = [each.subtasks[0].latencies[0] for each in others]
    assert [each.variables for each in latencies] == [
        {"source_id": source.vertex_id, "operator_id": each.vertex_id, "operator_subtask_index": "0"} for each in others
    ]
    least = [each.statistics["min"] for each in latencies]
    assert least[0] >= 0 and least == sorted(least), "each marker takes longer to each later operator"


def test_prometheus_finds_them_on_a_port_of_the_job(job):
    (url,) = job.master.reporters.addresses
    with urllib.request.urlopen(url, timeout=60) as answer:
        families = {each.name: each for each in text_string_to_metric_families(answer.read().decode())}
    read = families["flink_taskmanager_job_task_num_records_in"]
    assert {sample.labels["task_name"]: sample.value > 0 for sample in read.samples}["Source: numbers"]
    assert families["flink_taskmanager_job_task_operator_parity_numbers"].samples[0].labels["parity"] == "even"
    assert families[
        "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency_seconds"
    ].samples
    prefixes = ("flink_jobmanager_job_", "flink_taskmanager_job_latency_", "flink_taskmanager_job_task_")
    assert all(name.startswith((*prefixes, "flink_taskmanager_resident_")) for name in families)
    assert all(each.documentation[-1] == "." for each in families.values()), "each is one that the guide defines"
