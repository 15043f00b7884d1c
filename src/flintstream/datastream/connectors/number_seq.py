"""NumberSequenceSource: a range of integers as a source."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import Split, SplitReader

__all__ = ["NumberSequenceSource"]


class NumberSequenceSource(SplitBasedSource[int]):
    """The integers from `start` to `end`, both inclusive, in one range per subtask.

        env.from_source(NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks(), "numbers")

    Each subtask reads its range in order.
    """

    exact = True

    def __init__(self, start: int, end: int) -> None:
        for name, value in (("start", start), ("end", end)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"NumberSequenceSource: {name} must be an integer, got {value!r}")
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError(f"NumberSequenceSource: {name} must fit 64 bits, got {value}")
        if start > end:
            raise ValueError(f"NumberSequenceSource: start must not be greater than end, got {start} and {end}")
        self._start = start
        self._end = end

    @property
    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        count = self._end - self._start + 1
        parts = min(parallelism, count)
        bounds = [self._start + count * part // parts for part in range(parts + 1)]
        return [Split(f"{low}-{high - 1}", (low, high)) for low, high in pairwise(bounds)]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        low, high = split.content
        return _NumberReader(low if position is None else position, high)


class _NumberReader(SplitReader):
    def __init__(self, position: int, end: int) -> None:
        self._position = position
        self._end = end

    @property
    def position(self) -> int:
        return self._position

    def read(self, limit: int) -> Batch:
        stop = min(self._position + limit, self._end)
        numbers = list(range(self._position, stop))
        self._position = stop
        self.finished = stop >= self._end
        return Batch(numbers)
