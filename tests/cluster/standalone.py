"""A Spark cluster of processes on this machine: a master and workers, ended by their ids."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from pathlib import Path

import psutil
from pyspark.find_spark_home import _find_spark_home

from flintstream.spark.java import create_launcher, find_java

HOST = "127.0.0.1"
START_SECONDS = 120.0


class StandaloneCluster:
    """A standalone master and workers with one core each, for those who know its secret."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._directory = directory
        self.secret = secrets.token_hex(16)
        authentication = "-Dspark.authenticate=true -Dspark.network.crypto.enabled=true"
        self._home = Path(_find_spark_home())
        self._processes: list[psutil.Popen] = []
        self.environment = {
            **os.environ,
            "JAVA_HOME": str(create_launcher(find_java(), directory / "java")),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {authentication} "
            f"-Dspark.authenticate.secret={self.secret}",
            "SPARK_LOCAL_DIRS": str(directory / "local"),
        }
        try:
            self._start(workers)
        except BaseException:
            self.stop()
            raise

    def _start(self, workers: int) -> None:
        self._run("master", "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        port = self._logged("master", r"Starting Spark master at spark://127\.0\.0\.1:(\d+)")[0]
        self.url = f"spark://{HOST}:{port}"
        for number in range(workers):
            self._run(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                HOST,
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(self._directory / f"work-{number}"),
                self.url,
            )
        for number in range(workers):
            self._logged(f"worker-{number}", "Successfully registered with master")

    def _run(self, name: str, *command: str) -> None:
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                psutil.Popen(
                    [str(self._home / "bin" / "spark-class"), *command],
                    env=self.environment,
                    cwd=self._directory,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                )
            )

    def _logged(self, name: str, pattern: str) -> list[str]:
        """Waits until a process has logged something."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            text = (self._directory / f"{name}.log").read_text(errors="replace")
            if found := re.findall(pattern, text):
                return found
            assert time.monotonic() < deadline, f"{name} did not start:\n{text}"
            time.sleep(0.05)

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs that run now."""
        children = [child for process in self._processes for child in process.children(recursive=True)]
        return [child for child in children if "CoarseGrainedExecutorBackend" in " ".join(command_line(child))]

    def stop(self) -> None:
        """Ends all processes of the cluster, and what they have started."""
        family = [
            member
            for process in self._processes
            if process.is_running()
            for member in (*process.children(recursive=True), process)
        ]
        for process in family:
            if process.is_running():
                process.kill()
        for process in self._processes:
            process.wait(10)


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
