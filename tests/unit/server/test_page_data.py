from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from tests.unit.server.samples import FAILED_JOB, JOB, SampleJobs, checkpoint, ended, job_details, summary

from flintstream.server import page_data
from flintstream.server.app import create_app
from flintstream.server.page_data import job_line, tail
from flintstream.server.settings import ServerSettings


@pytest.fixture
def jobs():
    return SampleJobs()


@pytest.fixture
def client(jobs, tmp_path):
    with TestClient(create_app(jobs, ServerSettings(data=tmp_path)), base_url="http://127.0.0.1") as found:
        yield found


def test_a_line_shows_the_health_of_a_job(client):
    line = client.get("/page/jobs").json()["jobs"][0]
    assert line["id"] == JOB
    assert line["busiest"]["name"] == "count"
    assert line["busiest"]["busy"] == 0.93
    assert line["back_pressured"] == 0.62
    assert line["restarts"] == 1
    assert line["checkpoint"]["id"] == 5
    assert line["failed_checkpoints"] == 0
    assert line["records_in_per_second"] == 241.0
    assert line["memory"] == 140 << 20


def test_checkpoints_that_failed_since_the_last_complete_one_are_counted():
    details = job_details()
    for history, failed in [
        ([checkpoint(3, status="FAILED"), checkpoint(2, status="FAILED"), checkpoint(1)], 2),
        ([checkpoint(2, status="IN_PROGRESS"), checkpoint(1, status="FAILED")], 1),
        ([], 0),
    ]:
        changed = replace(details, checkpoints=replace(details.checkpoints, history=history))
        assert job_line(summary(changed), changed)["failed_checkpoints"] == failed


def test_what_an_iteration_feeds_back_is_not_read():
    details = job_details()
    source, *others = details.vertices
    head = replace(source, vertex_id="5e" * 16, name="IterationSource-3")
    others[0] = replace(others[0], feeds_back_to=[head.vertex_id])
    looping = replace(details, vertices=[source, head, *others])
    assert job_line(summary(looping), looping)["records_in_per_second"] == 241.0


def test_a_job_whose_driver_starts_has_a_line():
    details = job_details(vertices=[], slots=[], history={})
    line = job_line(summary(details), details)
    assert line["busiest"] is None
    assert line["records_in_per_second"] == 0


def test_the_details_of_old_jobs_are_left_out_of_the_list(client, jobs, monkeypatch):
    monkeypatch.setattr(page_data, "MOST_ENDED_WITH_DETAILS", 1)
    jobs.known = {each: ended(each, "FINISHED") for each in (FAILED_JOB, "1c" * 16)}
    first, second = client.get("/page/jobs").json()["jobs"]
    assert "restarts" in first
    assert "restarts" not in second
    assert second["status"] == "FINISHED"


def test_details_are_whole_but_for_the_shares_of_subtasks(client, jobs):
    found = client.get(f"/jobs/{JOB}/details").json()
    assert [each["tasks"] for each in found["checkpoints"]["history"]] == [{}] * 6
    assert found["exceptions"][0]["record"] == "'x'"
    assert found["guarantees"][0]["sink"] == "Sink: shelf"
    assert len(found["vertices"][1]["subtasks"]) == 2
    assert jobs.known[JOB].checkpoints.history[1].tasks


@pytest.mark.parametrize("path", ["details", "logs", "logs/driver.log"])
def test_an_unknown_job_is_not_found(client, path):
    answer = client.get(f"/jobs/{'9' * 32}/{path}")
    assert answer.status_code == 404
    assert "9" * 32 in answer.json()["errors"][0]


def test_logs_are_listed_and_read_from_their_end(client, jobs, tmp_path):
    path = tmp_path / "driver.log"
    path.write_text("first\nsecond\nthird\n")
    jobs.logs = {JOB: {"driver.log": str(path), "driver.out": str(tmp_path / "not yet")}}
    assert client.get(f"/jobs/{JOB}/logs").json() == {
        "logs": [{"name": "driver.log", "size": 19}, {"name": "driver.out", "size": 0}]
    }
    assert client.get(f"/jobs/{JOB}/logs/driver.log").text == "first\nsecond\nthird\n"
    assert client.get(f"/jobs/{JOB}/logs/driver.log?most=9").text == "third\n"
    assert client.get(f"/jobs/{JOB}/logs/driver.log?most=0").status_code == 400
    for unknown in ("driver.out", "other.log", "..%2Fdriver.log"):
        assert client.get(f"/jobs/{JOB}/logs/{unknown}").status_code == 404


def test_a_line_that_is_longer_than_the_answer_is_cut(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"x" * 100 + "ü".encode())
    assert tail(str(path), 5) == "xxxü"
    assert tail(str(path), 1) == "\ufffd"


def test_the_page_is_served_with_its_parts(client):
    assert "<title>Flintstream</title>" in client.get("/").text
    for part, kind in [
        ("app.js", "javascript"),
        ("vendor/dagre/dagre.esm.js", "javascript"),
        ("styles/base.css", "css"),
    ]:
        answer = client.get(f"/{part}")
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
