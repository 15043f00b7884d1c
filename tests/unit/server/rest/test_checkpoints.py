"""Checkpoints and savepoints: what is shown of them, and how they are taken and removed on request."""

from __future__ import annotations

import base64

import pytest
from tests.unit.server.samples import COUNT, FINISHED_JOB, JOB
from tests.waiting import wait_until

TRIGGER = "AB" * 16


def test_history_and_statistics(client):
    found = client.get(f"/jobs/{JOB}/checkpoints").json()
    assert found["counts"] == {"restored": 1, "total": 6, "in_progress": 1, "completed": 4, "failed": 1}
    assert [each["className"] for each in found["history"]] == [
        "in_progress",
        "completed",
        "failed",
        "completed",
        "completed",
        "completed",
    ]
    durations = found["summary"]["end_to_end_duration"]
    assert (durations["min"], durations["avg"], durations["max"], durations["p50"]) == (16, 17, 20, 17.5)
    latest = found["latest"]
    assert (latest["completed"]["id"], latest["savepoint"]["id"], latest["failed"]["id"]) == (5, 3, 4)
    assert latest["failed"]["failure_message"] == "the disk is full"
    assert latest["restored"]["id"] == 2


def test_a_checkpoint_by_vertex_and_subtask(client):
    found = client.get(f"/jobs/{JOB}/checkpoints/details/5").json()
    assert (found["num_subtasks"], found["num_acknowledged_subtasks"]) == (6, 6)
    assert found["tasks"][COUNT]["checkpointed_size"] == 4_307 + 4_308
    subtasks = client.get(f"/jobs/{JOB}/checkpoints/details/5/subtasks/{COUNT}").json()
    assert subtasks["summary"]["end_to_end_duration"]["max"] == 11
    assert subtasks["subtasks"][1]["checkpoint"] == {"sync": 1, "async": 8}
    pending = client.get(f"/jobs/{JOB}/checkpoints/details/6/subtasks/{COUNT}").json()["subtasks"]
    assert [each["status"] for each in pending] == ["pending_or_failed", "pending_or_failed"]
    forgotten = client.get(f"/jobs/{JOB}/checkpoints/details/1/subtasks/{COUNT}")
    assert (forgotten.status_code, "no longer" in forgotten.text) == (404, True)
    assert client.get(f"/jobs/{JOB}/checkpoints/details/99").status_code == 404


def test_configuration(client):
    found = client.get(f"/jobs/{JOB}/checkpoints/config").json()
    assert (found["mode"], found["interval"], found["state_backend"]) == ("exactly_once", 2_000, "HashMapStateBackend")


def test_a_savepoint_has_a_trigger_id(client, jobs):
    request = {"target-directory": "/savepoints", "triggerId": TRIGGER}
    for _ in range(2):
        answer = client.post(f"/jobs/{JOB}/savepoints", json=request)
        assert (answer.status_code, answer.json()) == (202, {"request-id": TRIGGER.lower()})
    assert jobs.asked == [(JOB, "savepoint", {"directory": "/savepoints"})], "a known trigger id starts nothing"
    status = f"/jobs/{JOB}/savepoints/{TRIGGER}"
    assert client.get(status).json() == {"status": {"id": "IN_PROGRESS"}}
    jobs.finish(TRIGGER.lower(), result="/savepoints/savepoint-1")
    assert client.get(status).json()["operation"] == {"location": "/savepoints/savepoint-1"}
    jobs.finish(TRIGGER.lower(), failure="OSError: the disk is full")
    cause = client.get(status).json()["operation"]["failure-cause"]
    assert (cause["class"], cause["stack-trace"]) == ("OSError", "OSError: the disk is full")
    assert b"org.apache.flink.util.SerializedThrowable" in base64.b64decode(cause["serialized-throwable"])


@pytest.mark.parametrize(
    ("path", "request_body", "asked"),
    [
        ("savepoints", b"", ("savepoint", {"directory": None})),
        (
            "savepoints",
            b'{"cancel-job": true, "target-directory": null, "formatType": "NATIVE"}',
            ("cancel", {"directory": None, "savepoint": True}),
        ),
        ("stop", b'{"drain": true}', ("stop", {"directory": None, "drain": True})),
        (
            "stop",
            b'{"targetDirectory": "s3://bucket/savepoints"}',
            ("stop", {"directory": "s3://bucket/savepoints", "drain": False}),
        ),
        ("stop", b'{"targetDirectory": "file:/savepoints"}', ("stop", {"directory": "/savepoints", "drain": False})),
        ("checkpoints", b'{"checkpointType": "FULL"}', ("checkpoint", {})),
    ],
)
def test_what_a_driver_is_asked(client, jobs, path, request_body, asked):
    # curl sends a form's content type, and Flink does not care.
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post(f"/jobs/{JOB}/{path}", content=request_body, headers=headers)
    assert answer.status_code == 202, answer.text
    assert jobs.asked == [(JOB, *asked)]


def test_a_stop_is_watched_as_a_savepoint_and_a_checkpoint_by_its_id(client, jobs):
    stop = client.post(f"/jobs/{JOB}/stop").json()["request-id"]
    assert client.get(f"/jobs/{JOB}/savepoints/{stop}").status_code == 200
    trigger = client.post(f"/jobs/{JOB}/checkpoints").json()["request-id"]
    assert client.get(f"/jobs/{JOB}/checkpoints/{trigger}").json()["status"]["id"] == "IN_PROGRESS"
    jobs.finish(trigger, result=7)
    assert client.get(f"/jobs/{JOB}/checkpoints/{trigger}").json()["operation"] == {"checkpointId": 7}
    assert client.get(f"/jobs/{JOB}/checkpoints/{stop}").status_code == 404


def test_what_is_refused(client, jobs):
    post = client.post
    assert post(f"/jobs/{FINISHED_JOB}/savepoints").status_code == 409
    assert post(f"/jobs/{JOB}/savepoints", json={"target-directory": "relative"}).status_code == 400
    assert post(f"/jobs/{JOB}/savepoints", json={"formatType": "OTHER"}).status_code == 400
    assert post(f"/jobs/{JOB}/savepoints", json={"unknown": 1}).status_code == 400
    assert post(f"/jobs/{JOB}/savepoints", json={"triggerId": "xyz"}).status_code == 400
    assert post(f"/jobs/{JOB}/stop", json={"drain": "yes"}).status_code == 400
    assert post("/savepoint-disposal", json={}).status_code == 400
    assert client.get(f"/savepoint-disposal/{TRIGGER}").status_code == 404
    assert jobs.asked == []


def test_only_what_is_a_savepoint_is_disposed_of(client, tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("not a savepoint")
    trigger = client.post("/savepoint-disposal", json={"savepoint-path": str(tmp_path)}).json()["request-id"]

    def status():
        found = client.get(f"/savepoint-disposal/{trigger}").json()
        return found if found["status"]["id"] == "COMPLETED" else None

    cause = wait_until(status, what="the refusal")["operation"]["failure-cause"]
    assert "not a checkpoint" in cause["stack-trace"]
    assert precious.exists()
