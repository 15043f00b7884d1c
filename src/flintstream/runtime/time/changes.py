"""TimerChanges: what has changed in the timers of an operator from one snapshot to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from flintstream.runtime.batch import MIN_WATERMARK

Timer = tuple[int, Any]
"""A timestamp and a key."""
StoredTimers = tuple[list[Timer], list[Timer]]
"""Timers in event time, and in processing time."""
NOTHING_FIRED = MIN_WATERMARK - 1
"""Earlier than any timer."""


class TimerChanges(NamedTuple):
    """The changes in one time domain: some timers are removed, and others are added afterwards."""

    fired: int = NOTHING_FIRED
    """All timers up to this time are removed: they have fired."""
    removed: Sequence[Timer] = ()
    """Other timers that are removed; some may not have existed."""
    added: Sequence[Timer] = ()

    @property
    def size(self) -> int:
        """Returns the number of timers that are listed."""
        return len(self.removed) + len(self.added)


class ChangedTimers(NamedTuple):
    """The changes of an operator's timers."""

    event: TimerChanges = TimerChanges()
    processing: TimerChanges = TimerChanges()

    @property
    def fired(self) -> tuple[int, int]:
        """Returns up to which times all timers are removed."""
        return self.event.fired, self.processing.fired

    @property
    def size(self) -> int:
        """Returns the number of timers that are listed."""
        return self.event.size + self.processing.size


def merged(changes: Iterable[ChangedTimers]) -> ChangedTimers:
    """Returns several changes, one after the other, as one."""
    steps = list(changes)
    return ChangedTimers(_merged([step.event for step in steps]), _merged([step.processing for step in steps]))


def _merged(steps: list[TimerChanges]) -> TimerChanges:
    if len(steps) == 1:
        return steps[0]
    fired = NOTHING_FIRED
    removed: dict[Timer, None] = {}
    added: list[list[Timer]] = []
    # From the last step back to the first, so that each timer is looked at once.
    for step in reversed(steps):
        left = [timer for timer in step.added if timer[0] > fired]
        added.append([timer for timer in left if timer not in removed] if removed else left)
        fired = max(fired, step.fired)
        removed.update(dict.fromkeys(step.removed))
    return TimerChanges(
        fired, [timer for timer in removed if timer[0] > fired], list(chain.from_iterable(reversed(added)))
    )


class TimerHistory:
    """The timers in a chain of snapshots: all of them first, then changes."""

    def __init__(self) -> None:
        self._steps: list[ChangedTimers] = []

    def add(self, fired: tuple[int, int] | None, removed: StoredTimers, added: StoredTimers) -> None:
        """Adds a snapshot: `fired` as in `ChangedTimers`, or None if `added` are all timers that there are."""
        if fired is None:
            self._steps = [ChangedTimers(*(TimerChanges(added=each) for each in added))]
        else:
            self._steps.append(ChangedTimers(*map(TimerChanges, fired, removed, added)))

    def timers(self) -> StoredTimers:
        """Returns the timers of the last snapshot."""
        last = merged(self._steps) if self._steps else ChangedTimers()
        return list(last.event.added), list(last.processing.added)
