"""SharedPanes: stores the contents of overlapping windows once per pane of time.

A record is added to the one pane that contains its time. Merging all panes of each window that fires would cost as many
merges as the window has panes. Since windows end in order, two running aggregates suffice (the two-stacks algorithm):
the front, computed when the first window passes a boundary, has the panes before the boundary merged from each window
start; the back has the panes after the boundary, and grows with each window. A window then costs about three merges per
key, however many panes it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from flintstream.runtime.detach import all_plain, copied
from flintstream.runtime.windows.contents import MISSING, Cell, WindowContents


class SharedPanes:
    """Panes of `pane` milliseconds, for windows of `size` that start every `slide`; both are multiples of `pane`."""

    def __init__(self, contents: WindowContents, size: int, slide: int, pane: int) -> None:
        self._contents = contents
        self._size, self._slide, self._pane = size, slide, pane
        self.cells: dict[int, Cell] = {}
        """The contents of each pane by key, by the pane's start."""
        self._copies = False
        """Whether contents are copied before merging: set once mutable contents were seen."""
        self._plain: set[int] = set()
        """Panes known to have immutable contents only."""
        self.reset()

    def reset(self) -> None:
        """Discards the aggregates: the next window is merged from its panes, since time may start over."""
        self._front: dict[int, Cell] = {}
        """The merged panes up to the boundary, by the start of the window that has not fired."""
        self._back: Cell = {}
        """The merged panes from the boundary on."""
        self._merged_to = 0
        """The end of the last pane in `_back`."""
        self._stale: set[Any] = set()
        """Keys with records added to a pane after it was merged."""

    def cell(self, low: int) -> Cell:
        """Returns the contents of a pane for adding records. Only for panes not merged yet: after the last fired
        window's end.
        """
        return self.cells.setdefault(low, {})

    def add(self, low: int, key: Any, value: Any) -> None:
        """Adds a record to any pane, merged or not."""
        cell = self.cell(low)
        cell[key] = self._contents.add(cell.get(key, MISSING), value)
        self._plain.discard(low)
        if self._front and low < self._merged_to:
            self._stale.add(key)

    def drop(self, start: int) -> list[Cell]:
        """Drops and returns the panes that only the window with this start needs: the next one starts a slide later."""
        self._front.pop(start, None)
        lows = range(start, start + self._slide, self._pane)
        self._plain.difference_update(lows)
        return [self.cells.pop(low) for low in lows if low in self.cells]

    def keys(self, start: int) -> Iterable[Any]:
        """Returns the keys of a window."""
        return dict.fromkeys(chain.from_iterable(self._panes_of(start)))

    def of_key(self, start: int, key: Any) -> Any:
        """Returns the contents of one key in a window, which the caller may modify; MISSING if there are none."""
        merged = MISSING
        for cell in self._panes_of(start):
            contents = copied(cell[key]) if key in cell else MISSING
            if merged is MISSING:
                merged = contents
            elif contents is not MISSING:
                merged = self._contents.merge(merged, contents)
        return merged

    def of_window(self, start: int) -> Cell:
        """Returns the contents of all keys in a window, which the caller may modify. Called once per window, in order."""
        if start in self._front and start + self._size >= self._merged_to:
            self._extend(start + self._size)
        else:
            self._flip(start)
        result = self._front.pop(start)
        self._merge_into(result, self._checked(self._back))
        for key in self._stale:
            contents = self.of_key(start, key)
            if contents is not MISSING:
                result[key] = contents
        return result

    def _panes_of(self, start: int) -> list[Cell]:
        lows = range(start, start + self._size, self._pane)
        return [self.cells[low] for low in lows if low in self.cells]

    def _flip(self, start: int) -> None:
        """Moves the boundary to the end of this window, and merges backwards from it to each window start."""
        self.reset()
        self._merged_to = start + self._size
        running: Cell = {}
        for low in range(self._merged_to - self._pane, start - 1, -self._pane):
            earlier = self._copy(self._pane_at(low))
            self._merge_into(earlier, self._checked(running))
            running = earlier
            if (low - start) % self._slide == 0:
                self._front[low] = running

    def _extend(self, end: int) -> None:
        """Merges the panes into `_back` that have ended since the previous window."""
        for low in range(self._merged_to, end, self._pane):
            self._merge_into(self._back, self._pane_at(low))
        self._merged_to = end

    def _merge_into(self, target: Cell, other: Cell) -> None:
        """Merges contents of `other` into those of `target`, key by key; `other` is not modified."""
        merge, get = self._contents.merge, target.get
        for key, contents in (self._copy(other) if self._copies else other).items():
            before = get(key, MISSING)
            target[key] = contents if before is MISSING else merge(before, contents)

    def _copy(self, cell: Cell) -> Cell:
        """Returns the contents, copied if mutable: merging may reuse either side, and so may the window function."""
        if self._copies:
            return {key: copied(contents) for key, contents in cell.items()}
        return dict(cell)

    def _pane_at(self, low: int) -> Cell:
        """Returns the contents of a pane, checked for mutable ones."""
        cell = self.cells.get(low, {})
        if cell and not self._copies and low not in self._plain:
            self._plain.add(low)
            self._copies = not all_plain(cell.values())
        return cell

    def _checked(self, cell: Cell) -> Cell:
        """Returns merged contents, checked for mutable ones."""
        if cell and not self._copies:
            self._copies = not all_plain(cell.values())
        return cell
