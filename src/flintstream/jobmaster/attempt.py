"""JobAttempt: one attempt to run a job, from the start of its slots to the end of its sources or the first failure."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.common.time import earliest, monotonic_due
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.jobmaster.cleanup import clean_up
from flintstream.jobmaster.control import (
    JobCancelled,
    JobControl,
    JobFailed,
    JobStopped,
    SavepointRequest,
    StopUndecided,
)
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.sizing import EpochSizer
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.jobmaster.watchdog import Diagnosis, Watchdog
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator, Outcome, Pending
from flintstream.runtime.checkpoint.lease import LeaseLostError
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.reports import SnapshotDone, SnapshotFailed
from flintstream.runtime.checkpoint.restore import share_of
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import Fault, engine_fault, user_fault
from flintstream.runtime.operators.sinks import SparkWriterOperator
from flintstream.runtime.slot.protocol import EpochReport
from flintstream.runtime.slot.user_code import pickle_operators
from flintstream.spark.encryption import is_encrypted
from flintstream.spark.epoch import EpochRunner
from flintstream.spark.slots import SlotError, SlotPool
from flintstream.spark.spool_frame import spool_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobAttempt:
    """Slots, sources and epochs of one attempt. All of it is used by the job's own thread."""

    def __init__(
        self,
        job_id: str,
        number: int,
        graph: ExecutionGraph,
        deployment: JobDeployment,
        settings: JobSettings,
        spark: SparkSession,
        control: JobControl,
        coordinator: CheckpointCoordinator,
        deliveries: Deliveries,
        progress: Progress,
        source_factory: SourceFactory,
    ) -> None:
        self._job_id = job_id
        self._number = number
        self._graph = graph
        self._deployment = deployment
        self._settings = settings
        self._spark = spark
        self._control = control
        self._coordinator = coordinator
        self._deliveries = deliveries
        self._progress = progress
        self._source_factory = source_factory
        self.pool: SlotPool | None = None
        self.watchdog: Watchdog | None = None
        self._runner: EpochRunner | None = None
        self._sources: dict[str, SourceCoordinator] = {}
        """By operator id."""
        self._alignment = AlignmentGroups.of(graph)
        self._writers = [
            node.operator for node in graph.job_graph.nodes.values() if isinstance(node.operator, SparkWriterOperator)
        ]
        self._commits = any(node.operator.commits for node in graph.job_graph.nodes.values())
        self._sizer = EpochSizer(settings.epoch_seconds)
        self.epoch = 0
        self._draining = False
        self._over = False
        self._read_before: dict[tuple[int, int], int] = {}
        self._slots_due: float | None = 0.0
        """When slots want an epoch, in processing time (seconds since 1970)."""
        self._epoch_started = 0.0
        self.accumulators: dict[str, Any] = {}

    # --- start and end ---

    def start(self, restored: RestoredOperators | None) -> None:
        """Starts the slots with their operators, and the sources where a checkpoint has left them."""
        graph = self._graph
        pool = self.pool = SlotPool(
            self._spark,
            self._job_id,
            self._number,
            graph.slots_count,
            self._control.data_ready,
            self._on_failure,
            self._settings.python_executable,
            self._on_message,
            is_encrypted(self._settings.configuration),
            self._settings.slot_timeouts,
        )
        self._control.check()  # Whoever cancels from now on finds the pool.
        count = graph.slots_count
        self._progress.phase(f"starting {count} slot{'' if count == 1 else 's'}")
        pool.start()
        self._control.check()
        self._progress.phase(
            "opening functions" if restored is None else f"restoring checkpoint {restored.checkpoint_id}"
        )
        self.watchdog = Watchdog(
            self._settings.job_name, pool, self._coordinator, self._settings.slot_timeouts, self._on_failure
        )
        self.watchdog.start()
        info, user_code = self._settings.for_slots(self._job_id, self._number, pool.local)
        if restored is not None:
            self._check_lease()  # Sinks that are opened commit what waited in the checkpoint.
        self._call(
            "deploy",
            arguments=lambda slot: {
                "job": info,
                "user_code": user_code,
                "operators": pickle_operators(self._deployment.hosted_by(slot)),
                "restored": None if restored is None else share_of(restored, self._deployment.hosted_by(slot)),
            },
        )
        self._runner = EpochRunner(
            self._spark,
            self._job_id,
            self._number,
            [frozenset(vertex.id for vertex in level) for level in graph.levels],
            [1 + max(graph.slot(vertex.id, vertex.parallelism - 1) for vertex in level) for level in graph.levels],
            pool.access,
        )
        if restored is not None:
            self._write_staged(restored.checkpoint_id)
        self._start_sources(restored)

    def _start_sources(self, restored: RestoredOperators | None) -> None:
        graph = self._graph
        for vertex in graph.job_graph.vertices:
            head = graph.job_graph.nodes[vertex.head_id]
            if head.kind != "source":
                continue
            source = self._sources[head.operator_id] = self._source_factory.make(
                vertex.id,
                head.name,
                head.operator_id,
                tuple(graph.slot(vertex.id, subtask) for subtask in range(vertex.parallelism)),
                head.source,
                self._control.data_ready,
                lambda error: self._on_failure(engine_fault(error)),
            )
            before = None if restored is None else restored.operators.get(head.operator_id)
            if before is not None and before.source is not None:
                source.resume(pickle.loads(before.source))
        for source in self._sources.values():
            source.start()

    def _on_failure(self, fault: Fault) -> None:
        """Something of this attempt has failed; on a thread of the pool or of a source."""
        if not self._over:
            self._control.fail(fault)
            self.give_up_calls(fault.summary)
            threading.Thread(target=self.interrupt, daemon=True).start()

    def interrupt(self) -> None:
        """Ends what runs; may be called from any thread."""
        if self._runner is not None:
            self._runner.cancel()
        if self.pool is not None:
            self.pool.interrupt()

    def fail_drain(self, seconds: float) -> None:
        """The last epoch, before a savepoint for which the job was drained, does not end; on a thread of a timer."""
        if self.pool is not None and not self._over:
            why = f"the job was drained, and its savepoint could not begin for {seconds:g} s"
            self._on_failure(Diagnosis(self.pool).fault(why))

    def give_up_calls(self, why: str) -> None:
        """Ends the waiting for slots: a user function may never return, and its slot never answer.

        Not when the attempt ends already: slots have a moment then to close their operators.
        """
        if self.pool is not None and not self._over:
            self.pool.give_up_calls(why)

    def finish(self) -> None:
        """The job is done: closes all operators, and takes their last results."""
        self._take_results(self._call("close"))
        self._deliveries.release(self.epoch)

    def release(self, finished: bool) -> None:
        """Leaves nothing running. What is still told of this attempt is not the next one's concern.

        Once: the next attempt may fail before it exists, and the job then ends this one again.
        """
        if self._over:
            return
        self._over = True
        if self.watchdog is not None:
            self.watchdog.end()
        pool = self.pool
        steps: list[Callable[[], None]] = [source.close for source in self._sources.values()]
        if not finished:
            steps.insert(0, self.interrupt)
        if pool is not None and not finished:
            # The job's own failure is what counts, and the slots are ended in any case.
            steps.append(lambda: pool.tell_all("close", self._settings.slot_timeouts.cancellation))
        if pool is not None:
            steps.append(pool.close)
        # A query that cannot be stopped, say, keeps neither slots alive nor the job from its restart.
        clean_up(steps, f"job {self._job_id}: not all of its attempt {self._number} could be ended")

    # --- epochs ---

    def run(self) -> None:
        """Runs epochs and takes checkpoints until the sources have ended."""
        finished = False
        while not finished:
            epoch_is_due = self._control.wait(
                self._next_due,
                self._epoch_started + self._settings.least_epoch_seconds,
                lambda: self._coordinator.next_due(self.epoch),
            )
            self._tend_checkpoints()
            if epoch_is_due:
                finished = self._one_epoch()
        self._last_checkpoint()

    def _one_epoch(self) -> bool:
        self._epoch_started = time.monotonic()
        self._progress.begin_epoch()
        reports = self._run_epoch()
        self._take_results(reports)
        self._slots_due = earliest([self._alignment.next_due(), *(report.next_due for report in reports)])
        if self._deliveries.hold_much or any(source.waits_for_checkpoint for source in self._sources.values()):
            self._coordinator.hurry()
        return self._finished(reports)

    def _next_due(self) -> float | None:
        with self._waiting("looking for splits"):
            return earliest([monotonic_due(self._slots_due), *(source.next_due() for source in self._sources.values())])

    def _finished(self, reports: list[EpochReport]) -> bool:
        """Whether the job is done: the end of the sources reaches every vertex in the very epoch in which they end."""
        vertices = [vertex for report in reports for vertex in report.vertices]
        source_ids = {source.vertex_id for source in self._sources.values()}
        if not all(vertex.finished for vertex in vertices if vertex.vertex_id in source_ids):
            return False
        waiting = {vertex.vertex_id for vertex in vertices if not vertex.finished}
        if waiting:
            names = ", ".join(f"'{self._graph.job_graph.vertices[vertex_id].name}'" for vertex_id in sorted(waiting))
            raise _failed(f"epoch {self.epoch}: the sources have ended, and their end has not reached {names}")
        return True

    def _run_epoch(self) -> list[EpochReport]:
        self.epoch += 1
        with self._waiting(f"epoch {self.epoch}"):
            return self._process_epoch()

    def _process_epoch(self) -> list[EpochReport]:
        assert self._runner is not None
        started = time.perf_counter()
        self._control.begin_epoch()
        limit = self._sizer.limit
        work = {
            source.vertex_id: replace(
                source.work(limit),
                seconds=self._settings.epoch_seconds,
                aligned_to=self._alignment.limit(source.vertex_id),
                drain=self._draining,
            )
            for source in self._sources.values()
        }
        readers = [frame for frame in (source.reader() for source in self._sources.values()) if frame is not None]
        self._call("begin_epoch", arguments=lambda slot: {"epoch": self.epoch, "sources": work})
        try:
            self._runner.run(self.epoch, readers)
        except Exception as error:
            self._control.raise_cause(error)
        reports: list[EpochReport] = self._call("end_epoch")
        self._control.check()
        self._verify(reports)
        seconds = time.perf_counter() - started
        self._account(reports, seconds)
        return reports

    def _account(self, reports: list[EpochReport], seconds: float) -> None:
        vertices = [vertex for report in reports for vertex in report.vertices]
        source_ids = {source.vertex_id for source in self._sources.values()}
        read = 0
        most = 0
        for vertex in vertices:
            if vertex.vertex_id in source_ids:
                key = (vertex.vertex_id, vertex.subtask)
                new = vertex.records_in - self._read_before.get(key, 0)
                self._read_before[key] = vertex.records_in
                read += new
                most = max(most, new)
        for source in self._sources.values():
            source.epoch_done([vertex for vertex in vertices if vertex.vertex_id == source.vertex_id])
        self._alignment.epoch_done(vertices)
        busy = max(sum(report.busy.values()) for report in reports)
        self._sizer.observe(seconds, busy, most)
        self._progress.epoch(self.epoch, seconds, read, vertices, reports)

    def _verify(self, reports: list[EpochReport]) -> None:
        """Every level must have run in every slot that takes part in it, exactly once (the slots see to 'once')."""
        for slot, report in enumerate(reports):
            expected = {vertex.level for vertex in self._deployment.vertices if slot in vertex.slots}
            if not expected <= report.levels:
                missing = ", ".join(map(str, sorted(expected - report.levels)))
                raise _failed(f"epoch {self.epoch}: slot {slot} has not seen level {missing}")

    # --- results ---

    def _take_results(self, reports: list[EpochReport]) -> None:
        """Fetches what sinks have put aside for the driver."""
        merged: dict[str, Any] = {}
        for report in reports:
            for name, accumulator in report.accumulators.items():
                if name in merged:
                    merged[name].merge(accumulator)
                else:
                    merged[name] = accumulator
        self.accumulators = merged
        for writer in self._writers:
            self._write_epoch(writer, reports)
        self._deliveries.take(self.epoch, reports, self._call_slot, {writer.spool_name for writer in self._writers})

    def _write_epoch(self, writer: SparkWriterOperator, reports: list[EpochReport]) -> None:
        """Writes what a Spark sink has put aside in this epoch, unless it waits for a checkpoint."""
        holders = [slot for slot, report in enumerate(reports) if writer.spool_name in report.spools]
        if holders:
            self._write_with_spark(writer, writer.spool_name, holders, self.epoch)

    def _write_staged(self, up_to: int) -> None:
        """Writes what Spark sinks have put aside for checkpoints that are complete now, each by itself."""
        if not self._writers:
            return
        staged: list[dict[str, int]] = self._call("staged")
        for writer in self._writers:
            numbers = {writer.staged_checkpoint(spool) for spools in staged for spool in spools}
            for number in sorted(number for number in numbers if number is not None and number <= up_to):
                spool = writer.staged_name(number)
                holders = [slot for slot, spools in enumerate(staged) if spool in spools]
                self._check_lease()
                self._write_with_spark(writer, spool, holders, number)

    def _write_with_spark(self, writer: SparkWriterOperator, spool: str, holders: list[int], number: int) -> None:
        """Hands the records of a Spark sink to its function, then lets the slots forget them."""
        assert self.pool is not None and writer.write is not None
        first = self._call_slot(holders[0], "fetch", spool=spool, page=0)
        frame = spool_frame(self._spark, self.pool.access, spool, writer.input_type, first)
        try:
            with self._waiting(f"the write {number} of a Spark sink"):
                writer.write(frame, number)
        except Exception as error:
            name = next(node.name for node in self._graph.job_graph.nodes.values() if node.operator is writer)
            raise JobFailed(user_fault(error, name).fault) from error
        for slot in holders:
            self._call_slot(slot, "release", spools=[spool])

    # --- checkpoints ---

    def _on_message(self, message: Any) -> None:
        """Takes what slots say about snapshots; on a thread of the pool."""
        if isinstance(message, SnapshotDone):
            self._coordinator.acknowledge(message)
        elif isinstance(message, SnapshotFailed):
            self._coordinator.decline(message)

    def _tend_checkpoints(self) -> None:
        """Between two epochs: tells slots what became of checkpoints, and begins those that are due."""
        for outcome in self._coordinator.outcomes():
            self._take_outcome(outcome)
        request = self._control.next_request()
        if request is not None:
            self._take_savepoint(request)
        elif self._coordinator.is_due(self.epoch):
            self._begin_checkpoint()

    def _take_outcome(self, outcome: Outcome) -> None:
        pending = outcome.pending
        tolerated = self._coordinator.count(outcome)
        if outcome.completed and pending.savepoint is None:
            try:
                self._tell_complete(pending)
            finally:
                # Also if that fails: the job goes on behind this checkpoint, and what it contains does not come again.
                self._deliveries.release(pending.epoch)
        elif not outcome.completed:
            self._call("checkpoint_aborted", arguments=lambda slot: {"checkpoint_id": pending.checkpoint_id})
            if not tolerated:
                raise _failed(f"{pending.kind} failed, and no more failures are tolerated: {outcome.error}")

    def _check_lease(self) -> None:
        """Right before anything is committed: the job must still be this driver's."""
        if self._coordinator.storage is None:
            return  # In the driver's own memory nobody else can take the job over.
        seconds = self._coordinator.settings.timeout
        self._control.within(seconds, "looking at the job's lease", self._coordinator.lease.check)

    def _tell_complete(self, pending: Pending) -> None:
        self._check_lease()
        self._call("checkpoint_complete", arguments=lambda slot: {"checkpoint_id": pending.checkpoint_id})
        for operator_id, source in self._sources.items():
            if operator_id in pending.sources:
                source.checkpoint_complete(pickle.loads(pending.sources[operator_id]))
        self._write_staged(pending.checkpoint_id)

    def _begin_checkpoint(self, savepoint_directory: str | None = None, stored: bool = True) -> Pending:
        positions = {operator_id: source.position() for operator_id, source in self._sources.items()}
        pending = self._coordinator.begin(
            self.epoch,
            self._graph.slots_count,
            {operator_id: dumps(position) for operator_id, position in positions.items() if position is not None},
            savepoint_directory,
            stored,
        )
        arguments = {
            "checkpoint_id": pending.checkpoint_id,
            "timestamp": pending.timestamp,
            "target": pending.target,
            "savepoint": savepoint_directory is not None,
        }
        assert self.pool is not None
        try:
            with self._waiting("taking a snapshot"):
                self.pool.call_all("snapshot", lambda slot: arguments)
        except SlotError as error:
            if error.fault is None:
                raise self._cause_of(error) from error
            # The state of a slot could not be taken: that is the checkpoint's failure, not yet the job's.
            self._coordinator.decline(SnapshotFailed(-1, pending.checkpoint_id, error.fault))
        return pending

    def _wait_for(self, pending: Pending) -> BaseException | None:
        """Waits until a checkpoint is complete, and the slots know; gives the reason if it was given up."""
        while True:
            for outcome in self._coordinator.outcomes():
                self._take_outcome(outcome)
                if outcome.pending is pending:
                    return outcome.error
            self._control.wait_for_wake(1.0)

    def _take_savepoint(self, request: SavepointRequest) -> None:
        """Takes a savepoint, and with it perhaps ends the job; whoever waits for it learns what came of it."""
        try:
            self._answer(request)
        except (JobStopped, StopUndecided):
            raise
        except BaseException as error:
            if not request.result.done():
                request.result.set_exception(error)
            raise

    def _answer(self, request: SavepointRequest) -> None:
        if request.drain:
            self._draining = True
            self._one_epoch()
        request.begun.set()
        pending = self._begin_checkpoint(request.directory)
        if request.stop:
            self._progress.phase("stopping with a savepoint")
        else:
            pending.result.add_done_callback(lambda done: _copy(done, request))
            return
        error = self._wait_for(pending)
        if error is None:
            stopped = JobStopped(request, pending.result.result(), pending.checkpoint_id, pending.epoch)
            self._note_stop(stopped, pending)
            self._deliveries.release(pending.epoch)
            raise stopped
        request.result.set_exception(error)
        if request.drain:
            raise _failed(f"the job was drained, and its savepoint has failed: {error}")

    def _note_stop(self, stopped: JobStopped, pending: Pending) -> None:
        """Makes a savepoint the only thing that is restored from now on."""
        seconds = self._coordinator.settings.timeout
        try:
            self._control.within(seconds, "noting that the job stops", lambda: self._coordinator.stop(pending))
        except (LeaseLostError, JobCancelled):
            raise
        except Exception as error:
            raise StopUndecided(stopped, error) from error

    def commit(self, checkpoint_id: int) -> None:
        """Lets sinks commit what a savepoint contains with which the job stops."""
        self._check_lease()
        self._call("checkpoint_complete", arguments=lambda slot: {"checkpoint_id": checkpoint_id})
        self._write_staged(checkpoint_id)

    def _last_checkpoint(self) -> None:
        """What was processed last is stored too, so that all transactions are committed before the job ends."""
        if self._coordinator.settings.enabled or self._commits:
            self._progress.phase("taking the last checkpoint")
            error = self._wait_for(self._begin_checkpoint(stored=self._coordinator.settings.enabled))
            if error is not None:
                raise _failed(f"the last checkpoint, with which sinks commit, has failed: {error}")

    # --- slots ---

    def _waiting(self, work: str, delays_checkpoints: bool = True) -> AbstractContextManager[None]:
        """While this thread waits for slots, the watchdog looks after them."""
        return nullcontext() if self.watchdog is None else self.watchdog.waiting(work, delays_checkpoints)

    def _call(self, name: str, arguments: Any = None) -> list[Any]:
        assert self.pool is not None
        try:
            with self._waiting(f"the call '{name}'", name not in ("deploy", "close")):
                return self.pool.call_all(name, arguments)
        except SlotError as error:
            raise self._cause_of(error) from error

    def _call_slot(self, slot: int, name: str, **arguments: Any) -> Any:
        assert self.pool is not None
        try:
            with self._waiting(f"the call '{name}'"):
                return self.pool.call(slot, name, **arguments)
        except SlotError as error:
            raise self._cause_of(error) from error

    def _cause_of(self, error: SlotError) -> Exception:
        """Why a slot has not answered; one that has died is reported a moment after the first call that fails."""
        if error.fault is not None:
            return JobFailed(error.fault)
        self._control.raise_cause(error)
        return error


def _failed(summary: str) -> JobFailed:
    return JobFailed(Fault(None, None, None, summary, summary))


def _copy(done: Any, request: SavepointRequest) -> None:
    error = done.exception()
    if error is None:
        request.result.set_result(done.result())
    else:
        request.result.set_exception(error)
