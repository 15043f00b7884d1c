"""JobAttempt: one attempt to run a job, from the start of its slots to the end of its sources or the first failure."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flintstream.jobmaster.checkpoint_driver import CheckpointDriver
from flintstream.jobmaster.cleanup import clean_up
from flintstream.jobmaster.control import failed
from flintstream.jobmaster.epoch_loop import EpochLoop
from flintstream.jobmaster.executions import DEPLOYING, INITIALIZING
from flintstream.jobmaster.iterations import IterationCoordinator
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.query_connections import QueryConnections
from flintstream.jobmaster.slot_calls import SlotCalls
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.jobmaster.spark_writers import SparkWriters
from flintstream.jobmaster.transports import PIPELINED, choose_transport
from flintstream.jobmaster.watchdog import Diagnosis, Watchdog
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.rescaling import share_of
from flintstream.runtime.checkpoint.uploads import SnapshotDone, SnapshotFailed
from flintstream.runtime.faults import Fault, engine_fault
from flintstream.runtime.slot.messages import Close, Deploy, Joined, SourcesEnded, StateRegistered
from flintstream.runtime.slot.user_code import pickle_operators
from flintstream.spark.encryption import is_encrypted
from flintstream.spark.epoch import EpochRunner
from flintstream.spark.slots import SlotPool
from flintstream.spark.standing import PipelinedRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobAttempt:
    """Combines the slots, sources, epoch loop and checkpoints of one attempt.

    The job's own thread starts, runs and releases it; other threads may interrupt it.
    """

    def __init__(self, job: JobContext, number: int, spark: SparkSession) -> None:
        settings = job.settings
        self._job = job
        self._number = number
        self._spark = spark
        self.pool = SlotPool(
            spark,
            job.job_id,
            number,
            job.graph.slots_count,
            job.control.data_ready,
            self._on_failure,
            settings.python_executable,
            self._on_message,
            is_encrypted(settings.configuration),
            settings.slot_timeouts,
        )
        self.watchdog = Watchdog(
            settings.job_name, self.pool, job.coordinator, settings.slot_timeouts, self._on_failure
        )
        self._slots = SlotCalls(self.pool, self.watchdog, job.control)
        self._writers = SparkWriters(job, self._slots, spark)
        self._sources: dict[str, SourceCoordinator] = {}
        """By operator id."""
        self._pipelined = choose_transport(job, spark) == PIPELINED
        self.runner: EpochRunner | PipelinedRunner | None = None
        self._epochs: EpochLoop | None = None
        self.queries: QueryConnections | None = None
        """How the slots are asked for their state, once they are open and if that is enabled."""
        self._over = False

    @property
    def epoch(self) -> int:
        """Returns the number of the last epoch begun."""
        return 0 if self._epochs is None else self._epochs.number

    @property
    def accumulators(self) -> dict[str, Any]:
        """Returns the accumulators after the last epoch."""
        return {} if self._epochs is None else self._epochs.accumulators

    def accumulators_of(self, vertex_id: int, subtask: int) -> dict[str, Any]:
        """Returns the accumulators of a subtask after the last epoch."""
        return {} if self._epochs is None else self._epochs.accumulators_of.get((vertex_id, subtask), {})

    # --- start and end ---

    def start(self, restored: RestoredOperators | None) -> None:
        """Starts the slots with their operators, and the sources at their restored positions."""
        job, count = self._job, self._job.graph.slots_count
        job.control.check()  # A cancel from now on reaches the pool.
        job.executions.enter(DEPLOYING)
        job.progress.phase(f"starting {count} slot{'' if count == 1 else 's'}")
        self.pool.start()
        job.control.check()
        job.executions.enter(INITIALIZING)
        job.progress.phase(
            "opening functions" if restored is None else f"restoring checkpoint {restored.checkpoint_id}"
        )
        self.watchdog.start()
        runner = self.runner = self._make_runner()
        self._deploy(restored)
        if isinstance(runner, PipelinedRunner):
            job.progress.phase("starting the tasks of the pipelined job")
            self._wait_for(runner)
        self._epochs = EpochLoop(job, self._slots, self._sources, self._writers, runner)
        self._checkpoints = CheckpointDriver(job, self._slots, self._sources, self._writers, self._epochs)
        if restored is not None:
            self._writers.write_staged(restored.checkpoint_id)
        if job.settings.queryable_state.enabled:
            self.queries = QueryConnections(self.pool.access, self._number)
        self._start_sources(restored)

    def _make_runner(self) -> EpochRunner | PipelinedRunner:
        job, graph = self._job, self._job.graph
        if self._pipelined:
            runner = PipelinedRunner(
                self._spark,
                job.job_id,
                self._number,
                self.pool.access,
                lambda error: self._on_failure(engine_fault(error)),
            )
            runner.start()
            return runner
        return EpochRunner(
            self._spark,
            job.job_id,
            self._number,
            [{vertex.id: vertex.name for vertex in level} for level in graph.levels],
            [1 + max(graph.slot(vertex.id, vertex.parallelism - 1) for vertex in level) for level in graph.levels],
            self.pool.access,
        )

    def _wait_for(self, runner: PipelinedRunner) -> None:
        """Waits until the tasks of the standing job are connected to the slots."""
        seconds = self._job.settings.slot_timeouts.start
        deadline = time.monotonic() + seconds
        while not runner.joined:
            if time.monotonic() >= deadline:
                raise failed(
                    f"Spark has not started the {2 * self._job.graph.slots_count} tasks of the pipelined job within "
                    f"{seconds:g} s (slot.request.timeout): it must run all of them at the same time"
                )
            self._job.control.wait_for_wake(1.0)

    def _deploy(self, restored: RestoredOperators | None) -> None:
        info, user_code = self._job.settings.for_slots(
            self._job.job_id, self._number, self.pool.local, pipelined=self._pipelined
        )
        hosted_by = self._job.deployment.hosted_by
        if restored is not None:
            self._job.check_lease()  # Sinks commit what is pending in the checkpoint when they are opened.
        self._slots.deploy(
            lambda slot: Deploy(
                info,
                user_code,
                pickle_operators(hosted_by(slot)),
                None if restored is None else share_of(restored, hosted_by(slot)),
            )
        )

    def _start_sources(self, restored: RestoredOperators | None) -> None:
        graph = self._job.graph
        for vertex in graph.job_graph.vertices:
            head = graph.job_graph.nodes[vertex.head_id]
            if head.kind == "iteration head":
                self._sources[head.operator_id] = IterationCoordinator.of(graph, vertex)
            if head.kind != "source":
                continue
            source = self._sources[head.operator_id] = self._job.source_factory.make(
                vertex.id,
                head.name,
                head.operator_id,
                tuple(graph.slot(vertex.id, subtask) for subtask in range(vertex.parallelism)),
                head.source,
                self._job.control.data_ready,
                lambda error: self._on_failure(engine_fault(error)),
            )
            before = None if restored is None else restored.operators.get(head.operator_id)
            if before is not None and before.source is not None:
                source.resume(pickle.loads(before.source))
        for source in self._sources.values():
            source.start()

    def run(self) -> None:
        """Runs epochs and takes checkpoints until the sources have ended."""
        assert self._epochs is not None
        self._epochs.run(self._checkpoints)
        self._checkpoints.take_last()

    def commit(self, checkpoint_id: int) -> None:
        """Lets sinks commit the savepoint with which the job stops."""
        self._checkpoints.commit(checkpoint_id)

    def finish(self) -> None:
        """Closes all operators at the end of the job, and fetches their last results."""
        assert self._epochs is not None
        self._epochs.close()
        self._writers.complete()

    def release(self, finished: bool) -> None:
        """Ends everything that runs; later messages of this attempt are ignored.

        Only the first call has an effect: if the next attempt fails before it exists, the job ends this one again.
        """
        if self._over:
            return
        self._over = True
        self.watchdog.end()
        steps: list[Callable[[], None]] = [source.close for source in self._sources.values()]
        if not finished:
            steps.insert(0, self.interrupt)
            # Failures to close do not matter: the job has failed already, and the slots are ended in any case.
            steps.append(lambda: self.pool.tell_all(Close(), self._job.settings.slot_timeouts.cancellation))
        if self.queries is not None:
            steps.append(self.queries.close)
        steps.extend([self.pool.close, self._writers.discard])
        if isinstance(self.runner, PipelinedRunner):
            steps.append(self.runner.close)
        # A step that fails, e.g. a query that cannot be stopped, must not keep slots alive or prevent the restart.
        clean_up(steps, f"job {self._job.job_id}: not all of its attempt {self._number} could be ended")

    # --- from other threads ---

    def _on_message(self, message: Any) -> None:
        """Handles the results of snapshots, and new queryable states; on a thread of the pool."""
        if isinstance(message, SnapshotDone):
            self._job.coordinator.acknowledge(message)
        elif isinstance(message, SnapshotFailed):
            self._job.coordinator.decline(message)
        elif isinstance(message, SourcesEnded):
            self._job.control.hurry()
        elif isinstance(message, Joined) and isinstance(self.runner, PipelinedRunner):
            self.runner.note_joined(message.slot)
            self._job.control.wake()
        elif isinstance(message, StateRegistered) and not self._over:
            fault = self._job.queryable.register(message)
            if fault is not None:
                self._on_failure(fault)

    def _on_failure(self, fault: Fault) -> None:
        """Fails the attempt; on a thread of the pool or of a source."""
        if not self._over:
            self._job.control.fail(fault)
            self.give_up_calls(fault.summary)
            threading.Thread(target=self.interrupt, daemon=True).start()

    def interrupt(self) -> None:
        """Cancels the epoch and the start of slots; may be called from any thread."""
        if self.runner is not None:
            self.runner.cancel()
        self.pool.interrupt()

    def fail_drain(self, seconds: float) -> None:
        """Fails the attempt because the last epoch of a drained job, before its savepoint, hangs; on a timer's thread."""
        if not self._over:
            why = f"the job was drained, but its savepoint could not start for {seconds:g} s"
            self._on_failure(Diagnosis(self.pool).fault(why))

    def give_up_calls(self, why: str) -> None:
        """Stops waiting for replies of slots: a user function may never return, and its slot never answer.

        Has no effect once the attempt ends: slots then have a moment to close their operators.
        """
        if not self._over:
            self.pool.give_up_calls(why)
