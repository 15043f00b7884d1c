"""TimeDomain: which clock a timer follows; TimeCharacteristic: the time a program works in, as older programs set it."""

from __future__ import annotations

from enum import Enum

from flintstream.common.time import TimeDomain

__all__ = ["TimeCharacteristic", "TimeDomain"]


class TimeCharacteristic(Enum):
    """The kind of time; event time is always available, so programs need not set it any more.

    >>> TimeCharacteristic.EventTime.value
    2
    """

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
