"""What the driver of a running job reports over its socket."""

from __future__ import annotations

import json
import os

import pytest
from tests.waiting import wait_until

from flintstream.common import Configuration, JobStatus, Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.jobmaster.details import JobDetails, from_json
from flintstream.jobmaster.registry_client import Job, ask, find_jobs
from flintstream.jobmaster.registry_files import RegistryError


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_int_counter("seen")
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, number, ctx):
        self.seen.add(1)
        self.count.update((self.count.value() or 0) + 1)


@pytest.fixture(scope="module")
def job(spark, tmp_path_factory):
    """A job that counts numbers, with checkpoints in a directory."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", tmp_path_factory.mktemp("checkpoints").as_uri())
    configuration.set_string("my.password", "not to be told")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(300)
    numbers = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(200), Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream.key_by(lambda n: n % 4).process(Count()).name("count").uid("count")
    client = env.execute_async("counted numbers")
    yield client
    client.cancel().result()


@pytest.fixture
def found(job) -> Job:
    (mine,) = [each for each in find_jobs() if each.file.job_id == str(job.get_job_id())]
    return mine


def details_when(found: Job, condition) -> JobDetails:
    return wait_until(lambda: condition(told := found.details(seconds=60)) and told)


def test_a_running_job_is_reported_whole(found):
    told = details_when(found, lambda told: any(each.discarded for each in told.checkpoints.history))
    assert (told.name, told.job_type, told.parallelism) == ("counted numbers", "STREAMING", 2)
    assert told.configuration["my.password"] == "******"
    first, second = told.vertices
    assert [each.ship_strategy for each in second.inputs] == ["HASH"] and second.inputs[0].source == first.vertex_id
    assert [each.uid for each in first.operators] == ["numbers"]
    for vertex in told.vertices:
        assert [(each.status, each.slot, each.attempt) for each in vertex.subtasks] == [
            ("RUNNING", n, 0) for n in (0, 1)
        ]
        for subtask in vertex.subtasks:
            order = [subtask.timestamps[state] for state in ("CREATED", "DEPLOYING", "INITIALIZING", "RUNNING")]
            assert order == sorted(order)
    assert {slot.slot for slot in told.slots} == {0, 1}
    assert all(slot.pid != os.getpid() and slot.memory > 1_000_000 for slot in told.slots)
    assert told.checkpoints.enabled and told.checkpoints.interval == 300
    completed = [each for each in told.checkpoints.history if each.status == "COMPLETED"]
    newest, oldest = completed[0], completed[-1]
    assert newest.checkpoint_id > oldest.checkpoint_id and not newest.discarded
    assert newest.external_path.endswith(f"/chk-{newest.checkpoint_id}")
    assert (
        newest.trigger_timestamp <= newest.latest_ack_timestamp <= newest.trigger_timestamp + newest.end_to_end_duration
    )
    assert set(newest.tasks) == {first.vertex_id, second.vertex_id}
    for subtasks in newest.tasks.values():
        assert [each.index for each in subtasks] == [0, 1]
        assert all(each.ack_timestamp >= newest.trigger_timestamp for each in subtasks)
    shares = [each for subtasks in newest.tasks.values() for each in subtasks]
    assert sum(each.state_size for each in shares) == newest.state_size > 0
    assert sum(each.checkpointed_size for each in shares) == newest.checkpointed_size
    assert told.metrics["numberOfCompletedCheckpoints"] == told.checkpoints.completed
    counted = second.subtasks[0].metrics["numRecordsIn"] + second.subtasks[1].metrics["numRecordsIn"]
    assert counted > 0
    told = details_when(found, lambda told: "seen" in told.accumulators)
    shares = [each.accumulators.get("seen") for each in told.vertices[1].subtasks]
    assert sum(int(share["value"]) for share in shares) == int(told.accumulators["seen"]["value"]) > 0
    assert told.accumulators["seen"]["type"] == "IntCounter"
    assert all(each.accumulators == {} for each in told.vertices[0].subtasks)


def test_a_checkpoint_is_taken_on_request(found):
    told = details_when(found, lambda told: told.status == "RUNNING")
    number = ask(found.file, "checkpoint", 120)
    assert number > max((each.checkpoint_id for each in told.checkpoints.history), default=0)
    after = found.details(60)
    assert {each.checkpoint_id: each.status for each in after.checkpoints.history}[number] == "COMPLETED"


def test_a_flame_graph_has_all_samples_of_a_vertex(found):
    told = details_when(found, lambda told: told.status == "RUNNING")
    second = told.vertices[1]
    full = ask(found.file, "flamegraph", 120, vertex=second.vertex_id)
    assert full["data"]["value"] == 200  # 100 samples of each of the two subtasks
    waits = [child["name"] for child in full["data"]["children"]]
    assert any(name.startswith("waiting for ") for name in waits)
    one = ask(found.file, "flamegraph", 120, vertex=second.vertex_id, subtask=1, kind="off_cpu")
    assert 0 < one["data"]["value"] <= 100
    with pytest.raises(RegistryError, match="has 2 subtasks and no subtask 7"):
        ask(found.file, "flamegraph", 120, vertex=second.vertex_id, subtask=7)


def test_threads_of_the_driver_and_of_slots_are_shown(found):
    details_when(found, lambda told: told.status == "RUNNING")
    driver = {each["name"]: each["stack"] for each in ask(found.file, "threads", 60)}
    assert "job counted numbers" in driver and "MainThread" in driver
    slot = {each["name"]: each["stack"] for each in ask(found.file, "threads", 60, slot=1)}
    assert "process.py" in slot["MainThread"] and "control" in slot
    with pytest.raises(RegistryError, match="the job has no slot 9 now; there are: \\[0, 1\\]"):
        ask(found.file, "threads", 60, slot=9)


def test_a_job_is_cancelled_without_waiting_and_archived(found, job, tmp_path, monkeypatch):
    """The last test of the job."""
    monkeypatch.setenv("FLINT_ARCHIVE_DIR", str(tmp_path))
    assert ask(found.file, "cancel", 60, wait=False) is None
    wait_until(lambda: job.get_job_status().result() is JobStatus.CANCELED)
    (path,) = wait_until(lambda: list(tmp_path.glob("*.json")))
    told = from_json(JobDetails, json.loads(path.read_text()))
    assert (told.job_id, told.status, told.exceptions) == (found.file.job_id, "CANCELED", [])
    assert {each.status for vertex in told.vertices for each in vertex.subtasks} == {"CANCELED"}
    assert told.timestamps["CANCELLING"] <= told.end_time == told.timestamps["CANCELED"]
