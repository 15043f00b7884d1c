"""Metrics by Flink's names, with values as texts, and aggregated."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.unit.server.samples import COUNT, FAILED_JOB, HOSTS, JOB, SOURCE

from flintstream.jobmaster.details import LatencyDetails
from flintstream.server.rest.views.metrics import aggregated, filter_characters, text_of

VERTEX = f"/jobs/{JOB}/vertices/{SOURCE}"


def test_values_are_texts_as_flink_writes_them():
    assert [text_of(value) for value in (1, 0.5, True, math.nan, -math.inf, "x")] == [
        "1",
        "0.5",
        "true",
        "NaN",
        "-Infinity",
        "x",
    ]


def test_characters_of_operator_names():
    assert filter_characters("Sink: Print to Std. Out, a") == "Sink__Print_to_Std__Out__a"


def test_names_and_values_of_a_job(client):
    assert {"id": "numRestarts"} in client.get(f"/jobs/{JOB}/metrics").json()
    found = client.get(f"/jobs/{JOB}/metrics?get=uptime,unknown,numRestarts").json()
    assert found == [{"id": "uptime", "value": "160000"}, {"id": "numRestarts", "value": "1"}]


def test_latencies_are_metrics_of_the_job(client, jobs):
    details = jobs.known[JOB]
    source, count, sink = details.vertices
    statistics = {"count": 4, "min": 2, "max": 9, "mean": 4.5, "median": 4.0, "p95": 9.0, "p99": 9.0}
    tracked = [
        replace(each, latencies=[LatencyDetails(COUNT, each.index, SOURCE, None, statistics)])
        for each in count.subtasks
    ]
    jobs.known[JOB] = replace(details, vertices=[source, replace(count, subtasks=tracked), sink])
    name = f"latency.source_id.{SOURCE}.operator_id.{COUNT}.operator_subtask_index.1.latency"
    listed = {each["id"] for each in client.get(f"/jobs/{JOB}/metrics").json()}
    assert {f"{name}_{statistic}" for statistic in statistics} <= listed
    found = client.get(f"/jobs/{JOB}/metrics?get={name}_median,{name}_max,uptime").json()
    assert found == [
        {"id": f"{name}_median", "value": "4.0"},
        {"id": f"{name}_max", "value": "9"},
        {"id": "uptime", "value": "160000"},
    ]


def test_metrics_of_a_vertex_have_subtask_and_operator(client):
    names = {each["id"] for each in client.get(f"{VERTEX}/metrics").json()}
    assert {"0.numRecordsOut", "1.numRecordsOut", "1.Source__orders.numLateRecordsDropped"} <= names
    wanted = "0.Source__orders.shop.berlin.orders,1.Source__orders.sales,0.Source__orders.price_mean"
    assert client.get(f"{VERTEX}/metrics?get={wanted}").json() == [
        {"id": "0.Source__orders.shop.berlin.orders", "value": "7"},
        {"id": "1.Source__orders.sales", "value": "0.5"},
        {"id": "0.Source__orders.price_mean", "value": "2.0"},
    ]
    assert client.get(f"{VERTEX}/subtasks/1/metrics?get=Source__orders.shop.berlin.orders").json() == [
        {"id": "Source__orders.shop.berlin.orders", "value": "8"}
    ]
    assert client.get(f"{VERTEX}/jm-operator-metrics").json() == []


def test_aggregation_over_subtasks(client):
    path = f"/jobs/{JOB}/vertices/{COUNT}/subtasks/metrics"
    assert {"id": "numRecordsIn"} in client.get(path).json()
    (found,) = client.get(f"{path}?get=numRecordsIn").json()
    assert found.pop("skew") == pytest.approx(100 / 7)
    assert found == {"id": "numRecordsIn", "min": 3000.0, "max": 4000.0, "avg": 3500.0, "sum": 7000.0}
    assert client.get(f"{path}?get=numRecordsIn&agg=max,p50&subtasks=0").json() == [
        {"id": "numRecordsIn", "max": 3000.0, "p50": 3000.0}
    ]
    assert client.get(f"{path}?get=numRecordsIn&agg=sum&subtasks=0-1,7").json()[0]["sum"] == 7000.0
    for wrong in ("agg=median", "subtasks=a", "subtasks=1-b", "subtasks=-1"):
        assert client.get(f"{path}?get=numRecordsIn&{wrong}").status_code == 400, wrong


def test_aggregation_over_jobs_and_hosts(client):
    assert client.get("/jobs/metrics?get=numRestarts&agg=sum").json() == [{"id": "numRestarts", "sum": 1.0}]
    both = client.get(f"/jobs/metrics?get=numRestarts&agg=sum&jobs={JOB},{FAILED_JOB}").json()
    assert both == [{"id": "numRestarts", "sum": 2.0}]
    assert client.get("/jobs/metrics?jobs=x").status_code == 400
    heap = "Status.JVM.Memory.Heap.Used"
    assert client.get(f"/taskmanagers/metrics?get={heap}&agg=sum").json() == [{"id": heap, "sum": float(140 << 20)}]
    one = client.get(f"/taskmanagers/metrics?get={heap}&agg=sum&taskmanagers={HOSTS[1]}").json()
    assert one == [{"id": heap, "sum": float(80 << 20)}]
    assert client.get("/taskmanagers/metrics?taskmanagers=elsewhere").status_code == 404


def test_what_is_no_number_is_not_aggregated():
    parts = [{"a": "1", "b": "x"}, {"a": "3"}]
    assert aggregated(parts, ["a", "b"], ["avg"]) == [{"id": "a", "avg": 2.0}]
