"""The JVM of Spark as a process: started so that nothing is left of a start that is broken off, and ended quietly.

PySpark knows one JVM a process, and keeps it for ever: when it is dead, all that PySpark remembers of it has to be forgotten
before there can be another.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

__all__ = ["broken_off_cleanly", "cancel_jobs", "end_of_jvm", "forget_spark", "hush", "kill_jvm", "let_go"]

_WAIT_SECONDS = 10.0
_CONNECT_SECONDS = 2.0


@contextmanager
def broken_off_cleanly(directory: Path) -> Iterator[None]:
    """While Spark is started: whatever ends that, Ctrl-C say, ends the JVM too, and Spark can be started again.

    What PySpark writes meanwhile goes to `directory`, so that it does not outlive us if we are killed.
    """
    begun: list[subprocess.Popen[bytes]] = []
    gateways: Any = java_gateway
    before = gateways.Popen

    def begin(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        with _interrupts_later():
            # A group of its own: what the scripts of Spark start before the JVM is in it.
            begun.append(before(*args, **options, start_new_session=True))
        return begun[-1]

    gateways.Popen = begin
    gateways.tempfile = SimpleNamespace(mkdtemp=partial(tempfile.mkdtemp, dir=directory), mkstemp=tempfile.mkstemp)
    try:
        yield
    except BaseException:
        for process in begun:
            kill_jvm(process)
        if begun:
            forget_spark()
        raise
    finally:
        gateways.Popen, gateways.tempfile = before, tempfile


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Holds Ctrl-C back: a process must not be started without anybody knowing its number."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if came:
            signal.raise_signal(signal.SIGINT)


def kill_jvm(process: subprocess.Popen[bytes]) -> None:
    """Ends a JVM at once, without a word, and Spark's Python workers before it.

    A worker that loses its JVM prints a traceback, and so does a JVM that loses its workers, or has to stop: it is
    halted first.
    """
    if process.poll() is None:
        with suppress(OSError):
            os.kill(process.pid, signal.SIGSTOP)
        for child in _children(process.pid):
            _kill_group(child)
        _kill_group(process.pid)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_WAIT_SECONDS)


def _kill_group(pid: int) -> None:
    """Kills a process, and its group if it leads one: Spark's daemon does, with its workers in it."""
    with suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, timeout=_WAIT_SECONDS)
        pairs = [line.split() for line in listed.stdout.splitlines()]
        return [int(child) for child, parent in pairs if int(parent) == pid]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def cancel_jobs(context: SparkContext, group: str, why: str) -> None:
    """Ends the Spark jobs of a group, and those that would begin later; may be called from any thread."""
    java_context: Any = context._jsc
    if java_context is not None:
        with suppress(Py4JNetworkError, OSError):  # Without a JVM nothing runs any more.
            java_context.sc().cancelJobGroupAndFutureJobs(group, why)


def end_of_jvm(gateway: Any) -> str | None:
    """How the JVM behind PySpark's gateway has ended, in words that go behind its name; None while it lives."""
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None and process.poll() is None and not _listens(gateway):
        # One that dies lets go of its sockets a moment before it is gone.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_WAIT_SECONDS)
    if process is None:
        return None if _listens(gateway) else "no longer answers"
    if process.returncode is None:
        return None
    if process.returncode < 0:
        return f"(process {process.pid}) was killed by {_signal_name(-process.returncode)}"
    return f"(process {process.pid}) has ended with exit code {process.returncode}"


def _listens(gateway: Any) -> bool:
    where = gateway.gateway_parameters
    try:
        socket.create_connection((where.address, where.port), _CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # Busy, perhaps: that it is dead is not known.
    return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def forget_spark() -> None:
    """Makes PySpark forget a JVM that is dead, so that it can start another; what belongs to it cannot be used any more."""
    gateway = SparkContext._gateway
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    if gateway is not None:
        with suppress(Exception):
            let_go(gateway)
            gateway._gateway_client.close()


def hush(context: SparkContext) -> None:
    """Nothing of PySpark is to print that the JVM has hung up: whoever has to know notices."""
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is not None:
        handle_error = type(server).handle_error

        def handle(request: Any, address: Any) -> None:
            if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
                handle_error(server, request, address)

        server.handle_error = handle


def let_go(gateway: Any) -> None:
    """The JVM is about to be gone: the finalizers of its objects would print that nobody listens to them."""
    gateway._gateway_client.is_connected = False
