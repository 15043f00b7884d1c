"""MergingWindows: the windows of a key that may merge, such as sessions, and where the contents of each are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]
"""Of the new window, the windows that it is made of, its state window, and the state windows merged into that."""


class MergingWindows:
    """Maps each window of a key to its state window: the one under which its contents are kept.

    When windows merge, the contents of one of them stay where they are and the others' are merged into them, so the name
    under which contents are kept may be that of a window that is gone.
    """

    def __init__(self, assigner: Any, mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.mapping = mapping
        """Window to state window; the operator stores it with the key."""

    def state_window(self, window: Any) -> Any:
        """Where the contents of a window are kept; None if there is no such window (any more)."""
        return self.mapping.get(window)

    def retire(self, window: Any) -> None:
        """Forgets a window."""
        self.mapping.pop(window, None)

    def add(self, new: Any, on_merge: OnMerge) -> Any:
        """Adds a window; returns the one that it has become part of."""
        merged = _Merged()
        self._assigner.merge_windows([*self.mapping, new], merged)
        result, joined = new, False
        for target, parts in merged.found:
            members = [window for window in self.mapping if window in parts]
            if new in parts:
                result, joined = target, True
                if not members:
                    # Nothing but the new window, which now has another shape.
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
    """Takes what an assigner says about windows that merge."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """These windows become that one."""
        self.found.append((merge_result, list(to_be_merged)))
