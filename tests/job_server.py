"""A job server in a process of its own, for tests: started, killed and started again over one directory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
from tests.waiting import ENOUGH_SECONDS, wait_until

FLINT = (sys.executable, "-m", "flintstream")
ENDED = ("FINISHED", "FAILED", "CANCELED")


class JobServer:
    """A server with a registry of its own. Its jobs outlive it until `clean_up`."""

    def __init__(self, *options: str) -> None:
        # Not tmp_path: it is too long for Unix sockets.
        self.directory = Path(tempfile.mkdtemp(prefix="fs-"))
        self.environment = {**os.environ, "FLINT_JOBS_DIR": str(self.directory / "registry")}
        self.environment.pop("FLINT_CONF_DIR", None)
        self.options = options
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        """Starts the server, and waits until it is ready."""
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*FLINT, "server", "--port", "0", "--data", str(self.directory / "data"), *self.options],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        line = self.process.stdout.readline()
        assert "job server at http" in line, self.log()
        self.url = line.split("at ", 1)[1].split(",")[0]

    def kill(self) -> None:
        """Kills the server as `kill -9` does; its jobs run on."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def log(self) -> str:
        return (self.directory / "server.log").read_text()

    # --- as a client ---

    def flint(self, *arguments: str, fails: bool = False) -> str:
        """Runs a command; returns what it prints."""
        done = subprocess.run(
            [*FLINT, *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * ENOUGH_SECONDS,
        )
        assert (done.returncode != 0) == fails, f"{done.stdout}\n{done.stderr}\n{self.log()}"
        return done.stdout + done.stderr if fails else done.stdout

    def submit(self, *arguments: str) -> str:
        """Hands a program to the server; returns the id of its job."""
        return self.flint("run", "-d", "-m", self.address, *arguments).split()[-1]

    @property
    def address(self) -> str:
        return self.url.partition("://")[2]

    def request(self, path: str, method: str = "GET", body: object = None):
        """Returns the answer to a request."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def status(self, job_id: str) -> str:
        return self.request(f"/jobs/{job_id}")["state"]

    def wait_for(self, job_id: str, status: str, seconds: float = 2 * ENOUGH_SECONDS) -> None:
        """Waits for a status; fails if the job has ended otherwise."""
        deadline = time.monotonic() + seconds
        while (found := self.status(job_id)) != status:
            assert found not in ENDED, f"{found}: {self.request(f'/jobs/{job_id}/exceptions')}\n{self.log()}"
            assert time.monotonic() < deadline, f"job {job_id} is {found}, not {status}\n{self.log()}"
            time.sleep(0.1)

    def wait_for_checkpoint(self, job_id: str, after: int = 0) -> int:
        """Waits for a completed checkpoint with a greater number; returns its number."""

        def completed():
            latest = self.request(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
            return latest is not None and latest["id"] > after and latest["id"]

        # Not so often that the drivers are slowed down by it.
        return wait_until(completed, 2 * ENOUGH_SECONDS, f"a checkpoint of {job_id}", pause=0.2)

    def drivers(self) -> list[psutil.Process]:
        """Returns the drivers of all jobs that run."""
        data = str(self.directory / "data")
        found = []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
                if words[1:4] == ["-m", "flintstream", "run"] and process.cwd().startswith(data):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def driver(self, job_id: str) -> psutil.Process:
        """Returns the driver of a job."""
        (found,) = [process for process in self.drivers() if job_id in process.cwd()]
        return found

    def wait_for_driver_after(self, job_id: str, former: psutil.Process, least: int) -> tuple[psutil.Process, int]:
        """Waits until a job whose driver was killed has another one, was restored from a checkpoint of at least that number,
        and has completed one since; returns the driver, and the number of the restored one.
        """

        def replaced():
            found = [each for each in self.drivers() if each.pid != former.pid and job_id in each.cwd()]
            return found[0] if found else None

        def restored():
            # What the former driver has told stays until the new one tells something.
            latest = self.request(f"/jobs/{job_id}/checkpoints")["latest"]
            done, begun = latest["completed"], latest["restored"]
            known = begun is not None and done is not None
            return begun if known and begun["id"] >= least and done["id"] > begun["id"] else None

        driver = wait_until(replaced, 2 * ENOUGH_SECONDS, f"another driver of {job_id}", pause=0.2)
        return driver, wait_until(restored, 2 * ENOUGH_SECONDS, f"a restored {job_id}", pause=0.2)["id"]

    # --- the end ---

    def clean_up(self) -> None:
        """Ends the server and all its drivers, and removes everything."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
        for process in self.drivers():
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        _, left = psutil.wait_procs(self.drivers(), timeout=30)
        for process in left:
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
