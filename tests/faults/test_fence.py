"""The fence: a slot lets each level of each epoch in once, in order, and nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest
from tests.faults.helpers import assert_nothing_left, failure, idle_job, seen, wait_until

from flintstream.common import JobStatus
from flintstream.runtime.slot.protocol import FAILED, Hello

PROGRAM = Path(__file__).with_name("retry_program.py")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def job(env, tmp_path):
    client = idle_job(env, tmp_path)
    yield client
    client.cancel().result()
    assert_nothing_left(client)


def right_hello(client, level=0, slot=0):
    """What a task of the epoch that ran last has said."""
    master = client.master
    return Hello(str(master.job_id), 0, master.attempt.epoch, level, slot)


def say(client, message, slot=0):
    """Says something to a slot as a Spark task would; returns the answer."""
    pool = client.master.attempt.pool
    with pool.access.connect(slot) as connection:
        connection.send(message)
        return connection.recv_bytes()


def assert_undisturbed(client, directory):
    """The job goes on, and has processed every record once."""
    before = seen(directory)
    (directory / f"tap-{len(before)}").touch()
    expected = [*before, len(before)]
    wait_until(lambda: seen(directory) == expected, what=f"the processing of {expected[-1]}")
    assert client.get_job_status().result() is JobStatus.RUNNING


def test_strangers_and_stragglers_are_refused_and_do_not_disturb_the_job(job, tmp_path):
    hello = right_hello(job)
    refused = {
        "a past epoch": hello._replace(epoch=hello.epoch - 1),
        "a future epoch": hello._replace(epoch=hello.epoch + 1),
        "a past attempt": hello._replace(attempt=-1),
        "another attempt": hello._replace(attempt=1),
        "another job": hello._replace(job_id="0" * 32),
        "another slot": hello._replace(slot=1),
        "no hello at all": "let me in",
    }
    for what, message in refused.items():
        assert say(job, message)[:1] == FAILED, what
    assert_undisturbed(job, tmp_path)


def test_a_wrong_key_is_rejected_and_does_not_disturb_the_job(job, tmp_path):
    for address in job.master.attempt.pool.access.addresses:
        with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
            Client(address, authkey=b"guessed")
    assert_undisturbed(job, tmp_path)


def test_a_peer_that_connects_and_says_nothing_does_not_disturb_the_job(job, tmp_path):
    silent = [Client(address) for address in job.master.attempt.pool.access.addresses]
    try:
        assert_undisturbed(job, tmp_path)
    finally:
        for connection in silent:
            connection.close()


@pytest.mark.parametrize("level", [0, 1])
def test_a_second_hello_for_a_level_fails_the_job_instead_of_counting_twice(env, tmp_path, level):
    client = idle_job(env, tmp_path)
    answer = say(client, right_hello(client, level))
    assert answer[:1] == FAILED
    assert b"must not be counted twice" in answer
    assert "Spark ran a task twice" in failure(client)
    assert seen(tmp_path) == [0]


@pytest.fixture(scope="module")
def retries(tmp_path_factory):
    """How the jobs of a driver ended whose Spark tries a failed task again."""
    directory = tmp_path_factory.mktemp("retries")
    done = subprocess.run([sys.executable, str(PROGRAM), str(directory)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "Py4J" not in done.stderr, "a driver ends quietly, whatever has failed"
    return {ended["case"]: ended for ended in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize(
    "case",
    [
        "raises before its output 0",
        "raises behind its output 1",
        "is killed before its output 1",
        "is killed behind its output 0",
    ],
)
def test_a_task_that_fails_after_its_hello_is_not_run_again(retries, case):
    ended = retries[case]
    assert ended["attempts"] == [0, 1], "Spark has tried"
    assert ended["status"] == "FAILED"
    assert "Spark ran a task twice" in ended["error"] or "the Spark task of epoch 1 went away" in ended["error"]
    assert ended["most often seen"] == 1


@pytest.mark.parametrize("level", [0, 1])
def test_a_task_that_fails_before_its_hello_is_run_again_by_spark_and_nothing_is_lost(retries, level):
    ended = retries[f"raises before its hello {level}"]
    assert ended["attempts"] == [0, 1]
    assert ended["status"] == "FINISHED"
    assert (ended["seen"], ended["most often seen"]) == (1000, 1)
