"""SharedPanes: the contents of overlapping windows, kept once for each pane of time.

A record is added to the one pane that it falls into. A window that fires needs all its panes merged, which would be as many
merges as it has panes, again for each window. Windows end one after the other, so two running merges do: of the panes
up to a boundary, from each possible start on, made when the first window passes the boundary; and of those behind it, which
grows with each window. Then a window costs three merges a key, however many panes it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from flintstream.runtime.detach import all_plain, detached
from flintstream.runtime.windows.contents import MISSING, Cell, WindowContents


class SharedPanes:
    """Panes of `pane` milliseconds, for windows of `size` that start every `slide`: both multiples of `pane`."""

    def __init__(self, contents: WindowContents, size: int, slide: int, pane: int) -> None:
        self._contents = contents
        self._size, self._slide, self._pane = size, slide, pane
        self.cells: dict[int, Cell] = {}
        """The start of a pane to the contents of its keys."""
        self._copies = False
        """Whether contents are copied before they are merged: as soon as some were seen that can change."""
        self._plain: set[int] = set()
        """Panes whose contents cannot."""
        self.forget_merges()

    def forget_merges(self) -> None:
        """The next window is merged from its panes: time may start anew."""
        self._front: dict[int, Cell] = {}
        """The start of a window that has not fired to what its panes up to the boundary are merged to."""
        self._back: Cell = {}
        """What the panes from the boundary on are merged to."""
        self._merged_to = 0
        """The end of the last pane in it."""
        self._stale: set[Any] = set()
        """Keys with records that came after their pane was merged."""

    def cell(self, low: int) -> Cell:
        """The contents of a pane, to add to while it has not been merged: up to the end of the last window that fired."""
        return self.cells.setdefault(low, {})

    def add(self, low: int, key: Any, value: Any) -> None:
        """Adds a record to any pane."""
        cell = self.cell(low)
        cell[key] = self._contents.add(cell.get(key, MISSING), value)
        self._plain.discard(low)
        if self._front and low < self._merged_to:
            self._stale.add(key)

    def drop(self, start: int) -> list[Cell]:
        """Drops what only the window that starts there needs, and returns it: the next one starts a slide later."""
        self._front.pop(start, None)
        lows = range(start, start + self._slide, self._pane)
        self._plain.difference_update(lows)
        return [self.cells.pop(low) for low in lows if low in self.cells]

    def keys(self, start: int) -> Iterable[Any]:
        """The keys of a window."""
        return dict.fromkeys(chain.from_iterable(self._parts(start)))

    def of_key(self, start: int, key: Any) -> Any:
        """The contents of one key in a window, which the caller may change; MISSING if there are none."""
        merged = MISSING
        for cell in self._parts(start):
            contents = detached(cell[key]) if key in cell else MISSING
            if merged is MISSING:
                merged = contents
            elif contents is not MISSING:
                merged = self._contents.merge(merged, contents)
        return merged

    def of_window(self, start: int) -> Cell:
        """The contents of all keys in a window, which the caller may change. Each window is asked for once, in order."""
        if start in self._front and start + self._size >= self._merged_to:
            self._extend(start + self._size)
        else:
            self._turn(start)
        result = self._front.pop(start)
        self._merge_into(result, self._looked_at(self._back))
        for key in self._stale:
            contents = self.of_key(start, key)
            if contents is not MISSING:
                result[key] = contents
        return result

    def _parts(self, start: int) -> list[Cell]:
        lows = range(start, start + self._size, self._pane)
        return [self.cells[low] for low in lows if low in self.cells]

    def _turn(self, start: int) -> None:
        """Puts the boundary behind this window, and merges from the boundary back to each start of a window."""
        self.forget_merges()
        self._merged_to = start + self._size
        running: Cell = {}
        for low in range(self._merged_to - self._pane, start - 1, -self._pane):
            earlier = self._copy(self._pane_at(low))
            self._merge_into(earlier, self._looked_at(running))
            running = earlier
            if (low - start) % self._slide == 0:
                self._front[low] = running

    def _extend(self, end: int) -> None:
        """Takes the panes into the running merge that have ended since the window before."""
        for low in range(self._merged_to, end, self._pane):
            self._merge_into(self._back, self._pane_at(low))
        self._merged_to = end

    def _merge_into(self, target: Cell, other: Cell) -> None:
        """Merges contents of `other` into those of `target`, key by key; `other` stays as it is."""
        merge, get = self._contents.merge, target.get
        for key, contents in (self._copy(other) if self._copies else other).items():
            before = get(key, MISSING)
            target[key] = contents if before is MISSING else merge(before, contents)

    def _copy(self, cell: Cell) -> Cell:
        """The contents, copied where they can change: merging may reuse either side, and so may what makes the result."""
        if self._copies:
            return {key: detached(contents) for key, contents in cell.items()}
        return dict(cell)

    def _pane_at(self, low: int) -> Cell:
        """The contents of a pane, all of which were looked at whether they can change."""
        cell = self.cells.get(low, {})
        if cell and not self._copies and low not in self._plain:
            self._plain.add(low)
            self._copies = not all_plain(cell.values())
        return cell

    def _looked_at(self, cell: Cell) -> Cell:
        """Contents that were merged, all of which were looked at whether they can change."""
        if cell and not self._copies:
            self._copies = not all_plain(cell.values())
        return cell
