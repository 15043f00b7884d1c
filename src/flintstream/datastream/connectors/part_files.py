"""Part files: what a subtask of a file sink writes. A file has a hidden name until it is complete."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import IO

from flintstream.datastream.connectors.file_paths import (
    exists,
    join,
    make_directory,
    open_for_writing,
    rename,
)
from flintstream.datastream.connectors.file_sink_config import (
    DefaultRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)

__all__ = ["PartFiles"]


@dataclass
class _Part:
    """The file of a bucket that is being written."""

    hidden_path: str
    path: str
    file: IO[bytes]
    created: float
    updated: float
    size: int = 0


@dataclass
class PartFiles:
    """The part files of one subtask, below one path.

    `stem` tells the files of this subtask from those of others; the number of the file and the suffix follow
    it.
    """

    base_path: str
    stem: str
    names: OutputFileConfig
    policy: RollingPolicy
    check_seconds: float
    _open: dict[str, _Part] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _checked: float = 0.0

    def write(self, bucket: str, pieces: list[bytes], now: float) -> None:
        """Appends encoded records to the bucket's file; starts another file where the policy says so."""
        most = self.policy.part_size if isinstance(self.policy, DefaultRollingPolicy) else None
        first = 0
        while first < len(pieces):
            part = self._part(bucket, now)
            last = len(pieces) if most is None else _fitting(pieces, first, most - part.size)
            data = b"".join(pieces[first:last])
            part.file.write(data)
            part.size += len(data)
            part.updated = now
            first = last
            if most is not None and part.size > most:
                self._complete(bucket)

    def roll(self, now: float) -> None:
        """Completes the files that are too old, or were not written to for too long."""
        if now < self._checked + self.check_seconds:
            return
        self._checked = now
        for bucket, part in list(self._open.items()):
            due = self._due(part)
            if due is not None and due <= now:
                self._complete(bucket)

    def next_due(self) -> float | None:
        """When `roll` has something to do; None if never."""
        dues = [due for due in map(self._due, self._open.values()) if due is not None]
        return max(min(dues), self._checked + self.check_seconds) if dues else None

    def complete_all(self) -> None:
        """The input has ended: gives all files their final names."""
        for bucket in list(self._open):
            self._complete(bucket)

    def close(self) -> None:
        """Closes what is open; incomplete files stay hidden."""
        while self._open:
            self._open.popitem()[1].file.close()

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
            name = self._next_name(bucket, directory)
            hidden = join(directory, f".{name}.inprogress.{uuid.uuid4()}")
            part = _Part(hidden, join(directory, name), open_for_writing(hidden), now, now)
            self._open[bucket] = part
        return part

    def _next_name(self, bucket: str, directory: str) -> str:
        while True:
            number = self._numbers.get(bucket, 0)
            self._numbers[bucket] = number + 1
            name = f"{self.stem}-{number}{self.names.get_part_suffix()}"
            if not exists(join(directory, name)):
                return name

    def _complete(self, bucket: str) -> None:
        part = self._open.pop(bucket)
        part.file.close()
        rename(part.hidden_path, part.path)


def _fitting(pieces: list[bytes], first: int, room: int) -> int:
    """Up to where pieces are written before the file is full; a piece is written as long as there is room
    left or none is exceeded, so that a file is larger than its limit by less than a piece."""
    last = first
    while last < len(pieces) and room >= 0:
        room -= len(pieces[last])
        last += 1
    return last
