"""What is kept of the records of a window: all of them, or one value that they are reduced or aggregated to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

MISSING: Any = object()
"""In place of the contents of a window that has none."""


class WindowContents(ABC):
    """How the contents of a window grow, merge, and are handed to the window function."""

    incremental = True
    """Whether there is one value a window, however many records there are."""

    functions: tuple[Any, ...] = ()
    """The user's functions that have to be opened and closed."""

    @abstractmethod
    def add(self, contents: Any, value: Any) -> Any:
        """The contents with another record; `contents` is MISSING for the first. May change `contents` itself."""

    @abstractmethod
    def merge(self, contents: Any, other: Any) -> Any:
        """The contents of two windows that become one. May change `contents`, never `other`."""

    @abstractmethod
    def elements(self, contents: Any) -> list[Any]:
        """What the window function gets."""


class ListContents(WindowContents):
    """All records, in the order in which they came."""

    incremental = False

    def add(self, contents: Any, value: Any) -> Any:
        if contents is MISSING:
            return [value]
        contents.append(value)
        return contents

    def merge(self, contents: Any, other: Any) -> Any:
        return contents + other

    def elements(self, contents: Any) -> list[Any]:
        return contents  # type: ignore[no-any-return]


class ReducedContents(WindowContents):
    """One record, reduced from all."""

    def __init__(self, function: Any) -> None:
        self.functions = (function,)
        self._reduce = getattr(function, "reduce", function)

    def add(self, contents: Any, value: Any) -> Any:
        return value if contents is MISSING else self._reduce(contents, value)

    def merge(self, contents: Any, other: Any) -> Any:
        return self._reduce(contents, other)

    def elements(self, contents: Any) -> list[Any]:
        return [contents]


class AggregatedContents(WindowContents):
    """An accumulator."""

    def __init__(self, function: Any) -> None:
        self.functions = (function,)
        self._create = function.create_accumulator
        self._add = function.add
        self._merge = function.merge
        self._result = function.get_result

    def add(self, contents: Any, value: Any) -> Any:
        return self._add(value, self._create() if contents is MISSING else contents)

    def merge(self, contents: Any, other: Any) -> Any:
        return self._merge(contents, other)

    def elements(self, contents: Any) -> list[Any]:
        return [self._result(contents)]


class FoldedContents(WindowContents):
    """A value that starts as a given one and takes each record in."""

    def __init__(self, initial: Any, function: Any) -> None:
        self.functions = (function,)
        self._initial = initial
        self._fold = getattr(function, "fold", function)

    def add(self, contents: Any, value: Any) -> Any:
        return self._fold(copied(self._initial) if contents is MISSING else contents, value)

    def merge(self, contents: Any, other: Any) -> Any:
        raise TypeError("fold() has no way to merge two windows: use aggregate() for sessions")

    def elements(self, contents: Any) -> list[Any]:
        return [contents]


def copied(value: Any) -> Any:
    """A copy of a value that may be changed in place."""
    import copy

    return copy.deepcopy(value)
