"""A job on Spark with checkpoints, asked over Flink's REST API of a job server on its machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from tests.unit.server.rest.shapes_of_flink import wrong_answers
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, number, ctx):
        self.count.update((self.count.value() or 0) + 1)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("rest")


@pytest.fixture(scope="module")
def url(directory):
    """A job server that finds the jobs of this process, and no others."""
    registry = directory / "jobs"
    registry.mkdir(mode=0o700)
    before = os.environ.get("FLINT_JOBS_DIR")
    os.environ["FLINT_JOBS_DIR"] = str(registry)
    command = [sys.executable, "-m", "flintstream", "server", "--port", "0", "--data", str(directory / "server")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split(" at ")[1].split(",")[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(ENOUGH_SECONDS)
        if before is None:
            del os.environ["FLINT_JOBS_DIR"]
        else:
            os.environ["FLINT_JOBS_DIR"] = before


@pytest.fixture(scope="module")
def job(spark, url, directory):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(300)
    env.get_checkpoint_config().set_checkpoint_storage_dir((directory / "checkpoints").as_uri())
    numbers = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(200), Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    stream.key_by(lambda n: n % 4).process(Count()).name("count")
    client = env.execute_async("counted numbers")
    yield str(client.get_job_id())
    if not client.get_job_status().result().is_terminal_state():
        client.cancel().result()


def call(url, path, method="GET", body=None):
    """Returns the status and the parsed body of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ENOUGH_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def parameters(url, job):
    """What the paths of the API need, when the job has a checkpoint."""

    def checkpoint():
        status, found = call(url, f"/jobs/{job}/checkpoints")
        return status == 200 and found["latest"]["completed"]

    number = wait_until(checkpoint, what="a checkpoint")["id"]
    vertices = call(url, f"/jobs/{job}")[1]["vertices"]
    (host,) = call(url, "/taskmanagers")[1]["taskmanagers"]
    return {
        "jobid": job,
        "vertexid": vertices[-1]["id"],
        "subtaskindex": "0",
        "attempt": "0",
        "taskmanagerid": host["id"],
        "checkpointid": str(number),
    }


def test_a_real_job_has_the_shapes_of_flink(url, parameters):
    assert wrong_answers(lambda path: call(url, path), parameters) == (48, {})


def test_a_savepoint_and_a_checkpoint_on_request(url, job, parameters, directory):
    def end_of(path):
        def status():
            found = call(url, path)[1]
            return found if found["status"]["id"] == "COMPLETED" else None

        return wait_until(status, what=path)["operation"]

    target = {"target-directory": str(directory / "savepoints"), "triggerId": "5a" * 16}
    status, trigger = call(url, f"/v1/jobs/{job}/savepoints", "POST", target)
    assert (status, trigger) == (202, {"request-id": "5a" * 16})
    location = end_of(f"/v1/jobs/{job}/savepoints/{'5a' * 16}")["location"]
    assert os.path.exists(os.path.join(location.removeprefix("file://"), "_metadata"))
    trigger = call(url, f"/jobs/{job}/checkpoints", "POST", {})[1]["request-id"]
    number = end_of(f"/jobs/{job}/checkpoints/{trigger}")["checkpointId"]
    wait_until(lambda: call(url, f"/jobs/{job}/checkpoints/details/{number}")[0] == 200, what="its details")

    trigger = call(url, "/savepoint-disposal", "POST", {"savepoint-path": location})[1]["request-id"]
    assert end_of(f"/savepoint-disposal/{trigger}") == {}
    assert not os.path.exists(location.removeprefix("file://"))


def test_the_samples_of_a_flame_graph_name_the_user_function(url, job, parameters):
    def graph():
        status, found = call(url, f"/jobs/{job}/vertices/{parameters['vertexid']}/flamegraph?type=full")
        assert status == 200
        return found["endTimestamp"] > 0 and found["data"]

    assert wait_until(graph, what="a flame graph")["value"] > 0


def test_a_job_that_is_stopped_stays_known(url, job, parameters, directory):
    target = {"targetDirectory": str(directory / "stopped"), "drain": False}
    trigger = call(url, f"/jobs/{job}/stop", "POST", target)[1]["request-id"]
    done = f"/jobs/{job}/savepoints/{trigger}"
    wait_until(lambda: call(url, done)[1]["status"]["id"] == "COMPLETED", what="the stop")
    wait_until(lambda: call(url, f"/jobs/{job}")[1]["state"] == "FINISHED", what="the end of the job")
    assert call(url, f"/jobs/{job}/execution-result")[1]["job-execution-result"]["application-status"] == "SUCCEEDED"
    assert call(url, f"/jobs/{job}/savepoints", "POST", {})[0] == 409
