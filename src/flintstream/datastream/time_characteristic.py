"""TimeCharacteristic: the time a program works in, as programs for older versions of Flink set it."""

from __future__ import annotations

from enum import Enum


class TimeCharacteristic(Enum):
    """The kind of time; event time always works, so a program need not choose any more.

    >>> TimeCharacteristic.EventTime.value
    2
    """

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
