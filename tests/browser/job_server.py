"""A real job server, as `flint server` starts it, with a registry of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import ENOUGH_SECONDS, wait_until


@contextlib.contextmanager
def job_server(directory: Path) -> Iterator[str]:
    """Runs a server whose files are in a directory; returns its URL. The drivers that it has started end with it."""
    registry = directory / "registry"
    registry.mkdir(mode=0o700)
    log = directory / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "flintstream", "server", "--port", "0", "--data", str(directory / "data")],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env={**os.environ, "FLINT_JOBS_DIR": str(registry)},
        )
    try:
        wait_until(lambda: process.poll() is not None or "http://" in log.read_text(), what="the start of the server")
        found = re.search(r"http://\S+?(?=,|\s)", log.read_text())
        assert found, log.read_text()
        yield found[0]
        for job in asked(found[0], "/jobs")["jobs"]:
            if job["status"] not in ("FINISHED", "FAILED", "CANCELED"):
                asked(found[0], f"/jobs/{job['id']}", "PATCH")
                wait_until(lambda: _ended(found[0], job["id"]), what="the end of a job")  # noqa: B023
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(ENOUGH_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def asked(url: str, path: str, method: str = "GET"):
    """The answer of a server."""
    with urllib.request.urlopen(urllib.request.Request(url + path, method=method), timeout=ENOUGH_SECONDS) as answer:
        return json.loads(answer.read() or b"null")


def _ended(url: str, job_id: str) -> bool:
    return asked(url, f"/jobs/{job_id}")["state"] in ("FINISHED", "FAILED", "CANCELED")
