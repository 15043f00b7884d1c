"""Schemathesis makes up requests from the OpenAPI description, good and bad ones: none makes the server fail, and each
answer is as described.
"""

from __future__ import annotations

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi import checks
from tests.unit.server.samples import COUNT, FINISHED_JOB, HOSTS, JOB

load_all_checks()
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    schemathesis.checks.not_a_server_error,
]
EXAMPLES = 5
"""Of each kind of request."""
KNOWN = {
    "jobid": [JOB, FINISHED_JOB],
    "applicationid": [JOB],
    "vertexid": [COUNT],
    "subtaskindex": [0, 1],
    "attempt": [1],
    "checkpointid": [5, 6],
    "taskmanagerid": list(HOSTS),
}


@pytest.fixture(scope="module")
def described(app):
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_made_up_requests(described, shared_jobs, mode):
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 65

    for operation in operations:

        @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            shared_jobs.operations.clear()
            prepare(case)
            case.call_and_validate(checks=CHECKS)

        try:
            check()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, f"{operation.label} cannot be asked"


def prepare(case):
    """A valid id becomes that of something that there is: what there is not is refused before anything is done with it."""
    parameters = case.path_parameters or {}
    for name, known in KNOWN.items():
        value = str(parameters.get(name, ""))
        if re.fullmatch(r"[0-9a-fA-F]{32}|\d{1,9}" if name != "taskmanagerid" else r"[\w-]+", value):
            parameters[name] = known[len(value) % len(known)]
    if case.path == "/savepoint-disposal" and isinstance(case.body, dict):
        case.body["savepoint-path"] = "relative"  # None of the paths that it makes up is ours to remove.
