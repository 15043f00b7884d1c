"""TimerService: the current time, and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flintstream.runtime.time.timers import TimeView


class TimerService(ABC):
    """What `ctx.timer_service()` gives in a process function.

    A timer belongs to the key at hand; there is at most one for each key and timestamp.

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock of the slot, in milliseconds since 1970."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark that the operator has reached."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Asks for `on_timer` when the clock reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Asks for `on_timer` when the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes a processing-time timer back; nothing happens if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes an event-time timer back; nothing happens if there is none."""


TimerService.register(TimeView)
