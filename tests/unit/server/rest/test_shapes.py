"""All calls of Flink's REST API, in Flink's shapes."""

from __future__ import annotations

import re

from tests.unit.server.rest.shapes_of_flink import differences, recorded_calls, wrong_answers
from tests.unit.server.samples import COUNT, FAILED_JOB, FINISHED_JOB, HOSTS, JOB


def test_answers_have_the_shapes_of_flink(client):
    def get(path):
        answer = client.get(path)
        return answer.status_code, answer.json()

    for job in (JOB, FINISHED_JOB, FAILED_JOB):
        parameters = {
            "jobid": job,
            "vertexid": COUNT,
            "subtaskindex": "0",
            "attempt": "1",
            "taskmanagerid": HOSTS[0],
            "checkpointid": "5",
        }
        assert wrong_answers(get, parameters) == (48, {})


def test_every_call_of_flink_has_a_route(app):
    paths = app.openapi()["paths"]
    described = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(recorded_calls()) - described == set()


def test_query_parameters_are_those_of_flink(app):
    paths = app.openapi()["paths"]
    for call, recorded in recorded_calls().items():
        method, path = call.split(" ", 1)
        parameters = paths[path][method.lower()].get("parameters", [])
        assert set(recorded["query"]) <= {each["name"] for each in parameters if each["in"] == "query"}, call


def test_a_difference_is_found():
    shape = {"a": "number", "b": [{"c": "string"}], "d": {"*": "boolean"}, "e": "IN_PROGRESS|COMPLETED"}
    good = {"a": 1.5, "b": [{"c": "x"}], "d": {"any": True}, "e": "COMPLETED"}
    assert differences(shape, good) == []
    for bad in (
        {**good, "a": "1"},
        {**good, "b": [{}]},
        {**good, "b": {}},
        {**good, "d": {"any": 1}},
        {**good, "e": "DONE"},
    ):
        assert len(differences(shape, bad)) == 1


def test_the_description_names_every_parameter_once(app):
    for path, methods in app.openapi()["paths"].items():
        wanted = re.findall(r"{(\w+)}", path)
        for method, described in methods.items():
            named = [each["name"] for each in described.get("parameters", []) if each["in"] == "path"]
            assert sorted(named) == sorted(wanted), (method, path)
