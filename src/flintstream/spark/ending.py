"""Handles signals that end this process: its child processes end first, then its directories are removed.

Python runs no exit handlers on a signal. A signal that the program handles itself is left alone.
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
"""A forked child inherits the handlers, and must not end its parent's processes."""


def before_ending(step: Callable[[], object]) -> None:
    """Registers `step` to be called when a signal ends this process, in reverse order.

    It interrupts the main thread anywhere, so it must not wait for a lock.
    """
    if step not in _steps:
        _steps.append(step)


def handle_signals() -> None:
    """Installs handlers for signals without one. Only the main thread can do that; otherwise the next start cleans up."""
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
    # The parent must see which signal it was.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
