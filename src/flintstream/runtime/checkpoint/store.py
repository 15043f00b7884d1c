"""CompletedCheckpoints: the restorable checkpoints of a job, and their files."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

from flintstream.runtime.checkpoint.lease import COMPLETED, ENDED, LEASE, STOPPED, JobLease, LeaseEntry, LeaseLog
from flintstream.runtime.checkpoint.metadata import METADATA, CheckpointMetadata, CorruptCheckpointError
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.storage import Storage, StorageError, storage_at

SHARED = "shared"
TASK_OWNED = "taskowned"
_AT_ONCE = 500
"""The number of files removed before the lease is checked again."""
_CHECKPOINT = re.compile(r"chk-(\d+)")


def checkpoint_directory(checkpoint_id: int) -> str:
    """Returns the directory of a checkpoint, below that of its job."""
    return f"chk-{checkpoint_id}"


class CompletedCheckpoints:
    """The latest completed checkpoints of a job, the newest last. `storage` is that of the job's directory."""

    def __init__(
        self, storage: Storage | None, retained: int, lease: JobLease, keys: SigningKeys | None = None
    ) -> None:
        self._storage = storage
        self._keys = keys
        self._retained = retained
        self._lease = lease
        self.checkpoints: list[CheckpointMetadata] = []
        self._lock = threading.Lock()
        """Guards the list against threads whose storage calls have outlived every wait."""

    @property
    def latest(self) -> CheckpointMetadata | None:
        """Returns the newest one."""
        return self.checkpoints[-1] if self.checkpoints else None

    def find(self, checkpoint_id: int) -> CheckpointMetadata | None:
        """Returns the checkpoint with a number, if it is retained."""
        return next((each for each in self.checkpoints if each.checkpoint_id == checkpoint_id), None)

    @property
    def highest_number(self) -> int:
        """Returns the highest checkpoint number in the job's directory, including those of earlier drivers."""
        return 0 if self._storage is None else max(_numbers(self._storage), default=0)

    def location(self, metadata: CheckpointMetadata) -> str | None:
        """Returns the location of a checkpoint; None if it is in the driver's memory."""
        return None if self._storage is None else self._storage.locate(checkpoint_directory(metadata.checkpoint_id))

    def add(self, metadata: CheckpointMetadata, attempt: int) -> None:
        """Completes a checkpoint of an attempt: from now on the job can be restored from it."""
        if self._storage is not None:
            # Also verifies that the directory, with the files this checkpoint is based on, still exists.
            self._lease.check()
            self._create_metadata(self._storage, metadata)
            self._lease.complete(metadata.checkpoint_id, attempt)
        self._take(metadata)

    def _create_metadata(self, storage: Storage, metadata: CheckpointMetadata) -> None:
        path = f"{checkpoint_directory(metadata.checkpoint_id)}/{METADATA}"
        data = metadata.to_bytes(self._keys)
        if storage.create(path, data):
            return
        # Left by a driver that was fenced before it could complete this number.
        self._lease.check()
        storage.remove(path)
        if not storage.create(path, data):
            raise StorageError(
                f"checkpoint storage: {storage.locate(path)} was created by another process in the meantime"
            )

    def _take(self, metadata: CheckpointMetadata) -> None:
        with self._lock:
            latest = self.latest
            if latest is None or metadata.checkpoint_id > latest.checkpoint_id:
                self.checkpoints.append(metadata)

    def catch_up(self) -> None:
        """Adds a checkpoint that the lease's log lists as complete, although its completion seemed to have failed."""
        number = self._lease.last_completed
        if self._storage is not None and number > (self.latest.checkpoint_id if self.latest is not None else 0):
            self._take(_read(self._storage, number, self._keys))

    def prune(self, in_use: Iterable[int]) -> None:
        """Removes the oldest checkpoints beyond the number to retain, except those `in_use` as bases of deltas."""
        needed = set(in_use)
        with self._lock:
            surplus = self.checkpoints[: -self._retained]
            gone = [metadata for metadata in surplus if metadata.checkpoint_id not in needed]
            self.checkpoints = [metadata for metadata in self.checkpoints if metadata not in gone]
        if self._storage is None or not gone:
            return
        kept = set[str]().union(*(metadata.files() for metadata in self.checkpoints))
        for metadata in gone:
            self._lease.check()
            # The metadata go first: without them, the rest is no longer a checkpoint.
            self._lease.remove_entries([metadata.checkpoint_id])
            self._storage.remove(f"{checkpoint_directory(metadata.checkpoint_id)}/{METADATA}")
            for path in metadata.files() - kept:
                self._storage.remove(path)
            self._storage.remove(checkpoint_directory(metadata.checkpoint_id))

    def discard(self, paths: Iterable[str]) -> None:
        """Removes files of an aborted checkpoint, unless others need them."""
        if self._storage is not None:
            kept = set[str]().union(*(metadata.files() for metadata in self.checkpoints))
            for path in set(paths) - kept:
                self._storage.remove(path)

    def discard_directory(self, checkpoint_id: int) -> None:
        """Removes the directory of an aborted checkpoint, unless a later attempt has written to it."""
        directory = checkpoint_directory(checkpoint_id)
        if self._storage is not None and (self._lease.holds or not self._storage.names(directory)):
            self._storage.remove(directory)

    def remove_all(self, status: str, but: str | None = None) -> None:
        """Removes the directory of a job that has ended, with all checkpoints, unless another driver has taken over.

        The entry named `but` is kept.
        """
        self.checkpoints = []
        if self._storage is None or not self._lease.holds:
            return
        storage = self._storage
        # Lists existing entries first, to spare what a driver that takes over later may write.
        checkpoints = [checkpoint_directory(number) for number in _numbers(storage)]
        shared = [f"{SHARED}/{name}" for name in storage.names(SHARED)]
        others = [name for name in storage.names() if name not in (but, LEASE, SHARED, *checkpoints)]
        # From here on a driver that takes over knows that the job has ended.
        self._lease.end(status)
        for name in [*checkpoints, *others]:
            self._lease.check()
            storage.remove(name)
        for start in range(0, len(shared), _AT_ONCE):
            self._lease.check()
            storage.remove_files(shared[start : start + _AT_ONCE])
        self._lease.release()
        storage.remove_if_empty(SHARED)
        storage.remove_if_empty("")


def read_checkpoint(location: str, keys: SigningKeys | None = None) -> tuple[CheckpointMetadata, Storage]:
    """Reads a checkpoint or savepoint by its directory or `_metadata` file; returns it with the storage of its paths.

    With keys, metadata not signed with one of them are refused before they are parsed.

    For the directory of a job, the last completed checkpoint is read. If that one is damaged it is refused, since sinks
    may have committed records that came after the previous one.
    """
    location = location.rstrip("/").removesuffix(f"/{METADATA}")
    storage = storage_at(location)
    if storage.exists(METADATA):
        metadata = CheckpointMetadata.from_bytes(storage.read(METADATA), storage.locate(METADATA), keys)
        storage = storage if metadata.savepoint else storage_at(location.rpartition("/")[0])
        _check_files(metadata, storage)
        return metadata, storage
    newest = newest_entry(storage)
    if newest is None:
        raise FileNotFoundError(f"{location} is not a checkpoint, a savepoint or a job's checkpoint directory")
    if newest.kind == ENDED:
        raise FileNotFoundError(f"{location}: the job has ended ({newest.status}) and left nothing to restore")
    if newest.kind == STOPPED:
        assert newest.savepoint is not None
        return _read_stopped(newest.savepoint, storage, keys)
    assert newest.checkpoint is not None
    try:
        return _read(storage, newest.checkpoint, keys), storage
    except CorruptCheckpointError as error:
        raise _refusal(storage, newest.checkpoint, error, keys) from error


def newest_entry(storage: Storage) -> LeaseEntry | None:
    """Returns the entry of the log that a new owner has to restore. Directories without a log are from earlier
    versions.
    """
    entries = LeaseLog(storage).entries()
    if entries:
        return next((entry for entry in reversed(entries) if entry.kind in (COMPLETED, STOPPED, ENDED)), None)
    numbers = [number for number in _numbers(storage) if storage.exists(f"{checkpoint_directory(number)}/{METADATA}")]
    return LeaseEntry(COMPLETED, "", 0, checkpoint=max(numbers)) if numbers else None


def _read(storage: Storage, number: int, keys: SigningKeys | None) -> CheckpointMetadata:
    """Returns a checkpoint of a job, verified."""
    path = f"{checkpoint_directory(number)}/{METADATA}"
    try:
        data = storage.read(path)
    except FileNotFoundError as error:
        raise CorruptCheckpointError(f"{storage.locate(path)} is missing") from error
    metadata = CheckpointMetadata.from_bytes(data, storage.locate(path), keys)
    _check_files(metadata, storage)
    return metadata


def _read_stopped(savepoint: str, storage: Storage, keys: SigningKeys | None) -> tuple[CheckpointMetadata, Storage]:
    try:
        return read_checkpoint(savepoint, keys)
    except (FileNotFoundError, CorruptCheckpointError) as error:
        raise CorruptCheckpointError(
            f"the job of {storage.root} stopped with the savepoint {savepoint}, which cannot be restored: {error}. "
            "Its checkpoints are older, and sinks have committed later records. If the savepoint was moved, specify "
            "its new directory."
        ) from error


def _refusal(
    storage: Storage, newest: int, reason: CorruptCheckpointError, keys: SigningKeys | None
) -> CorruptCheckpointError:
    readable, _ = readable_checkpoints(storage, keys)
    older = [metadata.checkpoint_id for metadata in readable if metadata.checkpoint_id < newest]
    damaged = storage.locate(checkpoint_directory(newest))
    told = f"{damaged}, the last checkpoint of this job, cannot be restored: {reason}."
    if not older:
        return CorruptCheckpointError(f"{told} There is no older one.")
    return CorruptCheckpointError(
        f"{told} {storage.locate(checkpoint_directory(older[-1]))} is intact, but older: sinks may have committed "
        "later records, and would commit them again. If that is acceptable, restore it by its own path."
    )


def readable_checkpoints(
    storage: Storage, keys: SigningKeys | None = None
) -> tuple[list[CheckpointMetadata], list[str]]:
    """Returns the intact checkpoints in the directory of a job, the newest last; and why others cannot be used."""
    found, refused = [], []
    for number in _numbers(storage):
        if not storage.exists(f"{checkpoint_directory(number)}/{METADATA}"):
            continue  # It was never completed.
        try:
            found.append(_read(storage, number, keys))
        except CorruptCheckpointError as error:
            refused.append(str(error))
    return found, refused


def _numbers(storage: Storage) -> list[int]:
    return sorted(int(match[1]) for match in map(_CHECKPOINT.fullmatch, storage.names()) if match)


def _check_files(metadata: CheckpointMetadata, storage: Storage) -> None:
    """Raises unless every file exists with its original size; its content is verified by its reader."""
    wanted = metadata.file_sizes()
    directories = {path.rpartition("/")[0] for path in wanted}
    present = {
        f"{directory}/{name}".lstrip("/"): size
        for directory in directories
        for name, size in storage.sizes(directory).items()
    }
    for path, size in sorted(wanted.items()):
        place = f"{storage.locate(path)}, a file of checkpoint {metadata.checkpoint_id},"
        if path not in present:
            raise CorruptCheckpointError(f"{place} is missing")
        if present[path] < size:
            raise CorruptCheckpointError(f"{place} was truncated: it has {present[path]} of {size} bytes")
        if present[path] > size:
            raise CorruptCheckpointError(f"{place} was altered: it has {present[path]} bytes instead of {size}")
