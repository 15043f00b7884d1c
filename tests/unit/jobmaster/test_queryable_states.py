"""The queryable states of a job on its driver: names, settings, and what an attempt does with two of one name."""

from __future__ import annotations

import pytest

from flintstream.common.job_status import JobStatus
from flintstream.common.queryable_state import FlinkJobNotFoundException
from flintstream.jobmaster.queryable_settings import QueryableStateSettings
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.jobmaster.settings import JobSettings
from flintstream.runtime.slot.messages import StateRegistered

from ..graph.programs import execution_graph, sink, source

JOB = "f" * 32


def states(enabled: bool = True, status: JobStatus = JobStatus.RUNNING) -> QueryableStates:
    return QueryableStates(execution_graph(sink(source())), JOB, enabled, lambda: status, lambda: None)


def registered(operator_id: str, slot: int = 0) -> StateRegistered:
    return StateRegistered(slot, 0, operator_id, f"operator {operator_id}", "counts")


def test_the_subtasks_of_an_operator_share_a_name():
    found = states()
    assert found.register(registered("a")) is None
    assert found.register(registered("a", slot=1)) is None


def test_two_operators_of_one_name_fail_the_job_for_good():
    found = states()
    found.register(registered("a"))
    fault = found.register(registered("b"))
    assert fault is not None
    assert fault.permanent
    assert "operators 'operator a' and 'operator b' both have a queryable state 'counts'" in fault.summary


def test_the_next_attempt_starts_with_no_names():
    found = states()
    found.register(registered("a"))
    found.begin_attempt()
    assert found.register(registered("b")) is None


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (JobStatus.CREATED, "not-available"),
        (JobStatus.RESTARTING, "not-available"),
        (JobStatus.FAILING, "not-available"),
        (JobStatus.RUNNING, "unknown-state"),
    ],
)
def test_what_a_job_answers(status, answer):
    [found] = states(status=status).answers([("counts", 1)])
    assert found.status == answer


def test_a_job_that_has_ended_has_no_state():
    with pytest.raises(FlinkJobNotFoundException, match="is CANCELED"):
        states(status=JobStatus.CANCELED).answers([("counts", 1)])


def test_a_job_without_slots_is_not_available():
    found = states()
    found.register(registered("a"))
    [answer] = found.answers([("counts", 1)])
    assert answer.status == "not-available"


def test_a_key_that_cannot_be_one():
    found = states()
    found.register(registered("a"))
    [answer] = found.answers([("counts", None)])
    assert (answer.status, "is no key" in answer.value) == ("failed", True)


def test_queries_are_off_unless_enabled():
    [answer] = states(enabled=False).answers([("counts", 1)])
    assert (answer.status, "queryable-state.enable is not set" in answer.value) == ("unknown-state", True)


# --- settings ---


def test_the_settings_of_flink():
    assert not QueryableStateSettings.of({}).enabled
    found = QueryableStateSettings.of({"queryable-state.enable": "true"})
    assert (found.enabled, found.host, found.ports[0]) == (True, "127.0.0.1", 9069)
    ports = {"queryable-state.enable": "true", "queryable-state.proxy.ports": "9000,9100-9102"}
    assert QueryableStateSettings.of(ports).ports == (9000, 9100, 9101, 9102)


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"queryable-state.enable": "maybe"}, "queryable-state.enable"),
        ({"queryable-state.enable": "true", "queryable-state.proxy.ports": "x"}, "queryable-state.proxy.ports must be"),
        ({"queryable-state.enable": "true", "rest.bind-address": "0.0.0.0"}, "flint.server.token-file"),
        ({"queryable-state.enable": "true", "security.ssl.rest.cert-file": "c"}, "go together"),
        ({"queryable-state.enabled": "true"}, "did you mean 'queryable-state.enable'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(configuration, message):
    with pytest.raises(ValueError, match=message):
        JobSettings("job", configuration).check()


def test_a_token_from_its_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("a token that is long enough\n".replace(" ", "-"))
    file.chmod(0o600)
    configuration = {
        "queryable-state.enable": "true",
        "rest.bind-address": "0.0.0.0",
        "flint.server.token-file": str(file),
    }
    found = QueryableStateSettings.of(configuration)
    assert found.token == "a-token-that-is-long-enough"
    assert found.token not in repr(found)
