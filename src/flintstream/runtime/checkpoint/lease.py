"""JobLease: one driver at a time owns the checkpoint directory of a job; only the owner completes checkpoints and commits.

The directory holds a log, `lease/00000001` and so on. Each entry is created exclusively, right behind the last one that
its writer knows: an attempt that begins, a checkpoint that is complete, a savepoint with which the job stops, the end of the
job. A driver takes over by putting an entry of its own behind the last one. The driver before it finds the next place taken
whenever it comes to complete a checkpoint, and knows that it was superseded. So the log has one order for all drivers: what
a new owner reads after its claim is all that any owner before it has completed, or ever will.

Entries of attempts are never removed while a driver that was superseded may still be alive: its next place must stay taken.
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
"""How often a claim is tried while others claim the same job at the same time."""


class LeaseLostError(PermanentError, RuntimeError):
    """Another driver has taken over the job. Final: whoever was superseded never claims again."""


class StaleAttemptError(RuntimeError):
    """A later attempt of the same driver has begun: what an earlier one still completes does not count."""


class UnknownOutcomeError(StorageError):
    """The storage has failed while an entry was written: it may be there, or come to be there later."""


@dataclass(frozen=True)
class LeaseEntry:
    """An entry of the log."""

    kind: str
    """`attempt`, `completed`, `stopped` or `ended`."""
    owner: str
    """The driver that has written it; a random name for each."""
    attempt: int
    """Which of the owner's attempts, from 1."""
    checkpoint: int | None = None
    """The number of the checkpoint or savepoint that is complete."""
    savepoint: str | None = None
    """Where the savepoint is with which the job stops."""
    status: str | None = None
    """How the job has ended."""
    host: str = ""
    pid: int = 0
    time: float = 0.0
    """When it was written, in seconds since 1970."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Of this very entry."""

    def to_bytes(self) -> bytes:
        """The content of its file."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes, location: str) -> LeaseEntry:
        """What its file contains. What later versions add is passed over."""
        known = {each.name for each in fields(LeaseEntry)}
        try:
            values = {name: value for name, value in json.loads(data).items() if name in known}
            return LeaseEntry(**values)
        except (ValueError, TypeError, AttributeError) as error:
            raise StorageError(f"checkpoint storage: {location} is no entry of a job's lease: {error}") from error

    @property
    def writer(self) -> str:
        """Its driver, for messages."""
        return f"process {self.pid} on {self.host}"


class LeaseLog:
    """The entries in the directory of a job. `storage` is that of the directory."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def numbers(self) -> list[int]:
        """The numbers of all entries, in order."""
        return sorted(int(name) for name in self.storage.names(LEASE) if _NUMBER.fullmatch(name))

    def read(self, number: int) -> LeaseEntry | None:
        """An entry; None if there is none."""
        path = _path(number)
        try:
            data = self.storage.read(path)
        except FileNotFoundError:
            return None
        return LeaseEntry.from_bytes(data, self.storage.locate(path))

    def create(self, number: int, entry: LeaseEntry) -> bool:
        """Writes an entry, unless there is one with its number."""
        return self.storage.create(_path(number), entry.to_bytes())

    def remove(self, number: int) -> None:
        """Removes an entry."""
        self.storage.remove(_path(number))

    def entries(self) -> list[LeaseEntry]:
        """All entries, in order."""
        return [entry for number in self.numbers() if (entry := self.read(number)) is not None]


class JobLease:
    """A driver's hold on the checkpoint directory of its job.

    Without a storage checkpoints are in the driver's own memory, and nobody else can take the job over.
    """

    def __init__(self, storage: Storage | None) -> None:
        self._log = None if storage is None else LeaseLog(storage)
        self._owner = uuid.uuid4().hex
        self._lock = threading.Lock()
        """Guards the fields below, and is never held while the storage is asked."""
        self._position: int | None = None
        """The last entry that this driver has written or knows to be its own."""
        self._attempt = 0
        self._lost: LeaseLostError | None = None
        self._completed: dict[int, int] = {}
        """The entries of completed checkpoints, by their number."""
        self._succeeded = False
        """Whether other drivers have owned the job before."""
        self.stopped: str | None = None
        """The savepoint of a stop whose entry was thought to have failed, and is there."""

    # --- entries of the owner ---

    def begin_attempt(self) -> int:
        """Begins an attempt of this driver, and returns its number; the first one claims the job.

        Whoever owned the job before can complete nothing from now on, nor can earlier attempts of this driver.
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
        """Makes a checkpoint complete whose metadata are written: from now on it can be restored."""
        number = self._append(self._entry(COMPLETED, attempt, checkpoint=checkpoint_id))
        with self._lock:
            if attempt != self._attempt:
                # The storage has hung behind the entry: the next attempt has found it, or has begun before it.
                raise StaleAttemptError(f"attempt {attempt} is over, and attempt {self._attempt} has begun")
            self._completed[checkpoint_id] = number

    def stop(self, checkpoint_id: int, savepoint: str, attempt: int) -> None:
        """The job stops with a savepoint: from now on nothing else can be restored."""
        self._append(self._entry(STOPPED, attempt, checkpoint=checkpoint_id, savepoint=savepoint))

    def end(self, status: str) -> None:
        """The job has ended, and its checkpoints are about to be removed."""
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
        """The greatest number of a checkpoint that this driver has completed; 0 if there is none."""
        with self._lock:
            return max(self._completed, default=0)

    @property
    def holds(self) -> bool:
        """Whether this driver has claimed the job and still owns it."""
        if self._log is not None and self._position is None:
            return False
        try:
            self.check()
        except Exception:
            return False  # Whoever does not know has no right to remove anything.
        return True

    def forget(self, checkpoint_ids: Iterable[int]) -> None:
        """Removes the entries of checkpoints that are gone."""
        with self._lock:
            # The last entry stays: it shows that this driver owns the job.
            gone = {each: self._completed[each] for each in checkpoint_ids if each in self._completed}
            gone = {each: number for each, number in gone.items() if number != self._position}
            for each in gone:
                del self._completed[each]
        if self._log is not None:
            for number in gone.values():
                self._log.remove(number)

    def release(self) -> None:
        """Removes the log of a job that has ended; not if a driver before this one may still look into it."""
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
            f"checkpoint storage: {log.storage.locate(LEASE)}: {_CLAIMS} times another driver was faster to claim the job"
        )

    def _append(self, entry: LeaseEntry) -> int:
        """Puts an entry behind the last one of this driver; returns its number."""
        if self._log is None:
            return 0
        while True:
            self._raise_if_lost()
            with self._lock:
                if entry.attempt != self._attempt:
                    raise StaleAttemptError(f"attempt {entry.attempt} is over, and attempt {self._attempt} has begun")
                if self._position is None:
                    raise StorageError("the job is not claimed yet")
                number = self._position + 1
            if self._created(self._log, number, entry):
                with self._lock:
                    self._position = max(self._position, number)
                return number
            self._step_over(number, self._log.read(number))

    def _created(self, log: LeaseLog, number: int, entry: LeaseEntry) -> bool:
        try:
            if log.create(number, entry):
                return True
            found = log.read(number)
        except Exception as error:
            raise UnknownOutcomeError(str(error)) from error
        # An earlier try of the storage's own may have succeeded although it was reported as failed.
        return found is not None and found.token == entry.token

    def _step_over(self, number: int, found: LeaseEntry | None) -> None:
        """The place behind the last entry is taken: by another driver, or by a write of this one that seemed to fail."""
        if found is None:
            return  # Gone again meanwhile.
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
            f"another driver ({found.writer}) has taken over this job: {self._log.storage.locate(_path(number))} is its "
            f"entry, and this driver's last one is {self._position:08d}"
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
            f"checkpoint storage: {self._log.storage.locate(_path(position))} is gone, which this job put there: was the "
            "directory emptied, or cannot it be reached?"
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
