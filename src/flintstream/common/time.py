"""Lengths of time and points in time: :class:`Time`, :class:`Duration`, :class:`Instant`; and which clock counts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import Enum
from functools import total_ordering
from math import isfinite
from operator import index
from typing import Any

__all__ = ["Duration", "Instant", "Time"]

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


@total_ordering
class Duration:
    """A length of time, kept in nanoseconds.

    Example::

        >>> Duration.of_seconds(5).to_millis()
        5000
        >>> Duration.of_minutes(1) == Duration.of_seconds(60)
        True
    """

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int = 0) -> None:
        self._nanos = nanos

    @staticmethod
    def of_days(days: int) -> Duration:
        """So many days of 24 hours."""
        return Duration(_whole(days, 86_400_000_000_000))

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """So many hours."""
        return Duration(_whole(hours, 3_600_000_000_000))

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """So many minutes."""
        return Duration(_whole(minutes, 60_000_000_000))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """So many seconds."""
        return Duration(_whole(seconds, 1_000_000_000))

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """So many milliseconds."""
        return Duration(_whole(millis, 1_000_000))

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """So many nanoseconds."""
        return Duration(_whole(nanos, 1))

    def to_millis(self) -> int:
        """Whole milliseconds, rounded down."""
        return self._nanos // 1_000_000

    def to_nanos(self) -> int:
        """Nanoseconds."""
        return self._nanos

    def to_seconds(self) -> float:
        """Seconds, with their fraction."""
        return self._nanos / 1_000_000_000

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Duration) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._nanos < other._nanos if isinstance(other, Duration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __repr__(self) -> str:
        millis, rest = divmod(self._nanos, 1_000_000)
        return f"Duration.of_nanos({self._nanos})" if rest else f"Duration.of_millis({millis})"


@total_ordering
class Time:
    """A length of time in milliseconds, as windows and the older parts of the API take it.

    Example::

        >>> str(Time.seconds(5))
        '5000 ms'
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = _whole(milliseconds, 1)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """So many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """So many seconds."""
        return Time(_whole(seconds, 1_000))

    @staticmethod
    def minutes(minutes: int) -> Time:
        """So many minutes."""
        return Time(_whole(minutes, 60_000))

    @staticmethod
    def hours(hours: int) -> Time:
        """So many hours."""
        return Time(_whole(hours, 3_600_000))

    @staticmethod
    def days(days: int) -> Time:
        """So many days of 24 hours."""
        return Time(_whole(days, 86_400_000))

    def to_milliseconds(self) -> int:
        """The length in milliseconds."""
        return self._milliseconds

    def __eq__(self, other: object) -> bool:
        return self._milliseconds == other._milliseconds if isinstance(other, Time) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._milliseconds < other._milliseconds if isinstance(other, Time) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time.milliseconds({self._milliseconds})"


@total_ordering
class Instant:
    """A point in time: seconds since 1970-01-01T00:00:00Z, and nanoseconds (0 to 999,999,999) after that
    second.

    Example::

        >>> Instant.of_epoch_milli(-5)
        Instant<-1, 995000000>
    """

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The instant so many milliseconds after (or before) the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Whole milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return self.seconds == other.seconds and self.nanos == other.nanos

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return (self.seconds, self.nanos) < (other.seconds, other.nanos)

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __reduce__(self) -> tuple[type[Instant], tuple[int, int]]:
        return Instant, (self.seconds, self.nanos)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


def to_millis(length: Duration | Time | int) -> int:
    """The milliseconds of a :class:`Duration`, a :class:`Time`, or an int that already says milliseconds."""
    if isinstance(length, Duration):
        return length.to_millis()
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, int) and not isinstance(length, bool):
        return length
    raise TypeError(f"{length!r} is no length of time: give a Duration, a Time, or milliseconds as an int.")


def _whole(count: int, unit: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{count!r} is no whole number; use a smaller unit, such as milliseconds.")
    return count * unit


def monotonic_due(due: float | None) -> float | None:
    """A point in processing time (seconds since 1970) on the monotonic clock, as the two stand to each other now."""
    return None if due is None else time.monotonic() + (due - time.time())


def earliest(times: Iterable[float | None]) -> float | None:
    """The first of some points in time, of which any may be missing; None if all are."""
    return min((when for when in times if when is not None), default=None)


def whole_milliseconds(time: Any) -> int:
    """The time without what a float has behind its point, as in PyFlink. Raises TypeError for what is no number."""
    return int(time) if isinstance(time, float) and isfinite(time) else int(index(time))


class TimeDomain(Enum):
    """Whether a timer fires by event time or by processing time.

    >>> TimeDomain.EVENT_TIME.name
    'EVENT_TIME'
    """

    EVENT_TIME = 0
    """By the timestamps of the records: when the watermark reaches the timer."""
    PROCESSING_TIME = 1
    """By the clock of the machine."""
