"""GarbageCollection: schedules the cyclic garbage collector of a slot.

Python's own schedule would interrupt the record loop, and traverse all state repeatedly. Here the young generations are
collected between two epochs, and a full collection runs only when the number of containers or the memory has grown by a
fraction since the last one. Dead cycles therefore take a bounded share of memory, and growing state is traversed a
number of times that is logarithmic in its size.
"""

from __future__ import annotations

import gc
import os

GROWTH = 0.25
MOST_GROWTH = 1.0
LEAST_CONTAINERS = 10_000
LEAST_BYTES = 64 << 20
"""Less growth is not worth a full collection."""


class GarbageCollection:
    """Runs the cyclic collector of this process explicitly.

    Survivors of a full collection are frozen, so that a user's `gc.collect()` does not traverse them either.
    """

    def __init__(self) -> None:
        self._growth = GROWTH
        self._containers = 0
        """The number of containers alive after the last full collection."""
        self._more_containers = 0
        self._bytes = 0
        self.full_collections = 0

    def begin(self) -> None:
        """Replaces Python's own schedule; called when the operators are open and state is restored."""
        gc.disable()
        self._freeze()

    def epoch_done(self) -> None:
        """Collects the garbage of the epoch and, from time to time, of earlier epochs."""
        # With automatic collection off, this counts the containers created since the last one, minus those deleted.
        made = gc.get_count()[0]
        self._more_containers += made - gc.collect(1)
        if self._has_grown():
            gc.unfreeze()
            found = gc.collect()
            # Growing state without cycles is traversed less and less often.
            self._growth = GROWTH if found > self._more_containers / 4 else min(2 * self._growth, MOST_GROWTH)
            self._freeze()
            self.full_collections += 1

    def _has_grown(self) -> bool:
        if self._more_containers > max(LEAST_CONTAINERS, self._growth * self._containers):
            return True
        # A few cycles may hold much memory: arrays, byte strings.
        return resident_bytes() - self._bytes > max(LEAST_BYTES, self._growth * self._bytes)

    def _freeze(self) -> None:
        gc.freeze()
        self._containers = gc.get_freeze_count()
        self._more_containers = 0
        self._bytes = resident_bytes()


def resident_bytes() -> int:
    """Returns the resident memory of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
