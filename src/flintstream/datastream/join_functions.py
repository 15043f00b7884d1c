"""Functions that join two streams: by pair, by group, or by the time between two records.

All are imported from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic

from flintstream.common.type_variables import IN1, IN2, OUT
from flintstream.datastream.basic_functions import Function
from flintstream.datastream.process_functions import Results
from flintstream.runtime.operators.interval_join import JoinContext


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns one result for each pair of records with the same key and window.

    Example::

        class Price(JoinFunction):
            def join(self, first, second):
                return first.item, first.count * second.price
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Returns the result for a record of the first stream and one of the second."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns any number of results for each pair of records with the same key and window.

    Example::

        class InStock(FlatJoinFunction):
            def join(self, first, second):
                if second.stock >= first.count:
                    yield first.item, second.stock - first.count
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Returns the results for a pair: a generator, any iterable, or None for none."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Called once for each key and window, with the records of both streams; one of the two may be empty.

    Example::

        class WithoutOrder(CoGroupFunction):
            def co_group(self, first, second):
                if not list(second):
                    yield from first
    """

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None:
        """Returns the results for a key and window: a generator, any iterable, or None for none."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Called for each pair of records matched by an interval join.

    Results go to the main output or, as `(tag, value)`, to a side output, with the greater timestamp of the two.

    Example::

        class Waited(ProcessJoinFunction):
            def process_element(self, left, right, ctx):
                yield left.number, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(ABC):
        """Information about the current pair; valid only during the call."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Returns the timestamp of the left record, in milliseconds."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Returns the timestamp of the right record, in milliseconds."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Returns the greater of the two timestamps, which is that of the results."""

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: ProcessJoinFunction.Context) -> Results[OUT]:
        """Returns the results for a pair: a generator, any iterable, or None for none."""


# The runtime does not import this layer, so its context is registered as a subclass.
ProcessJoinFunction.Context.register(JoinContext)
