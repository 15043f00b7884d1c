"""Removes expired entries from RocksDB: some at a time, between two blocks, on the thread that uses the state.

RocksDB could do it while it compacts its files, but its Python package has no compaction filter on values. So all entries
of a state are looked at in rounds. What was removed leaves the disk when RocksDB compacts the files that have its
tombstones, which it does soon: see `database_options`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic
from typing import NamedTuple

from flintstream.runtime.state.rocksdb.table import CachedTable
from flintstream.runtime.state.ttl import TimeToLive

LEAST_INTERVAL_MS = 1000
_CHUNK = 250
"""Entries looked at together: half a millisecond."""
_MANY = 1000
"""After a round that has removed as many, the tombstones are flushed: RocksDB compacts files only."""


class Pace(NamedTuple):
    """How long the cleanup may run at once, and which share of the time in all."""

    seconds: float
    share: float


BUSY = Pace(0.001, 1 / 32)
"""Between two blocks."""
IDLE = Pace(0.005, 1 / 10)
"""While the slot has nothing to do."""


class _Rounds:
    """Goes through the entries of a state again and again.

    A round starts a quarter of the time-to-live after the last one did, or sooner if the user says so; but not before an
    entry can have expired.
    """

    def __init__(self, table: CachedTable, live: TimeToLive, clock: Callable[[], int]) -> None:
        self._table = table
        self._live = live
        self._clock = clock
        self._steps: Iterator[None] | None = None
        self._starts = clock()
        self._interval = max(LEAST_INTERVAL_MS, min(live.millis // 4, live.cleanup_interval or live.millis))

    def due_in(self) -> float:
        """Returns the seconds until the next step; at most 0 if it is due."""
        if self._steps is not None:
            return 0.0
        # The clock may have been set back.
        return min(self._starts - self._clock(), self._live.millis + self._interval) / 1000

    def step(self) -> None:
        """Looks at some entries."""
        if self._steps is None:
            self._steps = self._round()
        if next(self._steps, self) is self:
            self._steps = None

    def _round(self) -> Iterator[None]:
        table, live, started = self._table, self._live, self._clock()
        chunk = max(1, min(_CHUNK, live.cleanup_entries))
        # Entries that come or are used from now on expire later than this.
        earliest, removed = started, 0
        changed = iter(table.changed_keys())
        while keys := list(islice(changed, chunk)):
            found = table.clean_changed(keys, live, self._clock())
            removed, earliest = removed + found.removed, min(earliest, found.earliest)
            yield
        for found in table.clean_stored(chunk, lambda: self._clock() - live.millis):
            removed, earliest = removed + found.removed, min(earliest, found.earliest)
            yield
        if removed >= _MANY:
            table.flush_soon()
        self._starts = max(started + self._interval, earliest + live.millis)


class ExpiryCleanup:
    """Cleans the states of a backend, in turn."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._names: dict[str, _Rounds] = {}
        self._rounds: deque[_Rounds] = deque()
        self._not_before = 0.0

    def add(self, name: str, table: CachedTable, live: TimeToLive) -> None:
        """Adds a state, or another declaration of it."""
        self._names[name] = _Rounds(table, live, self._clock)
        self._rounds = deque(self._names.values())

    def clear(self) -> None:
        """Ends the cleanup."""
        self._names.clear()
        self._rounds.clear()

    def due(self) -> float | None:
        """Returns when, by the monotonic clock, there is something to do; None for never."""
        if not self._rounds:
            return None
        return max(self._not_before, monotonic() + min(rounds.due_in() for rounds in self._rounds))

    def run(self, pace: Pace) -> None:
        """Runs for a limited time, if something is due."""
        if not self._rounds:
            return
        started = now = monotonic()
        if now < self._not_before:
            return
        while now < started + pace.seconds:
            rounds = next((each for each in self._rounds if each.due_in() <= 0), None)
            if rounds is None:
                break
            rounds.step()
            self._rounds.rotate(-1)
            now = monotonic()
        self._not_before = now + (now - started) * (1 / pace.share - 1)
