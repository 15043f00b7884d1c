"""`/metrics` of the job server."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.server.samples import FINISHED_JOB, JOB, SampleJobs

from flintstream.server.app import create_app
from flintstream.server.settings import ServerSettings


@pytest.fixture
def client(tmp_path):
    with TestClient(create_app(SampleJobs(), ServerSettings(data=tmp_path)), base_url="http://127.0.0.1") as found:
        yield found


def test_the_metrics_of_running_jobs_are_there_and_of_no_others(client):
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    jobs = {sample.labels["job_id"] for family in families.values() for sample in family.samples}
    assert jobs == {JOB}
    assert FINISHED_JOB not in answer.text
    assert families["flink_taskmanager_job_task_num_records_in"].type == "counter"


def test_names_of_flinks_reporter(client):
    text = client.get("/metrics", params={"names": "flink"}).text
    assert "flink_taskmanager_job_task_numRecordsIn{" in text


def test_unknown_names_are_refused(client):
    answer = client.get("/metrics", params={"names": "mine"})
    assert answer.status_code == 400
    assert "names must be one of prometheus, flink" in answer.json()["errors"][0]
