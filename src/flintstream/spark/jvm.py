"""Spark's JVM as a process: starts it so that an interrupted start leaves nothing behind, and ends it quietly.

PySpark supports one JVM per process, and keeps it for ever: when it has died, PySpark's references to it must be
cleared before another can be started.
"""

from __future__ import annotations

import logging
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

from py4j import java_gateway as py4j_gateway
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

__all__ = ["broken_off_cleanly", "cancel_jobs", "end_of_jvm", "forget_spark", "hush", "kill_jvm", "let_go"]

_WAIT_SECONDS = 10.0
_CONNECT_SECONDS = 2.0


@contextmanager
def broken_off_cleanly(directory: Path) -> Iterator[None]:
    """Guards the start of Spark: if it is interrupted, for example by Ctrl-C, the JVM is killed, and Spark can be
    started again.

    PySpark's files go to `directory`, so that they do not outlive this process if it is killed.
    """
    begun: list[subprocess.Popen[bytes]] = []
    gateways: Any = java_gateway
    before = gateways.Popen

    def begin(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        with _interrupts_later():
            # Its own process group, which includes the processes that Spark's scripts start before the JVM.
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
    """Defers Ctrl-C: a process must not be started without its pid being known."""
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
    """Kills a JVM at once and quietly, and Spark's Python workers before it.

    A worker that loses its JVM prints a traceback, and so does a JVM that loses its workers or is stopped, so it is
    suspended first.
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
    """Kills a process, and its group if it leads one, as Spark's daemon does with its workers."""
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
    """Cancels the Spark jobs of a group, including later ones; thread-safe."""
    java_context: Any = context._jsc
    if java_context is not None:
        with suppress(Py4JNetworkError, OSError):  # Without a JVM nothing runs any more.
            java_context.sc().cancelJobGroupAndFutureJobs(group, why)


def end_of_jvm(gateway: Any) -> str | None:
    """Describes how the JVM of PySpark's gateway has ended, to follow its name; None while it is alive."""
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None and process.poll() is None and not _listens(gateway):
        # A dying process closes its sockets a moment before it is gone.
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
        return True  # Perhaps busy: not known to be dead.
    return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def forget_spark() -> None:
    """Clears PySpark's references to a dead JVM, so that it can start another; objects of the old one become unusable."""
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
    """Silences the messages of PySpark and py4j about the lost connection to the JVM."""
    logging.getLogger().addFilter(_is_not_from_py4j)
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is not None:
        handle_error = type(server).handle_error

        def handle(request: Any, address: Any) -> None:
            if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
                handle_error(server, request, address)

        server.handle_error = handle


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Drops what py4j writes on the root logger: a connection that breaks, whose exception the caller gets anyway."""
    return bool(record.pathname != py4j_gateway.__file__)


def let_go(gateway: Any) -> None:
    """Silences the finalizers of the JVM's objects, which would complain once it is gone."""
    gateway._gateway_client.is_connected = False
