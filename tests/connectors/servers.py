"""A database server of the tests' own: its program, its directory, its process."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from .debian import NotAvailable, library_path, unpack

_SECONDS = 120


class DatabaseServer(ABC):
    """A server in a temporary directory, on a free port. It starts with the object and ends with `close`."""

    package: str
    """The Debian package that has it."""
    not_needed: tuple[str, ...]
    """How the names of packages start that it runs without."""
    stop_signal = signal.SIGTERM
    """What stops it soon, clients or not."""

    def __init__(self, cache: Path) -> None:
        self.port = _free_port()
        self._account = _account()
        self._directory = Path(tempfile.mkdtemp(prefix="flint-server-"))
        self._give_away(self._directory)
        self._environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._find_programs(cache)
            self._create()
            self.start()
        except BaseException:
            self.close()
            raise

    # --- life ---

    def start(self, **settings: str) -> None:
        """Starts the server; `settings` hold for this start only."""
        with open(self._directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*_ends_with_parent(), *map(str, self._command(settings))],
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env=self._environment,
                **self._account,
            )
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self.connect().close()
                return
            except Exception as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise NotAvailable(f"{self.package} does not start: {error}\n{self._log()}") from error
            time.sleep(0.02)

    def stop(self, crash: bool = False) -> None:
        """Stops the server; with `crash` as a loss of power would, so that it has to recover."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT if crash else self.stop_signal)
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Stops the server and removes its files."""
        self.stop(crash=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    @abstractmethod
    def connect(self) -> Any:
        """A connection of the test, which commits each statement."""

    # --- what servers differ in ---

    @abstractmethod
    def _programs(self, root: Path) -> Path | None:
        """The directory below which the server's programs are, if they are there."""

    @abstractmethod
    def _create(self) -> None:
        """Makes the directory of the data."""

    @abstractmethod
    def _command(self, settings: dict[str, str]) -> list[Any]:
        """What starts the server."""

    # --- what they share ---

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _find_programs(self, cache: Path) -> None:
        found = self._programs(Path("/"))
        if found is None:
            unpacked = self._directory / "unpacked"
            unpack(self.package, cache / self.package, unpacked, self.not_needed)
            self._environment["LD_LIBRARY_PATH"] = library_path(unpacked)
            found = self._programs(unpacked)
        if found is None:
            raise NotAvailable(f"Debian's package {self.package} lacks the server")
        self._found = found

    def _run(self, *command: Any) -> None:
        """Runs a program of the server to its end."""
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=self._environment,
            timeout=_SECONDS,
            **self._account,
        )
        if done.returncode:
            raise NotAvailable(f"{command[0]} failed: {done.stdout}\n{done.stderr}")

    def _give_away(self, path: Path) -> None:
        if self._account:
            os.chown(path, self._account["user"], self._account["group"])

    def _log(self) -> str:
        log = self._directory / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""


def _account() -> dict[str, Any]:
    """The account that a server runs under: not root, which servers refuse."""
    if os.geteuid() != 0:
        return {}
    found = pwd.getpwnam("nobody")
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def _ends_with_parent() -> list[str]:
    """What starts a program so that it ends when these tests are killed."""
    return ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
