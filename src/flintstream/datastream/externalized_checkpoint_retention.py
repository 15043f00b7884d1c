"""ExternalizedCheckpointRetention: whether checkpoints are kept when a job is cancelled."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Whether a job's checkpoints are kept when it is cancelled; after a failure they are always kept.

    >>> ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION.name
    'RETAIN_ON_CANCELLATION'
    """

    DELETE_ON_CANCELLATION = 0
    """Checkpoints are deleted with the job."""
    RETAIN_ON_CANCELLATION = 1
    """Checkpoints are kept, and a job can be restored from them."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Checkpoints serve recovery only, and are deleted when the job ends."""
