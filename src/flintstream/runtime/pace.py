"""Pace: limits the number of records per step, so that slow user code does not make steps that last for minutes."""

from __future__ import annotations

import time

_GROWTH = 8


class Pace:
    """Finds the number of records that take about `seconds`, up to `most`.

    It starts with one record, which may wait for an external system, and grows fast: with fast user code the only cost
    is a few small steps at the start of a job.
    """

    __slots__ = ("_most", "_seconds", "_started", "size")

    def __init__(self, most: int, seconds: float = 0.05) -> None:
        self._most = most
        self._seconds = seconds
        self._started = 0.0
        self.size = 1

    def begin(self) -> None:
        """Starts a step."""
        self._started = time.perf_counter()

    def end(self, records: int) -> None:
        """Ends a step of `count` records."""
        spent = time.perf_counter() - self._started
        if records and (records >= self.size or spent > self._seconds):
            fitting = int(records * self._seconds / max(spent, 1e-6))
            self.size = max(1, min(fitting, self.size * _GROWTH, self._most))
