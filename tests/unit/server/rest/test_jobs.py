"""Jobs: what is shown of them, and what can be done to them at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.server.samples import (
    COUNT,
    FAILED_JOB,
    FINISHED_JOB,
    HOSTS,
    JOB,
    NOW,
    SINK,
    SOURCE,
    STARTED,
    ended,
    job_details,
    subtask,
)

from flintstream.server.rest.failures import exception_class


def test_the_list_and_the_overview(client):
    assert client.get("/jobs").json()["jobs"][0] == {"id": JOB, "status": "RUNNING"}
    running, finished, _ = client.get("/jobs/overview").json()["jobs"]
    assert (running["jid"], running["state"], running["end-time"]) == (JOB, "RUNNING", -1)
    assert (running["tasks"]["running"], running["tasks"]["total"]) == (6, 6)
    assert running["duration"] > 0
    assert (finished["duration"], finished["tasks"]["finished"]) == (60_000, 6)


def test_a_job_with_its_vertices(client):
    job = client.get(f"/jobs/{JOB}").json()
    assert job["duration"] == NOW - STARTED
    assert job["timestamps"]["RUNNING"] == STARTED + 5_474
    assert job["timestamps"]["FAILED"] == 0
    assert [vertex["id"] for vertex in job["vertices"]] == [SOURCE, COUNT, SINK]
    assert job["status-counts"]["RUNNING"] == 3
    count = job["vertices"][1]
    assert (count["status"], count["start-time"], count["end-time"]) == ("RUNNING", STARTED + 6_000, -1)
    assert count["metrics"]["read-records"] == 7_000
    assert count["metrics"]["read-records-complete"] is True
    assert count["metrics"]["accumulated-busy-time"] == 4_111


def test_metrics_that_are_not_reported_are_incomplete(client, jobs):
    details = job_details()
    bare = [replace(each, metrics={}) for each in details.vertices[1].subtasks]
    jobs.known[JOB] = replace(details, vertices=[replace(details.vertices[1], subtasks=bare)])
    metrics = client.get(f"/jobs/{JOB}").json()["vertices"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-records-complete"]) == (0, False)


def test_the_plan_is_html_without_markup_of_the_program(client):
    plan = client.get(f"/jobs/{JOB}/plan").json()["plan"]
    source, count, _ = plan["nodes"]
    assert source["description"] == "Source: orders<br/>+- parse &lt;json&gt;<br/>"
    assert "inputs" not in source
    assert count["inputs"] == [{"id": SOURCE, "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "HASH"}]


def test_exceptions(client):
    history = client.get(f"/jobs/{JOB}/exceptions").json()["exceptionHistory"]
    newest, older = history["entries"]
    assert history["truncated"] is False
    assert newest["exceptionName"] == "ValueError"
    assert newest["taskName"] == "Source: orders -> parse (2/2)"
    assert (newest["taskManagerId"], newest["record"]) == (HOSTS[1], "'x'")
    assert "taskName" not in older
    cut = client.get(f"/jobs/{JOB}/exceptions?maxExceptions=1").json()["exceptionHistory"]
    assert (len(cut["entries"]), cut["truncated"]) == (1, True)
    filtered = client.get(f"/jobs/{JOB}/exceptions?failureLabelFilter=type:user").json()["exceptionHistory"]
    assert filtered == {"entries": [], "truncated": False}
    assert client.get(f"/jobs/{JOB}/exceptions?failureLabelFilter=type").status_code == 400


@pytest.mark.parametrize(
    ("message", "trace", "name"),
    [
        ("operator 'parse': it failed", "Traceback (most recent call last):\n  File x\nValueError: no", "ValueError"),
        ("it failed", "Traceback (most recent call last):\n  File x\nshop.errors.ShopError\n", "shop.errors.ShopError"),
        ("OSError: the disk is full", None, "OSError"),
        ("the disk is full", None, None),
    ],
)
def test_the_class_of_an_exception(message, trace, name):
    assert exception_class(message, trace) == name


def test_the_result_of_a_job(client):
    assert client.get(f"/jobs/{JOB}/execution-result").json() == {"status": {"id": "IN_PROGRESS"}}
    finished = client.get(f"/jobs/{FINISHED_JOB}/execution-result").json()
    assert finished["status"] == {"id": "COMPLETED"}
    assert finished["job-execution-result"]["application-status"] == "SUCCEEDED"
    assert finished["job-execution-result"]["net-runtime"] == 60_000
    failed = client.get(f"/jobs/{FAILED_JOB}/execution-result").json()["job-execution-result"]
    assert failed["failure-cause"]["class"] == "ValueError"
    assert "words.py" in failed["failure-cause"]["stack-trace"]


def test_configuration_and_accumulators(client):
    configured = client.get(f"/jobs/{JOB}/config").json()["execution-config"]
    assert (configured["job-parallelism"], configured["user-config"]) == (2, {"shop": "berlin"})
    assert {"key": "parallelism.default", "value": "2"} in client.get(f"/jobs/{JOB}/jobmanager/config").json()
    accumulators = client.get(f"/jobs/{JOB}/accumulators").json()
    assert accumulators["user-task-accumulators"] == [{"name": "words", "type": "IntCounter", "value": "24"}]


def test_a_vertex_by_subtask_and_host(client):
    vertex = client.get(f"/jobs/{JOB}/vertices/{COUNT}").json()
    first = vertex["subtasks"][0]
    assert (first["taskmanager-id"], first["endpoint"]) == (HOSTS[0], f"{HOSTS[0]}:-1")
    assert first["status-duration"] == {
        "CREATED": 2_000,
        "SCHEDULED": 1_000,
        "DEPLOYING": 1_500,
        "INITIALIZING": 3_000,
        "RUNNING": NOW - STARTED - 10_500,
    }
    assert vertex["aggregated"]["metrics"]["read-records"]["sum"] == 7_000
    assert client.get(f"/jobs/{JOB}/vertices/{COUNT}/subtasks/1").json()["subtask"] == 1
    assert client.get(f"/jobs/{JOB}/vertices/{COUNT}/subtasks/1/attempts/1").json()["attempt"] == 1
    managers = client.get(f"/jobs/{JOB}/vertices/{COUNT}/taskmanagers").json()["taskmanagers"]
    assert [each["taskmanager-id"] for each in managers] == list(HOSTS)
    assert managers[1]["metrics"]["read-records"] == 4_000
    times = client.get(f"/jobs/{JOB}/vertices/{COUNT}/subtasktimes").json()["subtasks"][0]
    assert (times["duration"], times["timestamps"]["FINISHED"]) == (NOW - STARTED - 5_000, 0)
    accumulators = client.get(f"/jobs/{JOB}/vertices/{COUNT}/subtasks/accumulators").json()["subtasks"]
    assert accumulators[1]["user-accumulators"] == [{"name": "words", "type": "IntCounter", "value": "12"}]


def test_watermarks(client):
    assert client.get(f"/jobs/{JOB}/vertices/{COUNT}/watermarks").json() == [
        {"id": "0.currentInputWatermark", "value": str(NOW - 2_000)},
        {"id": "1.currentInputWatermark", "value": str(NOW - 1_999)},
    ]


def test_back_pressure_by_the_thresholds_of_flink(client, jobs):
    source = client.get(f"/jobs/{JOB}/vertices/{SOURCE}/backpressure").json()
    assert (source["status"], source["backpressure-level"], source["backpressureLevel"]) == ("ok", "high", "high")
    assert source["subtasks"][0]["ratio"] == 0.62
    count = client.get(f"/jobs/{JOB}/vertices/{COUNT}/backpressure").json()
    assert (count["backpressure-level"], count["subtasks"][1]["busyRatio"]) == ("ok", 0.93)
    details = job_details()
    for milliseconds, level in ((100, "ok"), (101, "low"), (500, "low"), (501, "high")):
        one = subtask(SOURCE, 0, metrics={"backPressuredTimeMsPerSecond": milliseconds})
        jobs.known[JOB] = replace(details, vertices=[replace(details.vertices[0], subtasks=[one])])
        assert client.get(f"/jobs/{JOB}/vertices/{SOURCE}/backpressure").json()["backpressureLevel"] == level
    assert client.get(f"/jobs/{FINISHED_JOB}/vertices/{COUNT}/backpressure").json()["status"] == "deprecated"


def test_flame_graphs_are_asked_of_the_driver_once(client, jobs):
    path = f"/jobs/{JOB}/vertices/{COUNT}/flamegraph"
    first = client.get(f"{path}?type=on_cpu&subtaskindex=1").json()
    assert first["data"]["children"][0]["name"] == "count"
    assert client.get(f"{path}?type=ON_CPU&subtaskindex=1").json()["data"] == first["data"]
    assert jobs.asked == [(JOB, "flamegraph", {"vertex": COUNT, "subtask": 1, "kind": "on_cpu"})]
    assert client.get(f"{path}?subtaskindex=2").status_code == 404
    assert client.get(f"{path}?type=SOME").status_code == 400
    assert client.get(f"/jobs/{FINISHED_JOB}/vertices/{COUNT}/flamegraph").json() == {"endTimestamp": -1}
    del jobs.answers["flamegraph"]
    assert client.get(path).status_code == 409


def test_cancelling(client, jobs):
    assert client.patch(f"/jobs/{JOB}?mode=cancel").status_code == 202
    assert client.patch(f"/jobs/{JOB}").status_code == 202
    assert client.get(f"/jobs/{JOB}/yarn-cancel").status_code == 200
    assert jobs.asked == [(JOB, "cancel", {})] * 3
    assert client.patch(f"/jobs/{JOB}?mode=stop").status_code == 400
    assert client.patch(f"/jobs/{JOB}?mode=kill").status_code == 400
    assert client.patch(f"/jobs/{FINISHED_JOB}").status_code == 409
    jobs.known[JOB] = ended(JOB, "CANCELED")
    assert client.patch(f"/jobs/{JOB}").status_code == 202, "it is cancelled already"


def test_heartbeats_and_requirements(client):
    assert client.patch(f"/jobs/{JOB}/clientHeartbeat", json={"expiredTimestamp": 1}).status_code == 202
    requirements = client.get(f"/jobs/{JOB}/resource-requirements").json()
    assert requirements[COUNT] == {"parallelism": {"lowerBound": 2, "upperBound": 2}}
    refused = client.put(f"/jobs/{JOB}/resource-requirements", json=requirements)
    assert refused.status_code == 409
    assert "savepoint" in refused.json()["errors"][0]


def test_applications_are_jobs(client):
    first = client.get("/applications/overview").json()["applications"][0]
    assert (first["id"], first["jobs"]) == (JOB, {"RUNNING": 1})
    assert client.get(f"/applications/{JOB}").json()["jobs"][0]["jid"] == JOB
    assert client.post(f"/applications/{JOB}/cancel").status_code == 202
