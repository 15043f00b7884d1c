"""Job submission, and the client returned to the program."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from flintstream.common.completable_future import CompletableFuture
from flintstream.common.flint_options import JOB_ID
from flintstream.common.job_client import JobClient
from flintstream.common.job_id import JobID
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import build_job_graph
from flintstream.graph.stream_graph import StreamGraph
from flintstream.jobmaster.archive import LastArchive
from flintstream.jobmaster.control import promise
from flintstream.jobmaster.errors import show_failures_tidily
from flintstream.jobmaster.job_master import JobMaster
from flintstream.jobmaster.notes import note_begin
from flintstream.jobmaster.registry import registry
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.state_client import LocalStateClient
from flintstream.spark.ending import before_ending
from flintstream.spark.session import get_or_create_session

__all__ = ["JobSettings", "LocalJobClient", "submit"]

_log = logging.getLogger(__name__)
_running: weakref.WeakSet[JobMaster] = weakref.WeakSet()
_taken: set[str] = set()
"""The ids of the jobs of this program so far."""


def submit(stream_graph: StreamGraph, settings: JobSettings) -> LocalJobClient:
    """Starts a job and returns a client at once."""
    graph = ExecutionGraph(build_job_graph(stream_graph))
    spark = get_or_create_session(settings.configuration, graph.slots_count)
    job_id = _free_id(settings)
    master = JobMaster(graph, settings, spark, job_id)
    _taken.add(str(job_id))
    show_failures_tidily()
    if not _running:
        # Registered after Spark's own handler, so that it runs first: jobs end while Spark is still available.
        atexit.unregister(_cancel_all)
        atexit.register(_cancel_all)
        before_ending(_end_at_once)
    _running.add(master)
    note_begin(str(master.job_id), settings)
    master.start()
    registry.register(master)
    return LocalJobClient(master)


def _free_id(settings: JobSettings) -> JobID:
    """Returns the configured id for the first job of this program that has it, and a new one for others: two jobs must not
    share checkpoints, and what is known of the first must not be overwritten by the second.
    """
    job_id = settings.job_id
    if str(job_id) not in _taken:
        return job_id
    new = JobID()
    _log.warning(
        "job '%s' gets the id %s, since another job of this program has had the %s %s",
        settings.job_name,
        new,
        JOB_ID.key,
        job_id,
    )
    return new


def _cancel_all() -> None:
    """Cancels all jobs when the program ends."""
    masters = [master for master in _running if not master.result.done()]
    for master in masters:
        master.cancel()
    for master in masters:
        master.join(10.0)
    registry.close()


def _end_at_once() -> None:
    """Kills the slots on this machine when a signal ends this process, so that they stop writing."""
    masters = list(_running)
    last = LastArchive(masters)
    for master in masters:
        for process in [] if master.attempt is None else master.attempt.pool.local_processes:
            process.kill()
    last.wait()
    registry.remove_files()


class LocalJobClient(JobClient):
    """The client of a job whose JobMaster runs in this process."""

    def __init__(self, master: JobMaster) -> None:
        self.master = master
        """What runs the job: for tests and benchmarks that look closer than a client does."""

        self._states = LocalStateClient(master.queryable)

    def get_job_id(self) -> JobID:
        return self.master.job_id

    def query_state(
        self, queryable_state_name: str, key: Any, state_descriptor: Any = None, timeout: float = 10.0
    ) -> CompletableFuture:
        return self._states.query(queryable_state_name, key, state_descriptor, timeout)

    def get_queryable_state_address(self) -> tuple[str, int] | None:
        listener = self.master.state_listener
        return None if listener is None else (listener.host, listener.port)

    def get_job_status(self) -> CompletableFuture:
        return CompletableFuture.completed(self.master.status)

    def get_accumulators(self) -> CompletableFuture:
        return CompletableFuture.completed(self.master.accumulators)

    def get_job_execution_result(self) -> CompletableFuture:
        return CompletableFuture(self.master.result)

    def cancel(self) -> CompletableFuture:
        done = promise()

        def wait() -> None:
            self.master.cancel()
            self.master.join()
            done.set_result(None)

        threading.Thread(target=wait, name="cancel", daemon=True).start()
        return CompletableFuture(done)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        return CompletableFuture(self.master.savepoint(savepoint_directory, True, advance_to_end_of_event_time))

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Takes a savepoint and cancels the job; the future returns the savepoint's directory."""
        taken = self.master.savepoint(savepoint_directory)
        done = promise()

        def wait() -> None:
            try:
                location = taken.result()
                self.master.cancel()
                self.master.join()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(location)

        threading.Thread(target=wait, name="cancel", daemon=True).start()
        return CompletableFuture(done)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        return CompletableFuture(self.master.savepoint(savepoint_directory))

    def iterate(self, collector_id: str) -> Iterator[Any]:
        """Yields the records of a collecting sink as they arrive."""
        return iter(self.master.collector(collector_id))

    def abandon(self, collector_id: str) -> None:
        """Tells the job that these records are no longer read."""
        self.master.collector(collector_id).abandon()
