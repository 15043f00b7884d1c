"""A program that behaves like a driver without Spark: registers a job, answers requests, and leaves an archive.

`fake_driver.py WAY DIRECTORY`; a file `go-on` in DIRECTORY lets the job finish. Each start is a line in `starts` there.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from flintstream.common.environment_variables import CONF_OVERRIDES
from flintstream.jobmaster.archive import write_archive
from flintstream.jobmaster.details import CheckpointsDetails, JobDetails, to_json
from flintstream.jobmaster.notes import _note, note_end
from flintstream.jobmaster.registry_files import JobFile, registry_directories

MOST_SECONDS = 240.0


class FakeDriver:
    def __init__(self, way: str, directory: Path) -> None:
        self.way = way
        self.directory = directory
        self.settings = json.loads(os.environ[CONF_OVERRIDES])
        self.job_id = self.settings["flint.job-id"]
        self.started = time.time()
        self.status = "RUNNING"
        self.ended = threading.Event()

    def run(self) -> None:
        restart = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "2"}
        restart["restart-strategy.fixed-delay.delay"] = "50 ms"
        noted = {"checkpointing": False, "directory": None, "restart": {} if self.way == "no restarts" else restart}
        _note(self.job_id, "begun", noted)
        self.register()
        deadline = time.monotonic() + MOST_SECONDS
        while not self.ended.is_set() and not (self.directory / "go-on").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        if not self.ended.is_set():
            self.status = "FINISHED"
        note_end(self.job_id, self.status)
        if self.way != "no archive":
            write_archive(self.details())

    def register(self) -> None:
        place = registry_directories()[0]
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = place / f"{os.getpid()}-fake"
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen(8)
        threading.Thread(target=self.serve, args=[listening], daemon=True).start()
        file = JobFile(self.job_id, "fake", os.getpid(), socket.gethostname(), self.started, str(path))
        hidden = place / f"{self.job_id}.hidden"
        hidden.write_text(json.dumps(asdict(file)))
        hidden.rename(place / f"{self.job_id}-{os.getpid()}.json")

    def serve(self, listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=self.answer, args=[connection], daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            request = json.loads(stream.readline())
            command = request.pop("command")
            if command == "details":
                answer = {"result": to_json(self.details())}
            elif command == "status":
                answer = {"result": self.status}
            elif command == "cancel":
                self.status = "CANCELED"
                self.ended.set()
                answer = {"result": None}
            elif command == "savepoint" and request["directory"] == "/refused":
                answer = {"error": "no space"}
            else:
                answer = {"result": request.get("directory")}
            connection.sendall(json.dumps(answer).encode() + b"\n")

    def details(self) -> JobDetails:
        now = int(time.time() * 1000)
        started = int(self.started * 1000)
        return JobDetails(
            job_id=self.job_id,
            name="fake",
            status=self.status,
            job_type="STREAMING",
            start_time=started,
            end_time=now if self.status != "RUNNING" else -1,
            now=now,
            timestamps={"RUNNING": started},
            parallelism=1,
            restarts=0,
            driver_pid=os.getpid(),
            driver_host=socket.gethostname(),
            program="fake_driver.py",
            configuration={},
            parameters={},
            restart_strategy="",
            object_reuse=False,
            vertices=[],
            slots=[],
            checkpoints=CheckpointsDetails(enabled=False),
            exceptions=[],
            guarantees=[],
        )


def main() -> None:
    way, directory = sys.argv[1], Path(sys.argv[2])
    with (directory / "starts").open("a") as starts:
        starts.write(json.dumps({"pid": os.getpid(), "overrides": json.loads(os.environ[CONF_OVERRIDES])}) + "\n")
    if way == "nothing":
        print("did nothing")
    elif way == "fails":
        raise ValueError("out of cheese")
    elif way == "starts for ever":
        time.sleep(MOST_SECONDS)
    else:
        FakeDriver(way, directory).run()


main()
