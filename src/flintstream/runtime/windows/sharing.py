"""Whether windows may share panes: that is so if merging gives what adding gives, in whatever order.

An AggregateFunction must have `merge()`, but a program without sessions was never made to get it right; and what a reduce
function gives may depend on the order of the records. So both are tried with the first records of a key.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from flintstream.runtime.detach import detached
from flintstream.runtime.windows.contents import MISSING, WindowContents

_SAMPLE = 8
_ENOUGH = 1000


class SharingTrial:
    """Gathers records until they tell whether the contents can be merged; then, or when there are enough, it is decided."""

    def __init__(self, contents: WindowContents) -> None:
        self._contents = contents
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._next = 1
        """How many records there must be for the next try: twice as many as at the last one."""

    def verdict(self, keys: list[Any], values: list[Any]) -> bool | None:
        """Whether panes may be shared, now that these records have come; None if that is not clear yet."""
        room = _ENOUGH - len(self._keys)
        self._keys += keys[:room]
        self._values += values[:room]
        enough = len(self._keys) >= _ENOUGH
        if len(self._keys) < self._next and not enough:
            return None
        self._next = 2 * len(self._keys)
        sample, differ = self._sample()
        try:
            told = self._try(sample)
        except Exception:
            # A record that the function does not like fails once more where it is added.
            return False
        if told and not differ and not enough:
            return None  # The order of equal records tells nothing.
        return False if told is None and enough else told

    def _sample(self) -> tuple[list[Any], bool]:
        """Records of one key, at least four: of a key with different ones if there is any, and whether there is."""
        first: dict[Any, Any] = {}
        for key, value in zip(self._keys, self._values):
            if first.setdefault(key, value) != value:
                break
        else:
            ((key, _),) = Counter(self._keys).most_common(1)
        found = [value for owner, value in zip(self._keys, self._values) if owner == key]
        different = [value for value in found if value != found[0]]
        sample = [found[0], *different[: _SAMPLE - 1], *found[1:]][:_SAMPLE]
        while len(sample) < 4:
            sample = sample * 2
        return sample, bool(different)

    def _try(self, values: list[Any]) -> bool | None:
        added = self._add(values)
        grown = shrunk = False
        for cut in {1, len(values) // 2, len(values) - 1}:
            first, second = values[:cut], values[cut:]
            for left, right in ((first, second), (second, first)):
                merged = self._contents.merge(self._add(left), self._add(right))
                if not self._same(merged, added):
                    return False
                # A merge() that gives one of its arguments back looks right where the other changes nothing.
                grown = grown or not self._same(self._add(left), merged)
                shrunk = shrunk or not self._same(self._add(right), merged)
        return True if grown and shrunk else None

    def _add(self, values: Iterable[Any]) -> Any:
        contents = MISSING
        for value in values:
            contents = self._contents.add(contents, detached(value))
        return contents

    def _same(self, contents: Any, other: Any) -> bool:
        if close(contents, other):
            return True
        results = [self._contents.elements(detached(each)) for each in (contents, other)]
        return close(*results)


def close(left: Any, right: Any) -> bool:
    """Whether two values are equal but for the rounding of floating point numbers."""
    if isinstance(left, float) and isinstance(right, (int, float)):
        return (
            left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (left != left and right != right)
        )
    if left.__class__ is not right.__class__:
        return bool(left == right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    return bool(left == right)
