"""What a process function sees of time."""

from __future__ import annotations

import time

from flintstream.runtime.batch import MIN_WATERMARK

_NOT_YET = "timers are not part of this version: current_processing_time() and current_watermark() work"


class TimeView:
    """The `timer_service()` of a process function."""

    __slots__ = ("_keyed", "_operator", "watermark")

    def __init__(self, operator: str, keyed: bool) -> None:
        self._operator = operator
        self._keyed = keyed
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        """The clock of the slot, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def current_watermark(self) -> int:
        """The watermark that this operator has reached."""
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Asks for `on_timer` at that time of the slot's clock."""
        raise self._refuse("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> None:
        """Asks for `on_timer` when the watermark reaches that time."""
        raise self._refuse("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes a timer back."""
        raise self._refuse("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes a timer back."""
        raise self._refuse("delete_event_time_timer")

    def _refuse(self, call: str) -> Exception:
        if not self._keyed:
            return RuntimeError(
                f"operator '{self._operator}': {call}() needs a keyed stream: put a key_by() before this operator"
            )
        return NotImplementedError(f"operator '{self._operator}': {call}(): {_NOT_YET}")
