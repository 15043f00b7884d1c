"""StoredWindows: aligned windows as stored in a checkpoint, restored by either window operator."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, inf
from typing import Any, NamedTuple

from flintstream.runtime.windows.contents import WindowContents
from flintstream.runtime.windows.panes import SharedPanes


class StoredWindows(NamedTuple):
    """The windows of a key."""

    windows: dict[int, Any]
    """The contents of windows that share no panes, by their start."""
    panes: dict[int, Any]
    """The contents of panes, by their start."""
    now: int
    """The time reached: windows that end up to it have fired."""
    shared_from: float | None
    """Windows that start from here on share panes, if any; None if they must not."""
    layout: tuple[int, int, int]
    """The size, slide and offset of the windows."""

    def own_up_to(self) -> float:
        """Returns the start before which windows have, or had, separate contents."""
        last = max(self.windows, default=-inf)
        return max(last + 1, -inf if self.shared_from is None else self.shared_from)

    def shared(self) -> set[int]:
        """Returns the starts of the windows with panes; some may have expired."""
        size, slide, offset = self.layout
        starts: set[int] = set()
        for low in self.panes:
            starts.update(range(low - (low - offset) % slide, low - size, -slide))
        return {start for start in starts if self.shared_from is not None and start >= self.shared_from}

    def each(self, contents: WindowContents) -> Iterator[tuple[int, Any]]:
        """Yields the start and separate contents of every window."""
        yield from self.windows.items()
        size, slide, _ = self.layout
        panes = SharedPanes(contents, size, slide, gcd(size, slide))
        panes.cells = {low: {None: found} for low, found in self.panes.items()}
        for start in self.shared():
            yield start, panes.of_key(start, None)
