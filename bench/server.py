"""server: what the job server costs its jobs, how quickly it answers, and how long a job takes to start through it."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.report import Result, Row
from flintstream.common.job_id import JobID
from flintstream.jobmaster.details import JobDetails, from_json, to_json

JOBS, RUNNING, CLIENTS = 20, 2, 50
MOST_OVERVIEW_MS = 50.0
LEAST_WITH_CLIENTS = 0.95
MOST_DETACHED = 1.5
_ROOT = Path(__file__).resolve().parents[1]
_JOB = Path(__file__).with_name("server_job.py")
_FLINT = (sys.executable, "-m", "flintstream")
_PATIENCE_SECONDS = 180.0


def run(quick: bool) -> Result:
    """Two jobs run, with and without clients that poll the list of twenty."""
    seconds, rounds, starts = (8.0, 2, 1) if quick else (15.0, 4, 3)
    with tempfile.TemporaryDirectory(prefix="flint-server-") as directory, _server(Path(directory)) as url:
        detached, attached = _starts(url, starts)
        ids = [_submit(url, f"count {number}") for number in range(RUNNING)]
        for job_id in ids:
            _running_since(url, job_id)
        _archive(Path(directory) / "data" / "archive", _details(url, ids[0]), JOBS - RUNNING)
        _wait(lambda: len(_get(url, "/jobs/overview")["jobs"]) >= JOBS, "the list of jobs")
        time.sleep(seconds)  # Spark warms up.
        rates: dict[bool, list[float]] = {False: [], True: []}
        latencies: list[float] = []
        for _ in range(rounds):
            for polled in (False, True):
                with _clients(url, CLIENTS if polled else 0, latencies):
                    rates[polled].append(_rate(url, ids, seconds))
        for job_id in ids:
            _end(url, job_id)
    alone, polled_rate = statistics.median(rates[False]), statistics.median(rates[True])
    rows = [
        Row("two jobs, nobody asks", alone),
        Row(
            f"two jobs, {CLIENTS} clients ask each second",
            polled_rate,
            note=f"{polled_rate / alone:.2f} of it; wanted {LEAST_WITH_CLIENTS}",
        ),
        Row(
            f"/jobs/overview of {JOBS} jobs, 99th percentile",
            statistics.quantiles(latencies, n=100)[98] * 1000,
            "ms",
            most=MOST_OVERVIEW_MS,
            note=f"median {statistics.median(latencies) * 1000:.1f} ms, {len(latencies):,} requests",
        ),
        Row("flint run, until RUNNING", attached, "s"),
        Row(
            "flint run -d, until RUNNING",
            detached / attached,
            "times",
            most=MOST_DETACHED,
            note=f"{detached:.1f} s",
        ),
    ]
    return Result("server", "The job server: two jobs run, parallelism 1", rows, {"rates": rates[False] + rates[True]})


# --- the server ---


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    os.environ["FLINT_JOBS_DIR"] = str(directory / "registry")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    command = [*_FLINT, "server", "--port", "0", "--data", str(directory / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield next(word.rstrip(",") for word in line.split() if word.startswith("http"))
        finally:
            process.terminate()
            process.wait(_PATIENCE_SECONDS)


def _archive(archive: Path, like: JobDetails, count: int) -> None:
    """Leaves ended jobs behind, as their drivers would have."""
    for _ in range(count):
        job_id = str(JobID())
        ended = replace(like, job_id=job_id, status="FINISHED", end_time=like.now, driver_pid=2**22)
        hidden = archive / f"{job_id}.new"
        hidden.write_text(json.dumps(to_json(ended)))
        hidden.rename(archive / f"{job_id}-{2**22}.json")


def _submit(url: str, name: str) -> str:
    command = [*_FLINT, "run", "-d", "-m", url, str(_JOB), name]
    told = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True).stdout
    return told.split()[-1]


def _starts(url: str, times: int) -> tuple[float, float]:
    """Returns the seconds until RUNNING by `flint run -d`, and by `flint run`: the least of several starts, in turns."""
    detached, attached = [], []
    for _ in range(times):
        began = time.time()
        job_id = _submit(url, "detached")
        detached.append(_running_since(url, job_id) - began)
        _end(url, job_id)
        known = {job["jid"] for job in _get(url, "/jobs/overview")["jobs"]}
        began = time.time()
        command = [*_FLINT, "run", str(_JOB), "attached"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            job_id = _wait(partial(_new_id, url, known), "the job in the list")
            attached.append(_running_since(url, job_id) - began)
            _end(url, job_id)
            process.wait(_PATIENCE_SECONDS)
    return min(detached), min(attached)


def _new_id(url: str, known: set[str]) -> str | None:
    return next(iter(_ids(url) - known), None)


def _ids(url: str) -> set[str]:
    return {job["jid"] for job in _get(url, "/jobs/overview")["jobs"]}


def _running_since(url: str, job_id: str) -> float:
    found: float = _wait(lambda: _details(url, job_id).timestamps.get("RUNNING"), "the start of a job") / 1000
    return found


def _end(url: str, job_id: str) -> None:
    _call(url, "PATCH", f"/jobs/{job_id}?mode=cancel")
    _wait(lambda: _get(url, f"/jobs/{job_id}/status")["status"] == "CANCELED", "the end of a job")


# --- requests ---


def _call(url: str, method: str, path: str) -> Any:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_PATIENCE_SECONDS)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text or b"{}")
    finally:
        connection.close()


def _get(url: str, path: str) -> Any:
    return _call(url, "GET", path)


def _details(url: str, job_id: str) -> JobDetails:
    return from_json(JobDetails, _get(url, f"/jobs/{job_id}/details"))


def _rate(url: str, job_ids: list[str], seconds: float) -> float:
    """Returns the records that the jobs have read per second, by their own clocks."""

    def read() -> list[tuple[int, int]]:
        return [
            (details.now, sum(subtask.metrics["numRecordsOut"] for subtask in details.vertices[0].subtasks))
            for details in (_details(url, job_id) for job_id in job_ids)
        ]

    before = read()
    time.sleep(seconds)
    after = read()
    return sum((count - earlier) * 1000 / (now - then) for (then, earlier), (now, count) in zip(before, after))


@contextmanager
def _clients(url: str, count: int, latencies: list[float]) -> Iterator[None]:
    """Clients that ask for the list of jobs each second, on connections of their own, spread over the second."""
    ended = threading.Event()
    address = urlsplit(url).netloc

    def poll(number: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=_PATIENCE_SECONDS)
        ended.wait(number / max(count, 1))
        while not ended.is_set():
            began = time.perf_counter()
            connection.request("GET", "/jobs/overview")
            connection.getresponse().read()
            taken = time.perf_counter() - began
            latencies.append(taken)
            ended.wait(max(0.0, 1.0 - taken))
        connection.close()

    threads = [threading.Thread(target=poll, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(_PATIENCE_SECONDS)


def _wait(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took longer than {_PATIENCE_SECONDS:g} s")
        time.sleep(0.1)
    return found
