"""Evictors, which remove records from a window. Imported from `flintstream.datastream.window`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from flintstream.common.arguments import delta, millis, whole
from flintstream.common.time import Duration, Time
from flintstream.common.type_variables import T, W

if TYPE_CHECKING:
    from flintstream.metrics import MetricGroup

Timed = tuple[Any, int]
"""A record and its timestamp."""


class Evictor(ABC, Generic[T, W]):
    """Evicts records of a window that fires, before or after its function is called.

    Both methods receive the records as pairs of value and timestamp, in order of arrival, and return those that stay in
    the window::

        class DropOdd(Evictor):
            def evict_before(self, elements, size, window, ctx):
                return [(value, timestamp) for value, timestamp in elements if value % 2 == 0]

            def evict_after(self, elements, size, window, ctx):
                return elements
    """

    class EvictorContext(ABC):
        """What an evictor can access."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the slot's clock, in milliseconds since 1970."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Returns the group in which the evictor registers metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the current watermark of the operator."""

    @abstractmethod
    def evict_before(self, elements: list[Timed], size: int, window: W, ctx: Evictor.EvictorContext) -> list[Timed]:
        """Returns the records passed to the function."""

    @abstractmethod
    def evict_after(self, elements: list[Timed], size: int, window: W, ctx: Evictor.EvictorContext) -> list[Timed]:
        """Returns the records kept in the window for its next firing."""


class _OneSided(Evictor[T, W]):
    """Evicts before the function, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(self, elements: list[Timed], size: int, window: W, ctx: Evictor.EvictorContext) -> list[Timed]:
        """Returns the records passed to the function."""
        return elements if self._after else self._kept(elements)

    def evict_after(self, elements: list[Timed], size: int, window: W, ctx: Evictor.EvictorContext) -> list[Timed]:
        """Returns the records kept in the window."""
        return self._kept(elements) if self._after else elements

    @abstractmethod
    def _kept(self, elements: list[Timed]) -> list[Timed]:
        """Returns the records that are not evicted."""


class CountEvictor(_OneSided[T, W]):
    """Keeps the last `max_count` records.

    >>> CountEvictor.of(2).evict_before([("a", 1), ("b", 2), ("c", 3)], 3, None, None)
    [('b', 2), ('c', 3)]
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if whole("CountEvictor", "max_count", max_count) < 0:
            raise ValueError(f"CountEvictor: max_count must not be negative, got {max_count!r}")
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """`CountEvictor.of(100)`."""
        return CountEvictor(max_count, do_evict_after)

    def _kept(self, elements: list[Timed]) -> list[Timed]:
        return elements[max(len(elements) - self._max_count, 0) :]


class TimeEvictor(_OneSided[T, W]):
    """Keeps the records whose timestamp is less than a given time behind the greatest.

    >>> TimeEvictor.of(Time.seconds(1)).evict_before([("a", 0), ("b", 1500), ("c", 2000)], 3, None, None)
    [('b', 1500), ('c', 2000)]
    """

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = whole("TimeEvictor", "window_size", window_size)

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """`TimeEvictor.of(Time.seconds(10))`."""
        return TimeEvictor(millis("TimeEvictor", "window_size", window_size), do_evict_after)

    def _kept(self, elements: list[Timed]) -> list[Timed]:
        if not elements or elements[0][1] <= -(2**63):
            return elements
        oldest = max(timestamp for _, timestamp in elements) - self._window_size
        return [element for element in elements if element[1] > oldest]


class DeltaEvictor(_OneSided[T, W]):
    """Keeps the records that differ from the last one by less than a threshold.

    >>> DeltaEvictor.of(5, lambda old, new: new - old).evict_before([(1, 0), (6, 0), (9, 0)], 3, None, None)
    [(6, 0), (9, 0)]
    """

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta("DeltaEvictor", delta_function)

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor[Any, Any]:
        """`DeltaEvictor.of(5, lambda old, new: new - old)`."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _kept(self, elements: list[Timed]) -> list[Timed]:
        if not elements:
            return elements
        last = elements[-1][0]
        return [element for element in elements if self._delta(element[0], last) < self._threshold]
