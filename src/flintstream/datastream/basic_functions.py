"""User functions that take one or two records at a time: map, flat_map, filter, reduce, key selectors and so on.

All are imported from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from flintstream.common.type_variables import ACC, IN, IN1, IN2, KEY, OUT, A, K, R, T
from flintstream.runtime.context import RuntimeContext


class Function(ABC):  # noqa: B024 - the base of all user functions; each adds its own method
    """Base class of all user functions.

    An instance is created in the program, shipped once to every subtask of its operator, and opened there.
    `open` is
    called before the first record, `close` after the last one or after a failure.

        class Tag(MapFunction):
            def open(self, runtime_context):
                self.subtask = runtime_context.get_index_of_this_subtask()

            def map(self, value):
                return self.subtask, value
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per subtask before the first record: open connections, get state handles."""

    def close(self) -> None:
        """Called once per subtask at the end, also after a failure: release the resources acquired in `open`."""


class MapFunction(Function, Generic[IN, OUT]):
    """Maps each record to one result.

    Example::

        class Double(MapFunction):
            def map(self, value):
                return value * 2
    """

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Returns the result for a record."""


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """`map` over two connected streams; a result of None is dropped.

    Example::

        class Both(CoMapFunction):
            def map1(self, value):
                return f"left {value}"

            def map2(self, value):
                return f"right {value}"
    """

    @abstractmethod
    def map1(self, value: IN1) -> OUT | None:
        """Returns the result for a record of the first stream."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT | None:
        """Returns the result for a record of the second stream."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Maps each record to any number of results.

    Example::

        class Words(FlatMapFunction):
            def flat_map(self, value):
                yield from value.split()
    """

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT] | None:
        """Returns the results for a record: a generator, any iterable, or None for none."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """`flat_map` over two connected streams.

    Example::

        class Merge(CoFlatMapFunction):
            def flat_map1(self, value):
                yield from value

            def flat_map2(self, value):
                return None
    """

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Returns the results for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Returns the results for a record of the second stream."""


class ReduceFunction(Function, Generic[T]):
    """Combines two values of one type into one; must be associative.

    Example::

        class Largest(ReduceFunction):
            def reduce(self, value1, value2):
                return max(value1, value2)
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Combines the previous result with the next value. Must not modify its arguments."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Aggregates values in an accumulator, whose type may differ from those of the values and the result.

    Example::

        class Average(AggregateFunction):
            def create_accumulator(self):
                return 0, 0

            def add(self, value, accumulator):
                return accumulator[0] + value, accumulator[1] + 1

            def get_result(self, accumulator):
                return accumulator[0] / accumulator[1]

            def merge(self, acc_a, acc_b):
                return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Returns a new, empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Returns the accumulator with the value added."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Returns the result of the accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Merges two accumulators; required for merging windows (sessions)."""


class KeySelector(Function, Generic[IN, OUT]):
    """Extracts the key of a record.

    Example::

        class User(KeySelector):
            def get_key(self, value):
                return value.user
    """

    @abstractmethod
    def get_key(self, value: IN) -> OUT:
        """Returns the key. It must be deterministic: equal records have equal keys on every machine."""


class NullByteKeySelector(KeySelector[object, int]):
    """Returns the same key for every record."""

    def get_key(self, value: object) -> int:
        """Returns zero."""
        return 0


class FilterFunction(Function, Generic[IN]):
    """Keeps or drops a record. Must not modify it: the record itself is passed on, not a copy.

    Example::

        class Even(FilterFunction):
            def filter(self, value):
                return value % 2 == 0
    """

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Returns whether to keep the record."""


class Partitioner(Function, Generic[KEY]):
    """Decides which subtask a key goes to, for `partition_custom`.

    Example::

        class ByLength(Partitioner):
            def partition(self, key, num_partitions):
                return len(key) % num_partitions
    """

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """Returns the index of the target subtask, from 0 to `num_partitions - 1`."""


class FunctionWrapper(Function):
    """Wraps a plain callable as a function object."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func


class ReduceFunctionWrapper(FunctionWrapper):
    """Wraps a plain callable of two values as a `ReduceFunction`."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the result of the callable."""
        return self._func(value1, value2)


# What a method takes: a plain function of records A, or a function object.
Mapper = Callable[[A], R] | MapFunction[A, R]
FlatMapper = Callable[[A], Iterable[R] | None] | FlatMapFunction[A, R]
Reducer = Callable[[A, A], A] | ReduceFunction[A]
Selector = Callable[[A], K] | KeySelector[A, K]
