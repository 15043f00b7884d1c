"""Processes of this machine, told from later ones to which the system has given the same number."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NamedTuple

__all__ = ["Process", "start_time"]


class Process(NamedTuple):
    """A process, whether it still runs or not."""

    pid: int
    started: int | None
    """Its `start_time`; None where that cannot be told, and the number alone counts."""

    @staticmethod
    def of(pid: int) -> Process:
        """The process that has this number now; the caller knows that it is the right one."""
        return Process(pid, start_time(pid))

    def runs(self) -> bool:
        """Whether it runs. One that has ended keeps its number until its parent asks for it; /proc tells, where there is
        one."""
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False  # Gone, or the number is another user's by now.
        try:
            fields = _stat(self.pid)
        except OSError:
            return self.started is None
        return fields[0] not in ("Z", "X") and self.started in (None, int(fields[19]))

    def kill(self) -> None:
        """Ends it at once; never another one that has its number by now."""
        if self.runs():
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)


def start_time(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None if there is no such process, or it cannot be told."""
    try:
        return int(_stat(pid)[19])
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    """What /proc says of a process, from its state on."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()
