"""EpochSizer: adjusts the number of records per epoch to a target duration, and the duration to a backlog."""

from __future__ import annotations

FIRST_LIMIT = 20_000
_LEAST_LIMIT = 100
_MOST_LIMIT = 5_000_000
_STEP = 4.0
_GROWTH = 2.0


class EpochSizer:
    """Adjusts the number of records that each source subtask may read in an epoch.

    An epoch longer than the target makes the next one smaller, so that a slow operator slows the sources down. A
    shorter one with more to read makes the next one larger. A backlog therefore never becomes one epoch.

    While there is a backlog and nobody waits for what an epoch does, the target grows, so that the overhead of epochs
    matters less, up to the longest one; it falls back at once when that ends.
    """

    def __init__(self, target_seconds: float, longest_seconds: float) -> None:
        if target_seconds <= 0:
            raise ValueError(f"flint.epoch.target-duration must be greater than 0, got {target_seconds} s")
        self._least_target = target_seconds
        self._longest_target = longest_seconds
        self.target = target_seconds
        """The duration (seconds) that the next epoch should have."""
        self.limit = FIRST_LIMIT

    def observe(self, seconds: float, busy_seconds: float, most_records: int, awaited: bool) -> None:
        """Observes an epoch: its duration, the time that the busiest slot worked in it, the most records read by a
        source subtask, and whether somebody waits for the next one, for its results or timers.

        The overhead of an epoch does not shrink with its records. Slots therefore get at least half of the target,
        whatever the overhead; otherwise a busy machine would make epochs ever smaller without any gain.
        """
        full = most_records >= 0.9 * self.limit
        if not full:
            # What this epoch read says nothing about the next burst: the limit must fit the target by itself.
            self.limit = max(_LEAST_LIMIT, int(self.limit * self._least_target / self.target))
        # Longer only once the limit has come up to the present target.
        if awaited or not full:
            self.target = self._least_target
        elif seconds >= 0.7 * self.target:
            self.target = min(_GROWTH * self.target, self._longest_target)
        room = max(self.target - max(0.0, seconds - busy_seconds), self.target / 2)
        factor = room / max(busy_seconds, 1e-4)
        if not full:
            # The limit did not restrict this epoch, so there is no reason to raise it; it is lowered only if the
            # records actually read were too many.
            if factor >= 1.0 or most_records == 0:
                return
            self.limit = min(self.limit, most_records)
        step = min(_STEP, max(1 / _STEP, factor))
        self.limit = int(min(_MOST_LIMIT, max(_LEAST_LIMIT, self.limit * step)))
