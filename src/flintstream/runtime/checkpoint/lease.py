"""JobLease: gives one driver at a time ownership of a job's checkpoint directory; only the owner completes checkpoints
and commits.

The directory holds a log: `lease/00000001` and so on. Each entry is created exclusively, at the position after the last
entry its writer knows, and records the start of an attempt, a completed checkpoint, the savepoint with which the job
stopped, or the end of the job. A driver takes over by appending an entry. The previous owner finds that position taken
when it next tries to complete a checkpoint, and so is fenced. All drivers therefore see one order: after its claim, a
new owner reads everything that any previous owner has completed or ever will complete.

Entries of attempts are not removed while a fenced driver may still be alive: its next position must stay taken.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields

from flintstream.runtime.checkpoint.storage import Storage, StorageError
from flintstream.runtime.faults import PermanentError

LEASE = "lease"
ATTEMPT, COMPLETED, STOPPED, ENDED = "attempt", "completed", "stopped", "ended"
_NUMBER = re.compile(r"\d{8,}")
_CLAIMS = 1000
"""How often a claim is retried while other drivers claim the same job."""


class LeaseLostError(PermanentError, RuntimeError):
    """Another driver has taken over the job. Final: a fenced driver never claims again."""


class StaleAttemptError(RuntimeError):
    """A later attempt of the same driver has begun: checkpoints of an earlier one no longer count."""


class UnknownOutcomeError(StorageError):
    """The storage failed while an entry was being written: the entry may exist, or appear later."""


@dataclass(frozen=True)
class LeaseEntry:
    """An entry of the log."""

    kind: str
    """`attempt`, `completed`, `stopped` or `ended`."""
    owner: str
    """A random id of the driver that wrote it."""
    attempt: int
    """The attempt of that driver, from 1."""
    checkpoint: int | None = None
    """The number of the completed checkpoint or savepoint."""
    savepoint: str | None = None
    """The location of the savepoint with which the job stops."""
    status: str | None = None
    """The final status of the job."""
    host: str = ""
    pid: int = 0
    time: float = 0.0
    """When it was written, in seconds since 1970."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """A random id of this entry."""

    def to_bytes(self) -> bytes:
        """Returns the content of its file."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes, location: str) -> LeaseEntry:
        """Parses the content of its file. Fields added by later versions are ignored."""
        known = {each.name for each in fields(LeaseEntry)}
        try:
            values = {name: value for name, value in json.loads(data).items() if name in known}
            return LeaseEntry(**values)
        except (ValueError, TypeError, AttributeError) as error:
            raise StorageError(
                f"checkpoint storage: {location} is not a valid entry of a job's lease: {error}"
            ) from error

    @property
    def writer(self) -> str:
        """Returns its driver, for messages."""
        return f"process {self.pid} on {self.host}"


class LeaseLog:
    """The log in the directory of a job, whose storage is `storage`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def numbers(self) -> list[int]:
        """Returns the numbers of all entries, in order."""
        return sorted(int(name) for name in self.storage.names(LEASE) if _NUMBER.fullmatch(name))

    def read(self, number: int) -> LeaseEntry | None:
        """Returns an entry; None if it does not exist."""
        path = _path(number)
        try:
            data = self.storage.read(path)
        except FileNotFoundError:
            return None
        return LeaseEntry.from_bytes(data, self.storage.locate(path))

    def create(self, number: int, entry: LeaseEntry) -> bool:
        """Writes an entry, unless one with its number exists."""
        return self.storage.create(_path(number), entry.to_bytes())

    def remove(self, number: int) -> None:
        """Removes an entry."""
        self.storage.remove(_path(number))

    def entries(self) -> list[LeaseEntry]:
        """Returns all entries, in order."""
        return [entry for number in self.numbers() if (entry := self.read(number)) is not None]


class JobLease:
    """A driver's lease on the checkpoint directory of its job.

    Without a storage, checkpoints are in the driver's own memory, and no other driver can take over.
    """

    def __init__(self, storage: Storage | None) -> None:
        self._log = None if storage is None else LeaseLog(storage)
        self._owner = uuid.uuid4().hex
        self._lock = threading.Lock()
        """Guards the fields below; never held during a call to the storage."""
        self._position: int | None = None
        """The last entry that this driver has written or recognised as its own."""
        self._attempt = 0
        self._lost: LeaseLostError | None = None
        self._completed: dict[int, int] = {}
        """The entries of completed checkpoints, by checkpoint number."""
        self._succeeded = False
        """Whether other drivers have owned the job before."""
        self.stopped: str | None = None
        """The savepoint of a stop whose entry exists although writing it seemed to have failed."""

    # --- entries of the owner ---

    def begin_attempt(self) -> int:
        """Begins an attempt of this driver and returns its number; the first one claims the lease.

        From now on the previous owner and earlier attempts of this driver are fenced.
        """
        with self._lock:
            self._attempt += 1
            attempt = self._attempt
        if self._log is not None:
            if self._position is None:
                self._take_over(self._log, attempt)
            else:
                self._append(self._entry(ATTEMPT, attempt))
        return attempt

    def complete(self, checkpoint_id: int, attempt: int) -> None:
        """Completes a checkpoint whose metadata are written: from now on it can be restored."""
        number = self._append(self._entry(COMPLETED, attempt, checkpoint=checkpoint_id))
        with self._lock:
            if attempt != self._attempt:
                # The storage hung after writing the entry: the next attempt has found it, or began before it.
                raise StaleAttemptError(f"attempt {attempt} is over, and attempt {self._attempt} has begun")
            self._completed[checkpoint_id] = number

    def stop(self, checkpoint_id: int, savepoint: str, attempt: int) -> None:
        """Records that the job stopped with a savepoint: from now on nothing else can be restored."""
        self._append(self._entry(STOPPED, attempt, checkpoint=checkpoint_id, savepoint=savepoint))

    def end(self, status: str) -> None:
        """Records that the job has ended, before its checkpoints are removed."""
        with self._lock:
            attempt = self._attempt
        self._append(self._entry(ENDED, attempt, status=status))

    def check(self) -> None:
        """Raises unless this driver still owns the job."""
        if self._log is None or self._position is None:
            return
        self._raise_if_lost()
        with self._lock:
            position = self._position
        numbers = self._log.numbers()
        if position not in numbers:
            raise self._vanished(position)
        for number in numbers:
            if number > position:
                self._raise_if_foreign(number, self._log.read(number))

    @property
    def last_completed(self) -> int:
        """Returns the number of the last checkpoint completed by this driver; 0 if there is none."""
        with self._lock:
            return max(self._completed, default=0)

    @property
    def holds(self) -> bool:
        """Returns whether this driver has claimed the job and still owns it."""
        if self._log is not None and self._position is None:
            return False
        try:
            self.check()
        except Exception:
            return False  # If ownership is unknown, nothing may be removed.
        return True

    def remove_entries(self, checkpoint_ids: Iterable[int]) -> None:
        """Removes the log entries of removed checkpoints."""
        with self._lock:
            # The last entry stays, as the proof that this driver owns the job.
            gone = {each: self._completed[each] for each in checkpoint_ids if each in self._completed}
            gone = {each: number for each, number in gone.items() if number != self._position}
            for each in gone:
                del self._completed[each]
        if self._log is not None:
            for number in gone.values():
                self._log.remove(number)

    def release(self) -> None:
        """Removes the log of a job that has ended, unless an earlier driver may still read it."""
        if self._log is None or self._succeeded or self._position is None:
            return
        for number in self._log.numbers():
            if number <= self._position:
                self._log.remove(number)
        self._log.storage.remove_if_empty(LEASE)

    # --- how ---

    def _take_over(self, log: LeaseLog, attempt: int) -> None:
        entry = self._entry(ATTEMPT, attempt)
        for _ in range(_CLAIMS):
            last = max(log.numbers(), default=0)
            if self._created(log, last + 1, entry):
                with self._lock:
                    self._position = last + 1
                    self._succeeded = last > 0
                return
        raise StorageError(
            f"checkpoint storage: {log.storage.locate(LEASE)}: another driver won the race to claim the job "
            f"{_CLAIMS} times"
        )

    def _append(self, entry: LeaseEntry) -> int:
        """Appends an entry after the last one of this driver; returns its number."""
        if self._log is None:
            return 0
        while True:
            self._raise_if_lost()
            with self._lock:
                if entry.attempt != self._attempt:
                    raise StaleAttemptError(f"attempt {entry.attempt} is over, and attempt {self._attempt} has begun")
                if self._position is None:
                    raise StorageError("the job has not been claimed yet")
                number = self._position + 1
            if self._created(self._log, number, entry):
                with self._lock:
                    self._position = max(self._position, number)
                return number
            self._resolve_conflict(number, self._log.read(number))

    def _created(self, log: LeaseLog, number: int, entry: LeaseEntry) -> bool:
        try:
            if log.create(number, entry):
                return True
            found = log.read(number)
        except Exception as error:
            raise UnknownOutcomeError(str(error)) from error
        # An earlier try inside the storage library may have succeeded although it reported a failure.
        return found is not None and found.token == entry.token

    def _resolve_conflict(self, number: int, found: LeaseEntry | None) -> None:
        """Handles a taken position after the last entry: written by another driver, or by a write of this one that
        seemed to fail.
        """
        if found is None:
            return  # Removed again in the meantime.
        self._raise_if_foreign(number, found)
        with self._lock:
            if self._position is not None:
                self._position = max(self._position, number)
            if found.kind == COMPLETED and found.checkpoint is not None:
                self._completed[found.checkpoint] = number
            if found.kind == STOPPED:
                self.stopped = found.savepoint

    def _raise_if_foreign(self, number: int, found: LeaseEntry | None) -> None:
        if found is None or found.owner == self._owner:
            return
        assert self._log is not None
        lost = LeaseLostError(
            f"another driver ({found.writer}) has taken over this job: {self._log.storage.locate(_path(number))} is "
            f"its entry; this driver's last one is {self._position:08d}"
        )
        with self._lock:
            self._lost = self._lost or lost
        self._raise_if_lost()

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise LeaseLostError(str(self._lost)) from self._lost

    def _vanished(self, position: int) -> StorageError:
        assert self._log is not None
        return StorageError(
            f"checkpoint storage: {self._log.storage.locate(_path(position))} was written by this job and no longer "
            "exists: was the directory emptied, or is it unreachable?"
        )

    def _entry(
        self,
        kind: str,
        attempt: int,
        checkpoint: int | None = None,
        savepoint: str | None = None,
        status: str | None = None,
    ) -> LeaseEntry:
        host, pid = socket.gethostname(), os.getpid()
        return LeaseEntry(kind, self._owner, attempt, checkpoint, savepoint, status, host, pid, time.time())


def _path(number: int) -> str:
    return f"{LEASE}/{number:08d}"
