"""The routes that query state: what the driver is asked, and how its answers come back."""

from __future__ import annotations

import pytest
from tests.unit.server.samples import FINISHED_JOB as ENDED
from tests.unit.server.samples import JOB as RUNNING

OK = {"status": "ok", "kind": "value", "value": 7}
PATH = f"/jobs/{RUNNING}/state"


def test_one_key(client, jobs):
    jobs.answers["query_state"] = [OK]
    answer = client.get(f"{PATH}/counts", params={"key": '["tea", 1]'})
    assert (answer.status_code, answer.json()) == (
        200,
        {"name": "counts", "key": {"tuple": ["tea", 1]}, "kind": "value", "value": 7},
    )
    asked = {"queries": [["counts", {"tuple": ["tea", 1]}]], "form": "json", "patience": 1.0}
    assert jobs.asked[-1] == (RUNNING, "query_state", asked)


def test_many(client, jobs):
    jobs.answers["query_state"] = [{**OK, "value": "gARLBy4="}, {"status": "unknown-key", "kind": "", "value": "no"}]
    body = {"queries": [["counts", "tea"], ["counts", {"bytes": "00"}]], "seconds": 0.5}
    answer = client.post(PATH, json=body)
    assert (answer.status_code, answer.json()) == (200, {"answers": jobs.answers["query_state"]})
    asked = {"queries": body["queries"], "form": "pickled", "patience": 0.5}
    assert jobs.asked[-1] == (RUNNING, "query_state", asked)


@pytest.mark.parametrize(
    ("answer", "status"),
    [("unknown-state", 404), ("unknown-key", 404), ("failed", 500), ("not-available", 503), ("gone", 404)],
)
def test_what_has_no_answer(client, jobs, answer, status):
    jobs.answers["query_state"] = [{"status": answer, "kind": "", "value": "the reason"}]
    found = client.get(f"{PATH}/counts?key=tea")
    assert (found.status_code, found.json()) == (status, {"errors": ["the reason"]})


def test_a_driver_that_cannot_be_asked_now(client, jobs):
    del jobs.answers["query_state"]
    found = client.get(f"{PATH}/counts?key=tea")
    assert found.status_code == 503
    assert "try again" in found.json()["errors"][0]


def test_a_job_that_has_ended(client, jobs):
    del jobs.answers["query_state"]
    found = client.post(f"/jobs/{ENDED}/state", json={"queries": [["counts", 1]]})
    assert found.status_code == 404
    assert "it has no state any more" in found.json()["errors"][0]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queries": 5},
        {"queries": [["counts"]]},
        {"queries": [[1, 1]]},
        {"queries": [["counts", {"pickle": "x"}]]},
        {"queries": [["counts", 1]] * 300},
        {"queries": [], "seconds": 1000},
    ],
)
def test_wrong_bodies(client, body):
    assert client.post(PATH, json=body).status_code == 400


def test_wrong_keys(client):
    assert client.get(f"{PATH}/counts").status_code == 400
    assert client.get(f"{PATH}/counts", params={"key": "{}"}).status_code == 400
    assert client.get(f"/jobs/{'e' * 31}x/state/counts?key=1").status_code == 400
