"""TimerService: the current time and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flintstream.runtime.time.timers import TimeView


class TimerService(ABC):
    """The current time and timers, returned by `ctx.timer_service()` in a process function.

    A timer belongs to the current key; there is at most one for each key and timestamp.

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Returns the slot's clock, in milliseconds since 1970."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Returns the current watermark of the operator."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that calls `on_timer` when the clock reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer that calls `on_timer` when the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a processing-time timer, if it exists."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes an event-time timer, if it exists."""


TimerService.register(TimeView)
