"""What a job leaves for job servers when it ends."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading

import pytest
from tests.waiting import wait_until

from flintstream.jobmaster import archive as module
from flintstream.jobmaster import job_master as job_master_module
from flintstream.jobmaster.archive import ENDED_BY_SIGNAL, LastArchive, archive_directories
from flintstream.jobmaster.details import JobDetails, from_json
from flintstream.runtime.faults import Fault

from .test_job_master import make_master


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    place = tmp_path / "jobs"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("FLINT_JOBS_DIR", str(place))
    monkeypatch.delenv("FLINT_ARCHIVE_DIR", raising=False)
    return place


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "archive"
    place.mkdir(mode=0o700)
    return place


def announce(jobs, place, pid=None, host=None):
    pid = os.getpid() if pid is None else pid
    server = {"pid": pid, "host": host or socket.gethostname(), "started": 1.0, "url": "", "archive": str(place)}
    (jobs / f"server-{pid}.json").write_text(json.dumps(server))


def archived(place) -> list[JobDetails]:
    return [from_json(JobDetails, json.loads(path.read_text())) for path in sorted(place.glob("*.json"))]


def run_to_its_end(blocked, **settings):
    blocked.go_on.set()
    master = make_master(**settings)
    master.start()
    master.join(60)
    return master


def test_a_job_that_ends_is_archived_for_each_server_of_the_machine(jobs, place, tmp_path, monkeypatch, blocked):
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    monkeypatch.setenv("FLINT_ARCHIVE_DIR", str(own))
    announce(jobs, place)
    announce(jobs, tmp_path / "elsewhere", pid=1, host="another machine")
    master = run_to_its_end(blocked)
    for directory in (place, own):
        (details,) = archived(directory)
        assert (details.job_id, details.status, details.ended) == (str(master.job_id), "FINISHED", True)
        (path,) = directory.glob("*.json")
        assert path.name == f"{master.job_id}-{os.getpid()}.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_server_that_is_gone_has_no_archive(jobs, place):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    announce(jobs, place, pid=ended.pid)
    (jobs / "server-2.json").write_text("not JSON")
    assert archive_directories() == []


def test_a_job_ends_although_it_cannot_be_archived(jobs, place, blocked, caplog):
    place.chmod(0o777)
    announce(jobs, place)
    assert run_to_its_end(blocked).status.name == "FINISHED"
    assert list(place.iterdir()) == []
    assert "could not be archived" in caplog.text and "nobody else may write" in caplog.text


def test_a_job_does_not_wait_for_an_archive_that_hangs(jobs, place, blocked, monkeypatch, caplog):
    announce(jobs, place)
    hangs = threading.Event()
    monkeypatch.setattr(module, "ARCHIVE_SECONDS", 0.1)
    monkeypatch.setattr(module, "write_archive", lambda details: hangs.wait(60))
    assert run_to_its_end(blocked).status.name == "FINISHED"
    hangs.set()
    assert "could not be archived within 0.1 s" in caplog.text


def test_a_signal_archives_jobs_with_their_last_status(jobs, place, blocked, monkeypatch):
    monkeypatch.setattr(module, "_ending", threading.Event())
    announce(jobs, place)
    master = make_master()
    LastArchive([master]).wait()
    blocked.faults.append(Fault(None, None, None, "", "slot 0 was killed"))
    blocked.go_on.set()
    master.start()
    master.join(60)
    assert master.status.name == "FAILED"
    (details,) = archived(place)
    assert (details.status, details.phase) == ("CREATED", ENDED_BY_SIGNAL), "the end is that of the driver"


def test_the_failure_is_archived_too(jobs, place, blocked, monkeypatch):
    announce(jobs, place)

    def fail(self, restored):
        raise ValueError("the reason")

    monkeypatch.setattr(job_master_module.JobAttempt, "start", fail)
    run_to_its_end(blocked)
    (details,) = archived(place)
    assert details.status == "FAILED" and details.exceptions[0].exception == "ValueError: the reason"


def test_a_job_whose_slots_are_killed_together_with_its_driver_has_not_failed(jobs, place, blocked, monkeypatch):
    monkeypatch.setattr(module, "_ending", threading.Event())
    monkeypatch.setattr(module, "SIGNAL_SECONDS", 60.0)
    monkeypatch.setattr(module, "END_SECONDS", 0.5)
    announce(jobs, place)
    blocked.faults.append(Fault(None, None, None, "", "slot 0 was killed by signal 15 (SIGTERM)", slot=0))
    blocked.go_on.set()
    master = make_master()
    master.start()
    wait_until(lambda: master.status.name == "FAILING")
    LastArchive([master]).wait()
    (details,) = archived(place)
    assert (details.status, details.phase) == ("FAILING", ENDED_BY_SIGNAL)
    master.join(60)
    assert [each.status for each in archived(place)] == ["FAILING"]


def test_a_job_whose_slot_is_killed_alone_has_failed(jobs, place, blocked, monkeypatch):
    monkeypatch.setattr(module, "_ending", threading.Event())
    monkeypatch.setattr(module, "SIGNAL_SECONDS", 0.01)
    announce(jobs, place)
    blocked.faults.append(Fault(None, None, None, "", "slot 0 was killed by signal 15 (SIGTERM)", slot=0))
    assert run_to_its_end(blocked).status.name == "FAILED"
    assert [each.status for each in archived(place)] == ["FAILED"]
