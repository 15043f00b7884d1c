"""CheckpointCoordinator: triggers checkpoints, and tracks each until it completes or is aborted."""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from flintstream.common.time import earliest
from flintstream.runtime.checkpoint.history import CheckpointHistory
from flintstream.runtime.checkpoint.lease import JobLease, LeaseLostError, StaleAttemptError, UnknownOutcomeError
from flintstream.runtime.checkpoint.metadata import (
    METADATA,
    CheckpointMetadata,
    OperatorState,
    SubtaskState,
)
from flintstream.runtime.checkpoint.pieces import CheckpointTarget
from flintstream.runtime.checkpoint.settings import CheckpointSettings
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.storage import Storage, StorageError, storage_at
from flintstream.runtime.checkpoint.store import (
    SHARED,
    TASK_OWNED,
    CompletedCheckpoints,
    checkpoint_directory,
)
from flintstream.runtime.checkpoint.uploads import SnapshotDone, SnapshotFailed, StoredSubtask
from flintstream.runtime.checkpoint.writer import StorageWriter

_EVERYTHING = 1 << 62
SOURCES = -1
"""Stands for the driver's sources among the slots that a checkpoint waits for."""
_REMEMBERED = 1000
STORAGE_SECONDS = 30.0
"""How long the end of an attempt, or of the job, waits for a storage that does not answer."""
_log = logging.getLogger(__name__)


class CheckpointFailedError(RuntimeError):
    """A checkpoint or savepoint was aborted; the message says why."""


class StorageHangsError(CheckpointFailedError):
    """The storage hangs while the metadata are being written. The outcome is unknown, so the attempt must end."""


@dataclass(frozen=True)
class OperatorInfo:
    """The metadata of an operator besides its state."""

    name: str
    uid: str | None
    parallelism: int
    max_parallelism: int


@dataclass
class Pending:
    """A checkpoint in progress."""

    checkpoint_id: int
    timestamp: int
    epoch: int
    """The last epoch that it contains."""
    target: CheckpointTarget
    waiting: set[int]
    """The slots that have not acknowledged, and SOURCES until their positions are known."""
    deadline: float
    """By the monotonic clock."""
    writer: StorageWriter
    """The writer of its storage. Each savepoint has its own, so that a hanging one does not block the job's
    checkpoints.
    """
    savepoint: str | None = None
    """The directory of a savepoint."""
    stored: bool = True
    """Whether metadata are written; False if it only lets sinks commit at the end of a job."""
    result: Future[str] = field(default_factory=Future)
    sources: Mapping[str, bytes] = field(default_factory=dict)
    """The positions of the sources, by operator id."""
    base: int | None = None
    """The checkpoint to whose files it may refer; a savepoint is self-contained."""
    states: dict[tuple[str, int], StoredSubtask] = field(default_factory=dict)
    begun: float = field(default_factory=lambda: time.monotonic())
    attempt: int = 0
    """The attempt that started it."""

    @property
    def kind(self) -> str:
        """Returns its name in messages."""
        return "savepoint" if self.savepoint is not None else f"checkpoint {self.checkpoint_id}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a checkpoint."""

    pending: Pending
    error: BaseException | None = None
    tolerated: bool = True
    """Whether the job tolerates it."""

    @property
    def completed(self) -> bool:
        """Returns whether it is complete."""
        return self.error is None


@dataclass(frozen=True)
class CheckpointStatistics:
    """Statistics of a completed checkpoint or savepoint."""

    checkpoint_id: int
    savepoint: bool
    timestamp: int
    """When it was triggered, in milliseconds since 1970."""
    seconds: float
    new_bytes: int
    """The bytes stored for it."""
    all_bytes: int
    """The bytes that a restore from it reads."""


class CheckpointCoordinator:
    """Takes the checkpoints of a job, over all its attempts.

    The job's thread triggers checkpoints and collects outcomes; slots acknowledge on other threads; metadata are
    written on the coordinator's own thread, and signed if there are `keys`. `wake` is called when there is an outcome
    to collect.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        job_id: str,
        job_name: str,
        operators: Mapping[str, OperatorInfo],
        wake: Callable[[], None],
        keys: SigningKeys | None = None,
    ) -> None:
        self.settings = settings
        self._job_id = job_id
        self._job_name = job_name
        self._operators = operators
        self._wake = wake
        self.storage: Storage | None = None
        if settings.enabled and settings.directory is not None:
            self.storage = storage_at(settings.directory, settings.permissions).at(job_id)
        self.lease = JobLease(self.storage)
        self._keys = keys
        self.store = CompletedCheckpoints(self.storage, settings.retained, self.lease, self._keys)
        self._attempt = 0
        self._lock = threading.Lock()
        self._pending: dict[int, Pending] = {}
        self._given_up: dict[int, Pending] = {}
        """The checkpoints to which slots may still add files."""
        self.statistics: deque[CheckpointStatistics] = deque(maxlen=_REMEMBERED)
        """Statistics of the latest completed checkpoints."""
        self.history = CheckpointHistory()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._writer = StorageWriter("checkpoints")
        self._next_id = 1
        self._last_started = time.monotonic()
        self._last_ended = 0.0
        self._hurried = False
        self._notified: int | None = None
        """The last checkpoint that the slots know to be complete."""
        self._has_savepoint = False
        """Whether there is one: positions of Spark's queries in it refer to the job's directory."""
        self._failures = 0
        self._epoch = 0
        """The last epoch that a completed checkpoint contains."""
        self._begun: dict[int, int] = {}
        """The last epochs of this attempt's checkpoints, from the last completed one on."""
        self._begun_before: dict[int, int] = {}
        """The same for the previous attempt."""

    def check_storage(self) -> None:
        """Raises if the storage is not writable, before anything runs."""
        if self.storage is None:
            return
        probe = f"probe-{uuid.uuid4().hex}"
        try:
            self.storage.write(probe, b"")
            self.storage.remove(probe)
        except Exception as error:
            raise StorageError(
                f"execution.checkpointing.dir: checkpoints cannot be written to {self.settings.directory}: {error}"
            ) from error

    # --- when ---

    def next_due(self, epoch: int) -> float | None:
        """Returns when (by the monotonic clock) to call the coordinator again; `epoch` is the last one that has run.

        An idle job has no new state, so its next checkpoint waits for the next epoch.
        """
        with self._lock:
            deadlines = [pending.deadline for pending in self._pending.values()]
            return earliest([*deadlines, self._periodic_due(epoch)])

    def is_due(self, epoch: int) -> bool:
        """Returns whether to trigger a checkpoint now."""
        with self._lock:
            due = self._periodic_due(epoch)
            return due is not None and due <= time.monotonic()

    def may_begin(self) -> bool:
        """Returns whether another checkpoint may be in progress."""
        with self._lock:
            periodic = [pending for pending in self._pending.values() if pending.savepoint is None]
            return len(periodic) < self.settings.max_concurrent

    def hurry(self) -> None:
        """Triggers a checkpoint as soon as possible, because somebody waits for it."""
        self._hurried = True

    def is_overdue(self, since: float) -> bool:
        """Returns whether a checkpoint could not start for longer than the timeout, with slots busy since then."""
        with self._lock:
            due = self._periodic_due(None)
            return due is not None and max(due, since) + self.settings.timeout <= time.monotonic()

    def count_overdue(self) -> bool:
        """Counts an overdue checkpoint as failed; returns False if no more failures are tolerated."""
        with self._lock:
            self._last_started = self._last_ended = time.monotonic()
            self._failures += 1
            self.history.count_failure()
            return self._failures <= self.settings.tolerable_failures

    def _periodic_due(self, epoch: int | None) -> float | None:
        interval = self.settings.interval
        periodic = [pending for pending in self._pending.values() if pending.savepoint is None]
        if interval is None or len(periodic) >= self.settings.max_concurrent:
            return None
        if epoch is not None and epoch <= max([self._epoch, *(pending.epoch for pending in periodic)]):
            return None
        start = self._last_ended if self._hurried else self._last_started + interval
        return max(start, self._last_ended + self.settings.min_pause)

    # --- the life of a checkpoint ---

    def begin(
        self,
        epoch: int,
        slots: int,
        savepoint_directory: str | None = None,
        stored: bool = True,
    ) -> Pending:
        """Starts a checkpoint, or a savepoint in a new directory below the given one. It needs the snapshots of all
        slots, and the positions of the sources.
        """
        now = time.monotonic()
        checkpoint_id, self._next_id = self._next_id, self._next_id + 1
        directory = None
        if savepoint_directory is not None:
            name = f"savepoint-{self._job_id[:6]}-{uuid.uuid4().hex[:12]}"
            directory = storage_at(savepoint_directory).locate(name)
        else:
            self._last_started = now
            self._hurried = False
        pending = Pending(
            checkpoint_id,
            int(time.time() * 1000),
            epoch,
            self._target(checkpoint_id, directory, stored),
            {SOURCES, *range(slots)},
            now + self.settings.timeout,
            self._writer if directory is None else StorageWriter("savepoint"),
            directory,
            stored,
            base=self._notified if directory is None else None,
            attempt=self._attempt,
        )
        if stored:
            self.history.begin(checkpoint_id, directory is not None, pending.timestamp, epoch)
        with self._lock:
            self._pending[checkpoint_id] = pending
            self._begun[checkpoint_id] = epoch
        return pending

    def _target(self, checkpoint_id: int, savepoint: str | None, stored: bool) -> CheckpointTarget:
        if savepoint is not None:
            storage = storage_at(savepoint, self.settings.permissions)
            return CheckpointTarget(
                storage,
                inline_size=self.settings.inline_size,
                signed=self._keys is not None,
                compressed=self.settings.compressed,
            )
        size = self.settings.max_state_size if stored else _EVERYTHING
        own = checkpoint_directory(checkpoint_id)
        kept_in = self.storage if stored else None
        signed, compressed = self._keys is not None, self.settings.compressed and stored
        return CheckpointTarget(kept_in, own, SHARED, self.settings.inline_size, size, signed, compressed)

    def supply_sources(self, pending: Pending, sources: Mapping[str, bytes]) -> None:
        """Adds the positions of the sources, as of the snapshots of the slots."""
        with self._lock:
            pending.sources = sources
            pending.waiting.discard(SOURCES)
            if pending.waiting:
                return
            self._given_up.pop(pending.checkpoint_id, None)
            if self._pending.get(pending.checkpoint_id) is pending:
                pending.writer.submit(self._complete, pending)

    def acknowledge(self, done: SnapshotDone) -> None:
        """Records that a slot has stored its snapshot; the last one completes the checkpoint."""
        with self._lock:
            late = self._given_up.get(done.checkpoint_id)
            pending = late or self._pending.get(done.checkpoint_id)
            if pending is None:
                return
            self.history.acknowledge(done.checkpoint_id, done.tasks, done.states)
            pending.states.update(done.states)
            pending.waiting.discard(done.slot)
            if late is not None and not pending.waiting:
                del self._given_up[done.checkpoint_id]
            if late is not None or not pending.waiting:
                # Still under the lock: an attempt that ends now must see the write in progress, and wait for it.
                pending.writer.submit(self._complete if late is None else self._discard, pending)

    def decline(self, failed: SnapshotFailed) -> None:
        """Records that a slot could not store its snapshot."""
        self.fail(failed.checkpoint_id, CheckpointFailedError(failed.fault.summary))
        with self._lock:
            given_up = self._given_up.get(failed.checkpoint_id)
            if given_up is not None:
                given_up.waiting.discard(failed.slot)
                if not given_up.waiting:
                    del self._given_up[failed.checkpoint_id]

    def fail(self, checkpoint_id: int, error: BaseException) -> Outcome | None:
        """Aborts a checkpoint, unless all slots have acknowledged it."""
        with self._lock:
            pending = self._pending.get(checkpoint_id)
            if pending is None or not pending.waiting:
                return None
            self._given_up[checkpoint_id] = self._pending.pop(checkpoint_id)
        return self._end(pending, error)

    def timed_out(self) -> list[Pending]:
        """Returns the checkpoints that have timed out."""
        now = time.monotonic()
        with self._lock:
            return [pending for pending in self._pending.values() if pending.deadline <= now]

    def expire(self, diagnosis: Callable[[Pending], str] = lambda pending: "") -> list[Outcome]:
        """Aborts the checkpoints that have timed out; `diagnosis` describes what the slots are doing."""
        outcomes = []
        for pending in self.timed_out():
            reason = f"not complete after {self.settings.timeout:g} s: "
            if pending.waiting:
                slots = ", ".join(map(str, sorted(pending.waiting - {SOURCES})))
                told = diagnosis(pending)
                reason += f"slots {slots} have not answered" if slots else "the positions of sources are missing"
                reason += f"; {told}" if told else ""
                outcomes.append(self.fail(pending.checkpoint_id, CheckpointFailedError(reason)))
            else:
                reason += f"its metadata are still being written to {pending.savepoint or self.settings.directory}"
                outcomes.append(self._give_up_writing(pending, StorageHangsError(reason)))
        return [outcome for outcome in outcomes if outcome is not None]

    def _give_up_writing(self, pending: Pending, error: BaseException) -> Outcome | None:
        with self._lock:
            if self._pending.pop(pending.checkpoint_id, None) is None:
                return None
        if pending.savepoint is not None:
            pending.writer.abandon()
        return self._end(pending, error)

    def _complete(self, pending: Pending) -> None:
        failure: BaseException | None = None
        try:
            metadata = self._metadata(pending)
            location = self._write(pending, metadata)
        except BaseException as error:
            completed = self._completed(pending)
            if completed is None:
                failure = error
            else:
                # A failure after its entry is in the log does not make it incomplete: the next restart restores it.
                _log.warning("job %s: %s is complete, but an error followed: %r", self._job_id, pending.kind, error)
                metadata, location = completed, self.store.location(completed) or ""
        if failure is None:
            self.history.complete(pending.checkpoint_id, location, metadata.operators)
        with self._lock:
            given_up = self._pending.pop(pending.checkpoint_id, None) is None
        if given_up:
            if failure is None:
                # It counts all the same: the next attempt restores it.
                self._outcomes.put(Outcome(pending))
            return
        if failure is None:
            self.statistics.append(_statistics(pending, metadata))
            pending.result.set_result(location)
        self._end(pending, failure)

    def _completed(self, pending: Pending) -> CheckpointMetadata | None:
        """Returns the metadata of a checkpoint that the log lists as complete, even if it was considered failed."""
        return None if pending.savepoint is not None else self.store.find(pending.checkpoint_id)

    def _write(self, pending: Pending, metadata: CheckpointMetadata) -> str:
        if pending.savepoint is not None:
            storage = storage_at(pending.savepoint, self.settings.permissions)
            if not storage.create(METADATA, metadata.to_bytes(self._keys)):
                raise StorageError(f"savepoint {pending.savepoint} exists already")
            self._has_savepoint = True
            return pending.savepoint
        self.store.add(metadata, pending.attempt)
        return self.store.location(metadata) or ""

    def _prune(self) -> None:
        with self._lock:
            bases = {pending.base for pending in self._pending.values() if pending.base is not None}
            if self._notified is not None:
                bases.add(self._notified)
        try:
            self.store.prune(bases)
        except Exception:
            return  # Files that cannot be removed now do no harm; the directory is removed with the job.

    def _metadata(self, pending: Pending) -> CheckpointMetadata:
        operators: dict[str, OperatorState] = {}
        for operator_id, info in self._operators.items():
            subtasks = {
                subtask: self._with_base(operator_id, subtask, stored)
                for (owner, subtask), stored in sorted(pending.states.items())
                if owner == operator_id
            }
            source = pending.sources.get(operator_id)
            operators[operator_id] = OperatorState(
                info.name, info.uid, info.parallelism, info.max_parallelism, subtasks, source
            )
        return CheckpointMetadata(
            pending.checkpoint_id,
            pending.timestamp,
            self._job_id,
            self._job_name,
            pending.savepoint is not None,
            operators,
        )

    def _with_base(self, operator_id: str, subtask: int, stored: StoredSubtask) -> SubtaskState:
        """Returns the state of a subtask including the checkpoint that its delta is based on."""
        if stored.base is None:
            return stored.state
        base = self.store.find(stored.base)
        if base is None:
            raise CheckpointFailedError(f"checkpoint {stored.base}, on which it is based, no longer exists")
        before = base.operators[operator_id].subtasks[subtask]
        return stored.state.based_on(before)

    def _end(self, pending: Pending, error: BaseException | None) -> Outcome:
        if pending.savepoint is None:
            self._last_ended = time.monotonic()
        if error is not None:
            self.history.fail(pending.checkpoint_id, str(error) or type(error).__name__)
            if not pending.result.done():
                pending.result.set_exception(error)
            # A hanging write may still finish, and a write with an unknown outcome may have completed the checkpoint:
            # keep the files.
            if not isinstance(error, (StorageHangsError, UnknownOutcomeError)):
                pending.writer.submit(self._discard, pending)
        outcome = Outcome(pending, error, self._tolerates(pending, error))
        self._outcomes.put(outcome)
        self._wake()
        return outcome

    def _tolerates(self, pending: Pending, error: BaseException | None) -> bool:
        if pending.savepoint is not None:
            return True
        if isinstance(error, StorageHangsError):
            return False
        with self._lock:
            self._failures = 0 if error is None else self._failures + 1
            return self._failures <= self.settings.tolerable_failures

    def _discard(self, pending: Pending) -> None:
        with self._lock:
            states, pending.states = pending.states, {}
        if self._completed(pending) is not None:
            return
        try:
            if pending.savepoint is not None:
                storage_at(pending.savepoint).remove("")
            elif pending.stored:
                self.store.discard(set[str]().union(*(stored.state.files() for stored in states.values())))
                self.store.discard_directory(pending.checkpoint_id)
        except Exception:
            return  # The storage itself fails: remaining files are removed with the job.

    # --- for the job's thread ---

    def outcomes(self) -> list[Outcome]:
        """Returns the outcomes of this attempt's checkpoints since the last call."""
        found = []
        while not self._outcomes.empty():
            outcome = self._outcomes.get()
            if outcome.pending.attempt == self._attempt:
                found.append(outcome)
        return found

    def count(self, outcome: Outcome) -> bool:
        """Processes an outcome; returns False if more consecutive checkpoints have failed than the job tolerates.

        Raises LeaseLostError if another driver has taken over, which always ends the job.
        """
        if isinstance(outcome.error, LeaseLostError):
            raise outcome.error
        if outcome.completed and outcome.pending.savepoint is None:
            self._epoch = max(self._epoch, outcome.pending.epoch)
            self._notified = outcome.pending.checkpoint_id
            self._begun = {number: epoch for number, epoch in self._begun.items() if number >= self._notified}
            # The previous checkpoint is no longer the base of any delta.
            self._writer.submit(self._prune)
        return outcome.tolerated

    def begin_attempt(self) -> None:
        """Begins a new attempt, and takes over the job's lease from its previous owner."""
        attempt = self.lease.begin_attempt()
        self.store.catch_up()
        highest = self.store.highest_number
        with self._lock:
            if attempt <= self._attempt:
                raise StaleAttemptError(f"attempt {self._attempt} has begun in the meantime")
            self._attempt = attempt
            self._begun_before, self._begun = self._begun, {}
        self.skip_numbers_up_to(highest)
        self._notified = None
        self._failures = 0
        self._epoch = 0
        self._last_started = time.monotonic()

    def skip_numbers_up_to(self, checkpoint_id: int) -> None:
        """Makes the numbers of later checkpoints greater than this one."""
        self._next_id = max(self._next_id, checkpoint_id + 1)

    def last_epoch_in(self, checkpoint_id: int) -> int:
        """Returns the last epoch of the previous attempt that a checkpoint contains; 0 if that attempt did not take it."""
        return self._begun_before.get(checkpoint_id, 0)

    def stop(self, pending: Pending) -> None:
        """Marks the job as stopped with a completed savepoint, before its sinks commit: nothing older is restored any
        more.
        """
        assert pending.savepoint is not None
        self.lease.stop(pending.checkpoint_id, pending.savepoint, pending.attempt)

    def end_attempt(self) -> list[Outcome]:
        """Ends the attempt: aborts checkpoints in progress, and returns the outcomes not yet collected."""
        for checkpoint_id in list(self._pending):
            self.fail(checkpoint_id, CheckpointFailedError("the job failed or ended"))
        # No checkpoint of this attempt may complete once the next one has begun.
        pending = list(self._pending.values())
        if not StorageWriter.wait_idle({self._writer, *(each.writer for each in pending)}, STORAGE_SECONDS):
            self._abandon_writes()
        self._given_up.clear()
        return self.outcomes()

    def _abandon_writes(self) -> None:
        """Ends the attempt without waiting for the hanging storage."""
        left = list(self._pending.values())
        places = sorted({str(pending.savepoint or self.settings.directory) for pending in left})
        place = ", ".join(places) or self.settings.directory
        _log.warning(
            "job %s: %s has not answered for %g s; continuing without it", self._job_id, place, STORAGE_SECONDS
        )
        self._writer.abandon()
        error = StorageHangsError(f"the job failed or ended while metadata were being written to {place}")
        for pending in left:
            self._give_up_writing(pending, error)

    def close(self, keep: bool, status: str = "FINISHED") -> None:
        """Ends the job; keeps its checkpoints only if requested, and files that its savepoints refer to in any case."""
        removed = self._writer.submit(self._remove_all, status) if not keep else self._writer.submit(lambda: None)
        done = wait([removed], STORAGE_SECONDS).done
        self._writer.abandon()
        if not done:
            raise StorageError(f"{self.settings.directory} has not answered for {STORAGE_SECONDS:g} s")
        removed.result()

    def _remove_all(self, status: str) -> None:
        self.store.remove_all(status, but=TASK_OWNED if self._has_savepoint else None)


def _statistics(pending: Pending, metadata: CheckpointMetadata) -> CheckpointStatistics:
    return CheckpointStatistics(
        pending.checkpoint_id,
        pending.savepoint is not None,
        pending.timestamp,
        time.monotonic() - pending.begun,
        sum(stored.new_bytes for stored in pending.states.values()),
        metadata.size,
    )
