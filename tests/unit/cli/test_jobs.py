"""`flint list`, `savepoint`, `stop` and `cancel`, and the registry through which they find jobs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from flintstream.cli.jobs import _print_jobs
from flintstream.cli.main import cli
from flintstream.common.job_id import JobID
from flintstream.common.job_status import JobStatus
from flintstream.jobmaster import registry as registry_module
from flintstream.jobmaster.registry import JobRegistry
from flintstream.jobmaster.registry_client import Job
from flintstream.jobmaster.registry_files import JobFile, read_file, registry_directories
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata


class FakeJobMaster:
    """A job that does what it is told, and remembers it."""

    def __init__(self, name: str, job_id: str | None = None):
        self.job_id = JobID(job_id)
        self.settings = SimpleNamespace(job_name=name)
        self.status = JobStatus.RUNNING
        self.parallelism = 3
        self.failure: str | None = None
        self.result: Future[None] = Future()
        self.savepoints: list[tuple[str | None, bool, bool]] = []
        self.fails_with: Exception | None = None
        taken = [CheckpointMetadata(7, 1_700_000_000_000, str(self.job_id), name)]
        store = SimpleNamespace(checkpoints=taken, location=lambda metadata: f"/ckp/chk-{metadata.checkpoint_id}")
        self.checkpoints = SimpleNamespace(store=store)

    def savepoint(self, directory, stop=False, drain=False):
        self.savepoints.append((directory, stop, drain))
        done: Future[str] = Future()
        if self.fails_with is not None:
            done.set_exception(self.fails_with)
        else:
            done.set_result(f"{directory or '/default'}/savepoint-1")
        if stop:
            self.end(JobStatus.FINISHED)
        return done

    def cancel(self):
        self.end(JobStatus.CANCELED)

    def join(self, timeout=None):
        assert self.result.done()

    def end(self, status):
        self.status = status
        self.result.set_result(None)


@pytest.fixture
def directory(tmp_path, monkeypatch) -> Path:
    place = tmp_path / "jobs"
    monkeypatch.setenv("FLINT_JOBS_DIR", str(place))
    return place


@pytest.fixture
def registry(directory):
    registry = JobRegistry()
    yield registry
    registry.close()


@pytest.fixture
def start(registry):
    def start(name: str, job_id: str | None = None) -> FakeJobMaster:
        master = FakeJobMaster(name, job_id)
        registry.register(master)
        return master

    return start


def flint(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def listed(*options: str) -> list[list[str]]:
    """The ids, names and statuses that `flint list` shows."""
    result = flint("list", *options)
    assert result.exit_code == 0, result.output
    rows = [re.split(r"\s{2,}", line.strip()) for line in result.output.splitlines()]
    assert rows[0] == ["JOB", "NAME", "STATUS", "STARTED", "DURATION", "PARALLELISM", "PID", "PROGRAM"]
    return [row[:3] for row in rows[1:]]


# --- list ---


def test_running_jobs_are_listed_with_their_status(start):
    first, second = start("word count"), start("alarms")
    second.status = JobStatus.RESTARTING
    assert listed() == [
        [str(first.job_id), "word count", "RUNNING"],
        [str(second.job_id), "alarms", "RESTARTING"],
    ]


def test_jobs_that_have_not_started_or_have_ended_are_listed_when_asked_for(start):
    start("new").status = JobStatus.CREATED
    start("running")
    start("done").end(JobStatus.FINISHED)
    assert [row[1:] for row in listed()] == [["new", "CREATED"], ["running", "RUNNING"]]
    assert [row[1] for row in listed("-r")] == ["running"]
    assert [row[1:] for row in listed("-a")] == [["new", "CREATED"], ["running", "RUNNING"], ["done", "FINISHED"]]


def test_jobs_of_one_name_are_told_apart(start, monkeypatch):
    main = SimpleNamespace(__file__="/programs/count words.py")
    monkeypatch.setattr(sys, "argv", ["count words.py", "--input", "a"])
    monkeypatch.setitem(sys.modules, "__main__", main)
    start("words")
    monkeypatch.setattr(sys, "argv", ["count words.py", "--input", "b"])
    start("words")
    del main.__file__
    start("words")
    lines = flint("list").output.splitlines()[1:]
    shown = [re.split(r"\s{2,}", line.strip())[5:] for line in lines]
    program, pid = "'/programs/count words.py' --input", str(os.getpid())
    assert shown == [["3", pid, f"{program} a"], ["3", pid, f"{program} b"], ["3", pid, "interactive"]]


def test_why_a_job_has_failed_is_told(start):
    start("goes on")
    master = start("parses")
    master.failure = "operator 'Map': ValueError: no number"
    master.end(JobStatus.FAILED)
    told = f"'parses' ({master.job_id}) is FAILED: operator 'Map': ValueError: no number"
    assert told in flint("list", "-a").output
    assert told in flint("stop", "parses").output


def test_nothing_to_list_is_no_error(directory):
    assert flint("list").output == "No jobs are running.\n"
    assert flint("list", "-a").output == "There are no jobs.\n"
    assert flint("list", "-a", "-r").exit_code == 2


# --- which job ---


@pytest.mark.parametrize("text", ["ab12", "AB12", "clicks by", "clicks by page", "ab12" * 8])
def test_a_job_is_meant_by_its_id_or_name_or_how_they_begin(start, text):
    master = start("clicks by page", "ab12" * 8)
    start("alarms", "cd34" * 8)
    assert flint("savepoint", text, "/savepoints").exit_code == 0
    assert master.savepoints == [("/savepoints", False, False)]


def test_a_whole_name_counts_more_than_the_beginning_of_another(start):
    start("clicks by page")
    master = start("clicks")
    assert flint("savepoint", "clicks", "/savepoints").exit_code == 0
    assert len(master.savepoints) == 1


@pytest.mark.parametrize("command", ["savepoint", "stop", "cancel"])
def test_a_job_that_is_not_one_is_named(start, command):
    masters = [start("clicks by page", "ab12" * 8), start("clicks by user", "cd34" * 8)]
    result = flint(command, "clicks")
    assert result.exit_code == 1
    assert (
        f"'clicks' is ambiguous; it matches these jobs: 'clicks by page' ({'ab12' * 8}), 'clicks by user' ("
        in result.output
    )
    result = flint(command, "sales")
    assert result.exit_code == 1
    assert "no running job has an id or a name that begins with 'sales'; there are: 'clicks by page' (" in result.output
    masters[0].end(JobStatus.FAILED)
    result = flint(command, "clicks by page")
    assert result.exit_code == 1
    assert f"job 'clicks by page' ({'ab12' * 8}) is FAILED." in result.output
    assert flint(command).exit_code == 2


# --- savepoint, stop, cancel ---


def test_a_relative_directory_is_that_of_the_command(start, tmp_path, monkeypatch):
    master = start("clicks")
    monkeypatch.chdir(tmp_path)
    flint("savepoint", "clicks", "saved")
    flint("savepoint", "clicks", "memory://saved")
    assert [directory for directory, _, _ in master.savepoints] == [str(tmp_path / "saved"), "memory://saved"]


def test_the_savepoint_alone_is_on_standard_output(start):
    start("clicks", "ab12" * 8)
    result = flint("savepoint", "clicks")
    assert result.stdout == "/default/savepoint-1\n"
    assert result.stderr == f"Took a savepoint of job 'clicks' ({'ab12' * 8}).\n"


def test_a_savepoint_that_fails_is_told_and_the_job_goes_on(start):
    master = start("clicks")
    master.fails_with = ValueError("no directory for the savepoint")
    for arguments in (["savepoint", "clicks"], ["cancel", "clicks", "-s"]):
        result = flint(*arguments)
        assert result.exit_code == 1
        assert result.output == "Error: no directory for the savepoint\n"
    assert master.status is JobStatus.RUNNING


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (None, True, False)),
        (["-d"], (None, True, True)),
        (["--drain", "-p", "/saved"], ("/saved", True, True)),
        (["--savepointPath", "/saved"], ("/saved", True, False)),
    ],
)
def test_stop_ends_the_job_with_a_savepoint(start, arguments, expected):
    master = start("clicks")
    result = flint("stop", *arguments, "clicks")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{expected[0] or '/default'}/savepoint-1\n"
    assert master.savepoints == [expected]
    assert master.status is JobStatus.FINISHED


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["clicks"], []),
        (["-s", "clicks"], [(None, False, False)]),
        (["clicks", "-s"], [(None, False, False)]),
        (["-s", "/saved", "clicks"], [("/saved", False, False)]),
        (["clicks", "--withSavepoint", "/saved"], [("/saved", False, False)]),
    ],
)
def test_cancel_ends_the_job_with_or_without_a_savepoint(start, arguments, expected):
    master = start("clicks")
    result = flint("cancel", *arguments)
    assert result.exit_code == 0, result.output
    assert master.savepoints == expected
    assert master.status is JobStatus.CANCELED
    assert result.stdout == "".join(f"{directory or '/default'}/savepoint-1\n" for directory, _, _ in expected)


@pytest.mark.parametrize("arguments", [[], ["-d", "/saved", "clicks"]])
def test_savepoint_wants_either_a_job_or_a_savepoint(directory, arguments):
    assert flint("savepoint", *arguments).exit_code == 2


def test_the_completed_checkpoints_of_a_job_are_shown(start):
    start("clicks")
    header, line = flint("checkpoints", "cli").output.splitlines()
    assert header.split() == ["CHECKPOINT", "TIME", "SIZE", "LOCATION"]
    assert line.split()[0] == "7" and line.split()[-1] == "/ckp/chk-7"
    assert '"id": 7' in flint("checkpoints", "--json", "clicks").output


# --- the registry ---


def test_the_registry_listens_only_while_a_job_runs_and_leaves_nothing(registry, start, directory):
    def listens():
        return any(thread.name == "job registry" for thread in threading.enumerate())

    for left in threading.enumerate():  # Those of other tests may still be ending.
        if left.name == "job registry":
            left.join(30.0)
    assert not listens() and not directory.exists()
    first, second = start("first"), start("second")
    assert directory.stat().st_mode & 0o777 == 0o700
    [thread] = [thread for thread in threading.enumerate() if thread.name == "job registry"]
    assert thread.daemon
    first.end(JobStatus.FINISHED)
    assert listens()
    second.end(JobStatus.FINISHED)
    thread.join(5.0)
    assert not listens()
    start("third")
    assert listens()
    registry.close()
    assert not directory.exists()


def test_only_the_last_jobs_that_have_ended_are_kept(start, monkeypatch):
    monkeypatch.setattr(registry_module, "ENDED_KEPT", 2)
    for number in range(4):
        start(f"job {number}").end(JobStatus.FINISHED)
    assert [row[1] for row in listed("-a")] == ["job 2", "job 3"]


def test_a_job_that_runs_again_under_its_id_is_listed_once(start, monkeypatch):
    monkeypatch.setattr(registry_module, "ENDED_KEPT", 1)
    start("again", "ab12" * 8).end(JobStatus.FAILED)
    start("again", "ab12" * 8)
    start("another").end(JobStatus.FINISHED)
    start("one more").end(JobStatus.FINISHED)
    assert [row[1:] for row in listed("-a")] == [["again", "RUNNING"], ["one more", "FINISHED"]]


def test_a_driver_that_does_not_answer_is_listed_as_such(directory, monkeypatch):
    monkeypatch.setattr("flintstream.jobmaster.registry_client.STATUS_SECONDS", 0.1)
    file = read_file(write_file(directory))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(file.socket)
        listener.listen()
        assert [row[1:] for row in listed()] == [["gone", "NO ANSWER"]]


def test_a_command_does_not_wait_for_a_driver_that_does_not_answer(directory, monkeypatch):
    monkeypatch.setattr("flintstream.jobmaster.registry_client.STATUS_SECONDS", 0.1)
    monkeypatch.setattr("flintstream.jobmaster.registry_client.PATIENCE_SECONDS", 0.1)
    file = read_file(write_file(directory))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(file.socket)
        listener.listen()
        result = flint("cancel", "gone")
    assert result.exit_code == 1
    assert f"the driver of job 'gone' (process {os.getpid()}) does not answer" in result.output


def test_a_command_waits_for_a_driver_that_answers_others(start, monkeypatch):
    monkeypatch.setattr("flintstream.jobmaster.registry_client.PATIENCE_SECONDS", 0.05)
    master = start("slow")
    go_on = threading.Event()
    master.cancel = lambda: go_on.wait(60) and master.end(JobStatus.CANCELED)
    threading.Timer(0.3, go_on.set).start()
    result = flint("cancel", "slow")
    assert result.exit_code == 0, result.output


def write_file(directory: Path, **changes) -> Path:
    """A file that a driver might have left, which ended long ago."""
    job = JobFile("ab12" * 8, "gone", os.getpid(), socket.gethostname(), 1.0, str(directory / "socket"))
    registry = JobRegistry()
    registry._directory = directory
    return registry._write(replace(job, **changes))


def test_files_of_drivers_that_are_gone_are_removed(directory):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale = [write_file(directory, pid=ended.pid), write_file(directory)]
    (directory / "socket").touch()
    assert flint("list").output == "No jobs are running.\n"
    assert not any(path.exists() for path in stale)
    assert not (directory / "socket").exists()


def test_jobs_of_other_machines_and_foreign_files_are_left_alone(directory):
    other = write_file(directory, host="elsewhere", pid=1 << 22)
    (directory / "notes.json").write_text("[]")
    assert flint("list").output == "No jobs are running.\n"
    assert other.exists() and (directory / "notes.json").exists()


def test_a_driver_that_ends_while_it_is_asked_is_told(directory):
    """It says that the job runs, and hangs up at the next question."""
    file = read_file(write_file(directory))

    def answer_once(listener):
        with listener.accept()[0] as connection, connection.makefile("rwb") as stream:
            stream.readline()
            stream.write(b'{"result": "RUNNING"}\n')
        with listener.accept()[0] as connection:
            connection.recv(1000)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(file.socket)
        listener.listen()
        driver = threading.Thread(target=answer_once, args=(listener,))
        driver.start()
        result = flint("cancel", "gone")
        driver.join()
    assert result.exit_code == 1
    assert f"the driver of job 'gone' (process {os.getpid()}) ended before it answered" in result.output


def test_a_directory_that_others_may_enter_is_refused(registry, directory):
    directory.mkdir(mode=0o755)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        registry.register(FakeJobMaster("clicks"))
    [warning] = caught
    assert str(warning.message) == (
        f"job 'clicks' will not be found by `flint list`: {directory} must be a directory that belongs to this user "
        "and that nobody else may enter (mode 0700); FLINT_JOBS_DIR names another one"
    )
    result = flint("list")
    assert result.exit_code == 1
    assert "mode 0700" in result.output


def test_a_path_too_long_for_a_socket_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setenv("FLINT_JOBS_DIR", str(tmp_path / ("j" * 100)))
    registry = JobRegistry()
    registry.register(FakeJobMaster("clicks"))
    [path] = (tmp_path / ("j" * 100)).iterdir()
    listens = Path(read_file(path).socket)
    assert listed()[0][1] == "clicks"
    registry.close()
    assert not listens.parent.exists() and not path.parent.exists()


def test_the_directory_is_that_of_the_user_unless_set(tmp_path, monkeypatch):
    monkeypatch.delenv("FLINT_JOBS_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert registry_directories()[0] == tmp_path / "flint-jobs"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    [only] = registry_directories()
    assert only.name == f"flint-jobs-{os.getuid()}"
    monkeypatch.setenv("FLINT_JOBS_DIR", str(tmp_path / "mine"))
    assert registry_directories() == [tmp_path / "mine"]


def test_whoever_connects_and_asks_nothing_is_hung_up_on_and_keeps_nobody_out(start, directory, monkeypatch):
    monkeypatch.setattr(registry_module, "REQUEST_SECONDS", 1000.0)
    monkeypatch.setattr(registry_module, "MOST_REQUESTS", 4)
    master = start("clicks")
    [path] = directory.glob("*.json")
    silent = []
    for _ in range(12):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(30.0)
        peer.connect(read_file(path).socket)
        peer.sendall(b'{"command": ')
        silent.append(peer)
    assert listed() == [[str(master.job_id), "clicks", "RUNNING"]]
    assert [peer.recv(1) for peer in silent[:8]] == [b""] * 8, "the oldest are hung up on first"
    master.end(JobStatus.FINISHED)
    assert [peer.recv(1) for peer in silent[8:]] == [b""] * 4
    for peer in silent:
        peer.close()


def test_a_request_that_is_too_long_or_too_slow_is_not_read_to_its_end(start, directory, monkeypatch):
    monkeypatch.setattr(registry_module, "REQUEST_SECONDS", 0.2)
    start("clicks")
    [path] = directory.glob("*.json")
    for text in (b"x" * (1 << 17), b"no end"):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(30.0)
            peer.connect(read_file(path).socket)
            try:
                peer.sendall(text)
                assert peer.recv(1) == b""
            except (BrokenPipeError, ConnectionResetError):
                pass  # Also a way to be hung up on.


# --- how it looks on a terminal ---


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_a_line_for_each_job(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    program = "/data/programs/count_words.py --input /data/input/words.txt --output /data/output"
    jobs = [
        Job(JobFile(job_id, "counts the words of a day", 4711, "here", time.time(), "", program, 2), "RUNNING")
        for job_id in ("0123456789" + "a" * 22, "0123456789" + "b" * 22)
    ]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    _print_jobs(jobs, on_terminal=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert [line.split()[0] for line in lines[1:]] == ["0123456789a", "0123456789b"], (
        "as many digits as tell them apart"
    )
    for line in lines[1:]:
        assert "RUNNING" in line and " 4711 " in line and len(line) <= columns
        assert (program.removeprefix("/data/programs/") in line) == (columns == 200)
