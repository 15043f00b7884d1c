"""RuntimeExecutionMode: whether a program runs in streaming or in batch mode."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """The execution mode of a program; set with `env.set_runtime_mode` or `execution.runtime-mode`.

    >>> [mode.name for mode in RuntimeExecutionMode]
    ['STREAMING', 'BATCH', 'AUTOMATIC']
    """

    STREAMING = 0
    """Emits results as records arrive, even for bounded input."""
    BATCH = 1
    """Emits results at the end of the input; all sources must be bounded."""
    AUTOMATIC = 2
    """BATCH if all sources are bounded, else STREAMING."""
