"""Queryable state on Spark: while an epoch runs, with both backends, by every client; and names that clash."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Configuration, JobStatus, Types, WatermarkStrategy
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import SourceFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.queryable_state import (
    FlinkJobNotFoundException,
    QueryableStateClient,
    QueryableStateError,
    UnknownKeyOrNamespaceException,
    UnknownKvStateLocation,
)

KEYS = 10
COUNT = ValueStateDescriptor("count", Types.LONG())


class Count(KeyedProcessFunction):
    """Counts the records of each key; at one record it stops until a file is there."""

    def __init__(self, gate, stops_at=None):
        self.gate = gate
        self.stops_at = stops_at

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if value == self.stops_at:
            pathlib.Path(f"{self.gate}-reached").touch()
            wait_until(lambda: os.path.exists(self.gate), what="the gate")


class Silent(SourceFunction):
    """Has nothing to say, and keeps its job alive."""

    running = True

    def run(self, ctx):
        while self.running:
            time.sleep(0.01)

    def cancel(self):
        self.running = False


def environment(spark, **settings):
    configuration = Configuration()
    configuration.set_string("queryable-state.enable", "true")
    configuration.set_string("queryable-state.proxy.ports", "0")
    for key, value in settings.items():
        configuration.set_string(key.replace("_", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def subtask(key):
    return subtask_for_group(key_group(key, 128), 128, 2)


def numbers(env, last):
    return env.from_source(NumberSequenceSource(0, last), WatermarkStrategy.no_watermarks(), "numbers")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A job server that finds the jobs of this process."""
    directory = tmp_path_factory.mktemp("server")
    registry = directory / "jobs"
    registry.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLINT_JOBS_DIR", str(registry))
        command = [sys.executable, "-m", "flintstream", "server", "--port", "0", "--data", str(directory / "data")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield process.stdout.readline().split(" at ")[1].split(",")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(ENOUGH_SECONDS)
            process.stdout.close()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_is_read_while_an_epoch_runs(spark, url, tmp_path, backend):
    env = environment(spark, state_backend_type=backend)
    gate = tmp_path / "open"
    last = 20_000
    # One slot stops in the middle of an epoch; what the other has counted can be read meanwhile.
    numbers(env, last).key_by(lambda n: n % KEYS).process(Count(str(gate), stops_at=last // 2)).name("count")
    job = env.execute_async("counted")
    job_id = job.get_job_id()
    counted = {key: len(range(key, last + 1, KEYS)) for key in range(KEYS)}
    server = urllib.parse.urlsplit(url)

    def of_the_other_slot():
        found = {}
        for key in range(KEYS):
            try:
                found[key] = job.query_state("counts", key, COUNT, timeout=0.5).result(ENOUGH_SECONDS).value()
            except QueryableStateError:
                continue  # Its slot stands at the gate, or has not begun.
        return found

    try:
        wait_until(pathlib.Path(f"{gate}-reached").exists, what="the record at which a slot stops")
        read = wait_until(of_the_other_slot, what="the counts of the other slot")
        assert 1 <= len(read) < KEYS
        key, count = next(iter(read.items()))
        assert 1 <= count <= counted[key]
        stranger = next(n for n in range(1000, 2000) if subtask(n) == subtask(key))
        with QueryableStateClient(*job.get_queryable_state_address(), timeout=ENOUGH_SECONDS) as client:
            state = client.get_kv_state(job_id, "counts", key, Types.LONG(), COUNT).result(ENOUGH_SECONDS)
            assert count <= state.value() <= counted[key]
        with QueryableStateClient(server.hostname, server.port, timeout=ENOUGH_SECONDS) as client:
            wait_until(lambda: _known(url, job_id), what="the job in the list of the server")
            state = client.get_kv_state(job_id, "counts", key, Types.LONG(), COUNT).result(ENOUGH_SECONDS)
            assert count <= state.value() <= counted[key]
            with pytest.raises(UnknownKvStateLocation):
                client.get_kv_state(job_id, "nix", key).result(ENOUGH_SECONDS)
            with pytest.raises(UnknownKeyOrNamespaceException):
                client.get_kv_state(job_id, "counts", stranger).result(ENOUGH_SECONDS)
            with pytest.raises(FlinkJobNotFoundException):
                client.get_kv_state("f" * 32, "counts", key).result(ENOUGH_SECONDS)
        answer = _get(f"{url}/jobs/{job_id}/state/counts?key={key}")
        assert count <= answer.pop("value") <= counted[key]
        assert answer == {"name": "counts", "key": key, "kind": "value"}
    finally:
        gate.touch()
        job.get_job_execution_result().result(ENOUGH_SECONDS)
    with pytest.raises(FlinkJobNotFoundException, match="is FINISHED"):
        job.query_state("counts", 1).result(ENOUGH_SECONDS)


def _known(url, job_id):
    try:
        return _get(f"{url}/jobs/{job_id}/status")["status"] == "RUNNING"
    except urllib.error.HTTPError:
        return False


def _get(address):
    with urllib.request.urlopen(address, timeout=ENOUGH_SECONDS) as answer:
        return json.loads(answer.read())


def test_an_idle_job_answers_at_once(spark):
    env = environment(spark)
    env.from_collection([("tea", 1), ("cake", 2)]).key_by(lambda pair: pair[0]).as_queryable_state("last")
    env.add_source(Silent()).print()
    job = env.execute_async("idle")

    def last():
        try:
            return job.query_state("last", "tea", timeout=ENOUGH_SECONDS).result(ENOUGH_SECONDS).value()
        except UnknownKeyOrNamespaceException:
            return None

    assert wait_until(last, what="the first record") == ("tea", 1)
    job.cancel().result(ENOUGH_SECONDS)


def test_two_functions_with_one_name_fail_the_job(spark, tmp_path):
    env = environment(spark)
    keyed = numbers(env, 10).key_by(lambda n: n)
    keyed.process(Count(str(tmp_path))).name("first")
    keyed.process(Count(str(tmp_path))).name("second")
    with pytest.raises(Exception, match="both have a queryable state 'counts'") as failed:
        env.execute()
    assert "'first'" in str(failed.value)
    assert "'second'" in str(failed.value)


def test_queries_are_off_unless_enabled(env, tmp_path):
    gate = tmp_path / "open"
    numbers(env, 10).key_by(lambda n: n).process(Count(str(gate), stops_at=5))
    job = env.execute_async()
    try:
        assert job.get_queryable_state_address() is None
        wait_until(lambda: job.get_job_status().result() is JobStatus.RUNNING, what="the start")
        with pytest.raises(QueryableStateError, match="queryable-state.enable is not set"):
            job.query_state("counts", 1).result(ENOUGH_SECONDS)
    finally:
        gate.touch()
        job.get_job_execution_result().result(ENOUGH_SECONDS)
