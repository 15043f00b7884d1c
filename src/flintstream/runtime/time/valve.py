"""Combines watermarks: of the splits of a source, the inputs of an operator, or the channels of a task."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK


class CombinedWatermark:
    """Combines the watermarks of the splits of a source, or of the inputs of an operator.

    The combined watermark is the minimum over all members that are not idle, and never decreases. An idle member counts
    again as soon as it is active.
    """

    def __init__(self, members: Iterable[Hashable] = ()) -> None:
        self._watermarks: dict[Hashable, int] = dict.fromkeys(members, MIN_WATERMARK)
        self._idle: set[Hashable] = set()
        self.watermark = MIN_WATERMARK

    def add(self, member: Hashable) -> None:
        """Adds a member without a watermark."""
        self._watermarks.setdefault(member, MIN_WATERMARK)

    def advance(self, member: Hashable, timestamp: int) -> int | None:
        """Sets the watermark of a member; returns the combined watermark if it advanced."""
        if timestamp > self._watermarks.get(member, MIN_WATERMARK):
            self._watermarks[member] = timestamp
        return self._combined()

    def set_idle(self, member: Hashable, idle: bool) -> int | None:
        """Excludes or includes a member; returns the combined watermark if it advanced."""
        if idle:
            self._idle.add(member)
        else:
            self._idle.discard(member)
        return self._combined()

    def remove(self, member: Hashable) -> int | None:
        """Removes a member, e.g. a finished split; returns the combined watermark if it advanced."""
        del self._watermarks[member]
        self._idle.discard(member)
        return self._combined()

    def raise_to(self, timestamp: int) -> int | None:
        """Raises the combined watermark itself; returns it if it advanced."""
        if timestamp <= self.watermark:
            return None
        self.watermark = timestamp
        return timestamp

    @property
    def all_idle(self) -> bool:
        """Returns whether there are members and all are idle."""
        return bool(self._idle) and len(self._idle) == len(self._watermarks)

    def _combined(self) -> int | None:
        active = [mark for member, mark in self._watermarks.items() if member not in self._idle]
        return self.raise_to(min(active)) if active else None


class WatermarkValve:
    """Combines the watermarks of the channels of one input of a task.

    The combined watermark is the minimum over all channels that count, and never decreases. Idle and finished channels
    do not count, nor does a channel that was idle and is still behind the emitted watermark. When all channels are
    idle, the maximum counts, so that silent channels hold nothing back.
    """

    def __init__(self, channels: Iterable[Hashable]) -> None:
        self._watermarks: dict[Hashable, int] = dict.fromkeys(channels, MIN_WATERMARK)
        self._idle: set[Hashable] = set()
        self._behind: set[Hashable] = set()
        self.watermark = MIN_WATERMARK

    def advance(self, channel: Hashable, timestamp: int) -> int | None:
        """Sets the watermark of a channel; returns the combined watermark if it advanced."""
        if timestamp == MAX_WATERMARK:
            return self.end(channel)
        if channel in self._idle or timestamp <= self._watermarks.get(channel, MAX_WATERMARK):
            return None
        self._watermarks[channel] = timestamp
        if timestamp >= self.watermark:
            self._behind.discard(channel)
        return self._least()

    def set_idle(self, channel: Hashable, idle: bool) -> int | None:
        """Marks a channel as idle or active; returns the combined watermark if it advanced."""
        if channel not in self._watermarks or idle == (channel in self._idle):
            return None
        if not idle:
            self._idle.discard(channel)
            if self._watermarks[channel] < self.watermark:
                self._behind.add(channel)
            return self._least()
        self._idle.add(channel)
        self._behind.discard(channel)
        if not self.all_idle:
            return self._least()
        return self._moved(max(self._watermarks.values())) if self._watermarks[channel] == self.watermark else None

    def end(self, channel: Hashable) -> int | None:
        """Ends a channel, which holds nothing back any more. When all have ended, the watermark is the maximum."""
        self._watermarks.pop(channel, None)
        self._idle.discard(channel)
        self._behind.discard(channel)
        return self._least() if self._watermarks else self._moved(MAX_WATERMARK)

    @property
    def all_idle(self) -> bool:
        """Returns whether there are unfinished channels and all are idle."""
        return bool(self._idle) and len(self._idle) == len(self._watermarks)

    def _least(self) -> int | None:
        if self._idle or self._behind:
            left_out = self._idle | self._behind
            counting = [mark for channel, mark in self._watermarks.items() if channel not in left_out]
            return self._moved(min(counting)) if counting else None
        return self._moved(min(self._watermarks.values()))

    def _moved(self, timestamp: int) -> int | None:
        if timestamp > self.watermark:
            self.watermark = timestamp
            return timestamp
        return None


class InputWatermarks:
    """The watermarks of a task: one valve per input, and the minimum over the inputs."""

    def __init__(self, inputs: list[list[int]]) -> None:
        self._valves = [WatermarkValve(channels) for channels in inputs]
        self._combined = CombinedWatermark(range(len(inputs)))
        self._ended = 0
        self.idle = False
        """Whether all inputs are idle."""

    @property
    def watermark(self) -> int:
        """Returns the task's watermark."""
        return MAX_WATERMARK if self._ended and self._ended == len(self._valves) else self._combined.watermark

    def advance(self, input_index: int, channel: int, timestamp: int) -> int | None:
        """Sets the watermark of a channel; returns the task's watermark if it advanced."""
        if timestamp == MAX_WATERMARK:
            return self.end(input_index, channel)
        return self._let_through(input_index, self._valves[input_index].advance(channel, timestamp))

    def end(self, input_index: int, channel: int) -> int | None:
        """Ends a channel; returns the task's watermark if it advanced."""
        valve = self._valves[input_index]
        moved = self._let_through(input_index, valve.end(channel))
        # The remaining channels may all be idle.
        return _later(moved, self._tell_idleness(input_index)) if valve.all_idle else moved

    def set_idle(self, input_index: int, channel: int, idle: bool) -> int | None:
        """Marks a channel as idle or active; returns the task's watermark if it advanced.

        Afterwards `idle` of this object is whether the whole task is idle.
        """
        valve = self._valves[input_index]
        moved = self._let_through(input_index, valve.set_idle(channel, idle))
        return _later(moved, self._tell_idleness(input_index))

    def _tell_idleness(self, input_index: int) -> int | None:
        moved = self._combined.set_idle(input_index, self._valves[input_index].all_idle)
        self.idle = self._combined.all_idle
        return moved

    def _let_through(self, input_index: int, timestamp: int | None) -> int | None:
        if timestamp is None:
            return None
        if timestamp != MAX_WATERMARK:
            return self._combined.advance(input_index, timestamp)
        # An input that has ended is removed: the others continue, and an idle one does not end with it.
        self._ended += 1
        moved = self._combined.remove(input_index) if self._ended < len(self._valves) else MAX_WATERMARK
        self.idle = self._ended < len(self._valves) and self._combined.all_idle
        return moved


def _later(first: int | None, second: int | None) -> int | None:
    return second if second is not None else first
