"""What one can ask of a submitted job."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .completable_future import CompletableFuture
from .job_id import JobID

__all__ = ["JobClient"]


class JobClient(ABC):
    """A job that has been submitted: its state, its end, and ways to end it.

    Example::

        client = env.execute_async("clicks")
        client.get_job_status().result()
        client.cancel().result()
    """

    @abstractmethod
    def get_job_id(self) -> JobID:
        """The job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture:
        """A future with the job's :class:`~flintstream.common.JobStatus`."""

    @abstractmethod
    def cancel(self) -> CompletableFuture:
        """Cancel the job; the future completes when it is canceled."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Take a savepoint and end the job gracefully; a future with the savepoint's path.

        :param advance_to_end_of_event_time: whether all timers and windows fire first.
        :param savepoint_directory: where to; ``execution.checkpointing.savepoint-dir`` if None.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Take a savepoint of the running job; a future with its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture:
        """A future with the accumulators' values by name; it can be asked while the job runs."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture:
        """A future with the :class:`~flintstream.common.JobExecutionResult`, once the job has ended."""
