"""Bad requests are refused in Flink's shape, with the right status, and never by a failure of the server."""

from __future__ import annotations

import pytest
from tests.unit.server.samples import COUNT, JOB

from flintstream.server.driver_client import NoAnswerError
from flintstream.server.rest.routing import LONGEST_BODY

UNKNOWN = "0" * 32


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/jobs/{UNKNOWN}", 404),
        ("GET", f"/v1/jobs/{UNKNOWN}/plan", 404),
        ("PATCH", f"/jobs/{UNKNOWN}", 404),
        ("POST", f"/jobs/{UNKNOWN}/savepoints", 404),
        ("GET", f"/jobs/{JOB}/vertices/{UNKNOWN}", 404),
        ("GET", f"/jobs/{JOB}/vertices/{COUNT}/subtasks/7", 404),
        ("GET", f"/jobs/{JOB}/vertices/{COUNT}/subtasks/0/attempts/9", 404),
        ("GET", f"/jobs/{JOB}/checkpoints/details/77", 404),
        ("GET", f"/jobs/{JOB}/savepoints/{UNKNOWN}", 404),
        ("GET", "/no/such/path", 404),
        ("GET", "/jobs/not-an-id", 400),
        ("GET", f"/jobs/{JOB}0", 400),
        ("GET", f"/jobs/{JOB}/vertices/x", 400),
        ("GET", f"/jobs/{JOB}/vertices/{COUNT}/subtasks/-1", 400),
        ("GET", f"/jobs/{JOB}/vertices/{COUNT}/subtasks/x", 400),
        ("GET", f"/jobs/{JOB}/checkpoints/details/99999999999999999999999", 400),
        ("GET", f"/jobs/{JOB}/exceptions?maxExceptions=many", 400),
        ("GET", f"/jobs/{JOB}/accumulators?includeSerializedValue=maybe", 400),
        ("DELETE", f"/jobs/{JOB}", 405),
        ("PUT", "/jobs/overview", 405),
    ],
)
def test_status_and_shape(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["errors"]
    assert all(isinstance(each, str) and each for each in answer.json()["errors"])


@pytest.mark.parametrize("body", [b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b'{"drain": NaN}', b"[" * 100_000])
def test_bodies_that_are_no_object(client, body):
    answer = client.post(f"/jobs/{JOB}/stop", content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"]


def test_an_enormous_body(client):
    assert client.post(f"/jobs/{JOB}/stop", content=b" " * (LONGEST_BODY + 1)).status_code == 413

    def chunks():
        for _ in range(20):
            yield b" " * (1 << 16)

    assert client.post(f"/jobs/{JOB}/stop", content=chunks()).status_code == 413


def test_a_driver_that_does_not_answer(client, jobs):
    async def silent(job_id, command, **arguments):
        raise NoAnswerError("the driver has not answered within 600 s")

    jobs.ask = silent
    answer = client.get(f"/jobs/{JOB}/vertices/{COUNT}/flamegraph?type=off_cpu")
    del jobs.ask
    assert answer.status_code == 503
    assert "600 s" in answer.json()["errors"][0]


def test_an_id_is_the_same_in_upper_case(client):
    assert client.get(f"/jobs/{JOB.upper()}").json()["jid"] == JOB
