"""The partial matches of a key: computation states, in a queue by the event at which they began.

Events are ordered by their timestamps, and then by their ids. Mostly the ids alone would do; but what was late before a
restore may be taken after it, and clocks are set back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

ComputationState = tuple[int, int, int, int, int]
"""A partial match: the id of its first event, its state, its node in the shared buffer, and the timestamps of its first
and last event.
"""

START, STATE, NODE, BEGAN, LAST = range(5)
"""The fields of a computation state."""

Moment = tuple[int, int]
"""The place of an event among those of its key: its timestamp and id."""


class NFAState:
    """What the automaton keeps of a key: partial matches, matches that are held back, and the next id to give out.

    The partial match in the start state is not stored: there is always one, behind all others.
    """

    __slots__ = ("completed", "next_id", "partial")

    def __init__(
        self,
        partial: list[ComputationState] | None = None,
        completed: list[ComputationState] | None = None,
        next_id: int = 1,
    ) -> None:
        self.partial: list[ComputationState] = [] if partial is None else partial
        self.completed: list[ComputationState] = [] if completed is None else completed
        self.next_id = next_id

    def is_empty(self) -> bool:
        """Returns whether there is nothing to keep."""
        return not self.partial and not self.completed

    def __reduce__(self) -> Any:
        return NFAState, (self.partial, self.completed, self.next_id)


# The order in which matches are emitted follows from the order of the partial matches, and with many equal ones from
# how the queue arranges them: a binary heap in a list, visited from its front. Flink's order is that of Java's
# PriorityQueue, whose arrangement these functions have; heapq's differs when elements are removed.


def push(queue: list[Any], element: Any) -> None:
    """Adds an element to a queue."""
    queue.append(element)
    index, first, began = len(queue) - 1, element[START], element[BEGAN]
    while index:
        parent = (index - 1) >> 1
        above = queue[parent]
        if began > above[BEGAN] or (began == above[BEGAN] and first >= above[START]):
            break
        queue[index] = above
        index = parent
    queue[index] = element


def beginning(element: Any) -> Moment:
    """Returns where an element of a queue began, which is its place in the queue."""
    return element[BEGAN], element[START]


def push_all(queue: list[Any], elements: Iterable[Any]) -> None:
    """Adds elements to a queue, one after the other."""
    for element in elements:
        push(queue, element)


def pop(queue: list[Any]) -> Any:
    """Removes and returns the first element of a queue."""
    first, last = queue[0], queue.pop()
    if queue:
        _sink(queue, 0, last)
    return first


def keep(queue: list[Any], wanted: Callable[[Any], bool]) -> None:
    """Removes the unwanted elements of a queue."""
    kept = [element for element in queue if wanted(element)]
    if len(kept) < len(queue):
        queue[:] = kept
        for index in range((len(kept) >> 1) - 1, -1, -1):
            _sink(queue, index, queue[index])


def _sink(queue: list[Any], index: int, element: Any) -> None:
    size, began = len(queue), beginning(element)
    half = size >> 1
    while index < half:
        child = 2 * index + 1
        below = queue[child]
        if child + 1 < size and beginning(below) > beginning(queue[child + 1]):
            child += 1
            below = queue[child]
        if began <= beginning(below):
            break
        queue[index] = below
        index = child
    queue[index] = element
