"""The contents of a window: all its records, or one value that they are reduced or aggregated to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from operator import is_not
from typing import TYPE_CHECKING, Any

from flintstream.runtime.detach import copied, is_plain
from flintstream.runtime.loops import aggregate_into, append_into, reduce_into

if TYPE_CHECKING:
    from flintstream.runtime.state.backend import KeyedStateBackend

MISSING: Any = object()
"""A placeholder for missing contents."""

Cell = dict[Any, Any]
"""Contents by key, of a window or of a pane that several windows share."""

_is_result = partial(is_not, None)


class WindowContents(ABC):
    """How the contents of a window are updated, merged and passed to the window function."""

    incremental = True
    """Whether there is one value per window, however many records."""

    functions: tuple[Any, ...] = ()
    """The user's functions to open and close."""

    merge: Callable[[Any, Any], Any]
    """Merges the contents of two windows. Either may be modified, and must not be used any more."""

    @abstractmethod
    def add(self, contents: Any, value: Any) -> Any:
        """Returns the contents with a record added; `contents` is MISSING for the first. May modify `contents`."""

    @abstractmethod
    def elements(self, contents: Any) -> list[Any]:
        """Returns the input of the window function. Empty if the reduced value is None: the function is not called
        then, as in Flink.
        """

    def empty(self) -> Any:
        """Returns the contents of a window that fires after all its records were evicted; MISSING if impossible."""
        return MISSING

    def add_all(self, cell: Cell, state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Adds records to the contents of their keys, setting the current key for each."""
        add, get = self.add, cell.get
        for key, value in zip(keys, values):
            state.current_key = key
            cell[key] = add(get(key, MISSING), value)

    def add_to_each(
        self, places: Iterable[list[Cell]], state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]
    ) -> None:
        """Adds records to the contents of their keys in several windows each, one record after the other."""
        add = self.add
        for key, value, cells in zip(keys, values, places):
            state.current_key = key
            for cell, each in zip(cells, self.for_windows(value, len(cells))):
                cell[key] = add(cell.get(key, MISSING), each)

    def results(self, contents: Iterable[Any]) -> Iterable[Any]:
        """Returns one result for each contents, if there is no window function."""
        return (result for each in contents for result in self.elements(each))

    def for_windows(self, value: Any, windows: int) -> list[Any]:
        """Returns copies of a record for a number of windows, each of which may modify its own."""
        return [value] * windows


class ListContents(WindowContents):
    """All records, in order of arrival."""

    incremental = False

    def __init__(self) -> None:
        self.merge = _plus

    def add(self, contents: Any, value: Any) -> Any:
        if contents is MISSING:
            return [value]
        contents.append(value)
        return contents

    def elements(self, contents: Any) -> list[Any]:
        # The function may sort its input, and the window may fire again.
        return list(contents)

    def add_all(self, cell: Cell, state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]) -> None:
        append_into(cell, keys, values)

    def add_to_each(
        self, places: Iterable[list[Cell]], state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]
    ) -> None:
        for key, value, cells in zip(keys, values, places):
            for cell in cells:
                if key in cell:
                    cell[key].append(value)
                else:
                    cell[key] = [value]


class ReducedContents(WindowContents):
    """One record, reduced from all."""

    def __init__(self, function: Any) -> None:
        self.functions = (function,)
        self.merge = getattr(function, "reduce", function)

    def add(self, contents: Any, value: Any) -> Any:
        return value if contents is MISSING or contents is None else self.merge(contents, value)

    def elements(self, contents: Any) -> list[Any]:
        return [] if contents is None else [contents]

    def add_all(self, cell: Cell, state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]) -> None:
        reduce_into(cell, keys, values, state, self.merge)

    def add_to_each(
        self, places: Iterable[list[Cell]], state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]
    ) -> None:
        reduce = self.merge
        for key, value, cells in zip(keys, values, places):
            state.current_key = key
            for cell, each in zip(cells, self.for_windows(value, len(cells))):
                before = cell.get(key)
                cell[key] = each if before is None else reduce(before, each)

    def results(self, contents: Iterable[Any]) -> Iterable[Any]:
        return filter(_is_result, contents)

    def for_windows(self, value: Any, windows: int) -> list[Any]:
        # The record itself becomes the contents, which the function may modify.
        if windows == 1 or is_plain(value):
            return [value] * windows
        return [value, *(copied(value) for _ in range(windows - 1))]


class AggregatedContents(WindowContents):
    """An accumulator."""

    def __init__(self, function: Any) -> None:
        self.functions = (function,)
        self._create = function.create_accumulator
        self._add = function.add
        self._result = function.get_result
        self.merge = function.merge

    def add(self, contents: Any, value: Any) -> Any:
        return self._add(value, self._create() if contents is MISSING else contents)

    def elements(self, contents: Any) -> list[Any]:
        result = self._result(contents)
        return [] if result is None else [result]

    def empty(self) -> Any:
        return self._create()

    def add_all(self, cell: Cell, state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]) -> None:
        aggregate_into(cell, keys, values, state, self._create, self._add)

    def add_to_each(
        self, places: Iterable[list[Cell]], state: KeyedStateBackend, keys: Iterable[Any], values: Iterable[Any]
    ) -> None:
        create, add, missing = self._create, self._add, MISSING
        for key, value, cells in zip(keys, values, places):
            state.current_key = key
            for cell in cells:
                before = cell.get(key, missing)
                cell[key] = add(value, create() if before is missing else before)

    def results(self, contents: Iterable[Any]) -> Iterable[Any]:
        # Not `map`, for which a StopIteration of the function would be the end.
        result = self._result
        return (found for each in contents if (found := result(each)) is not None)


class FoldedContents(WindowContents):
    """An initial value into which each record is folded."""

    def __init__(self, initial: Any, function: Any) -> None:
        self.functions = (function,)
        self.merge = _no_merging
        self._initial = initial
        self._fold = getattr(function, "fold", function)

    def add(self, contents: Any, value: Any) -> Any:
        return self._fold(self.empty() if contents is MISSING else contents, value)

    def empty(self) -> Any:
        return copied(self._initial)

    def elements(self, contents: Any) -> list[Any]:
        return [] if contents is None else [contents]

    def results(self, contents: Iterable[Any]) -> Iterable[Any]:
        return filter(_is_result, contents)


def _plus(contents: list[Any], other: list[Any]) -> list[Any]:
    return contents + other


def _no_merging(contents: Any, other: Any) -> Any:
    raise TypeError("fold() cannot merge windows: use aggregate() for sessions")
