"""BufferingOperator: base of the operators of sinks that buffer what they write."""

from __future__ import annotations

from abc import abstractmethod

from flintstream.runtime.operators.base import Operator


class BufferingOperator(Operator):
    """Flushes at checkpoints, at the end of the input, and when the buffer is due."""

    takes_declared_types = True

    def open(self) -> None:
        self._due: int | None = None
        """When the oldest buffered record will have waited long enough, in milliseconds since 1970; None if unknown."""

    def tick(self) -> None:
        self._flush_if_due()

    def next_due(self) -> float | None:
        return None if self._due is None else self._due / 1000

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        self._flush()

    def finish(self) -> None:
        self._flush()

    @abstractmethod
    def _flush(self) -> None:
        """Writes the whole buffer, and resets `_due`."""

    @abstractmethod
    def _flush_if_due(self) -> None:
        """Flushes a buffer that is full or has waited long enough; called after each block and each epoch."""

    def _has_waited(self, interval: int) -> bool:
        """Returns whether the buffer has waited for an interval (milliseconds); called while it is not empty."""
        now = self.context.services.clock()
        if self._due is None:
            self._due = now + interval
        return now >= self._due
