"""CollectionSource: the elements of a collection as a source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import Split, SplitReader


class CollectionSource(SplitBasedSource):
    """Reads the elements of a list, in order; used by `env.from_collection`."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        return [Split("collection")]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        return _CollectionReader(self._values, position or 0)


class _CollectionReader(SplitReader):
    def __init__(self, values: list[Any], position: int) -> None:
        self._values = values
        self._position = position
        self.finished = position >= len(values)

    @property
    def position(self) -> int:
        return self._position

    def read(self, limit: int) -> Batch:
        taken = self._values[self._position : self._position + limit]
        self._position += len(taken)
        self.finished = self._position >= len(self._values)
        return Batch(taken)
