"""The registry of running jobs: lets other processes of the same user find and control the jobs of this one.

A driver has a file for each of its jobs in a directory with mode 0700, and listens on a Unix socket while one of them
runs. A request is a line of JSON, `{"command": "savepoint", "job": ..., "directory": ...}`, and so is the answer.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintstream.common.owned_directories import LONGEST_SOCKET_PATH, owned_directory, remove_owned
from flintstream.jobmaster.details import to_json
from flintstream.jobmaster.registry_files import (
    SUFFIX,
    JobFile,
    RegistryError,
    check_private,
    read_files,
    registry_directories,
    remove_if_empty,
)
from flintstream.jobmaster.reporting import collect_details, program
from flintstream.runtime.permissions import Permissions
from flintstream.runtime.slot.messages import ReadStacks
from flintstream.runtime.slot.reception import Reception
from flintstream.runtime.stacks import all_stacks

if TYPE_CHECKING:
    from flintstream.jobmaster.job_master import JobMaster

ENDED_KEPT = 20
"""The number of ended jobs that a driver keeps in the registry until it exits."""
REQUEST_SECONDS = 10.0
"""The time after which a peer that has made no request is disconnected."""
MOST_REQUESTS = 32
"""The maximum number of peers without a request; for one more, the oldest is disconnected."""
_LONGEST_REQUEST = 1 << 16
_ANSWER_SECONDS = 5.0
STACK_SECONDS = 10.0
"""How long a slot may take to report the stacks of its threads."""


class JobRegistry:
    """Publishes the jobs of this process. It listens from the start of the first job to the end of the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[JobMaster, JobFile]] = {}
        self._ended: deque[Path] = deque()
        self._answering: set[threading.Thread] = set()
        self._server: _Server | None = None
        self._directory: Path | None = None
        self._removed = False
        """Whether the process ends, and its files are removed: none is written any more."""

    def register(self, master: JobMaster) -> None:
        """Registers a job until it ends. A job that cannot be registered runs all the same."""
        try:
            with self._lock:
                self._add(master)
        except (OSError, RegistryError) as error:
            warnings.warn(f"job '{master.settings.job_name}' will not be found by `flint list`: {error}", stacklevel=2)
            return
        master.result.add_done_callback(lambda _: self._end(master))

    def close(self) -> None:
        """Closes the registry at the end of the process: waits briefly for pending answers, and removes all files."""
        with self._lock:
            server, self._server = self._server, None
            self._jobs.clear()
        if server is not None:
            server.close()
        deadline = time.monotonic() + _ANSWER_SECONDS
        for thread in list(self._answering):
            thread.join(max(0.0, deadline - time.monotonic()))
        self.remove_files()

    def remove_files(self) -> None:
        """Removes all files without waiting: a signal may end the process anywhere."""
        self._removed = True  # A job that ends now does not leave a file again.
        self._jobs.clear()
        server = self._server
        if server is not None:
            server.path.unlink(missing_ok=True)
        if self._directory is not None:
            for path in self._directory.glob(f"*-{os.getpid()}{SUFFIX}"):
                path.unlink(missing_ok=True)
            remove_if_empty(self._directory)

    def _add(self, master: JobMaster) -> None:
        self._removed = False
        if self._server is None:
            self._directory = _make_private(registry_directories()[0])
            read_files(self._directory)
            self._server = _Server(_socket_path(self._directory), self._answer, self._answering)
        job = JobFile(
            str(master.job_id),
            master.settings.job_name,
            os.getpid(),
            socket.gethostname(),
            time.time(),
            str(self._server.path),
            program(),
            master.parallelism,
        )
        path = self._write(job)
        if path in self._ended:
            self._ended.remove(path)
        self._jobs[job.job_id] = (master, job)

    def _end(self, master: JobMaster) -> None:
        """Records that a job has ended; called on its thread."""
        with self._lock:
            entry = self._jobs.pop(str(master.job_id), None)
            if entry is None or self._removed:
                return
            # The file first: an unfinished job without a listener would look as if its driver had died.
            job = replace(entry[1], status=master.status.name, ended=time.time(), failure=master.failure)
            self._ended.append(self._write(job))
            if self._removed:  # A signal came in the meantime.
                self.remove_files()
                return
            if len(self._ended) > ENDED_KEPT:
                self._ended.popleft().unlink(missing_ok=True)
            if not self._jobs and self._server is not None:
                self._server.close()
                self._server = None

    def _write(self, job: JobFile) -> Path:
        assert self._directory is not None
        path = self._directory / f"{job.job_id}-{job.pid}{SUFFIX}"
        hidden = path.with_suffix(f".{secrets.token_hex(4)}")
        # Another process may just have removed the empty directory.
        _make_private(self._directory)
        with Permissions.OWNER.create_file(str(hidden)) as file:
            file.write(json.dumps(asdict(job)).encode())
        hidden.replace(path)
        return path

    def _answer(self, request: dict[str, Any]) -> Any:
        with self._lock:
            entry = self._jobs.get(str(request.pop("job", None)))
        command = _COMMANDS.get(str(request.pop("command", None)))
        if entry is None or command is None:
            raise RegistryError("the job has ended" if entry is None else "unknown request")
        return command(entry[0], **request)


class _Server:
    """Listens on a Unix socket, and answers each request on its own thread, which is in `answering` meanwhile.

    Peers that make no request are disconnected after a timeout.
    """

    def __init__(self, path: Path, answer: Callable[[dict[str, Any]], Any], answering: set[threading.Thread]) -> None:
        self.path = path
        self._answer = answer
        self._answering = answering
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(path))
            listening.listen(16)
        except OSError:
            listening.close()
            raise
        self._reception = Reception(listening, self._read, self._serve, REQUEST_SECONDS, MOST_REQUESTS)
        threading.Thread(target=self._reception.serve, name="job registry", daemon=True).start()

    def close(self) -> None:
        """Stops listening. Pending requests are still answered."""
        self._reception.close()
        self.path.unlink(missing_ok=True)
        remove_owned(self.path.parent)
        remove_if_empty(self.path.parent)

    def _read(self, connection: socket.socket) -> bytes:
        """Reads a request, one line."""
        thread = threading.current_thread()
        self._answering.add(thread)
        try:
            with connection.makefile("rb") as stream:
                line = stream.readline(_LONGEST_REQUEST)
            if not line.endswith(b"\n"):
                raise RegistryError("a request was truncated, or is too long")
        except BaseException:
            self._answering.discard(thread)
            raise
        return line

    def _serve(self, connection: socket.socket, line: bytes) -> None:
        try:
            with connection:
                answer = json.dumps(self._reply(line)).encode() + b"\n"
                connection.settimeout(_ANSWER_SECONDS)
                connection.sendall(answer)
        except OSError:
            pass  # The client has disconnected.
        finally:
            self._answering.discard(threading.current_thread())

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            return {"result": self._answer(json.loads(line))}
        except Exception as error:
            return {"error": str(error) or type(error).__name__}


def _make_private(directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(directory)
    return directory


def _socket_path(directory: Path) -> Path:
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    path = directory / name
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        path = owned_directory(place="/tmp") / name
    return path


# --- what a job can be asked ---


def _status(master: JobMaster) -> str:
    return master.status.name


def _details(master: JobMaster) -> dict[str, Any]:
    return to_json(collect_details(master))


def _savepoint(master: JobMaster, directory: str | None) -> str:
    return master.savepoint(directory).result()


def _stop(master: JobMaster, directory: str | None, drain: bool) -> str:
    location = master.savepoint(directory, True, drain).result()
    master.join()
    return location


def _cancel(master: JobMaster, savepoint: bool = False, directory: str | None = None, wait: bool = True) -> str | None:
    location = master.savepoint(directory).result() if savepoint else None
    master.cancel()
    if wait:
        master.join()
    return location


def _checkpoint(master: JobMaster) -> int:
    return master.checkpoint().result()


def _checkpoints(master: JobMaster) -> list[dict[str, Any]]:
    store = master.checkpoints.store
    return [
        {
            "id": checkpoint.checkpoint_id,
            "timestamp": checkpoint.timestamp,
            "size": checkpoint.size,
            "location": store.location(checkpoint),
        }
        for checkpoint in list(store.checkpoints)
    ]


def _flamegraph(master: JobMaster, vertex: str, subtask: int | None = None, kind: str = "full") -> dict[str, Any]:
    return master.flame_graphs.get(vertex, subtask, kind)


def _threads(master: JobMaster, slot: int | None = None) -> list[dict[str, str]]:
    stacks = all_stacks() if slot is None else _stacks_in(master, slot)
    return [{"name": name, "stack": stack} for name, stack in stacks]


def _stacks_in(master: JobMaster, slot: int) -> list[tuple[str, str]]:
    pool = None if master.attempt is None else master.attempt.pool
    slots = [] if pool is None else [handle.slot for handle in pool.handles]
    if pool is None or slot not in slots:
        raise RegistryError(f"the job has no slot {slot!r} now; there are: {slots}")
    stacks = pool.ask(ReadStacks(), STACK_SECONDS, slot)[slot]
    if stacks is None:
        raise RegistryError(f"slot {slot} has ended, or does not answer: native code may hold its interpreter")
    return stacks


def _query_state(master: JobMaster, queries: list[Any], form: str, patience: float) -> list[dict[str, Any]]:
    return master.queryable.answers_as_json(queries, form, patience)


_COMMANDS: dict[str, Callable[..., Any]] = {
    "status": _status,
    "details": _details,
    "savepoint": _savepoint,
    "stop": _stop,
    "cancel": _cancel,
    "checkpoint": _checkpoint,
    "flamegraph": _flamegraph,
    "threads": _threads,
    "query_state": _query_state,
    "checkpoints": _checkpoints,
}

registry = JobRegistry()
"""The registry of this process."""
