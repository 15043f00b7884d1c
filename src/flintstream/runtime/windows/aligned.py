"""AlignedWindowOperator: tumbling and sliding time windows that fire at their end. The common case, and the fast one.

All keys share the windows, so there is no timer for a key: contents are kept by time first and by key second, and when the
watermark passes the end of a window, all its keys fire together. A batch is taken apart by time, and what lies in one span
of it is added in one loop. Overlapping windows share panes where that is possible: see `panes` and `sharing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import gcd, inf
from typing import Any

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.time.timers import TimeView
from flintstream.runtime.windows.base import FiredWindow, WindowBase, WindowParts
from flintstream.runtime.windows.contents import MISSING, Cell
from flintstream.runtime.windows.functions import PassOn
from flintstream.runtime.windows.panes import SharedPanes
from flintstream.runtime.windows.sharing import SharingTrial

_STORED = "_panes"


class AlignedWindowOperator(WindowBase):
    """See the module.

    `make_window(start, end)` makes the window that functions see. With `shared`, overlapping windows share panes as soon as
    records have shown that the contents can be merged.
    """

    def __init__(
        self,
        parts: WindowParts,
        make_window: Callable[[int, int], Any],
        size: int,
        slide: int,
        offset: int = 0,
        shared: bool = False,
    ) -> None:
        super().__init__(parts)
        self._make_window = make_window
        self._size = size
        self._slide = slide
        self._offset = offset
        self._may_share = shared and slide < size
        self._pane = gcd(size, slide)

    def open(self) -> None:
        self._time = TimeView(self.context.name, self.context.services.clock)
        self._now = MIN_WATERMARK
        """What ends windows: the watermark, or the last full millisecond of the clock."""
        self._waiting: list[int] = []
        """The starts of windows that have not fired, as a heap."""
        self._fired: list[int] = []
        """The starts of windows that have fired and may fire again, as a heap."""
        self._known: set[int] = set()
        """The starts of both."""
        super().open()
        self._windows: dict[int, Cell] = {}
        """The start of a window to its contents; of those that share no panes."""
        self._panes = SharedPanes(self._parts.contents, self._size, self._slide, self._pane)
        self._shared_from: float = inf
        """Windows that start from here on share panes."""
        self._trial = SharingTrial(self._parts.contents) if self._may_share else None
        self._no_function = type(self._parts.function) is PassOn
        self._stored = self._state.engine_table(_STORED)
        """Filled for a snapshot."""
        self._restore()

    # --- records ---

    def process(self, batch: Batch) -> None:
        assert batch.keys is not None
        keys, values = batch.keys, batch.values
        self._stored.clear()
        self._state.touch(keys)
        timestamps = self._times(batch)
        if self._trial is not None:
            self._try_sharing(self._trial, keys, values)
        low, high = self._span(min(timestamps))
        late: list[int] = []
        if max(timestamps) < high:
            cell = self._open(low)
            if cell is None:
                late = self._add_one_by_one(batch, timestamps, range(len(values)))
            else:
                self._add(cell, keys, values)
        else:
            late = self._spread(batch, timestamps)
        self._emitter.flush()
        self.give_late(batch, late)

    def _times(self, batch: Batch) -> list[int]:
        """The times that decide about the records' windows."""
        if not self._event_time:
            self._advance_clock()
            return [self._now + 1] * len(batch.values)
        timestamps = batch.timestamps
        if timestamps is None or min(timestamps) == NO_TIMESTAMP:
            record = batch.values[0 if timestamps is None else timestamps.index(NO_TIMESTAMP)]
            try:
                self._parts.assigner.assign_windows(record, NO_TIMESTAMP, None)  # Says what is missing.
            except Exception as error:
                raise self.fault(error, record) from error
        assert timestamps is not None
        return timestamps

    def _span(self, time: int) -> tuple[int, int]:
        """The time around a time, from and to, whose records have the same windows: a pane, a window, or a gap."""
        if self._slide < self._size:
            low = time - (time - self._offset) % self._pane
            return low, low + self._pane
        start = time - (time - self._offset) % self._slide
        end = start + self._size
        return (start, end) if time < end else (end, start + self._slide)

    def _windows_of(self, low: int) -> Iterable[int]:
        """The starts of the windows that contain a span, the latest first."""
        last = low - (low - self._offset) % self._slide
        return range(last, low - self._size, -self._slide)

    def _open(self, low: int) -> Cell | None:
        """The one place for the records of a span; None if there are several or none, or if they let windows fire again."""
        starts = self._windows_of(low)
        if self._span(low)[1] - 1 <= self._now or not starts:
            return None
        for start in starts:
            self._remember(start, self._waiting)
        shared = [start for start in starts if start >= self._shared_from]
        if len(shared) == len(starts):  # type: ignore[arg-type]
            return self._panes.cell(low)
        return self._windows.setdefault(low, {}) if self._slide >= self._size else None

    def _spread(self, batch: Batch, timestamps: list[int]) -> list[int]:
        """Takes a batch apart by time; returns the records that are late."""
        low = high = 0
        cells: dict[int, Cell | None] = {}
        groups: dict[int, list[int]] = {}
        others: list[int] = []
        group = others
        for index, timestamp in enumerate(timestamps):
            if not low <= timestamp < high:
                low, high = self._span(timestamp)
                if low not in groups:
                    cells[low] = self._open(low)
                    groups[low] = others if cells[low] is None else []
                group = groups[low]
            group.append(index)
        keys, values = batch.keys, batch.values
        for low, cell in cells.items():
            if cell is not None:
                group = groups[low]
                self._add(cell, [keys[index] for index in group], [values[index] for index in group])  # type: ignore[index]
        return self._add_one_by_one(batch, timestamps, others)

    def _add(self, cell: Cell, keys: list[Any], values: list[Any]) -> None:
        consumed = iter(values)
        try:
            self._parts.contents.add_all(cell, self._state, keys, consumed)
        except Exception as error:
            raise self.fault(error, record_at_fault(values, consumed)) from error

    def _add_one_by_one(self, batch: Batch, timestamps: list[int], indexes: Iterable[int]) -> list[int]:
        """The slow way: panes are not shared, or the records come after their time. Returns those that are late."""
        late: list[int] = []
        for index in indexes:
            key, record = batch.keys[index], batch.values[index]  # type: ignore[index]
            self._state.current_key = key
            try:
                if not self._add_to_windows(key, record, timestamps[index]):
                    late.append(index)
            except Exception as error:
                raise self.fault(error, record) from error
        return late

    def _add_to_windows(self, key: Any, record: Any, timestamp: int) -> bool:
        """Adds a record to each of its windows; false if it is late for all."""
        low, _ = self._span(timestamp)
        starts = [start for start in self._windows_of(low) if self._cleanup_time(start) > self._now]
        if not starts:
            # Or it lies in a gap between two windows, and then may be in time.
            return timestamp + self._parts.allowed_lateness > self._now
        contents = self._parts.contents
        own = [start for start in starts if start < self._shared_from]
        copies = contents.for_windows(record, len(own) + 1)
        if len(own) < len(starts):
            self._panes.add(low, key, copies.pop())
        for start, value in zip(own, copies):
            cell = self._windows.setdefault(start, {})
            cell[key] = contents.add(cell.get(key, MISSING), value)
        for start in starts:
            if start + self._size - 1 > self._now:
                self._remember(start, self._waiting)
            else:
                self._remember(start, self._fired)
                self._emit_again(start, key, timestamp)
        return True

    def _remember(self, start: int, heap: list[int]) -> None:
        if start not in self._known:
            self._known.add(start)
            heappush(heap, start)

    def _try_sharing(self, trial: SharingTrial, keys: list[Any], values: list[Any]) -> None:
        self._state.current_key = self._state.no_key
        verdict = trial.verdict(keys, values)
        if verdict is not None:
            self._trial = None
        if verdict:
            # Windows that have records stay as they are.
            self._shared_from = max(self._known) + 1 if self._known else -inf

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self._time.watermark = timestamp
        if self._event_time:
            self._advance(timestamp)
        elif timestamp == MAX_WATERMARK:
            self._advance_clock()
        super().process_watermark(timestamp)

    def end_epoch(self) -> None:
        if not self._event_time:
            self._advance_clock()

    def end_key(self) -> None:
        self._time.watermark = MAX_WATERMARK
        self._advance(MAX_WATERMARK)
        self._time.watermark = self._now = MIN_WATERMARK
        self._panes.forget_merges()

    def next_due(self) -> float | None:
        if self._event_time or not self._waiting:
            return None
        return (self._waiting[0] + self._size) / 1000

    def _advance_clock(self) -> None:
        self._advance(self._time.current_processing_time() - 1)

    def _advance(self, now: int) -> None:
        """Fires the windows that end up to a time, the earliest first, and drops those that are over."""
        self._now = max(self._now, now)
        waiting, fired = self._waiting, self._fired
        while True:
            ends = waiting[0] + self._size - 1 if waiting else inf
            over = self._cleanup_time(fired[0]) if fired else inf
            if min(ends, over) > now:
                break
            if over <= ends:
                self._clean(heappop(fired))
            else:
                start = heappop(waiting)
                heappush(fired, start)
                self._emit_window(start)
        self._emitter.flush()

    def _cleanup_time(self, start: int) -> int:
        lateness = self._parts.allowed_lateness if self._event_time else 0
        return min(start + self._size - 1 + lateness, MAX_WATERMARK)

    def _clean(self, start: int) -> None:
        self._known.discard(start)
        shared = start >= self._shared_from
        if self._parts.function.clears:
            window = self._make_window(start, start + self._size)
            for key in self._panes.keys(start) if shared else self._windows.get(start, ()):
                self.call_clear(window, key)
        if shared:
            self._panes.drop(start)
        else:
            self._windows.pop(start, None)

    # --- firing ---

    def _emit_window(self, start: int) -> None:
        window = self._make_window(start, start + self._size)
        cell = self._contents(start, window)
        self._state.touch(cell)
        if self._no_function:
            self._emit_results(window, cell)
            return
        elements = self._parts.contents.elements
        key: Any = None
        try:
            for key, contents in cell.items():
                self._state.current_key = key
                self.call(window, key, elements(contents))
        except Exception as error:
            raise self.fault(error, FiredWindow(window, key)) from error

    def _emit_results(self, window: Any, cell: Cell) -> None:
        """What the records were reduced or aggregated to is the result."""
        self._state.current_key = self._state.no_key
        consumed = iter(cell.values())
        try:
            self._emitter.add_all(self._parts.contents.results(consumed), window.max_timestamp())
        except Exception as error:
            raise self.fault(error, FiredWindow(window, record_at_fault(list(cell), consumed))) from error

    def _contents(self, start: int, window: Any) -> Cell:
        """Key to contents of a window that fires."""
        if start < self._shared_from:
            return self._windows.get(start, {})
        self._state.current_key = self._state.no_key
        try:
            return self._panes.of_window(start)
        except Exception as error:
            raise self.fault(error, window) from error

    def _emit_again(self, start: int, key: Any, timestamp: int) -> None:
        """A late record lets a window of its key fire again; the results carry its timestamp."""
        shared = start >= self._shared_from
        contents = self._panes.of_key(start, key) if shared else self._windows[start][key]
        window = self._make_window(start, start + self._size)
        self.call(window, key, self._parts.contents.elements(contents), timestamp)

    # --- checkpoints ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        stored = self._stored
        stored.clear()
        for place, cells in enumerate((self._windows, self._panes.cells)):
            for low, cell in cells.items():
                for key, contents in cell.items():
                    entry = stored.setdefault(key, (self._now, self._shared_from, {}, {}))
                    entry[2 + place][low] = contents

    def _restore(self) -> None:
        stored = self._stored
        if not stored:
            return
        self._trial = None
        self._now = min(now for now, _, _, _ in stored.values())
        # The subtasks that have stored this may have come to different verdicts.
        self._shared_from = max(shared_from for _, shared_from, _, _ in stored.values())
        for key, (_, shared_from, windows, panes) in stored.items():
            for low, contents in panes.items():
                self._panes.cell(low)[key] = contents
            for start in {start for low in panes for start in self._windows_of(low)}:
                if shared_from <= start < self._shared_from:
                    windows[start] = self._panes.of_key(start, key)
            for start, contents in windows.items():
                self._windows.setdefault(start, {})[key] = contents
        stored.clear()
        self._restore_windows()

    def _restore_windows(self) -> None:
        """Which windows there are follows from their contents."""
        starts = set(self._windows)
        for low in list(self._panes.cells):
            shared = {start for start in self._windows_of(low) if start >= self._shared_from}
            starts |= shared
            if not shared:
                del self._panes.cells[low]
        for start in starts:
            self._remember(start, self._fired if start + self._size - 1 <= self._now else self._waiting)
