"""WaitingEvents: events that wait in memory for the watermark.

They are kept in runs, each about a block, sorted by timestamp when it is first looked at. A watermark takes the front
of each run, so its cost does not grow with the number of events that go on waiting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from itertools import groupby
from operator import itemgetter
from typing import Any

Columns = tuple[list[Any], list[int], list[Any]]
"""Events as columns: keys, timestamps, values."""

_RUN = 4096
"""Blocks are collected in a run up to this many events."""


class _Run:
    """Events in order of arrival or, once sorted, of their timestamps."""

    __slots__ = ("columns", "is_sorted", "taken")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.taken = 0
        self.is_sorted = False

    def __len__(self) -> int:
        return len(self.columns[1]) - self.taken

    def extend(self, columns: Columns) -> None:
        if self.taken:
            self.columns = _slice(self.columns, self.taken, None)
            self.taken = 0
        for column, more in zip(self.columns, columns):
            column.extend(more)
        self.is_sorted = False

    def take(self, until: int) -> Columns | None:
        if not self.is_sorted:
            self.columns = by_time(self.columns)
            self.is_sorted = True
        end = bisect_right(self.columns[1], until, self.taken)
        if end == self.taken:
            return None
        found = _slice(self.columns, self.taken, end)
        self.taken = end
        if self.taken * 2 > len(self.columns[1]):
            self.columns, self.taken = _slice(self.columns, self.taken, None), 0
        return found


class WaitingEvents:
    """The events of all keys that wait for the time to reach them."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self.size = 0
        """The number of events."""
        self.earliest: int | None = None
        """The earliest timestamp; None without events."""

    def add(self, keys: list[Any], timestamps: list[int], values: list[Any], first: bool = False) -> None:
        """Adds events in order of arrival; with `first`, events that arrived before all others."""
        if not timestamps:
            return
        if first:
            self._runs.insert(0, _Run((keys, timestamps, values)))
        elif self._runs and len(self._runs[-1]) < _RUN:
            self._runs[-1].extend((keys, timestamps, values))
        else:
            self._runs.append(_Run((list(keys), list(timestamps), list(values))))
        self.size += len(timestamps)
        least = min(timestamps)
        self.earliest = least if self.earliest is None or least < self.earliest else self.earliest

    def take(self, until: int) -> Columns:
        """Removes and returns the events up to a time, by timestamp and then in order of arrival."""
        if self.earliest is None or self.earliest > until:
            return [], [], []
        parts = [part for part in (run.take(until) for run in self._runs) if part is not None]
        self._runs = [run for run in self._runs if run]
        found = parts[0] if len(parts) == 1 else by_time(_joined(parts))
        self.size -= len(found[1])
        self.earliest = min((run.columns[1][run.taken] for run in self._runs), default=None)
        return found

    def take_all(self) -> Columns:
        """Removes and returns all events, those of a timestamp in order of arrival."""
        found = _joined([_slice(run.columns, run.taken, None) for run in self._runs])
        self._runs, self.size, self.earliest = [], 0, None
        return found


def by_time(columns: Columns) -> Columns:
    """Sorts events by timestamp; those with equal ones stay in order."""
    keys, times, values = columns
    if sorted(times) == times:
        return columns
    order = sorted(range(len(times)), key=times.__getitem__)
    pick: Any = itemgetter(*order)
    return list(pick(keys)), list(pick(times)), list(pick(values))


def by_comparator(columns: Columns, compare: Callable[[Any, Any], int]) -> Columns:
    """Sorts the events of each key and timestamp by a comparator; they are sorted by timestamp already."""
    ordered: list[tuple[Any, int, Any]] = []

    def compare_values(left: Any, right: Any) -> int:
        return compare(left[2], right[2])

    by_value = cmp_to_key(compare_values)
    arrived: Iterable[Any] = zip(*columns)
    for _, group in groupby(arrived, key=itemgetter(1)):
        of_key: dict[Any, list[Any]] = {}
        for event in group:
            of_key.setdefault(event[0], []).append(event)
        for events in of_key.values():
            ordered.extend(sorted(events, key=by_value))
    return [each[0] for each in ordered], [each[1] for each in ordered], [each[2] for each in ordered]


def chunks(columns: Columns, size: int) -> Iterator[Columns]:
    """Yields events in chunks of at most that size."""
    count = len(columns[1])
    if count <= size:
        if count:
            yield columns
        return
    for start in range(0, count, size):
        yield _slice(columns, start, start + size)


def _slice(columns: Columns, start: int, stop: int | None) -> Columns:
    return columns[0][start:stop], columns[1][start:stop], columns[2][start:stop]


def _joined(parts: list[Columns]) -> Columns:
    joined: Columns = ([], [], [])
    for part in parts:
        for column, more in zip(joined, part):
            column.extend(more)
    return joined
