"""Predefined window assigners. All are imported from `flintstream.datastream.window`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from operator import index
from typing import Any

from flintstream.common.arguments import millis, whole
from flintstream.common.serializer import TypeSerializer
from flintstream.common.time import MIN_WATERMARK, Duration, Time
from flintstream.common.type_variables import T
from flintstream.common.typeinfo import Types
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.time_domain import TimeCharacteristic
from flintstream.datastream.triggers import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from flintstream.datastream.window_types import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    MergingWindowAssigner,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    WindowAssigner,
)

Length = Time | Duration


class SessionWindowTimeGapExtractor(ABC):
    """Extracts a session gap from each record.

    Example::

        class Gap(SessionWindowTimeGapExtractor):
            def extract(self, element):
                return element.timeout_ms
    """

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns the gap in milliseconds, greater than zero."""


class _TimeWindows(WindowAssigner[T, TimeWindow]):
    """The part shared by all assigners of time windows."""

    _event_time = False

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Returns a trigger that fires at the end of the window."""
        return EventTimeTrigger() if self._event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """Returns a serialiser of start and end."""
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        """Returns whether windows end by event time."""
        return self._event_time

    def _whole(self, **options: Any) -> None:
        for option, value in options.items():
            whole(type(self).__name__, option, value)

    def _time(self, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> int:
        """Returns the time that determines a record's windows."""
        if not self._event_time:
            return context.get_current_processing_time()
        if timestamp is None or timestamp <= MIN_WATERMARK:
            raise ValueError(
                f"{self!r}: the record has no timestamp, and event-time windows need one: "
                "call assign_timestamps_and_watermarks() before the window"
            )
        return timestamp


class _TumblingWindows(_TimeWindows[T]):
    def __init__(self, size: int, offset: int) -> None:
        self._whole(size=size, offset=offset)
        if size <= 0 or abs(offset) >= size:
            raise ValueError(
                f"{type(self).__name__}: size must be greater than zero and than abs(offset), "
                f"got size={size!r}, offset={offset!r}"
            )
        self._size = size
        self._offset = offset

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Returns the one window of the record."""
        time = self._time(timestamp, context)
        start = TimeWindow.get_window_start_with_offset(time, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class TumblingEventTimeWindows(_TumblingWindows[T]):
    """Consecutive windows of one size, by event time.

    >>> TumblingEventTimeWindows.of(Time.seconds(5)).assign_windows("a", 12_000, None)
    [TimeWindow(start=10000, end=15000)]
    """

    _event_time = True

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows[Any]:
        """Returns windows of a size, shifted by an offset."""
        return TumblingEventTimeWindows(*_lengths("TumblingEventTimeWindows", size=size, offset=offset))


class TumblingProcessingTimeWindows(_TumblingWindows[T]):
    """Consecutive windows of one size, by the slot's clock."""

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Returns windows of a size, shifted by an offset."""
        return TumblingProcessingTimeWindows(*_lengths("TumblingProcessingTimeWindows", size=size, offset=offset))


class _SlidingWindows(_TimeWindows[T]):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        self._whole(size=size, slide=slide, offset=offset)
        if size <= 0 or slide <= 0 or abs(offset) >= slide:
            raise ValueError(
                f"{type(self).__name__}: size and slide must be greater than zero, and slide than "
                f"abs(offset), got size={size!r}, slide={slide!r}, offset={offset!r}"
            )
        self._size = size
        self._slide = slide
        self._offset = offset

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Returns all windows that contain the record's time, the latest first."""
        time = self._time(timestamp, context)
        last = TimeWindow.get_window_start_with_offset(time, self._offset, self._slide)
        return [TimeWindow(start, start + self._size) for start in range(last, time - self._size, -self._slide)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class SlidingEventTimeWindows(_SlidingWindows[T]):
    """Windows of one size that start every `slide`, by event time.

    >>> SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)).assign_windows("a", 12_000, None)
    [TimeWindow(start=10000, end=20000), TimeWindow(start=5000, end=15000)]
    """

    _event_time = True

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows[Any]:
        """Returns windows of a size that start every `slide`, shifted by an offset."""
        return SlidingEventTimeWindows(*_lengths("SlidingEventTimeWindows", size=size, slide=slide, offset=offset))


class SlidingProcessingTimeWindows(_SlidingWindows[T]):
    """Windows of one size that start every `slide`, by the slot's clock."""

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows[Any]:
        """Returns windows of a size that start every `slide`, shifted by an offset."""
        return SlidingProcessingTimeWindows(
            *_lengths("SlidingProcessingTimeWindows", size=size, slide=slide, offset=offset)
        )


class _SessionWindows(_TimeWindows[T], MergingWindowAssigner[T, TimeWindow]):
    """Assigns each record a window from its time to its time plus the gap; windows that overlap or touch merge."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Returns the record's own session, before merging."""
        time = self._time(timestamp, context)
        return [TimeWindow(time, time + self._gap(element))]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        """Merges sessions that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    @abstractmethod
    def _gap(self, element: T) -> int:
        """Returns the gap after a record."""


class _StaticSessionWindows(_SessionWindows[T]):
    def __init__(self, session_gap: int) -> None:
        self._whole(session_gap=session_gap)
        if session_gap <= 0:
            raise ValueError(f"{type(self).__name__}: session_gap must be greater than zero, got {session_gap!r}")
        self._session_gap = session_gap

    def _gap(self, element: T) -> int:
        return self._session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicSessionWindows(_SessionWindows[T]):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not callable(getattr(session_window_time_gap_extractor, "extract", None)):
            raise TypeError(
                f"{type(self).__name__}: expected a SessionWindowTimeGapExtractor, "
                f"got {session_window_time_gap_extractor!r}"
            )
        self._extractor = session_window_time_gap_extractor

    def _gap(self, element: T) -> int:
        gap = self._extractor.extract(element)
        if not hasattr(gap, "__index__") or gap <= 0:
            raise ValueError(f"{self!r}: a session gap must be an integer greater than 0, got {gap!r} for {element!r}")
        return index(gap)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class EventTimeSessionWindows(_StaticSessionWindows[T]):
    """Sessions by event time: a session ends when no record arrives for the length of the gap.

    >>> EventTimeSessionWindows.with_gap(Time.seconds(5)).assign_windows("a", 12_000, None)
    [TimeWindow(start=12000, end=17000)]
    """

    _event_time = True

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows[Any]:
        """Returns sessions with a fixed gap."""
        return EventTimeSessionWindows(millis("EventTimeSessionWindows", "size", size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Returns sessions whose gap is extracted from each record."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_StaticSessionWindows[T]):
    """Sessions by the slot's clock: a session ends when no record arrives for the length of the gap."""

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows[Any]:
        """Returns sessions with a fixed gap."""
        return ProcessingTimeSessionWindows(millis("ProcessingTimeSessionWindows", "size", size))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Returns sessions whose gap is extracted from each record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicSessionWindows[T]):
    """Sessions by event time, whose gap is extracted from each record."""

    _event_time = True

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Returns sessions whose gap is extracted from each record."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicSessionWindows[T]):
    """Sessions by the slot's clock, whose gap is extracted from each record."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[Any]:
        """Returns sessions whose gap is extracted from each record."""
        return DynamicProcessingTimeSessionWindows(extractor)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """One window for all records of a key, which fires only by a trigger."""

    def __init__(self, default_trigger: Trigger[Any, GlobalWindow] | None = None) -> None:
        self._default_trigger = NeverTrigger() if default_trigger is None else default_trigger

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """Returns windows that never fire unless a trigger is set."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows[Any]:
        """Returns windows that fire at the end of the input, for bounded streams."""
        return GlobalWindows(EndOfStreamTrigger())

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        """Returns the global window."""
        return [GlobalWindow()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        """Returns a trigger that never fires, or fires at the end of the input."""
        return self._default_trigger

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        """Returns a serialiser that writes one byte."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Returns False."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Windows by the number of records of a key; the count is kept as keyed state."""

    _window_size: int
    _counter: ValueStateDescriptor

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """Returns a trigger that fires when the window is full, and purges it."""
        trigger: Trigger[T, Any] = PurgingTrigger(CountTrigger(self._window_size))
        return trigger

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        """Returns a serialiser of the window's number."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Returns False."""
        return False

    def _next_count(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """Returns how many records of the key came before this one."""
        state = context.get_runtime_context().get_state(self._counter)
        count: int = state.value() or 0
        state.update(count + 1)
        return count

    def _positive(self, **options: int) -> None:
        for name, value in options.items():
            if whole(type(self).__name__, name, value) < 1:
                raise ValueError(f"{type(self).__name__}: {name} must be at least 1, got {value!r}")


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Consecutive windows of a fixed number of records."""

    def __init__(self, window_size: int) -> None:
        self._positive(window_size=window_size)
        self._window_size = window_size
        self._counter = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """`CountTumblingWindowAssigner.of(10)`."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        """Returns the one window of the record."""
        return [CountWindow(self._next_count(context) // self._window_size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of a fixed number of records, which start every `slide` records."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._positive(window_size=window_size, window_slide=window_slide)
        self._window_size = window_size
        self._window_slide = window_slide
        self._counter = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """`CountSlidingWindowAssigner.of(10, 5)`."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        """Returns all windows that contain the record, the latest first."""
        count = self._next_count(context)
        last = count // self._window_slide
        first = max(-(-(count - self._window_size + 1) // self._window_slide), 0)
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


def time_windows(env: Any, size: Length, slide: Length | None) -> WindowAssigner[Any, TimeWindow]:
    """Returns tumbling or, with a slide, sliding windows by the environment's time characteristic."""
    by_event = env.get_stream_time_characteristic() is not TimeCharacteristic.ProcessingTime
    if slide is None:
        return (TumblingEventTimeWindows if by_event else TumblingProcessingTimeWindows).of(size)
    return (SlidingEventTimeWindows if by_event else SlidingProcessingTimeWindows).of(size, slide)


def count_windows(size: int, slide: int) -> WindowAssigner[Any, CountWindow]:
    """Returns tumbling count windows or, with a slide other than 0, sliding ones."""
    return CountSlidingWindowAssigner(size, slide) if slide else CountTumblingWindowAssigner(size)


def _lengths(owner: str, offset: Length | None, **lengths: Any) -> list[int]:
    """Converts lengths to milliseconds; the offset comes last."""
    return [
        *(millis(owner, option, length) for option, length in lengths.items()),
        0 if offset is None else millis(owner, "offset", offset),
    ]
