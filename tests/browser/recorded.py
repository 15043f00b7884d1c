"""A job server whose jobs are samples, for tests and for work on the page: `python -m tests.browser.recorded [PORT]`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from tests.unit.server.samples import SampleJobs, summary
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.jobmaster.details import JobDetails
from flintstream.server.app import create_app
from flintstream.server.jobs import Operation, UnknownJobError
from flintstream.server.security import Token
from flintstream.server.settings import ServerSettings

from . import samples


def _frame(name, value, *children):
    return {"name": name, "value": value, "children": list(children)}


FLAMES = _frame(
    "root",
    100,
    _frame(
        "run (task.py:88)",
        96,
        _frame(
            "process (map.py:31)",
            82,
            _frame(
                "score (shop.py:52)", 70, _frame("loads (json/__init__.py:346)", 44), _frame("exp (shop.py:61)", 12)
            ),
        ),
        _frame("flush (output.py:120)", 11),
    ),
)


class RecordedJobs(SampleJobs):
    """Samples that are made anew for each request, so that they live; what is asked for completes at once."""

    def __init__(self, make: Callable[[], list[JobDetails]] = samples.jobs) -> None:
        super().__init__(*make())
        self.make = make
        self.answers["flamegraph"] = FLAMES

    def summaries(self):
        return [summary(each) for each in self.make()]

    def details(self, job_id):
        for each in self.make():
            if each.job_id == job_id:
                return each
        raise UnknownJobError(f"no job {job_id}")

    def begin(self, job_id, kind, command, trigger_id, **arguments):
        self.asked.append((job_id, command, arguments))
        result = "file:///var/lib/flint/savepoints/savepoint-1"
        return self.operations.setdefault(
            (job_id, kind, trigger_id), Operation(trigger_id, kind, job_id, done=True, result=result)
        )


def recorded_app(jobs: SampleJobs, directory: Path, token: str | None = None, **settings) -> FastAPI:
    """The app of the server over such jobs."""
    given = ServerSettings(data=directory, **settings)
    return create_app(jobs, given, None if token is None else Token(token))


@contextlib.contextmanager
def served(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Serves an app in a thread, at the URL that it returns."""
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), name="page", daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, what="the start of the server")
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(ENOUGH_SECONDS)
        listening.close()
        assert not thread.is_alive(), "the server did not end"


def main() -> None:
    """Serves the samples until it is interrupted."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8090
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "driver.log"
        log.write_text(
            "".join(f"2026-11-18 02:10:{second:02} INFO epoch {second} took 640 ms\n" for second in range(60))
        )
        jobs = RecordedJobs()
        jobs.logs = {each.job_id: {"driver.log": str(log)} for each in samples.jobs()}
        uvicorn.run(recorded_app(jobs, Path(directory)), port=port, log_level="warning")


if __name__ == "__main__":
    main()
