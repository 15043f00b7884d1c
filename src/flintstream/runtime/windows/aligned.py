"""AlignedWindowOperator: tumbling and sliding time windows that fire at their end. The common case, and the fast one.

All keys share the windows, so there is no timer for a key: contents are kept by time first and by key second, and when the
watermark passes the end of a window, all its keys fire together. Overlapping windows share their panes: a record is added
once to the pane that it falls into, and a window that fires merges the panes that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import gcd
from typing import Any

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.detach import detached
from flintstream.runtime.time.timers import TimeView
from flintstream.runtime.windows.base import WindowBase, WindowParts
from flintstream.runtime.windows.contents import MISSING

Cell = dict[Any, Any]
"""Key to contents: those of a pane, or of a window that shares nothing."""

_STORED = "_panes"


class AlignedWindowOperator(WindowBase):
    """See the module.

    `make_window(start, end)` makes the window that functions see. With `shared` panes the contents must be incremental.
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
        self._shared = shared or slide == size
        self._pane = gcd(size, slide)
        """The length of the time whose records have the same windows."""

    def open(self) -> None:
        self._time = TimeView(self.context.name, self.context.services.clock)
        self._now = MIN_WATERMARK
        """What ends windows: the watermark, or the last full millisecond of the clock."""
        self._cells: dict[int, Cell] = {}
        self._waiting: list[int] = []
        """The starts of windows that have not fired, as a heap."""
        self._fired: list[int] = []
        """The starts of windows that have fired and may fire again, as a heap."""
        self._known: set[int] = set()
        """The starts of both."""
        super().open()
        self._unproven = self._shared and self._slide != self._size
        self._take = self._parts.contents.add
        self._restore()

    # --- records ---

    def process(self, batch: Batch) -> None:
        assert batch.keys is not None
        self._state.touch(batch.keys)
        if self._unproven:
            self._prove_merging(batch.values)
        if self._event_time:
            timestamps = batch.timestamps
            if timestamps is None or min(timestamps) == NO_TIMESTAMP:
                self._parts.assigner.assign_windows(batch.values[0], NO_TIMESTAMP, None)  # Says what is missing.
            assert timestamps is not None
        else:
            self._advance_clock()
            timestamps = [self._now + 1] * len(batch.values)
        late: list[int] = []
        record: Any = None
        low = high = 0
        cell: Cell | None = None
        again: list[int] = []
        add = self._take
        try:
            for index, (key, record, timestamp) in enumerate(zip(batch.keys, batch.values, timestamps)):
                if not low <= timestamp < high:
                    low = timestamp - (timestamp - self._offset) % self._pane
                    high = low + self._pane
                    cell, again = self._open_cell(low)
                if cell is None:
                    # Or between two windows, where windows start less often than they are long.
                    if timestamp + self._parts.allowed_lateness <= self._now:
                        late.append(index)
                elif again or not self._shared:
                    self._state.current_key = key
                    self._add_to_all(low, key, record, again)
                else:
                    cell[key] = add(cell.get(key, MISSING), record)
        except Exception as error:
            raise self.fault(error, record) from error
        self._emitter.flush()
        self.give_late(batch, late)

    def _open_cell(self, low: int) -> tuple[Cell | None, list[int]]:
        """The cell of a pane, and the windows that have fired and must fire again; None if all its windows are over."""
        again = []
        cell = None
        for start in self._windows_of(low):
            if self._cleanup_time(start) <= self._now:
                break  # Earlier windows are over too.
            cell = self._cells.setdefault(low if self._shared else start, {})
            if start + self._size - 1 <= self._now:
                again.append(start)
                self._remember(start, self._fired)
            else:
                self._remember(start, self._waiting)
        return cell, again

    def _remember(self, start: int, heap: list[int]) -> None:
        if start not in self._known:
            self._known.add(start)
            heappush(heap, start)

    def _add_to_all(self, low: int, key: Any, record: Any, again: list[int]) -> None:
        """The slow way: panes are not shared, or a late record lets windows fire again."""
        add = self._take
        if self._shared:
            cell = self._cells[low]
            cell[key] = add(cell.get(key, MISSING), record)
        for start in self._windows_of(low):
            if self._cleanup_time(start) <= self._now:
                break
            if not self._shared:
                cell = self._cells[start]
                cell[key] = add(cell.get(key, MISSING), record)
            if start in again:
                self._emit_key(start, key)

    def _prove_merging(self, values: list[Any]) -> None:
        """Panes are shared only if merging gives what adding gives, tried with the first records.

        An AggregateFunction must have `merge()`, but programs without sessions were never made to get it right.
        """
        self._unproven = False
        contents = self._parts.contents
        first, second = detached(values[0]), detached(values[-1])
        try:
            added = contents.add(contents.add(MISSING, first), second)
            merged = contents.merge(contents.add(MISSING, first), contents.add(MISSING, second))
            self._shared = bool(contents.elements(added) == contents.elements(merged))
        except Exception:
            self._shared = False

    def _windows_of(self, low: int) -> Iterator[int]:
        """The starts of the windows that contain a pane, the latest first."""
        last = low - (low - self._offset) % self._slide
        return iter(range(last, low - self._size, -self._slide))

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self._time.watermark = timestamp
        if self._event_time:
            self._advance(timestamp)
        super().process_watermark(timestamp)

    def end_epoch(self) -> None:
        if not self._event_time:
            self._advance_clock()

    def end_key(self) -> None:
        self._time.watermark = MAX_WATERMARK
        self._advance(MAX_WATERMARK)
        self._time.watermark = self._now = MIN_WATERMARK

    def next_due(self) -> float | None:
        if self._event_time or not self._waiting:
            return None
        return (self._waiting[0] + self._size) / 1000

    def _advance_clock(self) -> None:
        self._advance(self._time.current_processing_time() - 1)

    def _advance(self, now: int) -> None:
        """Fires the windows that end up to a time, the earliest first, and drops what no window needs any more."""
        self._now = max(self._now, now)
        waiting, fired = self._waiting, self._fired
        while waiting and waiting[0] + self._size - 1 <= now:
            start = heappop(waiting)
            self._emit_window(start)
            heappush(fired, start)
        while fired and self._cleanup_time(fired[0]) <= now:
            self._clean(heappop(fired))
        self._emitter.flush()

    def _cleanup_time(self, start: int) -> int:
        return start + self._size - 1 + (self._parts.allowed_lateness if self._event_time else 0)

    def _clean(self, start: int) -> None:
        self._known.discard(start)
        if self._parts.function.clears:
            window = self._make_window(start, start + self._size)
            self._window_context._window = self._function_state.current_key = window
            for key in self._contents(start):
                self._state.current_key = key
                self.guarded(self._parts.function.clear, self._window_context)
        if not self._shared:
            self._cells.pop(start, None)
            return
        # The next window starts a slide later: nobody needs what lies before.
        for low in range(start, start + self._slide, self._pane):
            self._cells.pop(low, None)

    # --- firing ---

    def _contents(self, start: int) -> Cell:
        """Key to contents of a window."""
        if not self._shared or self._pane == self._size:
            return self._cells.get(start, {})
        merged: Cell = {}
        merge = self._parts.contents.merge
        for low in range(start, start + self._size, self._pane):
            for key, contents in self._cells.get(low, {}).items():
                before = merged.get(key, MISSING)
                # Merging may change what it merges into, which must not be the pane's own.
                merged[key] = detached(contents) if before is MISSING else merge(before, contents)
        return merged

    def _emit_window(self, start: int) -> None:
        window = self._make_window(start, start + self._size)
        context, state = self._window_context, self._state
        context._window = self._function_state.current_key = window
        elements, results = self._parts.contents.elements, self._parts.function.results
        add, timestamp = self._emitter.add, window.max_timestamp()
        key: Any = None
        try:
            cell = self._contents(start)
            state.touch(cell)
            for key, contents in cell.items():
                state.current_key = key
                add(results(key, context, elements(contents)), timestamp)
        except Exception as error:
            raise self.fault(error, (window, key)) from error

    def _emit_key(self, start: int, key: Any) -> None:
        """A late record lets a window of its key fire again."""
        window = self._make_window(start, start + self._size)
        self._window_context._window = self._function_state.current_key = window
        merged: Any = MISSING
        for low in range(start, start + self._size, self._pane) if self._shared else (start,):
            contents = self._cells.get(low, {}).get(key, MISSING)
            if contents is not MISSING:
                merged = detached(contents) if merged is MISSING else self._parts.contents.merge(merged, contents)
        results = self._parts.function.results(key, self._window_context, self._parts.contents.elements(merged))
        self._emitter.add(results, window.max_timestamp())

    # --- checkpoints ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        stored = self._state.engine_table(_STORED)
        stored.clear()
        for low, cell in self._cells.items():
            for key, contents in cell.items():
                stored.setdefault(key, (self._now, self._shared, {}))[2][low] = contents

    def _restore(self) -> None:
        stored = self._state.engine_table(_STORED)
        if not stored:
            return
        self._unproven = False
        self._now = min(now for now, _, _ in stored.values())
        for key, (_, shared, cells) in stored.items():
            self._shared = shared
            for low, contents in cells.items():
                self._cells.setdefault(low, {})[key] = contents
        stored.clear()
        for low in self._cells:
            for start in self._windows_of(low) if self._shared else (low,):
                if self._cleanup_time(start) > self._now:
                    self._remember(start, self._fired if start + self._size - 1 <= self._now else self._waiting)
