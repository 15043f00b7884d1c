"""Windows, and the interfaces of window assigners and triggers.

All are imported from `flintstream.datastream.window`.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum
from functools import total_ordering
from typing import IO, TYPE_CHECKING, Any, Generic

from flintstream.common.serializer import TypeSerializer
from flintstream.common.time import MAX_WATERMARK
from flintstream.common.type_variables import S, T, V, W
from flintstream.datastream.state import StateDescriptor
from flintstream.runtime.context import RuntimeContext

if TYPE_CHECKING:
    from flintstream.metrics import MetricGroup


class Window(ABC):
    """A group of records."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """Returns the greatest timestamp that belongs to the window."""


@total_ordering
class TimeWindow(Window):
    """The time from `start` to `end` in milliseconds; `end` is exclusive.

    >>> TimeWindow(0, 10).max_timestamp()
    9
    >>> TimeWindow(0, 10).cover(TimeWindow(5, 20))
    TimeWindow(start=0, end=20)
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        """Returns the last millisecond before the end."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Returns whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Returns the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Returns the start of the window of a size that contains a timestamp; windows are aligned to 1970 plus
        `offset`.

        >>> TimeWindow.get_window_start_with_offset(17, 0, 5)
        15
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Calls the callback with each group of windows that overlap or touch, and the window that covers it."""
        groups: list[tuple[TimeWindow, set[TimeWindow]]] = []
        for window in sorted(windows):
            if groups and groups[-1][0].intersects(window):
                cover, members = groups.pop()
                groups.append((cover.cover(window), members | {window}))
            else:
                groups.append((window, {window}))
        for cover, members in groups:
            if len(members) > 1:
                callback.merge(members, cover)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return self.start == other.start and self.end == other.end

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) < (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """A window by number of records, identified by its number within the key.

    >>> CountWindow(3)
    CountWindow(id=3)
    """

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """Returns the maximum timestamp: count windows do not end by time."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, CountWindow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The single window of all records of a key.

    >>> GlobalWindow.get() == GlobalWindow()
    True
    """

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Returns the global window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """Returns the maximum timestamp."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Serialises a time window as 16 bytes: start and end."""

    def serialize(self, element: TimeWindow, stream: IO[bytes]) -> None:
        """Writes the window."""
        stream.write(struct.pack(">qq", element.start, element.end))

    def deserialize(self, stream: IO[bytes]) -> TimeWindow:
        """Reads a window."""
        return TimeWindow(*struct.unpack(">qq", stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Serialises a count window as 8 bytes."""

    def serialize(self, element: CountWindow, stream: IO[bytes]) -> None:
        """Writes the window."""
        stream.write(struct.pack(">q", element.id))

    def deserialize(self, stream: IO[bytes]) -> CountWindow:
        """Reads a window."""
        return CountWindow(*struct.unpack(">q", stream.read(8)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Serialises the global window as one byte."""

    def serialize(self, element: GlobalWindow, stream: IO[bytes]) -> None:
        """Writes the window."""
        stream.write(b"\0")

    def deserialize(self, stream: IO[bytes]) -> GlobalWindow:
        """Reads the window."""
        stream.read(1)
        return GlobalWindow()


class TriggerResult(Enum):
    """The decision of a trigger about a window.

    >>> TriggerResult.FIRE_AND_PURGE.is_fire(), TriggerResult.FIRE.is_purge()
    (True, False)
    """

    CONTINUE = (False, False)
    """Does nothing."""
    FIRE_AND_PURGE = (True, True)
    """Emits the window's result, and drops its records."""
    FIRE = (True, False)
    """Emits the window's result, and keeps its records."""
    PURGE = (False, True)
    """Drops the window's records without a result."""

    def is_fire(self) -> bool:
        """Returns whether the window is evaluated and its result emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Returns whether the records are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window's result is emitted and when its records are dropped.

    One trigger object serves all keys and windows: its state belongs in `ctx.get_partitioned_state`.
    """

    class TriggerContext(ABC):
        """Time, timers and state of the current key and window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the slot's clock, in milliseconds since 1970."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Returns the group in which the trigger registers metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Returns the current watermark of the operator."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Registers a timer that calls `on_processing_time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Registers a timer that calls `on_event_time` when the watermark reaches that time."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Deletes a timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Deletes a timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
            """Returns state scoped to the current key and window."""

    class OnMergeContext(TriggerContext):
        """The context of a merge of windows."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges the state of the merged windows into that of the new window."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called for each record added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of the trigger fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of the trigger fires."""

    def can_merge(self) -> bool:
        """Returns whether the trigger supports merging windows (sessions)."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called after windows were merged into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Called when the window is deleted: delete timers and clear state."""


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns records to windows."""

    class WindowAssignerContext(ABC):
        """What an assigner can access."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Returns the slot's clock, in milliseconds since 1970."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Returns the runtime context of the operator."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Returns the windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Returns the trigger of windows for which none is set."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Returns the serialiser of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns whether windows end by event time, so that records can be late."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge, such as sessions."""

    class MergeCallback(ABC, Generic[V]):
        """Receives the windows to merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[V], merge_result: V) -> None:
            """Called with a group of windows and the window that replaces it."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Calls the callback with the windows to merge."""
