"""The store: what it keeps, and who owns its directory."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest
from tests.unit.server.samples import job_details

from flintstream.common.processes import Process
from flintstream.server.job import Job
from flintstream.server.jobs import Operation, Submission
from flintstream.server.store import DirectoryInUseError, Store, StoreError

JOB_ID = "ab" * 16


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "data")
    yield found
    found.close()


def job(job_id=JOB_ID, **fields):
    submission = Submission("/program.py", None, ("-x", "1"), {"parallelism.default": "2"}, job_id, True)
    return Job(job_id, "clicks", "RUNNING", 1000, submission, **fields)


def reopened(store):
    store.close()
    return Store(store.directory)


def test_a_job_is_the_same_after_a_restart(store):
    stored = job(driver=Process(12, 345), failures=[1.5], begun={"checkpointing": True}, restart_at=2.5)
    stored.died("the driver, process 12, is gone", "its last words")
    assert store.add(stored)
    assert not store.add(job())
    store.save(stored, job_details(), "the job is RUNNING")
    again = reopened(store)
    assert again.jobs() == [stored]
    assert again.details(JOB_ID) == job_details()
    assert [event for _, event in again.events(JOB_ID)] == ["the job is RUNNING"]
    again.close()


def test_details_stay_when_only_the_job_is_saved(store):
    store.add(job())
    store.save(job(), job_details())
    store.save(job())
    assert store.details(JOB_ID) is not None


def test_an_operation_is_known_by_its_trigger_and_interrupted_ones_have_failed(store):
    store.add(job())
    begun = Operation("t", "savepoint", JOB_ID, False)
    assert store.begin(begun) is None
    assert store.begin(begun) == begun
    assert store.operation(JOB_ID, "stop", "t") is None
    store.end(Operation("t", "savepoint", JOB_ID, True, {"location": "/there"}))
    store.begin(Operation("u", "savepoint", JOB_ID, False))
    store.fail_operations("interrupted")
    assert store.operation(JOB_ID, "savepoint", "t") == Operation(
        "t", "savepoint", JOB_ID, True, {"location": "/there"}
    )
    assert store.operation(JOB_ID, "savepoint", "u").failure == "interrupted"
    store.remove(JOB_ID)
    assert store.operation(JOB_ID, "savepoint", "t") is None
    assert store.jobs() == []


def test_the_oldest_ended_jobs_and_the_expired_ones_are_surplus(store):
    for number in range(5):
        each = job(f"{number}" * 32)
        each.status, each.end_time = ("RUNNING", -1) if number == 0 else ("FINISHED", number * 100)
        store.add(each)
    assert store.surplus(2, 0) == ["1" * 32, "2" * 32]
    assert store.surplus(10, 150) == ["1" * 32]
    assert store.surplus(10, 0) == []


def test_a_second_server_is_refused_with_the_pid_of_the_first(store):
    with pytest.raises(DirectoryInUseError, match=rf"\(process {os.getpid()}\)"):
        Store(store.directory)


def test_the_directory_of_a_killed_server_is_free(tmp_path):
    program = (
        "import sys, os, signal; from pathlib import Path; from flintstream.server.store import Store; "
        "store = Store(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "data")], timeout=60)
    Store(tmp_path / "data").close()


def test_tables_of_another_version_are_refused(store):
    store.close()
    database = sqlite3.connect(store.directory / "jobs.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="has version 99 of the tables"):
        Store(store.directory)
    (store.directory / "jobs.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match=r"jobs.sqlite cannot be used"):
        Store(store.directory)


def test_a_directory_that_others_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="nobody else may write to it"):
        Store(tmp_path)


def test_files_of_the_store_are_private(store):
    assert store.directory.stat().st_mode & 0o777 == 0o700
    assert (store.directory / "jobs.sqlite").stat().st_mode & 0o777 == 0o600
