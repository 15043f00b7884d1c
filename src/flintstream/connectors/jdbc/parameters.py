"""The parameters of a query that is executed several times: each set of them is a split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from flintstream.common.arguments import positive, whole

__all__ = [
    "JdbcGenericParameterValuesProvider",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
]


class JdbcParameterValuesProvider(ABC):
    """Returns the sets of parameters with which a query is executed; called on the driver when the job starts.

    Example::

        class EachDay(JdbcParameterValuesProvider):
            def get_parameter_values(self):
                return [[datetime.date(2024, 2, day)] for day in range(1, 30)]
    """

    @abstractmethod
    def get_parameter_values(self) -> Iterable[Sequence[Any]]:
        """Returns a sequence of values, one for each `?`, per execution of the query."""


class JdbcGenericParameterValuesProvider(JdbcParameterValuesProvider):
    """The given sets of parameters: `JdbcGenericParameterValuesProvider([["pen"], ["ink"]])`."""

    def __init__(self, parameters: Iterable[Sequence[Any]]) -> None:
        self._parameters = [list(values) for values in parameters]

    def get_parameter_values(self) -> list[list[Any]]:
        return self._parameters


class JdbcNumericBetweenParametersProvider(JdbcParameterValuesProvider):
    """Ranges of integers, for a query with `BETWEEN ? AND ?`. The ranges differ in length by at most one.

    Example::

        JdbcNumericBetweenParametersProvider(1, 1000).of_batch_num(4)

    :param min_val: the first number of the first range.
    :param max_val: the last number of the last range.
    """

    def __init__(self, min_val: int, max_val: int) -> None:
        self._min = whole(type(self).__name__, "min_val", min_val)
        self._max = whole(type(self).__name__, "max_val", max_val)
        if self._max < self._min:
            raise ValueError(f"{type(self).__name__}: max_val must be at least min_val, got {min_val} and {max_val}")
        self._batches: int | None = None

    def of_batch_size(self, batch_size: int) -> JdbcNumericBetweenParametersProvider:
        """Sets the greatest length of a range."""
        size = positive(f"{type(self).__name__}.of_batch_size: batch_size", batch_size)
        self._batches = -(-self._count // size)
        return self

    def of_batch_num(self, batch_num: int) -> JdbcNumericBetweenParametersProvider:
        """Sets the number of ranges; there are fewer if there are not as many numbers."""
        batches = positive(f"{type(self).__name__}.of_batch_num: batch_num", batch_num)
        self._batches = min(batches, self._count)
        return self

    def get_parameter_values(self) -> list[tuple[int, int]]:
        if self._batches is None:
            raise ValueError(f"{type(self).__name__}: call of_batch_size(n) or of_batch_num(n) first")
        shorter, longer = divmod(self._count, self._batches)
        ranges = []
        start = self._min
        for number in range(self._batches):
            end = start + shorter + (number < longer)
            ranges.append((start, end - 1))
            start = end
        return ranges

    @property
    def _count(self) -> int:
        return self._max - self._min + 1
