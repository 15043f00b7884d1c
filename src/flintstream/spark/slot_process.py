"""The process of a slot, which is started by a Spark task and outlives it; and its exit status.

On the driver's machine a shell between the task and the slot waits for the slot, and writes its exit status to a file
for the driver: the Spark worker that started the slot may be long gone by then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flintstream.common.processes import Process

__all__ = ["describe_exit", "exit_status", "start_slot"]

_COMMAND = ["-c", "from flintstream.runtime.slot.process import main; main()"]
# Hides the shell's own message about the slot's end ("Killed"). If the driver has removed the directory, the status is
# no longer needed.
_WATCH = 'exec 3>&2 2>/dev/null; file=$1; shift; ("$@" 2>&3 3>&-); echo $? > "$file.new" && mv "$file.new" "$file"'
_LOOK_SECONDS = 0.01
_BY_SIGNAL = 128
"""A shell adds this to the number of the signal."""
_NOT_STARTED = (126, 127)
_HINTS = {
    signal.SIGKILL: ", perhaps by the kernel for lack of memory",
    signal.SIGSEGV: ": native code of a library has crashed",
    signal.SIGABRT: ": native code of a library has given up",
    signal.SIGBUS: ": native code of a library has crashed, or a disk is full",
}


def start_slot(spec: bytes, slot: int, python: str | None, directory: str | None) -> Process:
    """Starts the process of a slot, which reads `spec`; returns the process to watch. `directory` is the driver's, if
    both are on one machine.
    """
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    environment["python"] = python or "python"  # As in PyFlink's workers.
    command = [python or sys.executable, *_COMMAND]
    if directory is not None:
        command = ["/bin/sh", "-c", _WATCH, "slot", _file(directory, slot), *command]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
    assert process.stdin is not None
    try:
        process.stdin.write(spec)
        process.stdin.close()
    except BrokenPipeError:
        pass  # It has ended already; the driver will determine how.
    started = Process.of(process.pid)  # Its pid cannot be reused until it is waited for.
    threading.Thread(target=process.wait, daemon=True).start()
    return started


def exit_status(directory: str, slot: int, seconds: float, watched: Callable[[], bool]) -> int | None:
    """Returns the exit status of a slot, as a shell encodes it; waits for it while the slot is watched. None if
    unknown.
    """
    deadline = time.monotonic() + seconds
    while True:
        last = not watched() or time.monotonic() >= deadline
        try:
            return int(Path(_file(directory, slot)).read_text())
        except (OSError, ValueError):
            if last:
                return None
        time.sleep(_LOOK_SECONDS)


def describe_exit(status: int | None) -> str:
    """Describes the unexpected end of a slot."""
    if status is None:
        return "died"
    if status in _NOT_STARTED:
        return "could not be started: its Python does not run, see python.executable"
    if status <= _BY_SIGNAL:
        return f"ended itself with exit code {status}, as by os._exit({status})"
    try:
        number = signal.Signals(status - _BY_SIGNAL)
    except ValueError:
        return f"ended itself with exit code {status}"
    return f"was killed by signal {number.value} ({number.name}){_HINTS.get(number, '')}"


def _file(directory: str, slot: int) -> str:
    return os.path.join(directory, f"exit-{slot}")
