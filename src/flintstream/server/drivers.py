"""Driver processes: how the server starts one for a job, finds it again, and ends it.

A driver holds a lock in its job's directory for its whole life, which it inherits from the server. Whoever gets that lock
has proved that no driver of the job is left, even if the server was killed before it could note the driver's pid.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from flintstream.common.environment_variables import ARCHIVE_DIRECTORY, CONF_OVERRIDES, PLAN_ONLY
from flintstream.common.flint_options import JOB_ID, PROGRESS, RECOVER
from flintstream.common.processes import Process
from flintstream.server.jobs import Submission

__all__ = ["DriverRunsError", "JobDirectory"]

_LOCK, _OUT, _LOG = "driver.lock", "driver.out", "driver.log"
_FILES = "files"
MOST_OUTPUT = 32 * 1024 * 1024
"""The bytes of a file of output at which it is moved to an older one, which is replaced."""
_TAIL_BYTES = 16 * 1024
_NOT_PASSED_ON = (PLAN_ONLY, CONF_OVERRIDES, "FLINT_SERVER_TOKEN_FILE")
_PYTHON_PATHS = ("python.files", "python.archives")
"""Settings that list files, separated by commas; those of archives may end with `#name`."""
_REQUIREMENTS = "python.requirements"


class DriverRunsError(RuntimeError):
    """A driver of the job is still running."""


class JobDirectory:
    """The directory of a submitted job: its files, its driver's lock and output."""

    def __init__(self, jobs: Path, job_id: str, archive: Path) -> None:
        self.path = jobs / job_id
        self._job_id = job_id
        self._archive = archive
        self._child: subprocess.Popen[bytes] | None = None

    # --- files ---

    def take(self, submission: Submission) -> Submission:
        """Copies all files of a submission here, and returns it with their new paths. They are on disk afterwards."""
        self.path.mkdir(mode=0o700, parents=True)
        settings = dict(submission.settings)
        for key in _PYTHON_PATHS:
            if settings.get(key):
                settings[key] = ",".join(self._copy(entry) for entry in settings[key].split(",") if entry)
        if settings.get(_REQUIREMENTS):
            listed, separator, packages = settings[_REQUIREMENTS].partition("#")
            settings[_REQUIREMENTS] = self._copy(listed) + separator + (self._copy(packages) if packages else "")
        program = self._copy(submission.program) if submission.program else ""
        _sync(self.path)
        return Submission(program, submission.module, submission.arguments, settings, self._job_id, submission.pyflink)

    def remove(self) -> None:
        """Removes everything of a job that the server forgets."""
        shutil.rmtree(self.path, ignore_errors=True)

    def log_files(self) -> dict[str, str]:
        """Returns the driver's output: name to path."""
        names = (_LOG, _OUT, f"{_LOG}.1", f"{_OUT}.1")
        return {name: str(self.path / name) for name in names if (self.path / name).is_file()}

    def tail(self) -> str:
        """Returns the end of what the driver has written, of its errors if there are any."""
        for name in (_LOG, _OUT):
            with suppress(OSError), (self.path / name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read().decode(errors="replace").strip()
                if text:
                    return text
        return ""

    def bound_output(self) -> None:
        """Moves output that has become too long to an older file. What the driver writes meanwhile may be lost."""
        for name in (_LOG, _OUT):
            path = self.path / name
            with suppress(OSError):
                if path.stat().st_size > MOST_OUTPUT:
                    shutil.copyfile(path, path.with_name(f"{name}.1"))
                    os.truncate(path, 0)  # The driver appends, so it goes on at the beginning.

    def _copy(self, entry: str) -> str:
        path, separator, target = entry.partition("#")
        source = Path(path)
        if "://" in path:
            return entry
        if not source.exists():
            raise FileNotFoundError(f"there is no file {path!r}")
        place = self.path / _FILES
        place.mkdir(mode=0o700, exist_ok=True)
        # Each in a directory of its own: two may have the same name, which is what imports go by.
        own = place / str(len(list(place.iterdir())))
        own.mkdir(mode=0o700)
        copied = own / source.name
        if source.is_dir():
            shutil.copytree(source, copied)
        else:
            shutil.copyfile(source, copied)
        return f"{copied}{separator}{target}"

    # --- the process ---

    def start(self, submission: Submission, recover: bool) -> Process:
        """Starts a driver, once no other one is left; raises a DriverRunsError otherwise."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._take_lock()
        if lock is None:
            raise DriverRunsError(f"a driver of job {self._job_id} is still running")
        try:
            with self._append(_OUT) as out, self._append(_LOG) as log:
                self._child = subprocess.Popen(
                    _command(submission),
                    cwd=self.path,
                    env=self._environment(submission, recover),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            return Process.of(self._child.pid)
        finally:
            os.close(lock)

    def is_free(self) -> bool:
        """Returns whether no driver of the job is left."""
        if not (self.path / _LOCK).exists():
            return True
        lock = self._take_lock()
        if lock is None:
            return False
        os.close(lock)
        return True

    def find(self) -> Process | None:
        """Returns the driver that holds the lock, where its pid was not noted."""
        wanted = os.path.realpath(self.path / _LOCK)
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with suppress(OSError):
                if any(os.readlink(f"/proc/{name}/fd/{each}") == wanted for each in os.listdir(f"/proc/{name}/fd")):
                    return Process.of(int(name))
        return None

    def exit_code(self, driver: Process) -> int | None:
        """Returns the exit code of a driver that this process has started and that has ended; negative for a signal."""
        if self._child is None or self._child.pid != driver.pid:
            return None
        return self._child.poll()

    def _environment(self, submission: Submission, recover: bool) -> dict[str, str]:
        settings = {**submission.settings, JOB_ID.key: self._job_id, PROGRESS.key: "false"}
        if recover:
            settings[RECOVER.key] = "true"
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        # Not by -D: settings may be secrets, and everybody can read the arguments of a process.
        environment[CONF_OVERRIDES] = json.dumps(settings)
        environment[ARCHIVE_DIRECTORY] = str(self._archive)
        environment["PYTHONUNBUFFERED"] = "1"
        return environment

    def _append(self, name: str) -> _Descriptor:
        return _Descriptor(os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))

    def _take_lock(self) -> int | None:
        lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock


class _Descriptor:
    """An open file, for a child process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def terminate(driver: Process, hard: bool) -> None:
    """Ends a driver: by SIGTERM, on which it ends its slots first, or at once."""
    if driver.runs():
        with suppress(OSError):
            os.kill(driver.pid, signal.SIGKILL if hard else signal.SIGTERM)
            if not hard:
                os.kill(driver.pid, signal.SIGCONT)  # A stopped process would not notice.


def describe_exit(code: int | None) -> str:
    """Returns how a process has ended, in words."""
    if code is None:
        return "is gone"
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"exited with code {code}"


def _command(submission: Submission) -> list[str]:
    command = [sys.executable, "-m", "flintstream", "run"]
    if submission.pyflink:
        command.append("--pyflink")
    paths = [submission.settings.get("python.files", "")]
    if submission.module is not None:
        if submission.program:
            paths.insert(0, submission.program)
        command += ["-pym", submission.module]
    if any(paths):
        command += ["-pyfs", ",".join(filter(None, paths))]
    if submission.module is None:
        command.append(submission.program)
    elif submission.arguments:
        command.append("--")
    return [*command, *submission.arguments]


def _sync(directory: Path) -> None:
    """Writes everything below a directory to the disk, and its name in the directory above."""
    for place, _, names in os.walk(directory):
        for path in (*(os.path.join(place, name) for name in names), place):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    descriptor = os.open(directory.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def wait_gone(driver: Process, seconds: float) -> bool:
    """Waits until a process is gone; returns whether it is."""
    deadline = time.monotonic() + seconds
    while driver.runs():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
