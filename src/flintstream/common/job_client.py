"""JobClient: the handle of a submitted job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .completable_future import CompletableFuture
from .job_id import JobID

__all__ = ["JobClient"]


class JobClient(ABC):
    """The handle of a submitted job: its status, its result, and ways to stop it.

    Example::

        client = env.execute_async("clicks")
        client.get_job_status().result()
        client.cancel().result()
    """

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Returns the job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture:
        """Returns a future of the job's :class:`~flintstream.common.JobStatus`."""

    @abstractmethod
    def cancel(self) -> CompletableFuture:
        """Cancels the job; the future completes when it is canceled."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Takes a savepoint and stops the job gracefully; returns a future of the savepoint's path.

        :param advance_to_end_of_event_time: whether to fire all timers and windows first.
        :param savepoint_directory: the target directory; ``execution.checkpointing.savepoint-dir`` if None.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Takes a savepoint of the running job; returns a future of its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture:
        """Returns a future of the accumulators' values by name, also while the job runs."""

    @abstractmethod
    def query_state(
        self, queryable_state_name: str, key: Any, state_descriptor: Any = None, timeout: float = 10.0
    ) -> CompletableFuture:
        """Returns a future of the queryable state of a key, as `QueryableStateClient.get_kv_state` does.

        :param state_descriptor: the descriptor of the state; unless given, a state of any kind is returned.
        :param timeout: the seconds for which the query is repeated while the state is not available.
        """

    @abstractmethod
    def get_queryable_state_address(self) -> tuple[str, int] | None:
        """Returns the host and port for a `QueryableStateClient`; None if `queryable-state.enable` is not set."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture:
        """Returns a future of the :class:`~flintstream.common.JobExecutionResult`, which completes when the job ends."""
