"""TimeDomain: which clock a timer follows."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """Whether a timer fires by event time or by processing time.

    >>> TimeDomain.EVENT_TIME.name
    'EVENT_TIME'
    """

    EVENT_TIME = 0
    """By the timestamps of the records: when the watermark reaches the timer."""
    PROCESSING_TIME = 1
    """By the clock of the machine."""
