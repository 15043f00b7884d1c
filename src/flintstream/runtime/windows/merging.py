"""MergingWindows: the windows of a key that may merge, such as sessions, and their state windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the new window, the windows merged into it, its state window, and the state windows merged into that."""


class MergingWindows:
    """Maps each window of a key to its state window, under which its contents are stored.

    When windows merge, the contents of one of them stay in place and the others are merged into them, so a state window
    may no longer exist as a window.
    """

    def __init__(self, assigner: Any, mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.mapping = mapping
        """State windows by window; the operator stores it with the key."""

    def state_window(self, window: Any) -> Any:
        """Returns the state window of a window; None if the window does not exist."""
        return self.mapping.get(window)

    def retire(self, window: Any) -> None:
        """Removes a window."""
        self.mapping.pop(window, None)

    def add(self, new: Any, on_merge: OnMerge) -> Any:
        """Adds a window; returns the window that it has been merged into."""
        merged = _Merged()
        self._assigner.merge_windows([*self.mapping, new], merged)
        result, joined = new, False
        for target, merging in merged.found:
            members = [window for window in self.mapping if window in merging]
            if new in merging:
                result, joined = target, True
                if not members:
                    # Only the new window, which now has other bounds.
                    self.mapping[target] = target
                    continue
                if new not in self.mapping:
                    members = [window for window in members if window != new]
            states = [self.mapping.pop(window) for window in members]
            self.mapping[target] = states[0]
            if members != [target]:
                on_merge(target, members, states[0], states[1:])
        if not joined:
            self.mapping.setdefault(new, new)
        return result


class _Merged:
    """Collects the merges reported by an assigner."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Records a group of windows and the window that replaces it."""
        self.found.append((merge_result, list(to_be_merged)))
