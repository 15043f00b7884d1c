"""CheckpointingMode: what checkpoints guarantee after a failure."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record counts in the state after a failure.

    >>> CheckpointingMode.EXACTLY_ONCE.name
    'EXACTLY_ONCE'
    """

    EXACTLY_ONCE = 0
    """Each record is reflected exactly once in the state of all operators."""
    AT_LEAST_ONCE = 1
    """A record may be reflected more than once."""
