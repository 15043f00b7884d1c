"""WatermarkValve: the minimum over the watermarks of several channels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK


class WatermarkValve:
    """Combines the watermarks of the channels of a task, or of the splits of a source.

    The combined watermark is the least of all active channels, never goes backwards, and is unknown before every active
    channel has sent one. Idle channels are left out; when all are idle, so is the whole.
    """

    def __init__(self, channels: Iterable[Hashable] = ()) -> None:
        self._watermarks: dict[Hashable, int] = dict.fromkeys(channels, MIN_WATERMARK)
        self._idle: set[Hashable] = set()
        self.watermark = MIN_WATERMARK

    def add(self, channel: Hashable) -> None:
        """Adds a channel that has sent nothing yet."""
        self._watermarks.setdefault(channel, MIN_WATERMARK)

    def advance(self, channel: Hashable, timestamp: int) -> int | None:
        """Takes a watermark of a channel; returns the combined watermark if that moved."""
        if timestamp > self._watermarks.get(channel, MIN_WATERMARK):
            self._watermarks[channel] = timestamp
        return self._combined()

    def set_idle(self, channel: Hashable, idle: bool) -> int | None:
        """Leaves a channel out, or takes it in again; returns the combined watermark if that moved."""
        if idle:
            self._idle.add(channel)
        else:
            self._idle.discard(channel)
        return self._combined()

    def end(self, channel: Hashable) -> int | None:
        """A channel has ended: it holds nothing back any more."""
        return self.advance(channel, MAX_WATERMARK)

    def remove(self, channel: Hashable) -> int | None:
        """Forgets a channel, e.g. a split read to its end; returns the combined watermark if that moved."""
        del self._watermarks[channel]
        self._idle.discard(channel)
        return self._combined() if self._watermarks else None

    @property
    def all_idle(self) -> bool:
        """Whether every channel that has not ended is idle."""
        return bool(self._idle) and all(
            channel in self._idle or watermark == MAX_WATERMARK for channel, watermark in self._watermarks.items()
        )

    def _combined(self) -> int | None:
        active = [mark for channel, mark in self._watermarks.items() if channel not in self._idle]
        # When all are idle the greatest of them counts: nothing is held back by streams that say nothing.
        least = min(active) if active else max(self._watermarks.values(), default=MIN_WATERMARK)
        if least > self.watermark:
            self.watermark = least
            return least
        return None
