"""GarbageCollection: when a slot looks for cycles that reference counting cannot free.

Python's own schedule would interrupt the record loop, and walk over all state again and again. Here the young generations
are collected between two epochs; everything is only when there is reason to expect something: when containers or
memory have grown by a fraction since the last time. So dead cycles take a bounded share of what lives, and state
that grows is walked over a number of times that is the logarithm of its size.
"""

from __future__ import annotations

import gc
import os

GROWTH = 0.25
MOST_GROWTH = 1.0
LEAST_CONTAINERS = 10_000
LEAST_BYTES = 64 << 20
"""What has grown by less is not worth a full collection."""


class GarbageCollection:
    """The cyclic collector of this process, run by hand.

    What has survived a full collection is frozen, so that a `gc.collect()` of the user's does not walk over it either.
    """

    def __init__(self) -> None:
        self._growth = GROWTH
        self._containers = 0
        """That were alive after the last full collection."""
        self._more_containers = 0
        self._bytes = 0
        self.full_collections = 0

    def begin(self) -> None:
        """Takes over from Python's own schedule; to be called when the operators are open and state is restored."""
        gc.disable()
        self._freeze()

    def epoch_done(self) -> None:
        """Frees the cycles that the epoch has left behind and, from time to time, those of the epochs before."""
        # With automatic collection off, this counts the containers made since the last one, less those that are gone.
        made = gc.get_count()[0]
        self._more_containers += made - gc.collect(1)
        if self._has_grown():
            gc.unfreeze()
            found = gc.collect()
            # State that grows, and leaves no cycles, is looked at less and less often.
            self._growth = GROWTH if found > self._more_containers / 4 else min(2 * self._growth, MOST_GROWTH)
            self._freeze()
            self.full_collections += 1

    def _has_grown(self) -> bool:
        if self._more_containers > max(LEAST_CONTAINERS, self._growth * self._containers):
            return True
        # A few cycles may hold much: arrays, byte strings.
        return resident_bytes() - self._bytes > max(LEAST_BYTES, self._growth * self._bytes)

    def _freeze(self) -> None:
        gc.freeze()
        self._containers = gc.get_freeze_count()
        self._more_containers = 0
        self._bytes = resident_bytes()


def resident_bytes() -> int:
    """The memory that this process takes."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
