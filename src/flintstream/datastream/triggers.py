"""Predefined triggers. All are imported from `flintstream.datastream.window`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from flintstream.common.arguments import delta, millis, whole
from flintstream.common.time import MAX_WATERMARK, MIN_WATERMARK, Duration, Time
from flintstream.common.type_variables import T, W
from flintstream.common.typeinfo import Types
from flintstream.datastream.state import ReducingState, ReducingStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window_types import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
)


class _QuietTrigger(Trigger[T, W]):
    """A trigger that ignores every event; subclasses override the events they react to."""

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Continues."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Continues."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Continues."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Does nothing."""

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """There is nothing to clear."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NeverTrigger(_QuietTrigger[T, GlobalWindow]):
    """Never fires; the default of global windows."""


class EndOfStreamTrigger(_QuietTrigger[T, GlobalWindow]):
    """Fires once, at the end of the input; used by `GlobalWindows.create_with_end_of_stream_trigger()`."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Registers a timer at the maximum timestamp."""
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at the maximum timestamp."""
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        """Deletes the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class EventTimeTrigger(_QuietTrigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window; the default of event-time windows."""

    @staticmethod
    def create() -> EventTimeTrigger[Any]:
        """Returns the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at once for a late record within the allowed lateness; otherwise registers the timer."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Returns True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Registers the timer of the merged window."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Deletes the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_QuietTrigger[T, TimeWindow]):
    """Fires when the clock passes the end of the window; the default of processing-time windows."""

    @staticmethod
    def create() -> ProcessingTimeTrigger[Any]:
        """Returns the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Registers the timer."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Returns True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Registers the timer of the merged window."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Deletes the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class _ContinuousTrigger(_QuietTrigger[T, TimeWindow]):
    """Fires repeatedly, at multiples of the interval; the next firing time is kept as state."""

    def __init__(self, interval: int) -> None:
        if whole(type(self).__name__, "interval", interval) <= 0:
            raise ValueError(f"{type(self).__name__}: interval must be greater than zero, got {interval!r}")
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        """Returns True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Registers the earliest of the next firing times for the merged window."""
        ctx.merge_partitioned_state(self.state_desc)
        following = self._fire_time(ctx).get()
        if following is not None:
            self._set_timer(following, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Deletes the timer."""
        state = self._fire_time(ctx)
        following = state.get()
        if following is not None:
            self._delete_timer(following, ctx)
            state.clear()

    def register_next_fire_timestamp(
        self,
        time: int,
        window: TimeWindow,
        ctx: Trigger.TriggerContext,
        fire_timestamp_state: ReducingState[int],
    ) -> None:
        """Stores the next firing time and registers its timer: an interval after `time`, or the end of the window if
        that comes first.
        """
        following = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(following)
        self._set_timer(following, ctx)

    def _fire_time(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return ctx.get_partitioned_state(self.state_desc)

    @abstractmethod
    def _set_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Registers a timer."""

    @abstractmethod
    def _delete_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Deletes a timer."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the watermark has passed another interval, and at the end of the window."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger[Any]:
        """`ContinuousEventTimeTrigger.of(Time.minutes(1))`."""
        return ContinuousEventTimeTrigger(millis("ContinuousEventTimeTrigger", "interval", interval))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at once for a late record within the allowed lateness."""
        if timestamp <= MIN_WATERMARK:
            raise ValueError(
                f"{self!r}: the record has no timestamp, and the trigger needs one: "
                "call assign_timestamps_and_watermarks() before the window"
            )
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        state = self._fire_time(ctx)
        if state.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at the end of the window and at the stored time."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = self._fire_time(ctx)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        # A window without an end fires once more at the end of the input, and not for ever.
        if ctx.get_current_watermark() < MAX_WATERMARK or window.max_timestamp() < MAX_WATERMARK:
            self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def _set_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the clock has passed another interval."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger[Any]:
        """`ContinuousProcessingTimeTrigger.of(Time.minutes(1))`."""
        return ContinuousProcessingTimeTrigger(millis("ContinuousProcessingTimeTrigger", "interval", interval))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Registers the timer with the first record."""
        state = self._fire_time(ctx)
        if state.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at the stored time."""
        state = self._fire_time(ctx)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        if time < window.max_timestamp():
            self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def _set_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete_timer(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class CountTrigger(_QuietTrigger[T, CountWindow]):
    """Fires whenever a given number of records has arrived."""

    def __init__(self, window_size: int) -> None:
        if whole("CountTrigger", "window_size", window_size) < 1:
            raise ValueError(f"CountTrigger: window_size must be at least 1, got {window_size!r}")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("count", _plus, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[Any]:
        """`CountTrigger.of(100)`."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: CountWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Counts the record."""
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if (count.get() or 0) < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Returns True."""
        return True

    def on_merge(self, window: CountWindow, ctx: Trigger.OnMergeContext) -> None:
        """Adds the counts."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: CountWindow, ctx: Trigger.TriggerContext) -> None:
        """Clears the count."""
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"


class DeltaTrigger(_QuietTrigger[T, W]):
    """Fires when a record differs by more than a threshold from the last one that fired."""

    def __init__(self, threshold: float, delta_function: Callable[[Any, Any], float]) -> None:
        self._threshold = threshold
        self._delta = delta("DeltaTrigger", delta_function)
        self._last = ValueStateDescriptor("last-element", Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(threshold: float, delta_function: Callable[[Any, Any], float]) -> DeltaTrigger[Any, Any]:
        """`DeltaTrigger.of(5, lambda old, new: new - old)`."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Compares the record; the first one is only stored."""
        last = ctx.get_partitioned_state(self._last)
        before = last.value()
        if before is None:
            last.update((element,))
            return TriggerResult.CONTINUE
        if self._delta(before[0], element) > self._threshold:
            last.update((element,))
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Clears the stored record."""
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"


class PurgingTrigger(Trigger[T, Window]):
    """Wraps another trigger, and purges the window whenever it fires."""

    def __init__(self, nested_trigger: Trigger[T, Any]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise TypeError(f"PurgingTrigger: expected a Trigger, got {nested_trigger!r}")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger[Any]:
        """`PurgingTrigger.of(CountTrigger.of(100))`."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Delegates to the wrapped trigger."""
        return _purged(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Delegates to the wrapped trigger."""
        return _purged(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Delegates to the wrapped trigger."""
        return _purged(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Delegates to the wrapped trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Delegates to the wrapped trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Delegates to the wrapped trigger."""
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _plus(left: int, right: int) -> int:
    return left + right


def _purged(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
