"""Operators for sources whose splits are read in a special order or end unforeseen."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from flintstream.runtime.operators.source import SourceOperator
from flintstream.runtime.source import Split

__all__ = ["PolledSourceOperator", "SequentialSourceOperator"]


class SequentialSourceOperator(SourceOperator):
    """Reads its splits one after the other, in the order in which they were assigned.

    For files: a subtask with a thousand files has one of them open, and files are read in the order of their
    names. As in Flink, the watermark is that of the file at hand.
    """

    def open(self) -> None:
        super().open()
        self._queue: deque[tuple[Split, Any]] = deque()

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        self._queue.extend(splits)
        self._open_next()

    @property
    def exhausted(self) -> bool:
        return super().exhausted and not self._queue

    @property
    def positions(self) -> dict[str, Any]:
        return super().positions | {split.split_id: position for split, position in self._queue}

    def read_epoch(self, limit: int) -> None:
        while limit > 0 and self._open:
            (split,) = self._open.values()
            if self._must_wait(split):
                break
            batch = self._read(split, limit)
            limit -= len(batch.values)
            if split.done:
                self._drop(split)
                self._open_next()
            elif not batch.values:
                self._note_activity({split.split.split_id})
                return
            if time.monotonic() >= self.deadline:
                break
        self._note_activity(set())

    def _open_next(self) -> None:
        if self._queue and not self._open:
            super().assign([self._queue.popleft()])


class PolledSourceOperator(SourceOperator):
    """Reads splits that are asked for data while the job is idle, and that may end then without a last
    record."""

    def poll(self) -> bool:
        return super().poll() or any(split.done for split in self._open.values())
