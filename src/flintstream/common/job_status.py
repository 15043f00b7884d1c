"""JobStatus: the states of a job."""

from __future__ import annotations

from enum import Enum

__all__ = ["ENDED", "JobStatus"]


class JobStatus(Enum):
    """The state of a job.

    Example::

        >>> JobStatus.FINISHED.is_terminal_state(), JobStatus.RESTARTING.is_terminal_state()
        (True, False)
    """

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Returns whether the job has ended for good: failed, canceled or finished."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Returns whether the job has ended in this process; another process may resume a suspended one."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()

    def __str__(self) -> str:
        return self.name


ENDED = frozenset(status.name for status in JobStatus if status.is_globally_terminal_state())
"""The names of the states of a job that has ended for good."""
