"""JobMaster: owns a job. Starts its attempts, and decides what comes after each."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from flintstream.common.job_execution_result import JobExecutionResult
from flintstream.common.job_status import JobStatus
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.attempt import JobAttempt
from flintstream.jobmaster.cleanup import clean_up
from flintstream.jobmaster.control import (
    JobCancelled,
    JobControl,
    JobFailed,
    JobStopped,
    SavepointRequest,
    StopUndecided,
    promise,
)
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.errors import JobCancelledError, JobExecutionError
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.results import Collector
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator, CheckpointFailedError, OperatorInfo
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.restore import restored_operators
from flintstream.runtime.checkpoint.settings import Retention
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.storage import LocalStorage, storage_at
from flintstream.runtime.checkpoint.store import TASK_OWNED
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import Fault, engine_fault
from flintstream.runtime.stacks import frame_of, stack_of
from flintstream.spark.session import get_or_create_session, loss_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_SECONDS = 120.0
"""How long, beyond what user code has to close, a cancelled job has to end before it is left behind."""
_log = logging.getLogger(__name__)
_ENDED = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED)


class JobMaster:
    """Runs one job on a thread of its own, from CREATED to FINISHED, FAILED or CANCELED."""

    def __init__(self, graph: ExecutionGraph, settings: JobSettings, spark: SparkSession) -> None:
        self.job_id = settings.job_id
        self.settings = settings
        self.result: Future[JobExecutionResult] = promise()
        self.status = JobStatus.CREATED
        self.restarts = 0
        self.status_times: list[tuple[JobStatus, float]] = [(JobStatus.CREATED, time.time())]
        """Each status, and since when (seconds since 1970) the job had it."""
        self.progress = Progress(settings.job_name, settings.show_progress)
        self._graph = graph
        self._spark = spark
        self._keys = SigningKeys.read_if(settings.checkpoints.signing_key_file)
        self._spark_is_lost = False
        # What does not fit is refused before anything runs; what counts is read again once the job is claimed.
        self.settings.restored(graph)
        self._first: RestoredOperators | None = None
        """What the job was told to restore."""
        self._control = JobControl()
        self.checkpoints = CheckpointCoordinator(
            settings.checkpoints, str(self.job_id), settings.job_name, _operators(graph), self._control.wake, self._keys
        )
        self.checkpoints.check_storage()
        self._deliveries = Deliveries(self.progress, settings.checkpoints.enabled, lambda: self._control.cancelled)
        self._source_factory = SourceFactory(self._source_directory(), settings.checkpoints.enabled)
        self.context = JobContext(
            str(self.job_id),
            graph,
            JobDeployment.of(graph),
            settings,
            self._control,
            self.checkpoints,
            self._deliveries,
            self.progress,
            self._source_factory,
        )
        self.attempt: JobAttempt | None = None
        self.failure: str | None = None
        """Why the job has failed, in one line, if it has."""
        self._undecided: JobStopped | None = None
        """A stop of which it is not known yet whether the job's lease has it."""
        self._stopped: JobStopped | None = None
        """The savepoint with which the job stops, if it was told to. From then on it restores nothing else."""
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"job {settings.job_name}", daemon=True)
        self._concluding = threading.Lock()
        self._concluded = threading.Event()
        self._timers: list[threading.Timer] = []
        """What waits for the job to end."""

    # --- for the client ---

    def start(self) -> None:
        """Starts the job's thread."""
        self._thread.start()

    def cancel(self) -> None:
        """Asks the job to end now."""
        if self.status in (*_ENDED, JobStatus.CANCELLING):
            return
        self._control.cancel()
        if (grace := self.settings.slot_timeouts.cancellation) is not None:
            self._timers.append(_later(grace + END_SECONDS, self._leave_behind))
        if self.attempt is not None:
            self.attempt.give_up_calls("the job is cancelled")
            self.attempt.interrupt()

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Takes a savepoint below a directory, and perhaps ends the job with it."""
        place = directory or self.settings.checkpoints.savepoint_directory
        if place is None:
            raise ValueError(
                f"job '{self.settings.job_name}': no directory for the savepoint: give one, or set "
                "execution.checkpointing.savepoint-dir"
            )
        storage_at(place)  # What is no place is refused here, and not in the midst of the job.
        request = SavepointRequest(place, stop or drain, drain)
        self._control.request(request)
        if self.status in _ENDED:
            self._control.refuse_requests(self._end())
        timer = _later(self.settings.checkpoints.timeout, self.expire, request)
        request.result.add_done_callback(lambda done: timer.cancel())
        return request.result

    def expire(self, request: SavepointRequest) -> None:
        """A savepoint that is wanted has had all its time; called by a timer."""
        if request.begun.is_set() or request.result.done():
            return  # It is being taken, and times out as a checkpoint does.
        seconds, attempt = self.settings.checkpoints.timeout, self.attempt
        told = "" if attempt is None else attempt.watchdog.explain()
        if self._control.withdraw(request):
            why = told or f"the job is {self.status.name}"
            request.result.set_exception(
                CheckpointFailedError(f"the savepoint could not begin for {seconds:g} s: {why}")
            )
        elif attempt is not None and request.drain:
            attempt.fail_drain(seconds)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the job has ended."""
        self._concluded.wait(timeout)

    def collector(self, collector_id: str) -> Collector:
        """Where the records of a collecting sink arrive."""
        return self._deliveries.collector(collector_id)

    @property
    def accumulators(self) -> dict[str, Any]:
        """The accumulators' values so far."""
        values = {} if self.attempt is None else self.attempt.accumulators
        return {name: value.get_local_value() for name, value in values.items()}

    @property
    def parallelism(self) -> int:
        """The greatest number of subtasks that an operator has."""
        return max(vertex.parallelism for vertex in self._graph.job_graph.vertices)

    def _end(self) -> str:
        return f"the job is {self.status.name}" + ("" if self.failure is None else f": {self.failure}")

    # --- the job's life ---

    def _run(self) -> None:
        outcome: JobExecutionResult | BaseException
        try:
            last, outcome = self._run_attempts()
        except BaseException as error:
            last, outcome = JobStatus.FAILED, self._failure(engine_fault(error))
        steps: list[Callable[[], None]] = [
            self._source_factory.close,
            lambda: self.checkpoints.close(self._keeps_checkpoints(last), last.name),
            lambda: self.progress.end(last),
        ]
        clean_up(
            steps,
            f"job '{self.settings.job_name}' ({self.job_id}) is {last.name}; not all it has left could be removed",
        )
        self._conclude(last, outcome)

    def _conclude(self, last: JobStatus, outcome: JobExecutionResult | BaseException) -> None:
        """Tells everybody what became of the job, once."""
        if not self._concluding.acquire(blocking=False):
            return  # The job was left behind.
        failure = outcome if isinstance(outcome, BaseException) else None
        if isinstance(failure, JobExecutionError):
            self.failure = failure.fault.headline
        self._set_status(last)
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
        """A cancelled job whose thread hangs where nothing can end it, in a function of the program on the driver, say."""
        if self._concluded.is_set():
            return
        stack = stack_of(frame_of(self._thread.ident))
        _log.warning("job '%s' is cancelled, and its thread has not ended; it is at\n%s", self.settings.job_name, stack)
        if self.attempt is not None:
            self.attempt.pool.close()
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
                    # Whatever has failed: slots whose Spark tasks were cancelled say so, too.
                    self._release(JobStatus.CANCELLING)
                    return JobStatus.CANCELED, JobCancelledError(self.settings.job_name, str(self.job_id))
                fault = error.fault if isinstance(error, JobFailed) else engine_fault(error)
                if isinstance(error, StopUndecided):
                    self._undecided = error.stopped
                self._release(JobStatus.FAILING)
                fault = self._loss_of_spark() or fault
                delay = None if fault.permanent else strategy.delay()
                if delay is None:
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
            self._spark = get_or_create_session(self.settings.configuration)
            self._spark_is_lost = False
        restored = self._claim_and_read()
        attempt = self.attempt = JobAttempt(self.context, self.restarts, self._spark)
        self.progress.begin_attempt()
        attempt.start(restored)
        self._set_status(JobStatus.RUNNING)
        self.progress.phase(None)
        # After a failure behind the savepoint: what that contains was committed when the sinks were opened again.
        if self._stopped is None:
            try:
                attempt.run()
            except JobStopped as stopped:
                self._stopped = stopped
                attempt.commit(stopped.checkpoint_id)
        self.progress.phase("closing")
        attempt.finish()
        attempt.release(finished=True)
        self.checkpoints.end_attempt()

    def _release(self, status: JobStatus) -> None:
        """Ends an attempt that has failed or is cancelled."""
        self._set_status(status)
        self.progress.phase(status.name.lower())
        if self.attempt is not None:
            self.attempt.release(finished=False)
        for outcome in self.checkpoints.end_attempt():
            # A checkpoint that has become complete meanwhile: the next attempt goes on behind it.
            if outcome.completed and outcome.pending.savepoint is None:
                self._deliveries.release(outcome.pending.epoch)

    def _loss_of_spark(self) -> Fault | None:
        """Whether the attempt has failed since Spark is gone. Where it was ours, the next attempt has another."""
        loss = loss_of(self._spark)
        if loss is None:
            return None
        self._spark_is_lost = True
        job = self._graph.job_graph
        frames = [node.name for node in job.nodes.values() if getattr(node.source, "frame", None) is not None]
        summary = loss.reason
        if not loss.replaceable:
            summary += ", and with it the program's own Spark session: start the program again"
        elif frames:
            summary += f", and with it the DataFrame of source '{frames[0]}': start the program again"
        return Fault(None, None, None, "", summary, permanent=bool(frames) or not loss.replaceable)

    # --- what to restore ---

    def _claim_and_read(self) -> RestoredOperators | None:
        """Makes the job this driver's own, and only then looks for what it has to restore."""
        seconds = self.settings.checkpoints.timeout
        self._control.within(seconds, "claiming the job", self.checkpoints.begin_attempt)
        self._decide_stop()
        restored = self._control.within(seconds, "reading what to restore", self._restore_point)
        if restored is not None:
            self.checkpoints.number_behind(restored.checkpoint_id)
            # Also those of a checkpoint that has become complete after its attempt was over.
            self._deliveries.release(self.checkpoints.epoch_before(restored.checkpoint_id))
        self._deliveries.forget()
        return restored

    def _decide_stop(self) -> None:
        """A stop whose note seemed to fail: the job's lease, which is this driver's again, tells what came of it."""
        undecided, self._undecided = self._undecided, None
        if undecided is None:
            return
        if self.checkpoints.lease.stopped == undecided.location:
            self._stopped = undecided
            self._deliveries.release(undecided.epoch)
        else:
            undecided.request.result.set_exception(_not_stopped(undecided.location))

    def _restore_point(self) -> RestoredOperators | None:
        if self._stopped is not None:
            return restored_operators(self._stopped.location, self._graph, True, self._keys)
        latest = self._latest()
        if latest is None and self._first is None:
            self._first = self.settings.restored(self._graph)
        return latest or self._first

    def _latest(self) -> RestoredOperators | None:
        """The last completed checkpoint of this job."""
        latest: CheckpointMetadata | None = self.checkpoints.store.latest
        if latest is None:
            return None
        return RestoredOperators(latest.checkpoint_id, self.checkpoints.storage, latest.operators)

    def _keeps_checkpoints(self, last: JobStatus) -> bool:
        retention = self.settings.checkpoints.retention
        if last is JobStatus.CANCELED:
            return retention is Retention.RETAIN_ON_CANCELLATION
        return last is JobStatus.FAILED and retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS

    def _source_directory(self) -> str | None:
        """Where streaming DataFrames keep their positions if they are to outlive the driver: Spark must understand it."""
        storage = self.checkpoints.storage
        return os.path.join(storage.root, TASK_OWNED) if isinstance(storage, LocalStorage) else None

    def _failure(self, fault: Fault) -> JobExecutionError:
        return JobExecutionError(self.settings.job_name, str(self.job_id), fault)

    def _set_status(self, status: JobStatus) -> None:
        if self.status in _ENDED:
            return  # The job was left behind, and its thread goes on after all.
        self.status = status
        self.status_times.append((status, time.time()))


def _later(seconds: float, call: Callable[..., None], *arguments: Any) -> threading.Timer:
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    timer.start()
    return timer


def _not_stopped(savepoint: str) -> RuntimeError:
    return RuntimeError(
        f"savepoint {savepoint} is complete, but the job could not be stopped with it, since its checkpoint storage has "
        "failed: the job has been restarted from its last checkpoint, and runs on"
    )


def _not_ended(savepoint: str, error: BaseException | None) -> RuntimeError:
    told = RuntimeError(
        f"savepoint {savepoint} is complete, and the job could not be ended with it: {error}\n"
        "Restore this savepoint, and nothing older: what sinks have not committed yet is committed then."
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
