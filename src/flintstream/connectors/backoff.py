"""Backoff: waits between attempts to reach another system, with an end."""

from __future__ import annotations

import time

_FIRST, _LONGEST = 0.05, 2.0


class Backoff:
    """Waits that double from 0.05 to 2 seconds, or are all `interval` seconds, for `seconds` in all."""

    def __init__(self, seconds: float, interval: float | None = None) -> None:
        self.seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._wait = _FIRST if interval is None else interval
        self._longest = max(self._wait, _LONGEST) if interval is None else interval

    def wait(self) -> bool:
        """Waits for the next attempt; returns False, without a wait, if there is to be none."""
        if time.monotonic() + self._wait > self._deadline:
            return False
        time.sleep(self._wait)
        self._wait = min(2 * self._wait, self._longest)
        return True
