"""WatermarkStrategy: how a stream gets timestamps and watermarks.

A :class:`WatermarkStrategy` only describes the generator of each split, the timestamp assigner, idleness and alignment.
The runtime creates one generator per split from it.
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
    """Extracts the timestamp of a record.

    Example::

        class EventTime(TimestampAssigner):
            def extract_timestamp(self, value, record_timestamp):
                return value["time"]
    """

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Returns the record's timestamp in milliseconds since the epoch.

        :param value: the record.
        :param record_timestamp: the timestamp assigned by the source; -2**63 if none.
        """


class WatermarkOutput(ABC):
    """Receives a generator's watermarks. Implemented by the runtime."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Declares that no record with this timestamp or an earlier one will follow. A watermark that goes backwards is
        ignored.
        """

    @abstractmethod
    def mark_idle(self) -> None:
        """Marks this stream as idle until its next watermark: others do not wait for it."""

    def mark_active(self) -> None:
        """Marks this stream as active: others wait for it again."""
        raise NotImplementedError


class WatermarkGenerator(ABC):
    """Generates watermarks from timestamps. Each split of a source has its own.

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
        """Called for every record, before operators see it; a watermark emitted here directly follows that record."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called periodically (see ``pipeline.auto-watermark-interval``), and at the end of every epoch."""


class BoundedOutOfOrderness(WatermarkGenerator):
    """The watermark is behind the largest timestamp seen by the bound and one millisecond.

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
            raise ValueError(f"The bound for out-of-order records must not be negative, got {self.bound} ms.")
        # Makes the initial watermark, before any record, exactly the smallest value.
        self.max_timestamp = MIN_WATERMARK + self.bound + 1

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event_timestamp > self.max_timestamp:
            self.max_timestamp = event_timestamp

    def on_block(self, timestamps: list[int]) -> None:
        """:meth:`on_event` for each record of a block."""
        if timestamps:
            self.max_timestamp = max(self.max_timestamp, max(timestamps))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.current_watermark())

    def current_watermark(self) -> int:
        """Returns the current watermark."""
        return self.max_timestamp - self.bound - 1


class AscendingTimestamps(BoundedOutOfOrderness):
    """For ascending timestamps: the watermark is one millisecond behind the largest."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarks(WatermarkGenerator):
    """Never generates a watermark."""

    __slots__ = ()

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_block(self, timestamps: list[int]) -> None:
        """Does nothing for a block either."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


@dataclass(frozen=True)
class WatermarkAlignment:
    """An alignment group: which splits and sources wait for each other, and the maximum drift. Lengths are in
    milliseconds.
    """

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
    """Describes timestamps and watermarks. Immutable: each ``with_`` method returns a new strategy.

    Example::

        >>> strategy = (
        ...     WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        ...     .with_timestamp_assigner(lambda event, _: event["time"])
        ...     .with_idleness(Duration.of_minutes(1))
        ... )
        >>> strategy.create_generator().bound
        5000
    """

    #: Creates the generator of a split.
    generator_supplier: Callable[[], WatermarkGenerator] = NoWatermarks
    #: A :class:`TimestampAssigner`, or None for the timestamps of the source.
    timestamp_assigner: TimestampAssigner | None = None
    #: Milliseconds without a record after which a split is idle, or None.
    idle_timeout: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never decrease within a split."""
        return WatermarkStrategy(_BoundedFactory(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """For records that arrive at most the given time after records with larger timestamps."""
        return WatermarkStrategy(_BoundedFactory(BoundedOutOfOrderness(max_out_of_orderness).bound))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For streams without event time."""
        return WatermarkStrategy(NoWatermarks)

    @staticmethod
    def for_generator(supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Uses your own generator: ``supplier()`` creates one per split, in the slot that reads it."""
        if not callable(supplier) or isinstance(supplier, WatermarkGenerator):
            raise TypeError(
                "for_generator: expected a function that returns a WatermarkGenerator, such as its class, got "
                f"{supplier!r}."
            )
        return WatermarkStrategy(supplier)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Extracts timestamps from records: by a :class:`TimestampAssigner`, or by a function of record and previous
        timestamp.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            if not callable(timestamp_assigner):
                raise TypeError(f"{timestamp_assigner!r} is neither a TimestampAssigner nor a function.")
            timestamp_assigner = FunctionAssigner(timestamp_assigner)
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Marks a split as idle if it has had no record for that long."""
        millis = to_millis(idle_timeout)
        if millis <= 0:
            raise ValueError(f"The idle timeout must be greater than 0, not {millis} ms.")
        return replace(self, idle_timeout=millis)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Pauses splits that are ahead of the slowest of their group by more than the allowed drift."""
        interval = 1000 if update_interval is None else to_millis(update_interval)
        alignment = WatermarkAlignment(watermark_group, to_millis(max_allowed_watermark_drift), interval)
        return replace(self, alignment=alignment)

    def create_generator(self) -> WatermarkGenerator:
        """Returns a new generator, for one split."""
        return self.generator_supplier()

    @property
    def has_built_in_generator(self) -> bool:
        """Returns whether watermarks depend on timestamps alone, so that blocks need no call per record."""
        return self.generator_supplier is NoWatermarks or isinstance(self.generator_supplier, _BoundedFactory)

    @property
    def emits_watermarks(self) -> bool:
        """Returns whether there can be any watermark before the end of the stream."""
        return self.generator_supplier is not NoWatermarks


class FunctionAssigner(TimestampAssigner):
    """Wraps a plain function as an assigner; the runtime calls ``function`` directly."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, int], int]) -> None:
        self.function = function

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self.function(value, record_timestamp)


class AssignerWithPeriodicWatermarksWrapper:
    """Not supported: it wraps a Java object. Use :class:`WatermarkStrategy`."""

    def __init__(self, *args: Any) -> None:
        _refuse_wrapper()


def _refuse_wrapper() -> NoReturn:
    java_only("AssignerWithPeriodicWatermarksWrapper", "Use WatermarkStrategy.for_generator.")
