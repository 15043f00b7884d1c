"""`flint top`: what is shown of jobs, and where it comes from."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
import uvicorn
from click.testing import CliRunner
from rich.console import Console
from tests.unit.server.samples import JOB, SampleJobs, job_details
from tests.waiting import wait_until

from flintstream.cli import top as top_module
from flintstream.cli.main import cli
from flintstream.cli.top import view
from flintstream.jobmaster.registry_files import RegistryError
from flintstream.server.app import create_app
from flintstream.server.settings import ServerSettings


def shown(*jobs, width=140):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(view(jobs))
    return console.export_text()


def test_a_job_is_shown_with_its_vertices_rates_and_busy_bars():
    text = shown(job_details())
    assert "RUNNING" in text
    assert JOB[:8] in text
    assert "checkpoint 5: " in text
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "█████████░ 93%" in " ".join(lines["count"].split())
    assert " 241 " in lines["count"]
    assert "62%" in next(line for line in text.splitlines() if line.startswith("Source"))


def test_no_line_is_wider_than_the_terminal():
    details = job_details()
    long = [replace(vertex, name=vertex.name * 40) for vertex in details.vertices]
    assert max(map(len, shown(replace(details, vertices=long), width=120).splitlines())) <= 120


def test_a_job_without_checkpoints_or_records_is_shown():
    details = job_details()
    silent = [replace(subtask, metrics={}) for subtask in details.vertices[0].subtasks]
    vertex = replace(details.vertices[0], subtasks=silent)
    text = shown(replace(details, vertices=[vertex], checkpoints=replace(details.checkpoints, enabled=False)))
    assert "no checkpoints" in text
    assert "░░░░░░░░░░ 0%" in " ".join(text.split())


def test_failed_checkpoints_are_counted():
    details = job_details()
    done = details.checkpoints.history[-1]
    history = [replace(done, checkpoint_id=9, status="FAILED"), replace(done, checkpoint_id=8, status="COMPLETED")]
    assert "checkpoint 8" in shown(replace(details, checkpoints=replace(details.checkpoints, history=history)))
    assert "1 failed since" in shown(replace(details, checkpoints=replace(details.checkpoints, history=history)))


def test_nothing_runs(monkeypatch):
    monkeypatch.setattr(top_module, "find_jobs", list)
    assert "No jobs are running." in CliRunner().invoke(cli, ["top"]).output


class Known:
    def __init__(self, details, error=None):
        self.job_id, self.name, self.status, self.ended = details.job_id, details.name, "RUNNING", False
        self._details, self._error = details, error

    def __str__(self):
        return f"'{self.name}' ({self.job_id})"

    def details(self, seconds):
        if self._error is not None:
            raise self._error
        return self._details


def test_a_driver_that_does_not_answer_is_named_and_holds_up_no_other(monkeypatch):
    stopped = Known(replace(job_details(), name="stopped", job_id="12" * 16), TimeoutError("it has not answered"))
    monkeypatch.setattr(top_module, "find_jobs", lambda: [stopped, Known(job_details())])
    output = CliRunner().invoke(cli, ["top"]).output
    assert "'stopped' (12121212" in output
    assert "it has not answered" in output
    assert JOB[:8] in output


def test_one_job_is_chosen_by_the_beginning_of_its_id(monkeypatch):
    other = Known(replace(job_details(), name="other", job_id="12" * 16))
    monkeypatch.setattr(top_module, "find_jobs", lambda: [other, Known(job_details())])
    output = CliRunner().invoke(cli, ["top", JOB[:6].upper(), "-n", "2", "-d", "0.2"]).output
    assert output.count(JOB[:8]) == 2
    assert "other" not in output


def test_a_job_that_does_not_run_is_refused(monkeypatch):
    monkeypatch.setattr(top_module, "find_jobs", list)
    result = CliRunner().invoke(cli, ["top", "nothing"])
    assert result.exit_code == 1
    assert "no running job has an id or a name that begins with 'nothing'" in result.output


@contextmanager
def serving(app):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, what="the start of the server")
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)


def test_the_jobs_of_a_server_are_shown(tmp_path):
    with serving(create_app(SampleJobs(), ServerSettings(data=tmp_path))) as address:
        result = CliRunner().invoke(cli, ["top", "-m", address])
    assert result.exit_code == 0, result.output
    assert JOB[:8] in result.output
    assert "93%" in result.output


def test_a_server_that_is_not_there_is_named():
    result = CliRunner().invoke(cli, ["top", "-m", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "there is no job server at http://127.0.0.1:1" in result.output


def test_the_live_view_waits_for_a_server_that_restarts(monkeypatch):
    answers = [[job_details()], RegistryError("there is no job server"), [job_details()], KeyboardInterrupt()]

    def read(client, wanted):
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(top_module, "_read", read)
    console = Console(width=120, record=True, file=io.StringIO(), force_terminal=True)
    with pytest.raises(KeyboardInterrupt):
        top_module._show_live(console, None, None, 0.01, None)
    assert answers == []
