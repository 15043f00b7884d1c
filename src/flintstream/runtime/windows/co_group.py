"""Windows over two streams: tagged records go through one window operator, and are separated when a window fires.

A tagged record is a pair: 0 and a record of the first stream, or 1 and one of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flintstream.runtime.operators.stateless import PureMapOperator
from flintstream.runtime.windows.functions import PassOn, WindowContext

Tagged = tuple[int, Any]


def tag_first(record: Any) -> Tagged:
    """Tags a record of the first stream."""
    return 0, record


def tag_second(record: Any) -> Tagged:
    """Tags a record of the second stream."""
    return 1, record


class TagOperator(PureMapOperator):
    """Tags records. Its input has the declared type, as the key selectors would get without the tags."""

    takes_declared_types = True


class CoGroup(PassOn):
    """`CoGroupFunction.co_group(first, second)`, or a callable of two lists."""

    def __init__(self, function: Any, call: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self._call = call

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        found = self._call(*_split(elements))
        return () if found is None else found

    def original(self, record: Any) -> Any:
        return record[1]


class Join(CoGroup):
    """`JoinFunction.join(first, second)`, or a callable of two records: one result for each pair."""

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        join = self._call
        first, second = _split(elements)
        return (join(left, right) for left in first for right in second)


class FlatJoin(CoGroup):
    """`FlatJoinFunction.join(first, second)`: any number of results for each pair."""

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterator[Any]:
        first, second = _split(elements)
        for left in first:
            for right in second:
                found = self._call(left, right)
                if found is not None:
                    yield from found


def _split(elements: list[Tagged]) -> tuple[list[Any], list[Any]]:
    sides: tuple[list[Any], list[Any]] = ([], [])
    for side, record in elements:
        sides[side].append(record)
    return sides
