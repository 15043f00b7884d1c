"""Identifies processes of this machine by pid and start time, since pids are reused."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NamedTuple

__all__ = ["Process", "start_time"]


class Process(NamedTuple):
    """A process, running or not."""

    pid: int
    started: int | None
    """Its `start_time`; None if unknown, so that only the pid counts."""

    @staticmethod
    def of(pid: int) -> Process:
        """Returns the process that has this pid now; the caller knows that it is the right one."""
        return Process(pid, start_time(pid))

    def runs(self) -> bool:
        """Returns whether it is running. A zombie does not count where /proc is available."""
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False  # Gone, or the pid now belongs to another user.
        try:
            fields = _stat(self.pid)
        except OSError:
            return self.started is None
        return fields[0] not in ("Z", "X") and self.started in (None, int(fields[19]))

    def kill(self) -> None:
        """Kills it, but never another process that has reused its pid."""
        if self.runs():
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)


def start_time(pid: int) -> int | None:
    """Returns when a process was started, in ticks since boot; None if it does not exist or this is unknown."""
    try:
        return int(_stat(pid)[19])
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    """Returns the fields of /proc/pid/stat, from the state on."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()
