"""Timers in event time and processing time, one per key and timestamp."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any, NamedTuple

from flintstream.common.time import whole_milliseconds
from flintstream.runtime.batch import MIN_WATERMARK
from flintstream.runtime.state.backend import KeyedStateBackend, NoKey
from flintstream.runtime.time.changes import NOTHING_FIRED, ChangedTimers, StoredTimers, Timer, TimerChanges

_COMPACT_FROM = 1024
_log = logging.getLogger(__name__)
_TOLD: set[str] = set()
"""Operators already warned about ignored timers."""


class Namespaced(NamedTuple):
    """A key with a namespace, such as a window, to which a timer belongs."""

    key: Any
    namespace: Any


class _Keys(dict[Any, None]):
    """The keys of several timers with one timestamp, in order of registration."""

    __slots__ = ()


_NONE = object()
"""A placeholder for a key: the timers with this timestamp were deleted."""
_ABSENT: Any = object()


class TimerQueue:
    """The timers of one time domain, each a timestamp and a key (or another hashable object).

    A heap of the distinct timestamps, with the key or keys of each. Most timestamps have one key, which is stored
    directly. Deletion is lazy and leaves the timestamp in the heap, so the cost of registering and deleting does not
    depend on the number of timers; once most of the heap is stale, it is rebuilt.

    Timers that the last snapshot has are kept apart from those registered since, so that changes are known at no other
    cost: a timer that is registered and deleted in between is none, and what has fired is known by its time.
    """

    __slots__ = ("_deleted", "_fired", "_heap", "_new", "_removed", "_stored")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._new: dict[int, Any] = {}
        """The key or keys of each timestamp: of timers registered since the last snapshot. A placeholder only where
        there is none in `_stored`.
        """
        self._stored: dict[int, Any] = {}
        """Of those that the last snapshot has."""
        self._deleted = 0
        """The number of timestamps without a timer."""
        self._removed: list[Timer] | None = None
        """The deleted ones of `_stored`; None as long as nobody asks for changes."""
        self._fired = NOTHING_FIRED
        """All of `_stored` up to this time have fired."""

    def add(self, timestamp: int, key: Any) -> None:
        """Registers a timer, unless it exists already."""
        found = self._new.get(timestamp)
        if found is None:
            if timestamp in self._stored:
                self._add_beside(timestamp, key)
            else:
                self._new[timestamp] = key
                heappush(self._heap, timestamp)
        elif found.__class__ is _Keys:
            if timestamp not in self._stored or not self._has_stored(timestamp, key):
                found[key] = None
        elif found is _NONE:
            self._new[timestamp] = key
            self._deleted -= 1
        elif found is not key and found != key and not self._has_stored(timestamp, key):
            self._new[timestamp] = _Keys({found: None, key: None})

    def _add_beside(self, timestamp: int, key: Any) -> None:
        """Registers a timer with a timestamp that has, or had, others."""
        if not self._has_stored(timestamp, key):
            self._new[timestamp] = key
            if self._stored[timestamp] is _NONE:
                self._deleted -= 1

    def _has_stored(self, timestamp: int, key: Any) -> bool:
        found = self._stored.get(timestamp, _NONE)
        if found.__class__ is _Keys:
            return key in found
        return found is key or bool(found == key)

    def remove(self, timestamp: int, key: Any) -> None:
        """Deletes a timer, if it exists."""
        found = self._new.get(timestamp)
        if found is not None and (found is key or found == key):
            if timestamp in self._stored:
                self._empty(self._new, timestamp)
            else:
                self._new[timestamp] = _NONE
                self._deleted += 1
        elif found.__class__ is _Keys and found.pop(key, _ABSENT) is not _ABSENT:
            if not found:
                self._empty(self._new, timestamp)
        elif not self._remove_stored(timestamp, key):
            return
        if self._deleted > _COMPACT_FROM and self._deleted * 2 > len(self._heap):
            self._compact()

    def _remove_stored(self, timestamp: int, key: Any) -> bool:
        """Deletes a timer that the last snapshot has; returns False if there is none."""
        found = self._stored.get(timestamp)
        if found is None:
            return False
        if found.__class__ is _Keys:
            if found.pop(key, _ABSENT) is _ABSENT:
                return False
        elif found is not key and found != key:
            return False
        if found.__class__ is not _Keys or not found:
            self._empty(self._stored, timestamp)
        if self._removed is not None:
            self._removed.append((timestamp, key))
        return True

    def _empty(self, timers: dict[int, Any], timestamp: int) -> None:
        """Called when the last key of a timestamp is gone."""
        if timers is self._stored or timestamp not in self._stored:
            timers[timestamp] = _NONE
            self._deleted += timers is self._new or timestamp not in self._new
        else:
            del timers[timestamp]
            self._deleted += self._stored[timestamp] is _NONE

    def due(self, until: int) -> Iterator[Timer]:
        """Pops timers up to a time, the earliest first. Timers may be added and removed in the meantime.

        It must be iterated over to its end before `take_changes` is called.
        """
        heap, new, stored = self._heap, self._new, self._stored
        while heap and heap[0] <= until:
            timestamp = heap[0]
            timers = stored
            found = stored.get(timestamp, _NONE) if stored else _NONE
            if found is _NONE:
                timers = new
                found = new.get(timestamp, _NONE)
            if found is _NONE:
                heappop(heap)
                new.pop(timestamp, None)
                stored.pop(timestamp, None)
                self._deleted -= 1
            elif found.__class__ is _Keys:
                for key in list(found):
                    if key in found:
                        del found[key]
                        if not found:
                            self._empty(timers, timestamp)
                        yield timestamp, key
                        if timers.get(timestamp) is found and heap[0] < timestamp:
                            # Registered in the meantime, and earlier.
                            yield from self.due(timestamp - 1)
            else:
                self._empty(timers, timestamp)
                yield timestamp, found
        if until > self._fired:
            self._fired = until

    @property
    def earliest(self) -> int | None:
        """Returns the earliest timestamp, perhaps of a deleted timer."""
        return self._heap[0] if self._heap else None

    @property
    def timestamps(self) -> int:
        """Returns the number of distinct timestamps: at most that of the timers, and quickly known."""
        return len(self._heap) - self._deleted

    def __len__(self) -> int:
        return sum(_count(timers) for timers in (self._stored, self._new))

    def __iter__(self) -> Iterator[Timer]:
        """Yields all timers, in no order but that of the keys of a timestamp."""
        return chain(_each(self._stored), _each(self._new))

    def take_changes(self) -> TimerChanges | None:
        """Returns what has changed since the last call; None if there was none."""
        changes = None
        if self._removed is not None:
            removed = [timer for timer in self._removed if timer[0] > self._fired]
            changes = TimerChanges(self._fired, removed, list(_each(self._new)))
        stored, new = self._stored, self._new
        for timestamp in stored.keys() & new.keys():
            before, added = stored[timestamp], new.pop(timestamp)
            stored[timestamp] = added if before is _NONE else _Keys(dict.fromkeys([*_keys(before), *_keys(added)]))
        stored.update(new)
        new.clear()
        self._removed = []
        self._fired = NOTHING_FIRED
        return changes

    def _compact(self) -> None:
        for timers in (self._new, self._stored):
            for timestamp in [timestamp for timestamp, found in timers.items() if found is _NONE]:
                del timers[timestamp]
        new, stored = self._new, self._stored
        # In place: `due` may be iterating over it.
        self._heap[:] = [timestamp for timestamp in self._heap if timestamp in new or timestamp in stored]
        heapify(self._heap)
        self._deleted = 0


def _keys(found: Any) -> Iterable[Any]:
    return found if found.__class__ is _Keys else (found,)


def _each(timers: dict[int, Any]) -> Iterator[Timer]:
    for timestamp, found in timers.items():
        if found.__class__ is _Keys:
            for key in found:
                yield timestamp, key
        elif found is not _NONE:
            yield timestamp, found


def _count(timers: dict[int, Any]) -> int:
    return sum(len(found) if found.__class__ is _Keys else found is not _NONE for found in timers.values())


class TimeView:
    """The time for a process function without keys: the clock and the watermark, but no timers."""

    __slots__ = ("_operator", "current_processing_time", "watermark")

    def __init__(self, operator: str, clock: Callable[[], int]) -> None:
        self._operator = operator
        self.current_processing_time = clock
        """Returns the slot's clock, in milliseconds since 1970."""
        self.watermark = MIN_WATERMARK

    def current_watermark(self) -> int:
        """Returns the current watermark of the operator."""
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a keyed stream."""
        raise self._refusal("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a keyed stream."""
        raise self._refusal("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a keyed stream."""
        raise self._refusal("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Refused: timers need a keyed stream."""
        raise self._refusal("delete_event_time_timer")

    def _refusal(self, call: str) -> Exception:
        return RuntimeError(
            f"operator '{self._operator}': {call}(): timers are only supported on a keyed stream: put a key_by() "
            "before "
            "this operator"
        )


class TimerService(TimeView):
    """The `timer_service()` of a process function on a keyed stream: the time, and timers of the current key."""

    __slots__ = ("_state", "event", "processing", "quiesced")

    def __init__(self, operator: str, clock: Callable[[], int], state: KeyedStateBackend) -> None:
        super().__init__(operator, clock)
        self._state = state
        self.event = TimerQueue()
        self.processing = TimerQueue()
        self.quiesced = False
        """In batch mode, set while the timers of a key fire at its end: new ones are ignored, as in Flink. A timer that
        registers itself again would never end.
        """

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that calls `on_timer` at that time of the slot's clock."""
        key = self._state.current_key
        if timestamp.__class__ is not int or key.__class__ is NoKey:
            timestamp = self._checked("register_processing_time_timer", timestamp)
        if self.quiesced:
            self._tell_ignored()
        else:
            self.processing.add(timestamp, key)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer that calls `on_timer` when the watermark reaches that time."""
        key = self._state.current_key
        if timestamp.__class__ is not int or key.__class__ is NoKey:
            timestamp = self._checked("register_event_time_timer", timestamp)
        if self.quiesced:
            self._tell_ignored()
        else:
            self.event.add(timestamp, key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer."""
        key = self._state.current_key
        if timestamp.__class__ is not int or key.__class__ is NoKey:
            timestamp = self._checked("delete_processing_time_timer", timestamp)
        self.processing.remove(timestamp, key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer."""
        key = self._state.current_key
        if timestamp.__class__ is not int or key.__class__ is NoKey:
            timestamp = self._checked("delete_event_time_timer", timestamp)
        self.event.remove(timestamp, key)

    def stored(self) -> StoredTimers:
        """Returns all timers, for a snapshot."""
        return list(self.event), list(self.processing)

    def take_changes(self) -> ChangedTimers | None:
        """Returns the changes since the last call; None if there was none."""
        event, processing = self.event.take_changes(), self.processing.take_changes()
        return None if event is None or processing is None else ChangedTimers(event, processing)

    def outnumber(self, count: int) -> bool:
        """Returns whether there are at least so many timers."""
        return count <= self.event.timestamps + self.processing.timestamps or (
            count <= len(self.event) + len(self.processing)
        )

    def restore(self, timers: StoredTimers) -> None:
        """Restores timers."""
        for queue, stored in zip((self.event, self.processing), timers):
            for timestamp, key in stored:
                queue.add(timestamp, key)

    def _tell_ignored(self) -> None:
        if self._operator not in _TOLD:
            _TOLD.add(self._operator)
            _log.warning(
                "operator '%s': timers that on_timer() registers are ignored in batch mode, where all timers of a "
                "key fire "
                "at its end",
                self._operator,
            )

    def _checked(self, call: str, timestamp: Any) -> int:
        hash(self._state.current_key)  # Raises if there is no current key.
        try:
            return whole_milliseconds(timestamp)
        except TypeError:
            raise TypeError(
                f"operator '{self._operator}': {call}(): the timestamp must be a number of milliseconds, got "
                f"{timestamp!r}"
            ) from None
