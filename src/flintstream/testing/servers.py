"""Servers for tests and demonstrations: each has a directory and a process of its own, on this machine only."""

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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

_SECONDS = 120
_ServerT = TypeVar("_ServerT", bound="Server")
_STARTER = ThreadPoolExecutor(1, "starts servers")
"""A process that ends with its parent ends with the thread that has started it: this one lives as long as we do."""


class NotAvailable(Exception):
    """A server cannot be had on this machine; the message says why."""


def default_cache() -> Path:
    """Where downloaded servers stay: in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flintstream"


class Server(ABC):
    """A server in a temporary directory, on a free port of this machine. It starts with the object and ends with `close`."""

    package: str
    """What it is installed from."""
    stop_signal = signal.SIGTERM
    """What stops it soon, clients or not."""
    crash_signal = signal.SIGKILL
    """What ends it as a loss of power would. It gets it as well when this process is killed."""
    refuses_root = False
    """Whether it does not run as root."""

    def __init__(self, cache: Path | None = None) -> None:
        self.port = free_port()
        self._account = _account() if self.refuses_root else {}
        self._directory = Path(tempfile.mkdtemp(prefix="flint-server-"))
        self._give_away(self._directory)
        self._environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._find_programs(cache or default_cache())
            self._create()
            self.start()
        except BaseException:
            self.close()
            raise

    # --- life ---

    def start(self, **settings: str) -> None:
        """Starts the server; `settings` hold for this start only."""
        with open(self._directory / "log", "ab") as log:
            command = [*self._ends_with_parent(), *map(str, self._command(settings))]
            self._process = _STARTER.submit(self._start, command, log).result(_SECONDS)
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self._probe()
                return
            except Exception as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise NotAvailable(f"{self.package} does not start: {error}\n{self._log()}") from error
            time.sleep(0.02)

    def stop(self, crash: bool = False) -> None:
        """Stops the server; with `crash` as a loss of power would, so that it has to recover."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(self.crash_signal if crash else self.stop_signal)
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def restart(self, crash: bool = False, **settings: str) -> None:
        """Stops and starts the server, on the same port with the same data; `settings` hold for this start only."""
        self.stop(crash)
        self.start(**settings)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Holds the server's process: connections stay, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stops the server and removes its files."""
        self.stop(crash=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self: _ServerT) -> _ServerT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    # --- what servers differ in ---

    @abstractmethod
    def _find_programs(self, cache: Path) -> None:
        """Finds what the server is started with, or downloads it into a cache."""

    @abstractmethod
    def _create(self) -> None:
        """Makes the directory of the data."""

    @abstractmethod
    def _command(self, settings: dict[str, str]) -> list[Any]:
        """What starts the server."""

    @abstractmethod
    def _probe(self) -> None:
        """Raises an error while the server does not answer yet."""

    # --- what they share ---

    @property
    def _data(self) -> Path:
        return self._directory / "data"

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

    def _start(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, stdout=log, stderr=log, cwd=self._directory, env=self._environment, **self._account
        )

    def _give_away(self, path: Path) -> None:
        if self._account:
            os.chown(path, self._account["user"], self._account["group"])

    def _log(self) -> str:
        log = self._directory / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    def _ends_with_parent(self) -> list[str]:
        """What starts a program so that it ends when this process is killed."""
        name = self.crash_signal.name.removeprefix("SIG")
        return ["setpriv", "--pdeathsig", name] if shutil.which("setpriv") else []


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _account() -> dict[str, Any]:
    """The account that a server runs under: not root, which servers refuse."""
    if os.geteuid() != 0:
        return {}
    found = pwd.getpwnam("nobody")
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
