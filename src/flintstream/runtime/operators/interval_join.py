"""IntervalJoinOperator: pairs records of two keyed streams with the same key and nearby timestamps.

Each side keeps its records until the watermark shows that no partner can follow. The records of a key are sorted by
timestamp: partners are found by bisection, and expired records are removed from the front. Only the first record of a
key and side has a timer; when it fires, all expired records are removed at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import MutableMapping
from typing import Any

from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.operators.base import LATE_RECORDS, FunctionOperator
from flintstream.runtime.results import ResultEmitter
from flintstream.runtime.time.timers import TimerService

LEFT_TABLE = "_interval_join_left"
RIGHT_TABLE = "_interval_join_right"

Kept = tuple[list[int], list[Any]]
"""The records of a key: sorted timestamps, equal ones in order of arrival, and the records they belong to."""


class JoinContext:
    """The context of a `ProcessJoinFunction`. One object serves all pairs of a subtask."""

    __slots__ = ("_left", "_right")

    def __init__(self) -> None:
        self._left = self._right = NO_TIMESTAMP

    def get_left_timestamp(self) -> int:
        """Returns the timestamp of the left record."""
        return self._left

    def get_right_timestamp(self) -> int:
        """Returns the timestamp of the right record."""
        return self._right

    def get_timestamp(self) -> int:
        """Returns the greater of the two timestamps, which is that of the results."""
        return max(self._left, self._right)


class _Side:
    """One of the inputs: its records and their partners by key, and the time range of partners."""

    __slots__ = ("is_left", "kept", "late_tag", "lower", "partners", "stay", "upper")

    def __init__(
        self,
        is_left: bool,
        kept: MutableMapping[Any, Kept],
        partners: MutableMapping[Any, Kept],
        lower: int,
        upper: int,
        late_tag: str | None,
    ) -> None:
        self.is_left = is_left
        self.kept = kept
        self.partners = partners
        self.lower = lower
        self.upper = upper
        self.stay = max(upper, 0)
        """How long after its timestamp a record may still find a partner that is not late."""
        self.late_tag = late_tag

    def insert(self, key: Any, record: Any, timestamp: int) -> bool:
        """Stores a record; returns whether it is now the first of its key."""
        kept = self.kept.get(key)
        if kept is None:
            self.kept[key] = ([timestamp], [record])
            return True
        place = bisect_right(kept[0], timestamp)
        kept[0].insert(place, timestamp)
        kept[1].insert(place, record)
        return place == 0

    def cut(self, key: Any, watermark: int) -> int | None:
        """Removes the expired records of a key; returns the timestamp of the first remaining one."""
        kept = self.kept.get(key)
        if kept is None:
            return None
        times, records = kept
        over = len(times) if watermark == MAX_WATERMARK else bisect_right(times, watermark - self.stay)
        if over == len(times):
            del self.kept[key]
            return None
        del times[:over]
        del records[:over]
        return times[0]


class IntervalJoinOperator(FunctionOperator):
    """Calls a `ProcessJoinFunction` for the pairs with `left + lower_bound <= right <= left + upper_bound`.

    Both bounds are in milliseconds and inclusive. The tags are the ids of the side outputs for late records; those
    without a tag are dropped and counted.
    """

    two_inputs = True
    keyed = True

    def __init__(
        self,
        function: Any,
        lower_bound: int,
        upper_bound: int,
        left_late_tag: str | None = None,
        right_late_tag: str | None = None,
    ) -> None:
        super().__init__(function)
        self._lower = lower_bound
        self._upper = upper_bound
        self._late_tags = (left_late_tag, right_late_tag)

    def open(self) -> None:
        state = self.context.keyed_state
        assert state is not None
        self._state = state
        self._timers = TimerService(self.context.name, self.context.services.clock, state)
        self._timers.restore(self.context.restored_timers)
        left, right = state.engine_table(LEFT_TABLE), state.engine_table(RIGHT_TABLE)
        self._left = _Side(True, left, right, self._lower, self._upper, self._late_tags[0])
        self._right = _Side(False, right, left, -self._upper, -self._lower, self._late_tags[1])
        self._late = self.context.runtime_context.get_metrics_group().counter(LATE_RECORDS)
        self._context = JoinContext()
        self._emitter = ResultEmitter(self.output)
        super().open()
        self._call = self.bound("process_element")

    # --- records ---

    def process(self, batch: Batch) -> None:
        self._join(batch, self._left)

    def process2(self, batch: Batch) -> None:
        self._join(batch, self._right)

    def _join(self, batch: Batch, side: _Side) -> None:
        assert batch.keys is not None
        timestamps = self._timestamps(batch)
        self._state.touch(batch.keys)
        watermark, lower, upper = self._timers.watermark, side.lower, side.upper
        kept_of, partners_of = side.kept.get, side.partners.get
        late: list[int] = []
        for index, (key, record, timestamp) in enumerate(zip(batch.keys, batch.values, timestamps)):
            if timestamp < watermark:
                late.append(index)
                continue
            kept = kept_of(key)
            if kept is not None and kept[0][-1] <= timestamp:
                kept[0].append(timestamp)
                kept[1].append(record)
            elif side.insert(key, record, timestamp):
                self._set_timer(key, timestamp + side.stay)
            partners = partners_of(key)
            if partners is not None:
                times = partners[0]
                start = bisect_left(times, timestamp + lower)
                stop = bisect_right(times, timestamp + upper, start)
                if start < stop:
                    self._state.current_key = key
                    self._pair(side, record, timestamp, times[start:stop], partners[1][start:stop])
        self._emitter.flush()
        if late:
            self._emit_late(batch, late, side.late_tag)

    def _timestamps(self, batch: Batch) -> list[int]:
        """Returns the timestamps of a batch, all of which must exist."""
        timestamps = batch.timestamps
        if timestamps is None or NO_TIMESTAMP in timestamps:
            missing = 0 if timestamps is None else timestamps.index(NO_TIMESTAMP)
            error = ValueError(
                "interval_join: a record has no timestamp: call assign_timestamps_and_watermarks() on both streams"
            )
            raise self.fault(error, batch.values[missing])
        return timestamps

    def _pair(self, side: _Side, record: Any, timestamp: int, times: list[int], partners: list[Any]) -> None:
        """Calls the function for a record with each of its partners."""
        call, context, is_left = self._call, self._context, side.is_left
        left = right = record
        try:
            for time, partner in zip(times, partners):
                if is_left:
                    right = partner
                    context._left, context._right = timestamp, time
                else:
                    left = partner
                    context._left, context._right = time, timestamp
                results = call(left, right, context)
                if results is not None:
                    self._emitter.add(results, timestamp if timestamp > time else time)
        except Exception as error:
            raise self.fault(error, (left, right)) from error

    def _emit_late(self, batch: Batch, late: list[int], tag: str | None) -> None:
        if tag is None:
            self._late.inc(len(late))
            return
        assert batch.timestamps is not None
        values = [batch.values[index] for index in late]
        self.output.emit_side(tag, Batch(values, [batch.timestamps[index] for index in late]))

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self._timers.watermark = timestamp
        self._clean(timestamp)
        super().process_watermark(timestamp)

    def end_key(self) -> None:
        self._clean(MAX_WATERMARK)

    def timers_to_store(self) -> TimerService:
        return self._timers

    def _set_timer(self, key: Any, time: int) -> None:
        self._timers.event.add(min(time, MAX_WATERMARK), key)

    def _clean(self, watermark: int) -> None:
        """Removes expired records of the keys whose timers are due."""
        earliest = self._timers.event.earliest
        if earliest is None or earliest > watermark:
            return
        keys = list(dict.fromkeys(key for _, key in self._timers.event.due(watermark)))
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            self._state.touch(chunk)
            for side in (self._left, self._right):
                for key in chunk:
                    first = side.cut(key, watermark)
                    if first is not None:
                        self._set_timer(key, first + side.stay)
