"""EpochSizer: how many records an epoch takes in, so that epochs last about as long as wanted."""

from __future__ import annotations

FIRST_LIMIT = 20_000
_LEAST_LIMIT = 100
_MOST_LIMIT = 5_000_000
_STEP = 4.0


class EpochSizer:
    """Adjusts the number of records that each source subtask may read in an epoch.

    An epoch that took longer than the target makes the next one smaller: a slow operator slows the sources. One that
    was faster, and had more to read, makes the next one larger. So a backlog never becomes one epoch.
    """

    def __init__(self, target_seconds: float, first_limit: int = FIRST_LIMIT) -> None:
        if target_seconds <= 0:
            raise ValueError(f"flint.epoch.target-duration must be greater than 0, got {target_seconds} s")
        self._target = target_seconds
        self.limit = first_limit

    def observe(self, seconds: float, most_records: int) -> None:
        """Takes in how long an epoch lasted, and the most records that a source subtask has read in it."""
        factor = self._target / max(seconds, 1e-3)
        full = most_records >= 0.9 * self.limit
        if factor > 1.0 and not full:
            return
        if factor < 1.0 and not full:
            # The limit was not what bound this epoch: go by the records that it really had.
            if most_records == 0:
                return
            self.limit = min(self.limit, most_records)
        step = min(_STEP, max(1 / _STEP, factor))
        self.limit = int(min(_MOST_LIMIT, max(_LEAST_LIMIT, self.limit * step)))
