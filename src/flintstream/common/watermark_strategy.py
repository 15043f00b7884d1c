"""How a stream gets its timestamps and watermarks.

A :class:`WatermarkStrategy` only describes: which generator each split of a source gets, where timestamps
come from, when a split counts as idle, and which splits wait for each other. The runtime makes one generator
per split from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from .java import get_gateway, java_only
from .time import MIN_WATERMARK, Duration, to_millis

__all__ = [
    "AscendingTimestamps",
    "AssignerWithPeriodicWatermarksWrapper",
    "BoundedOutOfOrderness",
    "Duration",
    "NoWatermarks",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "get_gateway",
]


class TimestampAssigner(ABC):
    """Tells the timestamp of a record.

    Example::

        class EventTime(TimestampAssigner):
            def extract_timestamp(self, value, record_timestamp):
                return value["time"]
    """

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The record's timestamp in milliseconds since the epoch.

        :param value: the record.
        :param record_timestamp: the timestamp that the source gave it; -2**63 if it gave none.
        """


class WatermarkOutput(ABC):
    """Where a generator puts its watermarks. Made by the runtime."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """No record with this timestamp or an earlier one will follow. A watermark that goes backwards is
        ignored."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Others need not wait for this stream, until its next watermark."""

    def mark_active(self) -> None:
        """Others must wait for this stream again."""
        raise NotImplementedError


class WatermarkGenerator(ABC):
    """Makes watermarks from the timestamps it sees. There is one for each split of a source.

    Example::

        class EndMarks(WatermarkGenerator):
            def on_event(self, event, event_timestamp, output):
                if event["type"] == "end":
                    output.emit_watermark(event_timestamp)

            def on_periodic_emit(self, output):
                pass
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record, before operators see it; a watermark emitted here follows that very
        record."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called now and then (see ``pipeline.auto-watermark-interval``), and at the end of every epoch."""


class BoundedOutOfOrderness(WatermarkGenerator):
    """The watermark stays behind the largest timestamp seen by a bound, and one millisecond.

    Example::

        >>> generator = BoundedOutOfOrderness(1000)
        >>> generator.max_timestamp = 5000
        >>> generator.current_watermark()
        3999
    """

    __slots__ = ("bound", "max_timestamp")

    def __init__(self, bound: Duration | int) -> None:
        self.bound = to_millis(bound)
        if self.bound < 0:
            raise ValueError(f"Records cannot be out of order by {self.bound} ms: the bound must not be negative.")
        # So that the first watermark, before any record, is exactly the smallest.
        self.max_timestamp = MIN_WATERMARK + self.bound + 1

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp > self.max_timestamp:
            self.max_timestamp = event_timestamp

    def on_block(self, timestamps: list[int]) -> None:
        """As :meth:`on_event` for each record of a block."""
        if timestamps:
            self.max_timestamp = max(self.max_timestamp, max(timestamps))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.current_watermark())

    def current_watermark(self) -> int:
        """The watermark as it stands."""
        return self.max_timestamp - self.bound - 1


class AscendingTimestamps(BoundedOutOfOrderness):
    """For timestamps that never go back: the watermark is one millisecond behind the largest."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarks(WatermarkGenerator):
    """Never makes a watermark."""

    __slots__ = ()

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_block(self, timestamps: list[int]) -> None:
        """Nothing to do for a block either."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


@dataclass(frozen=True)
class WatermarkAlignment:
    """Which splits and sources wait for each other, and how far one may be ahead. Lengths are in
    milliseconds."""

    group: str
    max_drift: int
    update_interval: int = 1000


@dataclass(frozen=True)
class _BoundedFactory:
    bound: int

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrderness(self.bound) if self.bound else AscendingTimestamps()


@dataclass(frozen=True)
class WatermarkStrategy:
    """Where timestamps and watermarks come from. It never changes: each ``with_`` method returns another
    strategy.

    Example::

        >>> strategy = (
        ...     WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        ...     .with_timestamp_assigner(lambda event, _: event["time"])
        ...     .with_idleness(Duration.of_minutes(1))
        ... )
        >>> strategy.create_generator().bound
        5000
    """

    #: Makes the generator of a split.
    generator_supplier: Callable[[], WatermarkGenerator] = NoWatermarks
    #: A :class:`TimestampAssigner`, or None for the timestamps of the source.
    timestamp_assigner: TimestampAssigner | None = None
    #: Milliseconds without a record after which a split is idle, or None.
    idle_timeout: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never go back within a split."""
        return WatermarkStrategy(_BoundedFactory(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """For records that come at most so much later than records with larger timestamps."""
        return WatermarkStrategy(_BoundedFactory(BoundedOutOfOrderness(max_out_of_orderness).bound))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For streams that need no event time."""
        return WatermarkStrategy(NoWatermarks)

    @staticmethod
    def for_generator(supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """With watermarks of your own: ``supplier()`` makes the generator of each split, in the slot that
        reads it."""
        if not callable(supplier) or isinstance(supplier, WatermarkGenerator):
            raise TypeError(
                f"for_generator takes something that makes a WatermarkGenerator, such as its class, not {supplier!r}."
            )
        return WatermarkStrategy(supplier)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Take timestamps from records: by a :class:`TimestampAssigner`, or by a function of record and old
        timestamp."""
        if not isinstance(timestamp_assigner, TimestampAssigner):
            if not callable(timestamp_assigner):
                raise TypeError(f"{timestamp_assigner!r} is no TimestampAssigner and no function.")
            timestamp_assigner = _FunctionAssigner(timestamp_assigner)
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Do not wait for a split that had no record for so long."""
        millis = to_millis(idle_timeout)
        if millis <= 0:
            raise ValueError(f"The idle timeout must be longer than nothing, not {millis} ms.")
        return replace(self, idle_timeout=millis)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Pause splits that are ahead of the slowest of their group by more than the allowed drift."""
        interval = 1000 if update_interval is None else to_millis(update_interval)
        alignment = WatermarkAlignment(watermark_group, to_millis(max_allowed_watermark_drift), interval)
        return replace(self, alignment=alignment)

    def create_generator(self) -> WatermarkGenerator:
        """A new generator, for one split."""
        return self.generator_supplier()

    @property
    def has_built_in_generator(self) -> bool:
        """Whether watermarks depend on timestamps alone, so that blocks need no call for each record."""
        return self.generator_supplier is NoWatermarks or isinstance(self.generator_supplier, _BoundedFactory)

    @property
    def emits_watermarks(self) -> bool:
        """Whether there can be any watermark before the end of the stream."""
        return self.generator_supplier is not NoWatermarks


class _FunctionAssigner(TimestampAssigner):
    """A plain function as an assigner; the runtime may call ``function`` itself."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, int], int]) -> None:
        self.function = function

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.function(value, record_timestamp)


class AssignerWithPeriodicWatermarksWrapper:
    """Not available: it wraps a Java object. Use :class:`WatermarkStrategy`."""

    def __init__(self, *args: Any) -> None:
        _refuse_wrapper()


def _refuse_wrapper() -> NoReturn:
    java_only("AssignerWithPeriodicWatermarksWrapper", "Use WatermarkStrategy.for_generator.")
