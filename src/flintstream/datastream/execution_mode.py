"""RuntimeExecutionMode: whether a program runs as a stream or as a batch."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program is run; set with `env.set_runtime_mode` or `execution.runtime-mode`.

    >>> [mode.name for mode in RuntimeExecutionMode]
    ['STREAMING', 'BATCH', 'AUTOMATIC']
    """

    STREAMING = 0
    """Results as the records come, also where the input ends."""
    BATCH = 1
    """Results at the end of the input; all sources must be bounded."""
    AUTOMATIC = 2
    """BATCH if all sources are bounded, else STREAMING."""
