"""What a driver reports about its jobs: status, graph, subtasks, failures, settings without secrets."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace

import pytest
from tests.waiting import wait_until

from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.details import JobDetails, from_json, to_json
from flintstream.jobmaster.failures import FailureHistory
from flintstream.jobmaster.registry import JobRegistry
from flintstream.jobmaster.registry_client import ask, find_jobs
from flintstream.jobmaster.registry_files import RegistryError
from flintstream.jobmaster.reporting import HIDDEN, collect_details, without_secrets
from flintstream.jobmaster.settings import JobSettings
from flintstream.runtime.faults import Fault, UserCodeError
from flintstream.testing import LocalJob

from ..graph.programs import execution_graph, sink, source
from .test_job_master import make_master


@pytest.fixture
def registry(tmp_path, monkeypatch):
    monkeypatch.setenv("FLINT_JOBS_DIR", str(tmp_path / "jobs"))
    registry = JobRegistry()
    yield registry
    registry.close()


def statuses(details: JobDetails) -> set[str]:
    return {subtask.status for vertex in details.vertices for subtask in vertex.subtasks}


def test_a_job_is_reported_from_its_start_to_its_end(blocked):
    master = make_master()
    created = collect_details(master)
    assert (created.status, created.end_time, created.slots) == ("CREATED", -1, [])
    assert statuses(created) == {"CREATED"}
    master.start()
    running = wait_until(lambda: (found := collect_details(master)).status == "RUNNING" and found)
    assert running.slots[0].host == "there" and running.slots[0].pid == 17
    assert statuses(running) == {"RUNNING"}
    assert set(running.timestamps) == {"CREATED", "RUNNING"}
    assert running.driver_pid == os.getpid() and running.job_id == str(master.job_id)
    blocked.go_on.set()
    master.join(60)
    ended = collect_details(master)
    assert ended.status == "FINISHED" and ended.ended and ended.end_time == ended.timestamps["FINISHED"]
    assert statuses(ended) == {"FINISHED"} and ended.phase is None
    (vertex,) = ended.vertices
    assert [each.name for each in vertex.operators] == [
        node.name for node in master.context.graph.job_graph.nodes.values()
    ]
    assert vertex.vertex_id == vertex.operators[0].operator_id and len(vertex.vertex_id) == 32
    assert ended.guarantees[0].delivery == "at most once"


def test_details_cross_the_socket_unchanged(registry, blocked):
    master = make_master()
    registry.register(master)
    master.start()
    (job,) = find_jobs()
    received = job.details(seconds=60)
    assert isinstance(received, JobDetails) and received.name == "my job"
    now = collect_details(master)
    assert from_json(JobDetails, json.loads(json.dumps(to_json(now)))) == now


def test_a_failure_is_reported_with_its_place(blocked):
    name = next(iter(execution_graph(sink(source())).job_graph.nodes.values())).name
    blocked.faults.append(Fault(name, 0, "'record'", "Traceback: user's own", "ValueError: bad", slot=0))
    blocked.go_on.set()
    master = make_master(restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="0 s")
    master.start()
    master.join(60)
    details = collect_details(master)
    assert (details.status, details.restarts) == ("FINISHED", 1)
    (failure,) = details.exceptions
    assert failure.exception == f"operator '{name}': ValueError: bad"
    assert (failure.stacktrace, failure.record, failure.attempt) == ("Traceback: user's own", "'record'", 0)
    assert (failure.host, failure.vertex_id, failure.subtask) == ("there", details.vertices[0].vertex_id, 0)
    assert {subtask.attempt for vertex in details.vertices for subtask in vertex.subtasks} == {1}


@pytest.mark.parametrize("when", ["map", "close"])
def test_of_several_operators_with_one_name_the_slot_says_which_has_failed(when):
    class Fails(MapFunction):
        def map(self, value):
            return value if when != "map" else 1 // 0

        def close(self):
            assert when != "close"

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2]).map(lambda n: n).rebalance().map(Fails()).set_parallelism(2)
    graph = ExecutionGraph(env.get_job_graph())
    with pytest.raises(UserCodeError) as failure:
        LocalJob(graph).run()
    fault = failure.value.fault
    history = FailureHistory(graph)
    assert (fault.operator, history.vertex_of(replace(fault, vertex=None, subtask=0))) == ("Map", None)
    assert history.vertex_of(fault) == fault.vertex == graph.job_graph.vertices[-1].id
    assert history.vertex_of(Fault(None, None, None, "", "")) is None


def test_the_subtask_at_fault_has_failed_and_the_others_are_canceled(blocked):
    blocked.faults.append(Fault(None, None, None, "gone", "slot 0 is gone", slot=0))
    blocked.go_on.set()
    master = make_master()
    master.start()
    master.join(60)
    details = collect_details(master)
    assert (details.status, statuses(details)) == ("FAILED", {"FAILED"})
    assert details.exceptions[0].exception == "slot 0 is gone"


def test_only_the_latest_failures_are_remembered(blocked):
    blocked.faults += [Fault(None, None, None, "", f"failure {number}") for number in range(4)]
    blocked.go_on.set()
    master = make_master(
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__delay="0 s",
        restart_strategy__fixed_delay__attempts="9",
        web__exception_history_size="2",
    )
    master.start()
    master.join(60)
    assert [each.exception for each in collect_details(master).exceptions] == ["failure 3", "failure 2"]


def test_the_size_of_the_history_is_checked():
    with pytest.raises(ValueError, match="web.exception-history-size must be at least 1, got 0"):
        JobSettings("my job", {"web.exception-history-size": "0"}).check()


def test_secrets_are_hidden():
    given = {
        "s3.secret-key": "a",
        "my.Password": "b",
        "kafka.sasl.jaas.config": "c",
        "fs.azure.account.key.x": "d",
        "auth.token": "e",
        "parallelism.default": "2",
    }
    assert without_secrets(given) == {**dict.fromkeys(given, HIDDEN), "parallelism.default": "2"}


def test_a_request_has_a_deadline_for_the_whole_answer(registry, blocked, monkeypatch):
    master = make_master()
    registry.register(master)
    (job,) = find_jobs()
    waiting = threading.Event()
    monkeypatch.setattr(master, "join", lambda timeout=None: waiting.wait(60))
    with pytest.raises(TimeoutError, match="has not answered 'cancel' in time"):
        ask(job.file, "cancel", 0.2, savepoint=False, directory=None)
    waiting.set()
    with pytest.raises(RegistryError, match="unknown request"):
        ask(job.file, "nonsense", 60)
