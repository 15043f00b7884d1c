"""Windows themselves, and the contracts of what assigns records to them and what fires them.

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
        """The greatest timestamp that still belongs to the window."""


@total_ordering
class TimeWindow(Window):
    """The time from `start` to `end`, in milliseconds; `end` itself does not belong to it.

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
        """One millisecond before the end."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of that size around a timestamp; windows are aligned to 1970 + `offset`.

        >>> TimeWindow.get_window_start_with_offset(17, 0, 5)
        15
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Tells the callback of each group of windows that overlap or touch, and of the window that covers
        the group."""
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
    """A window by number of records: the one of that number for its key.

    >>> CountWindow(3)
    CountWindow(id=3)
    """

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """The end of time: count windows do not end by time."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, CountWindow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window of all records of a key.

    >>> GlobalWindow.get() == GlobalWindow()
    True
    """

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The global window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """A time window as 16 bytes: start and end."""

    def serialize(self, element: TimeWindow, stream: IO[bytes]) -> None:
        """Writes the window."""
        stream.write(struct.pack(">qq", element.start, element.end))

    def deserialize(self, stream: IO[bytes]) -> TimeWindow:
        """Reads a window."""
        return TimeWindow(*struct.unpack(">qq", stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """A count window as 8 bytes."""

    def serialize(self, element: CountWindow, stream: IO[bytes]) -> None:
        """Writes the window."""
        stream.write(struct.pack(">q", element.id))

    def deserialize(self, stream: IO[bytes]) -> CountWindow:
        """Reads a window."""
        return CountWindow(*struct.unpack(">q", stream.read(8)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """The global window as one byte."""

    def serialize(self, element: GlobalWindow, stream: IO[bytes]) -> None:
        """Writes the window."""
        stream.write(b"\0")

    def deserialize(self, stream: IO[bytes]) -> GlobalWindow:
        """Reads the window."""
        stream.read(1)
        return GlobalWindow()


class TriggerResult(Enum):
    """What a trigger decides about a window.

    >>> TriggerResult.FIRE_AND_PURGE.is_fire(), TriggerResult.FIRE.is_purge()
    (True, False)
    """

    CONTINUE = (False, False)
    """Nothing happens."""
    FIRE_AND_PURGE = (True, True)
    """The window's result is emitted, and its records are dropped."""
    FIRE = (True, False)
    """The window's result is emitted, and its records stay."""
    PURGE = (False, True)
    """The window's records are dropped without a result."""

    def is_fire(self) -> bool:
        """Whether the result is emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the records are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window's result is emitted, and when its records are dropped.

    A trigger keeps nothing itself: what it must remember goes into `ctx.get_partitioned_state`.
    """

    class TriggerContext(ABC):
        """Time, timers and state of the key and window at hand."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The clock of the slot, in milliseconds since 1970."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where the trigger registers metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The watermark that the operator has reached."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Asks for `on_processing_time` at that time."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Asks for `on_event_time` when the watermark reaches that time."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Takes a timer back."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Takes a timer back."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
            """State of this key and this window."""

    class OnMergeContext(TriggerContext):
        """The context while windows merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges the state of the old windows into that of the new one."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called for each record that is added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of the trigger fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of the trigger fires."""

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge (sessions)."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows have merged into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Called when the window is deleted: drop timers and state."""


class WindowAssigner(ABC, Generic[T, W]):
    """Says which windows a record belongs to."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The clock of the slot, in milliseconds since 1970."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """The runtime context of the operator."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger of a window that is given none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """How the windows are stored."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by event time, so that records can be late."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge, such as sessions."""

    class MergeCallback(ABC, Generic[V]):
        """Told which windows merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[V], merge_result: V) -> None:
            """These windows become that one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Tells the callback which of the windows merge."""
