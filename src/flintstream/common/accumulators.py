"""Accumulators: values collected by each subtask and merged over all subtasks on request."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Generic

from .type_variables import R, V

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "Histogram",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "ListAccumulator",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
]


class Accumulator(ABC, Generic[V, R]):
    """Collects values of a type V into a result of a type R. Registered with
    ``runtime_context.add_accumulator``.

    Example::

        class Longest(Accumulator[str, str]):
            def __init__(self):
                self.word = ""

            def add(self, value):
                self.word = max(self.word, value, key=len)

            def get_local_value(self):
                return self.word

            def reset_local(self):
                self.word = ""

            def merge(self, other):
                self.add(other.word)
    """

    @abstractmethod
    def add(self, value: V) -> None:
        """Adds a value."""

    @abstractmethod
    def get_local_value(self) -> R:
        """Returns the result of this subtask."""

    @abstractmethod
    def reset_local(self) -> None:
        """Discards all values."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Merges the values of another accumulator of this class."""

    def clone(self) -> Any:
        """Returns an independent copy."""
        import copy

        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_local_value()!r})"


class _Sum(Accumulator[Any, Any]):
    _zero: Any = 0

    def __init__(self, value: Any = None) -> None:
        self._value = self._zero if value is None else value

    def add(self, value: Any) -> None:
        self._value += value

    def get_local_value(self) -> Any:
        return self._value

    def reset_local(self) -> None:
        self._value = self._zero

    def merge(self, other: Any) -> None:
        self._value += other._value


class IntCounter(_Sum):
    """A sum of integers.

    Example::

        >>> counter = IntCounter()
        >>> counter.add(2)
        >>> counter.get_local_value()
        2
    """


class LongCounter(_Sum):
    """A sum of integers, the same as :class:`IntCounter`: Python integers are unbounded."""


class DoubleCounter(_Sum):
    """A sum of floating point numbers."""

    _zero = 0.0


class AverageAccumulator(Accumulator[float, float]):
    """The mean of all values; 0.0 if there are none.

    Example::

        >>> average = AverageAccumulator()
        >>> average.add(1)
        >>> average.add(2)
        >>> average.get_local_value()
        1.5
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float:
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        self._count = 0
        self._sum = 0.0

    def merge(self, other: AverageAccumulator) -> None:
        self._count += other._count
        self._sum += other._sum


class ListAccumulator(Accumulator[Any, list[Any]]):
    """All values, in order within each subtask."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        self._values.append(value)

    def get_local_value(self) -> list[Any]:
        return self._values

    def reset_local(self) -> None:
        self._values = []

    def merge(self, other: ListAccumulator) -> None:
        self._values.extend(other._values)


class Histogram(Accumulator[int, dict[int, int]]):
    """The number of occurrences of each value.

    Example::

        >>> histogram = Histogram()
        >>> for length in (3, 1, 3):
        ...     histogram.add(length)
        >>> histogram.get_local_value()
        {1: 1, 3: 2}
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        return dict(sorted(self._counts.items()))

    def reset_local(self) -> None:
        self._counts = {}

    def merge(self, other: Histogram) -> None:
        for value, count in other._counts.items():
            self._counts[value] = self._counts.get(value, 0) + count


class _Extreme(Accumulator[Any, Any]):
    """The smallest or largest value, with an initial value that any other replaces."""

    _start: Any = 0
    _smaller = True

    def __init__(self, value: Any = None) -> None:
        self._value = self._start if value is None else value

    def add(self, value: Any) -> None:
        if (value < self._value) if self._smaller else (value > self._value):
            self._value = value

    def get_local_value(self) -> Any:
        return self._value

    def reset_local(self) -> None:
        self._value = self._start

    def merge(self, other: Any) -> None:
        self.add(other._value)


class IntMinimum(_Extreme):
    """The smallest integer; 2**31 - 1 if there are none."""

    _start = 2**31 - 1


class IntMaximum(_Extreme):
    """The largest integer; -2**31 if there are none."""

    _start = -(2**31)
    _smaller = False


class LongMinimum(_Extreme):
    """The smallest integer; 2**63 - 1 if there are none."""

    _start = 2**63 - 1


class LongMaximum(_Extreme):
    """The largest integer; -2**63 if there are none."""

    _start = -(2**63)
    _smaller = False


class DoubleMinimum(_Extreme):
    """The smallest number; infinity if there are none."""

    _start = math.inf


class DoubleMaximum(_Extreme):
    """The largest number; minus infinity if there are none."""

    _start = -math.inf
    _smaller = False
