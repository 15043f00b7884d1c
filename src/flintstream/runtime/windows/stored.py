"""StoredWindows: what aligned windows leave in a checkpoint, for themselves or for the general operator."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, inf
from typing import Any, NamedTuple

from flintstream.runtime.windows.contents import WindowContents
from flintstream.runtime.windows.panes import SharedPanes


class StoredWindows(NamedTuple):
    """The windows of a key."""

    windows: dict[int, Any]
    """The start of a window to its contents; of those that share no panes."""
    panes: dict[int, Any]
    """The start of a pane to its contents."""
    now: int
    """How far time had come: windows that end up to there have fired."""
    shared_from: float | None
    """Windows that start from here on share panes, if any; None if they must not."""
    layout: tuple[int, int, int]
    """The size of windows, how far apart they start, and their offset."""

    def own_up_to(self) -> float:
        """Windows that start before this have contents of their own, or had."""
        last = max(self.windows, default=-inf)
        return max(last + 1, -inf if self.shared_from is None else self.shared_from)

    def shared(self) -> set[int]:
        """The starts of the windows that have panes; some of them may be over."""
        size, slide, offset = self.layout
        starts: set[int] = set()
        for low in self.panes:
            starts.update(range(low - (low - offset) % slide, low - size, -slide))
        return {start for start in starts if self.shared_from is not None and start >= self.shared_from}

    def each(self, contents: WindowContents) -> Iterator[tuple[int, Any]]:
        """All windows by themselves: their starts, and contents that are no one else's."""
        yield from self.windows.items()
        size, slide, _ = self.layout
        panes = SharedPanes(contents, size, slide, gcd(size, slide))
        panes.cells = {low: {None: found} for low, found in self.panes.items()}
        for start in self.shared():
            yield start, panes.of_key(start, None)
