"""The metrics of jobs in Prometheus' text format."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flintstream.jobmaster.details import LatencyDetails, UserMetric
from flintstream.metrics import definitions
from flintstream.metrics.prometheus import Naming, exposition, naming_of
from flintstream.metrics.reporters import log_lines

from .details import OPERATOR_ID, job_details

FLINK = Naming("flink")
TASK = {
    "job_id": "a" * 32,
    "job_name": "my job",
    "host": "worker",
    "tm_id": "slot-0",
    "task_id": "b" * 32,
    "task_name": "Source: orders -> Map",
    "task_attempt_num": "2",
    "subtask_index": "1",
}
OPERATOR = {**TASK, "operator_id": OPERATOR_ID, "operator_name": "Source: orders"}


def families(*jobs, naming=None):
    text = exposition(jobs or [job_details()], naming).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def only(family):
    (sample,) = family.samples
    return sample


class TestNamesOfPrometheus:
    def test_a_count_is_a_counter(self):
        family = families()["flink_taskmanager_job_task_num_records_in"]
        sample = only(family)
        assert (family.type, sample.name, sample.value) == (
            "counter",
            "flink_taskmanager_job_task_num_records_in_total",
            1500,
        )
        assert sample.labels == TASK
        assert family.documentation == definitions.TASK["numRecordsIn"].help

    @pytest.mark.parametrize(
        ("name", "type_", "value"),
        [
            ("flink_taskmanager_job_task_num_records_in_per_second", "gauge", 1500),
            ("flink_taskmanager_job_task_busy_time_ratio", "gauge", 1.5),
            ("flink_taskmanager_job_task_accumulate_busy_time_seconds", "counter", 1.5),
            ("flink_taskmanager_job_task_current_input_watermark_seconds", "gauge", 1.5),
            ("flink_taskmanager_job_task_operator_watermark_lag_seconds", "gauge", 1.5),
            ("flink_taskmanager_job_task_operator_pending_records", "gauge", 1500),
            ("flink_taskmanager_resident_memory_bytes", "gauge", 5000),
            ("flink_jobmanager_job_uptime_seconds", "gauge", 1.5),
            ("flink_jobmanager_job_last_checkpoint_size", "gauge", 1500),
            ("flink_jobmanager_job_num_epochs", "counter", 1500),
        ],
    )
    def test_units_are_base_units(self, name, type_, value):
        family = families()[name]
        assert (family.type, only(family).value) == (type_, value)

    def test_every_metric_is_there_and_texts_are_not(self):
        known = definitions.TASK, definitions.OPERATOR, definitions.JOB, definitions.SLOT
        own = [
            name for name in families() if not any(part in name for part in ("_shop_", "_load", "_price", "_events"))
        ]
        assert len([name for name in own if "open_orders" not in name]) == sum(map(len, known))
        assert not any("external_path" in name or "state" in name.split("_")[-1:] for name in families())

    def test_a_watermark_that_has_not_arrived_is_left_out(self):
        (vertex,) = job_details().vertices
        vertex.subtasks[0].metrics["currentInputWatermark"] = -(2**63)
        assert "flink_taskmanager_job_task_current_input_watermark_seconds" not in families(
            job_details(vertices=[vertex])
        )


class TestNamesOfFlink:
    def test_are_those_of_its_reporter_all_gauges(self):
        found = families(naming=FLINK)
        sample = only(found["flink_taskmanager_job_task_numRecordsIn"])
        assert sample.value == 1500
        assert sample.labels == {
            **TASK,
            "job_name": "my_job",
            "task_name": "Source:_orders____Map",
            "tm_id": "slot_0",
        }
        assert only(found["flink_taskmanager_job_task_busyTimeMsPerSecond"]).value == 1500
        assert only(found["flink_jobmanager_job_uptime"]).value == 1500
        assert only(found["flink_taskmanager_job_task_operator_shop_orders"]).labels["shop"] == "berlin"
        assert {family.type for name, family in found.items() if "_price" not in name} == {"gauge"}

    def test_a_request_may_ask_for_them(self):
        assert naming_of("names=flink", Naming(without=frozenset({"host"}))) == Naming("flink", frozenset({"host"}))
        assert naming_of("", FLINK) == FLINK
        with pytest.raises(ValueError, match="names must be one of prometheus, flink, got 'graphite'"):
            naming_of("names=graphite", FLINK)


class TestLatencies:
    STATISTICS = {"count": 9, "min": 1, "max": 30, "mean": 8.0, "stddev": 2.0} | {
        name: float(place) for place, name in enumerate(("median", "p75", "p90", "p95", "p98", "p99", "p999"), start=10)
    }

    def job(self, *latencies):
        details = job_details()
        (vertex,) = details.vertices
        return replace(
            details, vertices=[replace(vertex, subtasks=[replace(vertex.subtasks[0], latencies=list(latencies))])]
        )

    def test_are_summaries_of_the_job_with_flinks_variables_as_labels(self):
        latency = LatencyDetails(OPERATOR_ID, 1, "d" * 32, 3, self.STATISTICS)
        name = "flink_taskmanager_job_latency_source_id_source_subtask_index_operator_id_operator_subtask_index_latency"
        family = families(self.job(latency), naming=FLINK)[name]
        assert family.type == "summary"
        labels = {
            "job_id": "a" * 32,
            "job_name": "my_job",
            "host": "worker",
            "tm_id": "slot_0",
            "source_id": "d" * 32,
            "source_subtask_index": "3",
            "operator_id": OPERATOR_ID,
            "operator_subtask_index": "1",
        }
        found = {each.labels.pop("quantile", "count"): each for each in family.samples}
        assert {quantile: each.value for quantile, each in found.items()} == {
            "0.5": 10,
            "0.75": 11,
            "0.95": 13,
            "0.98": 14,
            "0.99": 15,
            "0.999": 16,
            "count": 9,
        }
        assert all(each.labels == labels for each in found.values())

    def test_are_in_seconds_by_the_rules_of_prometheus(self):
        single = LatencyDetails(OPERATOR_ID, 1, None, None, self.STATISTICS)
        family = families(self.job(single))[
            "flink_taskmanager_job_latency_operator_id_operator_subtask_index_latency_seconds"
        ]
        assert family.documentation == definitions.LATENCY.help
        assert {each.value for each in family.samples if each.labels.get("quantile") == "0.5"} == {0.01}
        assert [each.value for each in family.samples if each.name.endswith("_count")] == [9]

    def test_are_lines_of_the_log(self):
        latency = LatencyDetails(OPERATOR_ID, 1, "d" * 32, None, {"count": 1, "median": 2.5})
        place = f"latency.source_id.{'d' * 32}.operator_id.{OPERATOR_ID}.operator_subtask_index.1.latency"
        assert f"worker.taskmanager.slot-0.my job.{place}: count=1, median=2.5" in log_lines(self.job(latency))


class TestUserMetrics:
    def test_variables_are_labels(self):
        family = families()["flink_taskmanager_job_task_operator_shop_orders"]
        assert family.type == "gauge", "a counter may decrease"
        assert only(family).labels == {**OPERATOR, "shop": "berlin"}

    def test_of_a_meter_the_rate_counts(self):
        assert only(families()["flink_taskmanager_job_task_operator_events"]).value == 0.25

    def test_a_truth_value_is_a_number(self):
        assert only(families()["flink_taskmanager_job_task_operator_open_orders"]).value == 1

    def test_a_distribution_is_a_summary(self):
        found = families()
        family = found["flink_taskmanager_job_task_operator_price"]
        assert family.type == "summary"
        assert {sample.name.rsplit("_", 1)[1]: sample.value for sample in family.samples} == {"sum": 6, "count": 2}
        assert only(found["flink_taskmanager_job_task_operator_price_mean"]).value == 3

    def test_any_name_and_value_gives_valid_text(self):
        variables = {"__name__": "x", "1st": 'quoted "text"\n\\', "Straße": "ü", "job_id": "mine"}
        odd = [
            UserMetric(OPERATOR_ID, "größe (in €)", "gauge", 1, variables, "größe (in €)"),
            UserMetric(OPERATOR_ID, "same.name", "gauge", 1, {}, "same.name"),
            UserMetric(OPERATOR_ID, "same_name", "gauge", 2, {}, "same_name"),
            UserMetric(OPERATOR_ID, "same", "distribution", {"count": 0}, {}, "same"),
            UserMetric(OPERATOR_ID, "same", "counter", 1, {}, "same"),
            UserMetric(OPERATOR_ID, "nothing", "gauge", None, {}, "nothing"),
        ]
        found = families(job_details(user=odd))
        sample = only(found["flink_taskmanager_job_task_operator_gr__e__in___"])
        assert sample.labels == {**OPERATOR, "_name__": "x", "_1st": 'quoted "text"\n\\', "stra_e": "ü"}
        assert only(found["flink_taskmanager_job_task_operator_same_name"]).value == 1, "the first of that name"
        assert found["flink_taskmanager_job_task_operator_same"].type == "summary"


def test_several_jobs_share_names():
    found = families(job_details("one"), job_details("two", job_id="d" * 32))
    samples = found["flink_jobmanager_job_num_restarts"].samples
    assert {sample.labels["job_name"] for sample in samples} == {"one", "two"}


def test_labels_can_be_left_out_and_added():
    naming = Naming(without=frozenset({"host", "tm_id"}), additional={"cluster": "test"}, filter_values=True)
    labels = only(families(naming=naming)["flink_taskmanager_resident_memory_bytes"]).labels
    assert labels == {"job_id": "a" * 32, "job_name": "my_job", "cluster": "test"}
