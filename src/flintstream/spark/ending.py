"""What happens when this process is told to end by a signal: its processes end first, then its directories are removed.

Python runs no exit handlers then. A program that handles the signal itself is left to do so.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from flintstream.common.owned_directories import remove_all_owned

__all__ = ["before_ending", "handle_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_steps: list[Callable[[], object]] = []
_owner = os.getpid()
"""A forked child inherits the handlers, and must not end what is its parent's."""


def before_ending(step: Callable[[], object]) -> None:
    """Has `step` called when a signal ends this process, the last one first.

    It interrupts the main thread wherever that is, so it must not wait for a lock.
    """
    if step not in _steps:
        _steps.append(step)


def handle_signals() -> None:
    """Heeds the signals that nobody handles yet. Only the main thread can do that; elsewhere the next start cleans up."""
    global _owner
    if threading.current_thread() is threading.main_thread():
        _owner = os.getpid()
        for number in _SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    if os.getpid() == _owner:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        for step in reversed(_steps):
            with suppress(Exception):  # The process ends in any case, and the next start removes what is left.
                step()
        remove_all_owned()
    # The parent is to see which signal it was.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
