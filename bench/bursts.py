"""BurstSource: so many records in each epoch, and no more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import Split, SplitReader


class BurstSource(SplitBasedSource):
    """Gives `records` numbers in each of `epochs` epochs, shared among the subtasks."""

    def __init__(self, records: int, epochs: int) -> None:
        self._records = records
        self._epochs = epochs

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        return [Split(str(part), self._records // parallelism) for part in range(parallelism)]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        return _BurstReader(split.content, self._epochs, position or 0)


class _BurstReader(SplitReader):
    def __init__(self, records: int, epochs: int, position: int) -> None:
        self._records = records
        self._epochs = epochs
        self._position = position
        self._given = False

    @property
    def position(self) -> int:
        return self._position

    def read(self, limit: int) -> Batch:
        # An epoch reads until it is given nothing: every second call.
        self._given = not self._given
        if not self._given:
            return Batch([])
        first = self._position * self._records
        self._position += 1
        self.finished = self._position >= self._epochs
        return Batch(list(range(first, first + self._records)))
