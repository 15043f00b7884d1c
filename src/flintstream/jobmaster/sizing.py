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

    def observe(self, seconds: float, busy_seconds: float, most_records: int) -> None:
        """Takes in an epoch: how long it lasted, how long the busiest slot worked in it, and the most records that a
        source subtask has read.

        What an epoch costs besides the slots' work does not shrink with its records: slots get at least half of the
        target, however dear that is, or a busy machine would make epochs ever smaller and gain nothing.
        """
        room = max(self._target - max(0.0, seconds - busy_seconds), self._target / 2)
        factor = room / max(busy_seconds, 1e-4)
        full = most_records >= 0.9 * self.limit
        if not full:
            # The limit was not what bound this epoch: there is no reason to raise it, and to lower it only if the
            # records that the epoch really had were too many.
            if factor >= 1.0 or most_records == 0:
                return
            self.limit = min(self.limit, most_records)
        step = min(_STEP, max(1 / _STEP, factor))
        self.limit = int(min(_MOST_LIMIT, max(_LEAST_LIMIT, self.limit * step)))
