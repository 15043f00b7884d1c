"""AlignedWindowOperator: tumbling and sliding time windows that fire at their end. The common case, and the fast path.

All keys share the windows, so there are no timers per key: contents are stored by window and then by key, and when the
watermark passes the end of a window, all its keys fire together. A batch is split by time, and the records of one time
span are added in one loop. Overlapping windows with mergeable contents share panes: see `panes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import groupby, repeat
from math import gcd, inf
from typing import Any

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.time.timers import TimeView
from flintstream.runtime.windows.base import ALIGNED_TABLE, FiredWindow, WindowBase
from flintstream.runtime.windows.contents import MISSING, Cell
from flintstream.runtime.windows.functions import PassOn
from flintstream.runtime.windows.panes import SharedPanes
from flintstream.runtime.windows.spec import WindowSpec
from flintstream.runtime.windows.stored import StoredWindows


class AlignedWindowOperator(WindowBase):
    """The operator of aligned windows; `make_window(start, end)` creates the windows that functions see."""

    def __init__(
        self,
        spec: WindowSpec,
        make_window: Callable[[int, int], Any],
        size: int,
        slide: int,
        offset: int = 0,
    ) -> None:
        super().__init__(spec)
        self._make_window = make_window
        self._size = size
        self._slide = slide
        self._offset = offset
        self._shares = spec.mergeable and slide < size
        self._pane = gcd(size, slide)
        self._layout = (size, slide, offset)

    def open(self) -> None:
        self._time = TimeView(self.context.name, self.context.services.clock)
        self._now = MIN_WATERMARK
        """The current time of the windows: the watermark, or the last full millisecond of the clock."""
        self._waiting: list[int] = []
        """The starts of windows that have not fired, as a heap."""
        self._fired: list[int] = []
        """The starts of windows that have fired and may fire again, as a heap."""
        self._known: set[int] = set()
        """The starts of both."""
        self._ahead: dict[Any, int] = {}
        """Restored keys with the time that their former subtask had reached; until this subtask has reached it for all.
        """
        self._catch_up = MIN_WATERMARK
        """The maximum of these times."""
        super().open()
        self._windows: dict[int, Cell] = {}
        """The contents of windows that share no panes, by their start."""
        self._panes = SharedPanes(self._spec.contents, self._size, self._slide, self._pane)
        self._shared_from: float = -inf if self._shares else inf
        """Windows that start from here on share panes."""
        self._no_function = type(self._spec.function) is PassOn
        self._stored = self.own_table(ALIGNED_TABLE)
        """Filled for a snapshot."""
        self._restore()

    # --- records ---

    def process(self, batch: Batch) -> None:
        assert batch.keys is not None
        keys, values = batch.keys, batch.values
        self._stored.clear()
        self._state.touch(keys)
        timestamps, earliest = self._times(batch)
        low, high = self._span(earliest)
        late: list[int] = []
        if self._ahead:
            late = self._add_one_by_one(batch, timestamps, range(len(values)))
        elif max(timestamps) < high and (cells := self._open(low)):
            self._add(cells, keys, values)
        elif self._slide < self._size and low - self._size < self._shared_from:
            late = self._spread_in_order(batch, timestamps)
        else:
            late = self._spread(batch, timestamps)
        self._emitter.flush()
        self.emit_late(batch, late)

    def _times(self, batch: Batch) -> tuple[list[int], int]:
        """Returns the times that determine the records' windows, and the earliest of them."""
        if not self._event_time:
            self._advance_clock()
            # Another machine's clock may be behind, but records are not added to windows that have fired.
            now = max(self._now, self._catch_up) + 1
            return [now] * len(batch.values), now
        timestamps = batch.timestamps
        earliest = NO_TIMESTAMP if timestamps is None else min(timestamps)
        if earliest == NO_TIMESTAMP:
            record = batch.values[0 if timestamps is None else timestamps.index(NO_TIMESTAMP)]
            try:
                self._spec.assigner.assign_windows(record, NO_TIMESTAMP, None)  # raises: no timestamp
            except Exception as error:
                raise self.fault(error, record) from error
        assert timestamps is not None
        return timestamps, earliest

    def _span(self, time: int) -> tuple[int, int]:
        """Returns the time span around a time whose records have the same windows: a pane, a window, or a gap."""
        if self._slide < self._size:
            low = time - (time - self._offset) % self._pane
            return low, low + self._pane
        start = time - (time - self._offset) % self._slide
        end = start + self._size
        return (start, end) if time < end else (end, start + self._slide)

    def _windows_of(self, low: int) -> range:
        """Returns the starts of the windows that contain a span, the latest first."""
        last = low - (low - self._offset) % self._slide
        return range(last, low - self._size, -self._slide)

    def _open(self, low: int) -> list[Cell]:
        """Returns where the records of a span are added: their pane, or each window; None if they may make windows fire
        again.
        """
        starts = self._windows_of(low)
        if self._span(low)[1] - 1 <= self._now:
            return []
        for start in starts:
            self._remember(start, self._waiting)
        own = [start for start in starts if start < self._shared_from]
        cells = [self._windows.setdefault(start, {}) for start in own]
        if len(own) < len(starts):
            cells.append(self._panes.cell(low))
        return cells

    def _spread(self, batch: Batch, timestamps: list[int]) -> list[int]:
        """Splits a batch by time; returns the late records. Records of different spans are reordered."""
        low = high = 0
        cells: dict[int, list[Cell]] = {}
        groups: dict[int, list[int]] = {}
        others: list[int] = []
        group = others
        for index, timestamp in enumerate(timestamps):
            if not low <= timestamp < high:
                low, high = self._span(timestamp)
                if low not in groups:
                    cells[low] = self._open(low)
                    groups[low] = [] if cells[low] else others
                group = groups[low]
            group.append(index)
        keys, values = batch.keys, batch.values
        for low, found in cells.items():
            if found:
                group = groups[low]
                self._add(found, [keys[index] for index in group], [values[index] for index in group])  # type: ignore[index]
        return self._add_one_by_one(batch, timestamps, others)

    def _spread_in_order(self, batch: Batch, timestamps: list[int]) -> list[int]:
        """Adds records to overlapping windows, which contain several spans, in order; returns the late ones."""
        keys, values = batch.keys, batch.values
        places, late, start = self._places(timestamps), [], 0
        for opened, run in groupby(places, key=bool):
            end = start + len(list(run))
            if opened:
                self._add_to_each(places[start:end], keys[start:end], values[start:end])  # type: ignore[index]
            else:
                late += self._add_one_by_one(batch, timestamps, range(start, end))
            start = end
        return late

    def _places(self, timestamps: list[int]) -> list[list[Cell]]:
        """Returns where each record is added, like `_open`."""
        low = high = 0
        cells: list[Cell] = []
        opened: dict[int, list[Cell]] = {}
        places = []
        for timestamp in timestamps:
            if not low <= timestamp < high:
                low, high = self._span(timestamp)
                if low not in opened:
                    opened[low] = self._open(low)
                cells = opened[low]
            places.append(cells)
        return places

    def _add(self, cells: list[Cell], keys: list[Any], values: list[Any]) -> None:
        if len(cells) > 1:
            self._add_to_each(repeat(cells), keys, values)
            return
        consumed = iter(values)
        try:
            self._spec.contents.add_all(cells[0], self._state, keys, consumed)
        except Exception as error:
            raise self.fault(error, record_at_fault(values, consumed)) from error

    def _add_to_each(self, places: Iterable[list[Cell]], keys: list[Any], values: list[Any]) -> None:
        consumed = iter(values)
        try:
            self._spec.contents.add_to_each(places, self._state, keys, consumed)
        except Exception as error:
            raise self.fault(error, record_at_fault(values, consumed)) from error

    def _add_one_by_one(self, batch: Batch, timestamps: list[int], indexes: Iterable[int]) -> list[int]:
        """The slow path, for records that are or may be late. Returns the late ones."""
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
        """Adds a record to each of its windows; returns False if it is late for all."""
        low, _ = self._span(timestamp)
        now = max(self._now, self._ahead.get(key, MIN_WATERMARK))
        starts = [start for start in self._windows_of(low) if self._cleanup_time(start) > now]
        if not starts:
            # Or it is in a gap between two windows, and not necessarily late.
            return timestamp + self._spec.allowed_lateness > now
        contents = self._spec.contents
        own = [start for start in starts if start < self._shared_from]
        copies = contents.for_windows(record, len(own) + 1)
        if len(own) < len(starts):
            self._panes.add(low, key, copies.pop())
        for start, value in zip(own, copies):
            cell = self._windows.setdefault(start, {})
            cell[key] = contents.add(cell.get(key, MISSING), value)
        for start in starts:
            last = start + self._size - 1
            self._remember(start, self._waiting if last > self._now else self._fired)
            if last <= now:
                self._emit_again(start, key, timestamp)
        return True

    def _remember(self, start: int, heap: list[int]) -> None:
        if start not in self._known:
            self._known.add(start)
            heappush(heap, start)

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self._time.watermark = timestamp
        if self._event_time:
            self._advance(timestamp)
        elif timestamp == MAX_WATERMARK:
            self._advance_clock()
        super().process_watermark(timestamp)

    def tick(self) -> None:
        if not self._event_time:
            self._advance_clock()

    def end_key(self) -> None:
        self._time.watermark = MAX_WATERMARK
        self._advance(MAX_WATERMARK)
        self._time.watermark = self._now = MIN_WATERMARK
        self._panes.reset()

    def next_due(self) -> float | None:
        if self._event_time or not self._waiting:
            return None
        return (self._waiting[0] + self._size) / 1000

    def _advance_clock(self) -> None:
        self._advance(self._time.current_processing_time() - 1)

    def _advance(self, now: int) -> None:
        """Fires the windows that end up to a time, the earliest first, and drops the expired ones."""
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
        if self._ahead and now >= self._catch_up:
            self._ahead = {}
        self._emitter.flush()

    def _cleanup_time(self, start: int) -> int:
        lateness = self._spec.allowed_lateness if self._event_time else 0
        return min(start + self._size - 1 + lateness, MAX_WATERMARK)

    def _clean(self, start: int) -> None:
        self._known.discard(start)
        shared = start >= self._shared_from
        if self._spec.function.clears:
            window = self._make_window(start, start + self._size)
            keys = self._panes.keys(start) if shared else self._windows.get(start, ())
            keys = self._not_before(self._cleanup_time(start), keys)
            self._state.touch(keys)
            for key in keys:
                self.call_clear(window, key)
        for cell in self._panes.drop(start) if shared else [self._windows.pop(start, {})]:
            self._state.touch(cell)

    def _not_before(self, time: int, keys: Iterable[Any]) -> list[Any]:
        """Returns the keys that reach a time now, and had not reached it before they were restored."""
        ahead = self._ahead
        return [key for key in keys if ahead.get(key, MIN_WATERMARK) < time] if ahead else list(keys)

    # --- firing ---

    def _emit_window(self, start: int) -> None:
        window = self._make_window(start, start + self._size)
        cell = self._contents(start, window)
        if self._ahead:
            cell = {key: cell[key] for key in self._not_before(window.max_timestamp(), cell)}
        self._state.touch(cell)
        if self._no_function:
            self._emit_results(window, cell)
            return
        key: Any = None
        try:
            for key, contents in cell.items():
                self._state.current_key = key
                if elements := self._spec.contents.elements(contents):
                    self.call(window, key, elements)
        except Exception as error:
            raise self.fault(error, FiredWindow(window, key)) from error

    def _emit_results(self, window: Any, cell: Cell) -> None:
        """Emits the reduced or aggregated contents as results."""
        self._state.current_key = self._state.no_key
        consumed = iter(cell.values())
        try:
            self._emitter.add_all(self._spec.contents.results(consumed), window.max_timestamp())
        except Exception as error:
            raise self.fault(error, FiredWindow(window, record_at_fault(list(cell), consumed))) from error

    def _contents(self, start: int, window: Any) -> Cell:
        """Returns the contents of a window that fires, by key."""
        if start < self._shared_from:
            return self._windows.get(start, {})
        self._state.current_key = self._state.no_key
        try:
            return self._panes.of_window(start)
        except Exception as error:
            raise self.fault(error, window) from error

    def _emit_again(self, start: int, key: Any, timestamp: int) -> None:
        """Fires a window again for a late record of its key; results have the record's timestamp."""
        shared = start >= self._shared_from
        contents = self._panes.of_key(start, key) if shared else self._windows[start][key]
        window = self._make_window(start, start + self._size)
        if elements := self._spec.contents.elements(contents):
            self.call(window, key, elements, timestamp)

    # --- checkpoints ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        stored, now, ahead = self._stored, self._now, self._ahead
        shared_from = self._shared_from if self._shares else None
        stored.clear()
        for place, cells in enumerate((self._windows, self._panes.cells)):
            for low, cell in cells.items():
                for key, contents in cell.items():
                    entry: Any = stored.get(key)
                    if entry is None:
                        entry = StoredWindows({}, {}, max(now, ahead.get(key, now)), shared_from, self._layout)
                        stored[key] = entry
                    entry[place][low] = contents

    def _restore(self) -> None:
        """Restores the windows of subtasks whose times may have differed.

        As in Flink, event time starts over, but a window that has fired for a key does not fire again. If the program
        shares panes now and did not before, windows with records stay separate.
        """
        stored = self._stored
        if not stored:
            return
        for key, each in stored.items():
            self._check_layout(each.layout, bool(each.panes))
            self._ahead[key] = each.now
            self._shared_from = max(self._shared_from, each.own_up_to())
        self._catch_up = max(self._ahead.values())
        for key, each in stored.items():
            self._restore_key(key, each)
        for low in list(self._panes.cells):
            if max(self._windows_of(low)) < self._shared_from:
                del self._panes.cells[low]
        stored.clear()

    def _restore_key(self, key: Any, stored: StoredWindows) -> None:
        windows = stored.windows
        for low, contents in stored.panes.items():
            self._panes.cell(low)[key] = contents
        for start in stored.shared():
            if self._cleanup_time(start) <= stored.now:
                continue
            if start < self._shared_from:
                windows[start] = self.guarded(self._panes.of_key, start, key)
            else:
                self._remember(start, self._waiting)
        for start, contents in windows.items():
            self._windows.setdefault(start, {})[key] = contents
            self._remember(start, self._waiting)

    def _check_layout(self, layout: tuple[int, int, int], has_panes: bool) -> None:
        """Refuses other sizes of windows and panes, since windows are stored by their starts."""
        if layout == self._layout or (layout[0] == self._size and not has_panes):
            return
        names = ("size", "slide", "offset")
        was, now = (", ".join(map("{} {}".format, names, each)) for each in (layout, self._layout))
        raise self.refusal(f"was taken with windows of {was}, but the program now has windows of {now}")
