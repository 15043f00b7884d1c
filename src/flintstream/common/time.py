"""Durations, instants and time domains: :class:`Time`, :class:`Duration`, :class:`Instant`."""

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
    """A length of time, in nanoseconds.

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
        """Returns a duration of `days`, of 24 hours each."""
        return Duration(_whole(days, 86_400_000_000_000))

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Returns a duration of `hours`."""
        return Duration(_whole(hours, 3_600_000_000_000))

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Returns a duration of `minutes`."""
        return Duration(_whole(minutes, 60_000_000_000))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Returns a duration of `seconds`."""
        return Duration(_whole(seconds, 1_000_000_000))

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Returns a duration in milliseconds."""
        return Duration(_whole(millis, 1_000_000))

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Returns a duration in nanoseconds."""
        return Duration(_whole(nanos, 1))

    def to_millis(self) -> int:
        """Returns whole milliseconds, rounded down."""
        return self._nanos // 1_000_000

    def to_nanos(self) -> int:
        """Returns nanoseconds."""
        return self._nanos

    def to_seconds(self) -> float:
        """Returns seconds, with their fraction."""
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
    """A length of time in milliseconds, used by windows and the older parts of the API.

    Example::

        >>> str(Time.seconds(5))
        '5000 ms'
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = _whole(milliseconds, 1)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Returns a time of `milliseconds`."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Returns a time of `seconds`."""
        return Time(_whole(seconds, 1_000))

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Returns a time of `minutes`."""
        return Time(_whole(minutes, 60_000))

    @staticmethod
    def hours(hours: int) -> Time:
        """Returns a time of `hours`."""
        return Time(_whole(hours, 3_600_000))

    @staticmethod
    def days(days: int) -> Time:
        """Returns a time of `days`, of 24 hours each."""
        return Time(_whole(days, 86_400_000))

    def to_milliseconds(self) -> int:
        """Returns the length in milliseconds."""
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
        """Returns the instant a number of milliseconds after (or before) the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Returns whole milliseconds since the epoch, rounded down."""
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
    """Returns the milliseconds of a :class:`Duration`, a :class:`Time`, or an int in milliseconds."""
    if isinstance(length, Duration):
        return length.to_millis()
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, int) and not isinstance(length, bool):
        return length
    raise TypeError(f"{length!r} is not a length of time: pass a Duration, a Time, or milliseconds as an int.")


def _whole(count: int, unit: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{count!r} is not an integer; use a smaller unit, such as milliseconds.")
    return count * unit


def monotonic_due(due: float | None) -> float | None:
    """Converts a point in processing time (seconds since 1970) to the monotonic clock, by the current offset of the
    two.
    """
    return None if due is None else time.monotonic() + (due - time.time())


def earliest(times: Iterable[float | None]) -> float | None:
    """Returns the earliest of several times, any of which may be None; None if all are."""
    return min((when for when in times if when is not None), default=None)


def whole_milliseconds(time: Any) -> int:
    """Returns the time with its fraction truncated, as in PyFlink. Raises TypeError if it is not a number."""
    return int(time) if isinstance(time, float) and isfinite(time) else int(index(time))


class TimeDomain(Enum):
    """Whether a timer fires by event time or by processing time.

    >>> TimeDomain.EVENT_TIME.name
    'EVENT_TIME'
    """

    EVENT_TIME = 0
    """Event time: the timer fires when the watermark reaches it."""
    PROCESSING_TIME = 1
    """Processing time: the timer fires by the machine's clock."""
