"""CheckpointDriver: takes the checkpoints and savepoints of an attempt: between its epochs, or at the barriers of a
pipelined job.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from flintstream.common.pickling import dumps
from flintstream.jobmaster.control import (
    CheckpointRequest,
    JobCancelled,
    JobStopped,
    Request,
    SavepointRequest,
    StopUndecided,
    failed,
)
from flintstream.jobmaster.epoch_loop import EpochLoop
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.slot_calls import CallFailed, SlotCalls
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.jobmaster.spark_writers import SparkWriters
from flintstream.runtime.checkpoint.coordinator import SOURCES, Outcome, Pending
from flintstream.runtime.checkpoint.lease import LeaseLostError
from flintstream.runtime.checkpoint.uploads import SnapshotFailed
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.messages import CheckpointAborted, CheckpointComplete, TakeSnapshot


class CheckpointDriver:
    """Starts checkpoints that are due, and notifies slots, sources and Spark sinks of their outcomes.

    Used by the job's own thread.
    """

    def __init__(
        self,
        job: JobContext,
        slots: SlotCalls,
        sources: Mapping[str, SourceCoordinator],
        writers: SparkWriters,
        epochs: EpochLoop,
    ) -> None:
        self._job = job
        self._coordinator = job.coordinator
        self._slots = slots
        self._sources = sources
        self._writers = writers
        self._epochs = epochs

    def next_due(self) -> float | None:
        """Returns when there is something to do, by the monotonic clock."""
        return self._coordinator.next_due(self._epochs.advanced_to)

    def tend(self) -> None:
        """Notifies slots of outcomes, and starts checkpoints that are due."""
        for outcome in self._coordinator.outcomes():
            self._take_outcome(outcome)
        request = self._job.control.next_request()
        if isinstance(request, CheckpointRequest):
            self._take_checkpoint(request)
        elif request is not None:
            self._take_savepoint(request)
        elif self._coordinator.is_due(self._epochs.advanced_to):
            self._begin()

    def take_last(self) -> None:
        """Takes a final checkpoint, so that all transactions are committed before the job ends."""
        enabled = self._coordinator.settings.enabled
        nodes = self._job.graph.job_graph.nodes.values()
        if enabled or any(node.operator.commits for node in nodes):
            self._job.progress.phase("taking the last checkpoint")
            error = self._wait_for(self._begin(stored=enabled))
            if error is not None:
                raise failed(f"the final checkpoint, with which sinks commit, failed: {error}")

    def commit(self, checkpoint_id: int, positions: Mapping[str, bytes] | None = None) -> None:
        """Lets sinks commit a checkpoint, or the savepoint with which the job stops; notifies sources of their
        `positions` in it.
        """
        self._job.check_lease()
        self._slots.call_all(CheckpointComplete(checkpoint_id))
        for operator_id, position in (positions or {}).items():
            self._sources[operator_id].checkpoint_complete(pickle.loads(position))
        self._writers.write_staged(checkpoint_id)

    # --- checkpoints ---

    def _begin(self, savepoint_directory: str | None = None, stored: bool = True, halts: bool = False) -> Pending:
        """Lets the slots take their snapshots, and stores the positions of sources with them. With `halts`, a pipelined job
        processes nothing behind it until the next epoch.
        """
        pending = self._coordinator.begin(self._epochs.number, self._job.graph.slots_count, savepoint_directory, stored)
        is_savepoint = savepoint_directory is not None
        wanted = TakeSnapshot(pending.checkpoint_id, pending.timestamp, pending.target, is_savepoint)
        fault = self._pass_barrier(wanted, halts) if self._epochs.standing else self._take_snapshots(wanted)
        if fault is None:
            self._coordinator.supply_sources(pending, self._positions())
        else:
            # The state of a slot could not be taken: the checkpoint fails, but not yet the job.
            self._coordinator.decline(SnapshotFailed(SOURCES, pending.checkpoint_id, fault))
        return pending

    def _take_snapshots(self, wanted: TakeSnapshot) -> Fault | None:
        try:
            self._slots.call_all(wanted)
        except CallFailed as error:
            return error.fault
        return None

    def _pass_barrier(self, wanted: TakeSnapshot, halts: bool) -> Fault | None:
        faults = [report.snapshot_fault for report in self._epochs.pass_barrier(wanted, halts)]
        return next((fault for fault in faults if fault is not None), None)

    def _positions(self) -> dict[str, bytes]:
        positions = {operator_id: source.position() for operator_id, source in self._sources.items()}
        return {operator_id: dumps(position) for operator_id, position in positions.items() if position is not None}

    def _take_checkpoint(self, request: CheckpointRequest) -> None:
        """Takes a checkpoint that somebody waits for, once no more than allowed are in progress."""
        if not self._coordinator.may_begin():
            self._job.control.put_back(request)
            return
        request.begun.set()
        try:
            pending = self._begin()
        except BaseException as error:
            request.result.set_exception(error)
            raise
        pending.result.add_done_callback(lambda done: _copy(done, request, pending.checkpoint_id))

    def _take_outcome(self, outcome: Outcome) -> None:
        pending = outcome.pending
        tolerated = self._coordinator.count(outcome)
        if outcome.completed and pending.savepoint is None:
            try:
                self.commit(pending.checkpoint_id, pending.sources)
            finally:
                # Even if that fails: the next attempt restores this checkpoint, so its records are not processed again.
                self._job.deliveries.deliver_up_to(pending.epoch)
        elif not outcome.completed:
            self._slots.call_all(CheckpointAborted(pending.checkpoint_id))
            if not tolerated:
                raise failed(f"{pending.kind} failed, and no more failures are tolerated: {outcome.error}")

    def _wait_for(self, pending: Pending) -> BaseException | None:
        """Waits until a checkpoint is complete, and the slots are notified; returns the reason if it was aborted."""
        while True:
            for outcome in self._coordinator.outcomes():
                self._take_outcome(outcome)
                if outcome.pending is pending:
                    return outcome.error
            self._job.control.wait_for_wake(1.0)

    # --- savepoints ---

    def _take_savepoint(self, request: SavepointRequest) -> None:
        """Takes a savepoint, and ends the job if requested; completes the request."""
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
            self._epochs.drain()
        request.begun.set()
        pending = self._begin(request.directory, halts=request.stop)
        if not request.stop:
            pending.result.add_done_callback(lambda done: _copy(done, request))
            return
        self._job.progress.phase("stopping with a savepoint")
        error = self._wait_for(pending)
        if error is None:
            stopped = JobStopped(request, pending.result.result(), pending.checkpoint_id, pending.epoch)
            self._note_stop(stopped, pending)
            self._job.deliveries.deliver_up_to(pending.epoch)
            raise stopped
        request.result.set_exception(error)
        if request.drain:
            raise failed(f"the job was drained, but its savepoint failed: {error}")

    def _note_stop(self, stopped: JobStopped, pending: Pending) -> None:
        """Records that from now on only this savepoint may be restored."""
        seconds = self._coordinator.settings.timeout
        try:
            self._job.control.within(seconds, "recording that the job stops", lambda: self._coordinator.stop(pending))
        except (LeaseLostError, JobCancelled):
            raise
        except Exception as error:
            raise StopUndecided(stopped, error) from error


def _copy(done: Future[str], request: Request, checkpoint_id: int | None = None) -> None:
    """Completes a request with the directory of its savepoint, or the number of its checkpoint."""
    error = done.exception()
    if error is None:
        result: Future[Any] = request.result
        result.set_result(done.result() if checkpoint_id is None else checkpoint_id)
    else:
        request.result.set_exception(error)
