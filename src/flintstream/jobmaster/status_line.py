"""StatusLine: the status line at the bottom of the terminal, kept separate from other output."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["StatusLine", "status_line"]

_TICK_SECONDS = 1.0
_ERASE = "\r\x1b[2K"
_DEFAULT_WIDTH = 80


class StatusLine:
    """Shows the line of its latest owner, and refreshes it every second, so that nothing looks like a hang.

    Owners are the jobs of the process; each shows and removes its own line. Thread-safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._owners: dict[object, Callable[[], str]] = {}
        self._shown = ""
        self._ticks = False

    def show(self, owner: object, render: Callable[[], str]) -> None:
        """Shows the result of `render`, now and whenever it changes."""
        with self._changed:
            self._owners.pop(owner, None)
            self._owners[owner] = render
            self._draw()
            if not self._ticks:
                self._ticks = True
                threading.Thread(target=self._tick, name="status line", daemon=True).start()

    def remove(self, owner: object, last: str | None = None) -> None:
        """Removes the line of an owner, and prints `last` instead."""
        with self._changed:
            self._owners.pop(owner, None)
            if last is not None:
                self._write(f"{_ERASE if self._shown else ''}{last}\n")
                self._shown = ""
            self._draw()
            self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hides the line while others write."""
        with self._changed:
            if self._shown:
                self._write(_ERASE)
                self._shown = ""
            try:
                yield
            finally:
                self._draw()

    def _draw(self) -> None:
        text = ""
        if self._owners:
            text = _fitted(next(reversed(self._owners.values()))())
        if text != self._shown:
            self._write(_ERASE + text)
            self._shown = text

    def _tick(self) -> None:
        with self._changed:
            while self._owners:
                self._changed.wait(_TICK_SECONDS)
                self._draw()
            self._ticks = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._owners.clear()  # The terminal has been closed.


def _fitted(text: str) -> str:
    """Truncates a text to the terminal's width: only one row can be erased."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError, AttributeError):
        width = _DEFAULT_WIDTH
    return text if len(text) < width else f"{text[: max(width - 2, 0)]}…"


status_line = StatusLine()
"""The status line of this process."""
