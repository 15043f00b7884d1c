"""ExternalizedCheckpointRetention: what becomes of checkpoints when a job is cancelled."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What becomes of a job's checkpoints when it is cancelled; after a failure they are kept.

    >>> ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION.name
    'RETAIN_ON_CANCELLATION'
    """

    DELETE_ON_CANCELLATION = 0
    """They are deleted with the job."""
    RETAIN_ON_CANCELLATION = 1
    """They stay, and a job can be started from them."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Checkpoints serve recovery only, and are deleted when the job ends."""
