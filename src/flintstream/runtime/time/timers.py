"""Timers in event time and processing time, one per key and timestamp."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from flintstream.common.time import whole_milliseconds
from flintstream.runtime.batch import MIN_WATERMARK
from flintstream.runtime.state.backend import KeyedStateBackend, NoKey

_COMPACT_FROM = 1024
_log = logging.getLogger(__name__)
_TOLD: set[str] = set()
"""Operators already warned about ignored timers."""

StoredTimers = tuple[list[tuple[int, Any]], list[tuple[int, Any]]]
"""Timers as (timestamp, key): in event time, and in processing time."""


class Namespaced(NamedTuple):
    """A key with a namespace, such as a window, to which a timer belongs."""

    key: Any
    namespace: Any


class _Keys(dict[Any, None]):
    """The keys of several timers with one timestamp, in order of registration."""

    __slots__ = ()


_NONE = object()
"""A placeholder for a key: the timers with this timestamp were deleted."""


class TimerQueue:
    """The timers of one time domain, each a timestamp and a key (or another hashable object).

    A heap of the distinct timestamps, with the key or keys of each. Most timestamps have one key, which is stored
    directly. Deletion is lazy and leaves the timestamp in the heap, so the cost of registering and deleting does not
    depend on the number of timers; once most of the heap is stale, it is rebuilt.
    """

    __slots__ = ("_deleted", "_heap", "_keys")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._keys: dict[int, Any] = {}
        self._deleted = 0

    def add(self, timestamp: int, key: Any) -> None:
        """Registers a timer, unless it exists already."""
        found = self._keys.get(timestamp)
        if found is None:
            self._keys[timestamp] = key
            heappush(self._heap, timestamp)
        elif found.__class__ is _Keys:
            found[key] = None
        elif found is _NONE:
            self._keys[timestamp] = key
            self._deleted -= 1
        elif found is not key and found != key:
            self._keys[timestamp] = _Keys({found: None, key: None})

    def remove(self, timestamp: int, key: Any) -> None:
        """Deletes a timer, if it exists."""
        found = self._keys.get(timestamp)
        if found is None or found is _NONE:
            return
        if found.__class__ is _Keys:
            found.pop(key, None)
            if found:
                return
        elif found is not key and found != key:
            return
        self._keys[timestamp] = _NONE
        self._deleted += 1
        if self._deleted > _COMPACT_FROM and self._deleted * 2 > len(self._heap):
            self._compact()

    def due(self, until: int) -> Iterator[tuple[int, Any]]:
        """Pops timers up to a time, the earliest first. Timers may be added and removed in the meantime."""
        heap, keys = self._heap, self._keys
        while heap and heap[0] <= until:
            timestamp = heap[0]
            found = keys[timestamp]
            if found is _NONE:
                heappop(heap)
                del keys[timestamp]
                self._deleted -= 1
            elif found.__class__ is _Keys:
                for key in list(found):
                    if key in found:
                        self.remove(timestamp, key)
                        yield timestamp, key
                        if keys.get(timestamp) is found and heap[0] < timestamp:
                            # Registered in the meantime, and earlier.
                            yield from self.due(timestamp - 1)
            else:
                self.remove(timestamp, found)
                yield timestamp, found

    @property
    def earliest(self) -> int | None:
        """Returns the earliest timestamp, perhaps of a deleted timer."""
        return self._heap[0] if self._heap else None

    def __len__(self) -> int:
        return sum(len(found) if found.__class__ is _Keys else found is not _NONE for found in self._keys.values())

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yields all timers, in no order."""
        for timestamp, found in self._keys.items():
            if found.__class__ is _Keys:
                for key in found:
                    yield timestamp, key
            elif found is not _NONE:
                yield timestamp, found

    def _compact(self) -> None:
        keys = self._keys
        # In place: `due` may be iterating over both.
        self._heap[:] = [timestamp for timestamp in self._heap if keys[timestamp] is not _NONE]
        heapify(self._heap)
        for timestamp in [timestamp for timestamp, found in keys.items() if found is _NONE]:
            del keys[timestamp]
        self._deleted = 0


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
