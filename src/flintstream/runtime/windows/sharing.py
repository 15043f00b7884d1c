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

_RECORDS = 8
_BATCHES = 16


class SharingTrial:
    """Looks at batches until one tells whether the contents can be merged."""

    def __init__(self, contents: WindowContents) -> None:
        self._contents = contents
        self._batches = 0

    def verdict(self, keys: list[Any], values: list[Any]) -> bool | None:
        """Whether panes may be shared; None if these records do not tell, and others might."""
        self._batches += 1
        ((chosen, _),) = Counter(keys).most_common(1)
        sample = [value for key, value in zip(keys, values) if key == chosen][:_RECORDS]
        while len(sample) < 4:
            sample = sample * 2
        try:
            told = self._try(sample)
        except Exception:
            # A record that the function does not like fails once more where it is added.
            return False
        return False if told is None and self._batches >= _BATCHES else told

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
