"""How data is exchanged in a batch program."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """Kept for programs that set it. Exchanges between levels are always Spark's.

    Example::

        >>> ExecutionMode.PIPELINED.name
        'PIPELINED'
    """

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
