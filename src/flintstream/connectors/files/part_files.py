"""Part files: the files that a subtask of a file sink writes.

A file is in progress while it is written, pending when it is finished, and committed when the checkpoint that contains it
is complete. Only the commit gives it its name; before, it has a hidden one, which readers ignore.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

from flintstream.common.serialization import BulkWriterFactory
from flintstream.connectors.files.paths import (
    exists,
    is_local,
    join,
    make_directory,
    open_for_writing,
    remove,
    rename,
)
from flintstream.connectors.files.sink_config import (
    DefaultRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.runtime.faults import record_at_fault

_log = logging.getLogger(__name__)
_COPIED_BYTES = 1024 * 1024


class PendingFile(NamedTuple):
    """A finished file, pending for its checkpoint, as it is stored."""

    hidden_path: str
    path: str
    size: int

    def commit(self) -> None:
        """Gives the file its name; idempotent."""
        publish(self)


class ReplacedFile(NamedTuple):
    """A file of an earlier attempt that was copied; needed until a checkpoint that contains the copy is complete."""

    path: str

    def commit(self) -> None:
        """Removes the file."""
        remove(self.path)


class InProgressFile(NamedTuple):
    """A file that stays open over a checkpoint, as it is stored."""

    bucket: str
    hidden_path: str
    path: str
    size: int
    """The bytes that belong to the checkpoint; later ones are discarded by a restore."""
    created: float
    updated: float


class RefusedRecordError(Exception):
    """A bulk writer failed on a record; its own exception is the cause."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        self.record = record


@dataclass
class _Part:
    """The open file of a bucket, written with encoded records or by a bulk writer."""

    hidden_path: str
    path: str
    file: IO[bytes]
    writer: Any
    created: float
    updated: float
    size: int = 0
    synced: int = -1
    """The size at the last `sync`."""
    is_copy: bool = False
    """Whether it is a copy of a restored file that no checkpoint contains yet."""

    def append(self, pieces: list[bytes]) -> None:
        data = b"".join(pieces)
        self.file.write(data)
        self.size += len(data)

    def add(self, records: list[Any]) -> None:
        add, consumed = self.writer.add_element, iter(records)
        try:
            for record in consumed:
                add(record)
        except Exception as error:
            raise RefusedRecordError(record_at_fault(records, consumed)) from error

    def sync(self) -> None:
        """Flushes the file to disk, so that it survives a failure of the machine."""
        if self.writer is None and self.size == self.synced:
            return
        self.file.flush()
        if is_local(self.hidden_path):
            os.fsync(self.file.fileno())
        self.synced = self.size

    def complete(self) -> PendingFile:
        if self.writer is not None:
            self.writer.flush()
            self.writer.finish()
        self.sync()
        size = self.file.tell()
        self.file.close()
        return PendingFile(self.hidden_path, self.path, size)

    def give_up(self) -> None:
        """Closes the file as it is. A writer may hold it open until it is finished."""
        with suppress(Exception):
            if self.writer is not None:
                self.writer.finish()
        with suppress(OSError):
            self.file.close()
            if self.is_copy:
                remove(self.hidden_path)


@dataclass
class PartFiles:
    """The part files of one subtask, below one path.

    `stem` distinguishes the files of this subtask from those of others; the number of the file and the suffix follow it.
    """

    base_path: str
    stem: str
    names: OutputFileConfig
    policy: RollingPolicy
    check_seconds: float
    bulk: BulkWriterFactory | None = None
    _open: dict[str, _Part] = field(default_factory=dict)
    completed: list[PendingFile] = field(default_factory=list)
    """Finished files that no checkpoint contains yet."""
    _replaced: list[ReplacedFile] = field(default_factory=list)
    _first_number: int = 0
    _numbers: dict[str, int] = field(default_factory=dict)
    _checked: float = 0.0

    # --- writing ---

    def write(self, bucket: str, pieces: list[Any], now: float) -> None:
        """Appends encoded records, or records for a bulk writer, to the bucket's file; rolls it by policy."""
        most = self.policy.part_size if isinstance(self.policy, DefaultRollingPolicy) else None
        first = 0
        while first < len(pieces):
            part = self._part(bucket, now)
            part.updated = now
            if part.writer is not None:
                part.add(pieces)
                return
            last = len(pieces) if most is None else _fitting(pieces, first, most - part.size)
            part.append(pieces[first:last])
            first = last
            if most is not None and part.size > most:
                self._complete(bucket)

    def roll(self, now: float) -> None:
        """Finishes the files that are too old, or were inactive for too long."""
        if now < self._checked + self.check_seconds:
            return
        self._checked = now
        for bucket, part in list(self._open.items()):
            due = self._due(part)
            if due is not None and due <= now:
                self._complete(bucket)

    def next_due(self) -> float | None:
        """Returns when `roll` is due; None if never."""
        dues = [due for due in map(self._due, self._open.values()) if due is not None]
        return max(min(dues), self._checked + self.check_seconds) if dues else None

    def complete_all(self) -> None:
        """Finishes all files at the end of the input."""
        for bucket in list(self._open):
            self._complete(bucket)

    def close(self) -> None:
        """Closes the open files; uncommitted files stay hidden."""
        while self._open:
            self._open.popitem()[1].give_up()

    # --- checkpoints ---

    def prepare(self) -> list[ReplacedFile]:
        """Prepares the files for a checkpoint: syncs those that stay open, and finishes the others."""
        for bucket, part in list(self._open.items()):
            if self._goes_on:
                part.sync()
                part.is_copy = False
            else:
                self._complete(bucket)
        replaced, self._replaced = self._replaced, []
        return replaced

    def take_completed(self) -> list[PendingFile]:
        """Returns and removes the finished files, for the caller to commit."""
        taken, self.completed = self.completed, []
        return taken

    def in_progress(self) -> list[InProgressFile]:
        """Returns the files that stay open over the checkpoint."""
        return [
            InProgressFile(bucket, part.hidden_path, part.path, part.size, part.created, part.updated)
            for bucket, part in self._open.items()
        ]

    def next_number(self) -> int:
        """Returns a number that no file of this subtask has."""
        return max(self._numbers.values(), default=self._first_number)

    def restore(self, in_progress: Iterable[InProgressFile], first_number: int) -> None:
        """Resumes the files in progress at a checkpoint."""
        self._first_number = first_number
        for stored in in_progress:
            part = self._resumed(stored)
            if self._goes_on and stored.bucket not in self._open:
                self._open[stored.bucket] = part
            else:
                # From another subtask, which wrote to the same bucket.
                self.completed.append(part.complete())

    # --- open files ---

    @property
    def _goes_on(self) -> bool:
        """Returns whether files stay open over a checkpoint: not those behind URLs, which cannot be truncated."""
        return isinstance(self.policy, DefaultRollingPolicy) and self.bulk is None and is_local(self.base_path)

    def _due(self, part: _Part) -> float | None:
        policy = self.policy
        if not isinstance(policy, DefaultRollingPolicy):
            return None
        return min(part.created + policy.rollover_interval / 1000, part.updated + policy.inactivity_interval / 1000)

    def _part(self, bucket: str, now: float) -> _Part:
        part = self._open.get(bucket)
        if part is None:
            directory = join(self.base_path, bucket)
            make_directory(directory)
            path = join(directory, self._next_name(bucket, directory))
            hidden = hidden_path(path)
            file = open_for_writing(hidden)
            writer = None if self.bulk is None else self.bulk.create(file)
            part = self._open[bucket] = _Part(hidden, path, file, writer, now, now)
        return part

    def _next_name(self, bucket: str, directory: str) -> str:
        while True:
            number = self._numbers.get(bucket, self._first_number)
            self._numbers[bucket] = number + 1
            name = f"{self.stem}-{number}{self.names.get_part_suffix()}"
            if not exists(join(directory, name)):
                return name

    def _complete(self, bucket: str) -> None:
        self.completed.append(self._open[bucket].complete())
        del self._open[bucket]

    def _resumed(self, stored: InProgressFile) -> _Part:
        """Continues in a copy: a process of the failed attempt may still be writing to the file."""
        try:
            old = open(stored.hidden_path, "rb")
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{stored.hidden_path}: the checkpoint contains {stored.size} bytes of this file, which does not exist. "
                "Either it was removed, or the checkpoint is an old one, and the file was finished after it"
            ) from None
        hidden = hidden_path(stored.path)
        file = open_for_writing(hidden)
        with old:
            left = stored.size
            while left > 0:
                data = old.read(min(left, _COPIED_BYTES))
                if not data:
                    raise OSError(f"{stored.hidden_path}: {left} bytes of the checkpoint are missing")
                file.write(data)
                left -= len(data)
        self._replaced.append(ReplacedFile(stored.hidden_path))
        return _Part(hidden, stored.path, file, None, stored.created, stored.updated, stored.size, is_copy=True)


def hidden_path(path: str) -> str:
    """Returns a unique name for a file in progress."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.inprogress.{uuid.uuid4()}"


def publish(file: PendingFile) -> None:
    """Gives a file its name, unless it has it already."""
    if exists(file.hidden_path):
        rename(file.hidden_path, file.path)
    elif not exists(file.path):
        _log.warning("%s is gone: it was committed before and then removed, or it is lost", file.path)


def _fitting(pieces: list[bytes], first: int, room: int) -> int:
    """Returns the end of the pieces that are written before the file is full; it exceeds its limit by less than a piece."""
    last = first
    while last < len(pieces) and room >= 0:
        room -= len(pieces[last])
        last += 1
    return last
