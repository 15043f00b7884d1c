"""JobMaster: owns a job. Runs its attempts, and decides how to continue after each."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from flintstream.common.job_execution_result import JobExecutionResult
from flintstream.common.job_id import JobID
from flintstream.common.job_status import JobStatus
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.archive import archive, wait_if_ended
from flintstream.jobmaster.attempt import JobAttempt
from flintstream.jobmaster.cleanup import clean_up
from flintstream.jobmaster.control import (
    CheckpointRequest,
    JobCancelled,
    JobControl,
    JobFailed,
    JobStopped,
    Request,
    SavepointRequest,
    StopUndecided,
    promise,
)
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.errors import JobCancelledError, JobExecutionError
from flintstream.jobmaster.executions import CANCELED, CANCELING, FINISHED, RUNNING, Executions
from flintstream.jobmaster.failures import FailureHistory
from flintstream.jobmaster.flame_graphs import FlameGraphs
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.notes import note_end
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.jobmaster.reporting import collect_details
from flintstream.jobmaster.results import Collector
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.jobmaster.state_listener import StateListener
from flintstream.jobmaster.statistics import JobStatistics
from flintstream.metrics.reporters import Reporters, reporter_settings
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator, CheckpointFailedError, OperatorInfo
from flintstream.runtime.checkpoint.lease import STOPPED
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.restore import restored_operators
from flintstream.runtime.checkpoint.settings import Retention
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.storage import LocalStorage, storage_at
from flintstream.runtime.checkpoint.store import TASK_OWNED, newest_entry
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import Fault, engine_fault
from flintstream.runtime.stacks import frame_of, stack_of
from flintstream.spark.session import get_or_create_session, loss_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintstream.jobmaster.query_connections import QueryConnections
    from flintstream.spark.slots import SlotPool

END_SECONDS = 120.0
"""How long a cancelled job may take to end, beyond the time for user code to close, before it is abandoned."""
_log = logging.getLogger(__name__)


class JobMaster:
    """Runs one job on its own thread, from CREATED to FINISHED, FAILED or CANCELED."""

    def __init__(
        self, graph: ExecutionGraph, settings: JobSettings, spark: SparkSession, job_id: JobID | None = None
    ) -> None:
        self.job_id = job_id or settings.job_id
        self.settings = settings
        self.result: Future[JobExecutionResult] = promise()
        self.status = JobStatus.CREATED
        self.restarts = 0
        self.status_times: list[tuple[JobStatus, float]] = [(JobStatus.CREATED, time.time())]
        """Each status, and when (seconds since 1970) the job reached it."""
        self.progress = Progress(settings.job_name, settings.show_progress)
        self._graph = graph
        self._spark = spark
        self._keys = SigningKeys.read_if(settings.checkpoints.signing_key_file)
        self._spark_is_lost = False
        # Refuses a checkpoint that does not fit before anything runs; it is read again once the job is claimed.
        self._start_point()
        self._first: RestoredOperators | None = None
        """The checkpoint or savepoint the job was started from."""
        self._control = JobControl()
        self.checkpoints = CheckpointCoordinator(
            settings.checkpoints, str(self.job_id), settings.job_name, _operators(graph), self._control.wake, self._keys
        )
        self.checkpoints.history.remembered = settings.checkpoints_remembered
        self.checkpoints.check_storage()
        self._deliveries = Deliveries(self.progress, settings.checkpoints.enabled, lambda: self._control.cancelled)
        self._source_factory = SourceFactory(self._source_directory(), settings.checkpoints.enabled)
        deployment = JobDeployment.of(graph)
        self.statistics = JobStatistics(graph, deployment, self._state_size)
        self.queryable = QueryableStates(
            graph, str(self.job_id), settings.queryable_state.enabled, lambda: self.status, self._query_connections
        )
        self.state_listener: StateListener | None = None
        """Where clients query state, if that is enabled and the job has started."""
        self.context = JobContext(
            str(self.job_id),
            graph,
            deployment,
            settings,
            self._control,
            self.checkpoints,
            self._deliveries,
            self.progress,
            self._source_factory,
            Executions(graph),
            self.statistics,
            self.queryable,
        )
        self.failures = FailureHistory(graph, settings.failures_remembered)
        self.flame_graphs = FlameGraphs(graph, self._pool, settings.flame_graph_seconds)
        self.attempt: JobAttempt | None = None
        self.failure: str | None = None
        """Why the job has failed, in one line, if it has."""
        self._undecided: JobStopped | None = None
        """A stop that may or may not be recorded in the job's lease."""
        self._stopped: JobStopped | None = None
        """The savepoint with which the job stops, if requested. From then on nothing else is restored."""
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"job {settings.job_name}", daemon=True)
        self._concluding = threading.Lock()
        self._concluded = threading.Event()
        self._timers: list[threading.Timer] = []
        """The futures that wait for the job to end."""
        self.reporters = Reporters(
            reporter_settings(settings.configuration), settings.job_name, lambda: collect_details(self)
        )
        self._source_factory.hold(graph.job_graph)

    # --- for the client ---

    def start(self) -> None:
        """Starts the job's thread."""
        if self.settings.queryable_state.enabled:
            self.state_listener = StateListener(self.settings.queryable_state, self.queryable)
        self.reporters.start()
        self._thread.start()

    def cancel(self) -> None:
        """Cancels the job."""
        if self.status.is_globally_terminal_state() or self.status is JobStatus.CANCELLING:
            return
        self._control.cancel()
        if (grace := self.settings.slot_timeouts.cancellation) is not None:
            self._timers.append(_later(grace + END_SECONDS, self._leave_behind))
        if self.attempt is not None:
            self.attempt.give_up_calls("the job is cancelled")
            self.attempt.interrupt()

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Takes a savepoint below a directory, and ends the job with it if requested."""
        place = directory or self.settings.checkpoints.savepoint_directory
        if place is None:
            raise ValueError(
                f"job '{self.settings.job_name}': no directory for the savepoint: specify one, or set "
                "execution.checkpointing.savepoint-dir"
            )
        storage_at(place)  # An invalid location is refused here, not in the middle of the job.
        request = SavepointRequest(place, stop or drain, drain)
        self._ask_for(request)
        return request.result

    def checkpoint(self) -> Future[int]:
        """Takes a checkpoint now; the future returns its number."""
        if not self.settings.checkpoints.enabled:
            raise ValueError(
                f"job '{self.settings.job_name}': checkpoints are disabled: set execution.checkpointing.interval"
            )
        request = CheckpointRequest()
        self._ask_for(request)
        return request.result

    def _ask_for(self, request: Request) -> None:
        self._control.request(request)
        if self.status.is_globally_terminal_state():
            self._control.refuse_requests(self._end())
        timer = _later(self.settings.checkpoints.timeout, self.expire, request)
        request.result.add_done_callback(lambda done: timer.cancel())

    def expire(self, request: Request) -> None:
        """A checkpoint or savepoint that is wanted has had all its time; called by a timer."""
        if request.begun.is_set() or request.result.done():
            return  # It is being taken, and times out like a checkpoint.
        seconds, attempt = self.settings.checkpoints.timeout, self.attempt
        told = "" if attempt is None else attempt.watchdog.explain()
        if self._control.withdraw(request):
            why = told or f"the job is {self.status.name}"
            request.result.set_exception(
                CheckpointFailedError(f"the {request.kind} could not start for {seconds:g} s: {why}")
            )
        elif attempt is not None and isinstance(request, SavepointRequest) and request.drain:
            attempt.fail_drain(seconds)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the job has ended."""
        self._concluded.wait(timeout)

    def collector(self, collector_id: str) -> Collector:
        """Returns the collector of a collecting sink."""
        return self._deliveries.collector(collector_id)

    @property
    def accumulators(self) -> dict[str, Any]:
        """Returns the current values of the accumulators."""
        values = {} if self.attempt is None else self.attempt.accumulators
        return {name: value.get_local_value() for name, value in values.items()}

    @property
    def parallelism(self) -> int:
        """Returns the greatest parallelism of the operators."""
        return max(vertex.parallelism for vertex in self._graph.job_graph.vertices)

    def _state_size(self) -> int:
        """Returns the bytes that a restore from the last checkpoint reads; 0 before the first."""
        taken = self.checkpoints.statistics
        return taken[-1].all_bytes if taken else 0

    def _end(self) -> str:
        return f"the job is {self.status.name}" + ("" if self.failure is None else f": {self.failure}")

    # --- the job's life ---

    def _run(self) -> None:
        outcome: JobExecutionResult | BaseException
        try:
            last, outcome = self._run_attempts()
        except BaseException as error:
            last, outcome = JobStatus.FAILED, self._failure(engine_fault(error))
        # Everything is committed: from here on a driver that is gone has done its work.
        clean_up([lambda: note_end(str(self.job_id), last.name)], f"job '{self.settings.job_name}': its end")
        steps: list[Callable[[], None]] = [
            self._source_factory.close,
            lambda: self.checkpoints.close(self._keeps_checkpoints(last), last.name),
            lambda: self.progress.end(last),
            self.reporters.close,
            self._stop_listening,
        ]
        clean_up(
            steps,
            f"job '{self.settings.job_name}' ({self.job_id}) is {last.name}, but not all its files could be removed",
        )
        self._conclude(last, outcome)

    def _conclude(self, last: JobStatus, outcome: JobExecutionResult | BaseException) -> None:
        """Publishes the end of the job, once."""
        if not self._concluding.acquire(blocking=False):
            return  # The job was abandoned.
        failure = outcome if isinstance(outcome, BaseException) else None
        if isinstance(failure, JobExecutionError):
            self.failure = failure.fault.headline
        self._set_status(last)
        archive(self)
        if self._stopped is not None and failure is None:
            self._stopped.request.result.set_result(self._stopped.location)
        elif self._stopped is not None:
            self._stopped.request.result.set_exception(_not_ended(self._stopped.location, failure))
        if self._undecided is not None and not self._undecided.request.result.done():
            self._undecided.request.result.set_exception(_not_ended(self._undecided.location, failure))
        self._control.refuse_requests(self._end())
        if failure is None:
            self.result.set_result(outcome)  # type: ignore[arg-type]
        else:
            self.result.set_exception(failure)
        self._deliveries.end(failure)
        self._concluded.set()
        for timer in self._timers:
            timer.cancel()

    def _leave_behind(self) -> None:
        """Abandons a cancelled job whose thread hangs, for example in a user function on the driver."""
        if self._concluded.is_set():
            return
        stack = stack_of(frame_of(self._thread.ident))
        _log.warning("job '%s' is cancelled, but its thread has not ended; it is at\n%s", self.settings.job_name, stack)
        if self.attempt is not None:
            self.attempt.pool.close()
        self.reporters.close()
        self._stop_listening()
        self._conclude(JobStatus.CANCELED, JobCancelledError(self.settings.job_name, str(self.job_id)))

    def _run_attempts(self) -> tuple[JobStatus, JobExecutionResult | BaseException]:
        strategy = self.settings.restart_strategy()
        while True:
            try:
                self._run_attempt()
                runtime = int((time.monotonic() - self._started) * 1000)
                return JobStatus.FINISHED, JobExecutionResult(self.job_id, runtime, self.accumulators)
            except BaseException as error:
                if self._control.cancelled:
                    # Whatever the failure: slots whose Spark tasks were cancelled report failures too.
                    self._release(JobStatus.CANCELLING)
                    return JobStatus.CANCELED, JobCancelledError(self.settings.job_name, str(self.job_id))
                fault = error.fault if isinstance(error, JobFailed) else engine_fault(error)
                self.context.executions.fail(self.failures.vertex_of(fault), fault.subtask, fault.slot)
                if isinstance(error, StopUndecided):
                    self._undecided = error.stopped
                self._release(JobStatus.FAILING)
                lost = self._loss_of_spark()
                fault = lost or fault
                self.failures.add(fault, self.restarts, self._host_of(fault))
                delay = None if fault.permanent else strategy.delay()
                if delay is None:
                    if lost is not None or fault.slot is not None:
                        wait_if_ended(fault)
                    return JobStatus.FAILED, self._failure(fault)
            self._set_status(JobStatus.RESTARTING)
            self.restarts += 1
            self.progress.restarts(self.restarts, fault, delay)
            try:
                self._control.pause(delay)
            except JobCancelled:
                self._set_status(JobStatus.CANCELLING)
                return JobStatus.CANCELED, JobCancelledError(self.settings.job_name, str(self.job_id))

    def _run_attempt(self) -> None:
        self._control.begin_attempt()
        if self._spark_is_lost:
            self._spark = get_or_create_session(self.settings.configuration, self._graph.slots_count)
            self._spark_is_lost = False
        self.context.executions.begin_attempt(self.restarts)
        self.checkpoints.history.attempt = self.restarts
        restored = self._claim_and_read()
        attempt = self.attempt = JobAttempt(self.context, self.restarts, self._spark)
        self.queryable.begin_attempt()
        self.progress.begin_attempt()
        self.statistics.begin_attempt()
        attempt.start(restored)
        self.context.executions.enter(RUNNING)
        self._set_status(JobStatus.RUNNING)
        self.progress.phase(None)
        # After a failure following the savepoint: its records were committed when the sinks were opened again.
        if self._stopped is None:
            try:
                attempt.run()
            except JobStopped as stopped:
                self._stopped = stopped
                attempt.commit(stopped.checkpoint_id)
        self.progress.phase("closing")
        attempt.finish()
        attempt.release(finished=True)
        self.context.executions.enter(FINISHED)
        self.statistics.end_attempt()
        self.checkpoints.end_attempt()

    def _release(self, status: JobStatus) -> None:
        """Ends an attempt that has failed or is cancelled."""
        self._set_status(status)
        self.context.executions.enter(CANCELING)
        self.progress.phase(status.name.lower())
        if self.attempt is not None:
            self.attempt.release(finished=False)
        self.context.executions.enter(CANCELED)
        self.statistics.end_attempt()
        for outcome in self.checkpoints.end_attempt():
            # A checkpoint that has completed in the meantime: the next attempt restores it.
            if outcome.completed and outcome.pending.savepoint is None:
                self._deliveries.deliver_up_to(outcome.pending.epoch)

    def _pool(self) -> SlotPool | None:
        """Returns the slots, while the job runs."""
        return None if self.attempt is None or self.status is not JobStatus.RUNNING else self.attempt.pool

    def _query_connections(self) -> QueryConnections | None:
        """Returns how to ask the slots for their state, while the job runs."""
        return None if self.attempt is None or self.status is not JobStatus.RUNNING else self.attempt.queries

    def _stop_listening(self) -> None:
        if self.state_listener is not None:
            self.state_listener.close()

    def _host_of(self, fault: Fault) -> str | None:
        """Returns the machine of the slot at fault, if it is known."""
        slots = [] if self.attempt is None or fault.slot is None else self.attempt.pool.handles
        return next((each.host for each in slots if each.slot == fault.slot), None)

    def _loss_of_spark(self) -> Fault | None:
        """Returns whether the attempt failed because Spark is lost. If it was our own, the next attempt starts a new
        one.
        """
        loss = loss_of(self._spark)
        if loss is None:
            return None
        self._spark_is_lost = True
        job = self._graph.job_graph
        frames = [node.name for node in job.nodes.values() if getattr(node.source, "frame", None) is not None]
        summary = loss.reason
        if not loss.replaceable:
            summary += ", and with it the program's own Spark session: restart the program"
        elif frames:
            summary += f", and with it the DataFrame of source '{frames[0]}': restart the program"
        return Fault(None, None, None, "", summary, permanent=bool(frames) or not loss.replaceable)

    # --- what to restore ---

    def _claim_and_read(self) -> RestoredOperators | None:
        """Claims the job, and only then reads the checkpoint to restore."""
        seconds = self.settings.checkpoints.timeout
        self._control.within(seconds, "claiming the job", self.checkpoints.begin_attempt)
        self._decide_stop()
        restored = self._control.within(seconds, "reading what to restore", self._restore_point)
        if restored is not None:
            self.checkpoints.skip_numbers_up_to(restored.checkpoint_id)
            self.checkpoints.history.restore(restored.checkpoint_id, restored.savepoint, restored.location)
            # Including those of a checkpoint that completed after its attempt had ended.
            self._deliveries.deliver_up_to(self.checkpoints.last_epoch_in(restored.checkpoint_id))
        self._deliveries.forget()
        return restored

    def _decide_stop(self) -> None:
        """Resolves a stop whose recording seemed to fail: the job's lease, which this driver owns again, has the
        answer.
        """
        undecided, self._undecided = self._undecided, None
        if undecided is None:
            return
        if self.checkpoints.lease.stopped == undecided.location:
            self._stopped = undecided
            self._deliveries.deliver_up_to(undecided.epoch)
        else:
            undecided.request.result.set_exception(_not_stopped(undecided.location))

    def _restore_point(self) -> RestoredOperators | None:
        if self._stopped is not None:
            return restored_operators(self._stopped.location, self._graph, True, self._keys)
        latest = self._latest()
        if latest is None and self._first is None:
            self._first, stopped = self._start_point()
            if stopped is not None:
                self._stopped = stopped
        return latest or self._first

    def _start_point(self) -> tuple[RestoredOperators | None, JobStopped | None]:
        """Returns what the first attempt restores, and the stop of an earlier driver that it has to complete."""
        settings = self.settings.checkpoints
        if self.settings.recover and settings.directory is not None:
            storage = storage_at(settings.directory, settings.permissions).at(str(self.job_id))
            newest = newest_entry(storage)
            if newest is not None:
                restored = restored_operators(storage.root, self._graph, True, self._keys)
                if newest.kind != STOPPED:
                    return restored, None
                place = str(newest.savepoint)
                return restored, JobStopped(SavepointRequest(place, stop=True), place, restored.checkpoint_id)
        return self.settings.restored(self._graph), None

    def _latest(self) -> RestoredOperators | None:
        """Returns the last completed checkpoint of this job."""
        latest: CheckpointMetadata | None = self.checkpoints.store.latest
        if latest is None:
            return None
        location = self.checkpoints.store.location(latest)
        return RestoredOperators(latest.checkpoint_id, self.checkpoints.storage, latest.operators, location=location)

    def _keeps_checkpoints(self, last: JobStatus) -> bool:
        retention = self.settings.checkpoints.retention
        if last is JobStatus.CANCELED:
            return retention is Retention.RETAIN_ON_CANCELLATION
        return last is JobStatus.FAILED and retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS

    def _source_directory(self) -> str | None:
        """Returns where streaming DataFrames store their positions if they are to outlive the driver: a location that
        Spark can access.
        """
        storage = self.checkpoints.storage
        return os.path.join(storage.root, TASK_OWNED) if isinstance(storage, LocalStorage) else None

    def _failure(self, fault: Fault) -> JobExecutionError:
        return JobExecutionError(self.settings.job_name, str(self.job_id), fault)

    def _set_status(self, status: JobStatus) -> None:
        if self.status.is_globally_terminal_state():
            return  # The job was abandoned, but its thread continues after all.
        self.status = status
        self.status_times.append((status, time.time()))


def _later(seconds: float, call: Callable[..., None], *arguments: Any) -> threading.Timer:
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    timer.start()
    return timer


def _not_stopped(savepoint: str) -> RuntimeError:
    return RuntimeError(
        f"savepoint {savepoint} is complete, but the job could not be stopped with it, since its checkpoint storage "
        "failed: the job was restarted from its last checkpoint and continues"
    )


def _not_ended(savepoint: str, error: BaseException | None) -> RuntimeError:
    told = RuntimeError(
        f"savepoint {savepoint} is complete, but the job could not be stopped with it: {error}\n"
        "Restore this savepoint, and nothing older: sinks then commit what is still pending."
    )
    told.__cause__ = error
    return told


def _operators(graph: ExecutionGraph) -> dict[str, OperatorInfo]:
    job = graph.job_graph
    return {
        node.operator_id: OperatorInfo(node.name, node.uid, vertex.parallelism, vertex.max_parallelism)
        for vertex in job.vertices
        for node in (job.nodes[node_id] for node_id in vertex.node_ids)
    }
