"""CompletedCheckpoints: the checkpoints of a job that can be gone on from, and the files that belong to them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from flintstream.runtime.checkpoint.metadata import METADATA, CheckpointMetadata, CorruptCheckpointError
from flintstream.runtime.checkpoint.storage import Storage, StorageError, storage_at

SHARED = "shared"
TASK_OWNED = "taskowned"
_CHECKPOINT = re.compile(r"chk-(\d+)")
_ATTEMPT = re.compile(r"attempt-(\d+)")
_log = logging.getLogger(__name__)


def checkpoint_directory(checkpoint_id: int) -> str:
    """The directory of a checkpoint, below that of its job."""
    return f"chk-{checkpoint_id}"


class FencedOffError(RuntimeError):
    """A later attempt of the same job, perhaps of another driver, has taken over."""


class Fence:
    """Keeps all but the latest attempt of a job from completing checkpoints.

    Each attempt leaves a file of its own behind, which only one can create.
    """

    def __init__(self, storage: Storage | None) -> None:
        self._storage = storage
        self._number = 0

    def claim(self) -> None:
        """Begins an attempt: from now on those before it are fenced off."""
        if self._storage is None:
            return
        number = self._latest() + 1
        while not self._storage.create(f"attempt-{number}", b""):
            number += 1
        self._number = number

    @property
    def holds(self) -> bool:
        """Whether this attempt is the latest."""
        return self._storage is None or self._latest() == self._number

    def check(self) -> None:
        """Refuses an attempt that is not the latest."""
        if self._storage is None:
            return
        latest = self._latest()
        if latest > self._number:
            raise FencedOffError(
                f"another driver has taken over this job: {self._storage.root} has attempt {latest}, and this is "
                f"attempt {self._number}"
            )
        if latest < self._number:
            raise StorageError(
                f"checkpoint storage: {self._storage.root} does not have attempt-{self._number} any more, which this job "
                "put there: was it emptied, or cannot it be reached?"
            )

    def _latest(self) -> int:
        assert self._storage is not None
        found = (_ATTEMPT.fullmatch(name) for name in self._storage.names())
        return max((int(match[1]) for match in found if match), default=0)


class CompletedCheckpoints:
    """The latest completed checkpoints of a job, the newest last. `storage` is that of the job's own directory."""

    def __init__(self, storage: Storage | None, retained: int, fence: Fence) -> None:
        self._storage = storage
        self._retained = retained
        self._fence = fence
        self.checkpoints: list[CheckpointMetadata] = []

    @property
    def latest(self) -> CheckpointMetadata | None:
        """The newest one."""
        return self.checkpoints[-1] if self.checkpoints else None

    def find(self, checkpoint_id: int) -> CheckpointMetadata | None:
        """The one with a number, if it is still kept."""
        return next((each for each in self.checkpoints if each.checkpoint_id == checkpoint_id), None)

    @property
    def highest_number(self) -> int:
        """The greatest number that a checkpoint in the job's directory has, also one of an earlier driver."""
        return 0 if self._storage is None else max(_numbers(self._storage), default=0)

    def location(self, metadata: CheckpointMetadata) -> str | None:
        """Where a checkpoint is; None for the driver's memory."""
        return None if self._storage is None else self._storage.locate(checkpoint_directory(metadata.checkpoint_id))

    def add(self, metadata: CheckpointMetadata) -> None:
        """Makes a checkpoint complete: from now on the job can go on from it."""
        if self._storage is not None:
            self._fence.check()
            path = f"{checkpoint_directory(metadata.checkpoint_id)}/{METADATA}"
            self._storage.write(path, metadata.to_bytes())
        self.checkpoints.append(metadata)

    def prune(self, in_use: Iterable[int]) -> None:
        """Removes the oldest checkpoints beyond the number to keep; those `in_use` are the bases of others to come."""
        needed = set(in_use)
        surplus = self.checkpoints[: -self._retained]
        gone = [metadata for metadata in surplus if metadata.checkpoint_id not in needed]
        self.checkpoints = [metadata for metadata in self.checkpoints if metadata not in gone]
        if self._storage is None or not gone:
            return
        self._fence.check()
        kept = set[str]().union(*(metadata.files() for metadata in self.checkpoints))
        for metadata in gone:
            # The metadata first: what is left is then no checkpoint any more.
            self._storage.remove(f"{checkpoint_directory(metadata.checkpoint_id)}/{METADATA}")
            for path in metadata.files() - kept:
                self._storage.remove(path)
            self._storage.remove(checkpoint_directory(metadata.checkpoint_id))

    def discard(self, paths: Iterable[str]) -> None:
        """Removes files of a checkpoint that was given up, unless others need them."""
        if self._storage is not None:
            kept = set[str]().union(*(metadata.files() for metadata in self.checkpoints))
            for path in set(paths) - kept:
                self._storage.remove(path)

    def discard_directory(self, checkpoint_id: int) -> None:
        """Removes the directory of a checkpoint that was given up, unless a later attempt has written there."""
        directory = checkpoint_directory(checkpoint_id)
        if self._storage is not None and (self._fence.holds or not self._storage.names(directory)):
            self._storage.remove(directory)

    def remove_all(self, but: str | None = None) -> None:
        """Removes the job's directory with all its checkpoints, unless a later attempt has taken it over.

        What has the name `but` stays.
        """
        self.checkpoints = []
        if self._storage is None or not self._fence.holds:
            return
        # The newest checkpoint last: whoever goes on when this driver is killed here must not go on from an older one.
        for number in _numbers(self._storage):
            self._storage.remove(checkpoint_directory(number))
        names = self._storage.names()
        if but not in names:
            self._storage.remove("")
            return
        for name in names:
            if name != but:
                self._storage.remove(name)


def read_checkpoint(location: str) -> tuple[CheckpointMetadata, Storage]:
    """A checkpoint or savepoint by its directory or `_metadata` file; and the storage to which its paths are relative.

    The directory of a job stands for its latest checkpoint that is whole; why later ones are not is logged.
    """
    location = location.rstrip("/").removesuffix(f"/{METADATA}")
    storage = storage_at(location)
    if storage.exists(METADATA):
        metadata = CheckpointMetadata.from_bytes(storage.read(METADATA), storage.locate(METADATA))
        storage = storage if metadata.savepoint else storage_at(location.rpartition("/")[0])
        _check_files(metadata, storage)
        return metadata, storage
    found, refused = readable_checkpoints(storage)
    reasons = "".join(f"\n  {reason}" for reason in refused)
    if not found:
        raise FileNotFoundError(
            f"{location} is no checkpoint, savepoint or directory with checkpoints of a job{reasons}"
        )
    if refused:
        _log.warning("%s: checkpoint %d is used; others cannot be:%s", location, found[-1].checkpoint_id, reasons)
    return found[-1], storage


def readable_checkpoints(storage: Storage) -> tuple[list[CheckpointMetadata], list[str]]:
    """The checkpoints in the directory of a job, the newest last; and why others in it cannot be used."""
    found, refused = [], []
    for number in _numbers(storage):
        path = f"{checkpoint_directory(number)}/{METADATA}"
        try:
            metadata = CheckpointMetadata.from_bytes(storage.read(path), storage.locate(path))
            _check_files(metadata, storage)
        except FileNotFoundError:
            continue  # It was never completed.
        except CorruptCheckpointError as error:
            refused.append(str(error))
        else:
            found.append(metadata)
    return found, refused


def _numbers(storage: Storage) -> list[int]:
    return sorted(int(match[1]) for match in map(_CHECKPOINT.fullmatch, storage.names()) if match)


def _check_files(metadata: CheckpointMetadata, storage: Storage) -> None:
    wanted = metadata.files()
    directories = {path.rpartition("/")[0] for path in wanted}
    present = {f"{directory}/{name}".lstrip("/") for directory in directories for name in storage.names(directory)}
    missing = sorted(wanted - present)
    if missing:
        raise CorruptCheckpointError(
            f"{storage.locate(missing[0])}, a file of checkpoint {metadata.checkpoint_id}, is missing"
        )
