"""Files in compaction: small part files, and the larger files made of them.

A finished part file stays hidden. Those of a bucket are compacted into one file, hidden too, which is pending for a
checkpoint. Only when that is complete the compacted file gets its name, and the parts are removed: until then a restore
needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from flintstream.connectors.files.compaction import FileCompactor, FileCompactStrategy, WriteRecords
from flintstream.connectors.files.part_files import PendingFile, hidden_path, publish
from flintstream.connectors.files.paths import exists, is_local, join, open_for_writing, remove

__all__ = ["CompactedFile", "CompactedFiles", "directory_of"]


class CompactedFile(NamedTuple):
    """A compacted file, pending for its checkpoint, and the hidden parts that it replaces, as it is stored."""

    file: PendingFile
    parts: tuple[str, ...] = ()

    def commit(self) -> None:
        """Gives the file its name, and removes its parts; idempotent."""
        publish(self.file)
        for part in self.parts:
            remove(part)


class _Compaction(NamedTuple):
    parts: list[PendingFile]
    result: Future[CompactedFile]


@dataclass
class CompactedFiles:
    """The files of some buckets.

    :param strategy: when files are compacted; None to rename each at once.
    :param on_compacted: called when a compaction is done, on any thread.
    """

    strategy: FileCompactStrategy | None
    compactor: FileCompactor
    write_records: WriteRecords
    on_compacted: Callable[[], None]
    checkpoints: int = 0
    """The number of checkpoints since all files were compacted."""
    _waiting: dict[str, list[PendingFile]] = field(default_factory=dict)
    """The files to compact, by bucket."""
    _running: list[_Compaction] = field(default_factory=list)
    _compacted: list[CompactedFile] = field(default_factory=list)
    """Compacted files that no checkpoint contains yet."""
    _threads: ThreadPoolExecutor | None = None

    # --- compaction ---

    def add(self, files: Iterable[PendingFile]) -> None:
        """Adds finished files; compacts those of a bucket once they are large enough together."""
        for file in files:
            bucket = directory_of(file)
            waiting = self._waiting.setdefault(bucket, [])
            waiting.append(file)
            if self._is_enough(waiting):
                self.compact(self._waiting.pop(bucket))

    def end_epoch(self) -> None:
        """Compacts all files if enough checkpoints were taken; raises the failure of an earlier compaction."""
        self._take_results(wait=False)
        if self._counts_checkpoints and self.checkpoints >= self._most_checkpoints:
            self.checkpoints = 0
            self._compact_all()

    def finish(self) -> None:
        """Compacts all files at the end of the input, and waits for it."""
        self._compact_all()
        self._take_results(wait=True)

    def compact(self, parts: list[PendingFile]) -> None:
        """Compacts files into one, on another thread."""
        if self.strategy is None:
            self._compacted += [_renamed(part) for part in parts]
        elif len(parts) == 1 and self.compactor.keeps_single_files:
            self._compacted.append(_renamed(parts[0]))
        else:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.strategy.num_compact_threads, "compaction")
            result = self._threads.submit(self._made_of, parts)
            result.add_done_callback(lambda done: None if done.cancelled() else self.on_compacted())
            self._running.append(_Compaction(parts, result))

    def close(self) -> None:
        """Ends running compactions, and removes compacted files that no checkpoint contains."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        done = [each.result for each in self._running if not each.result.cancelled()]
        made = [result.result() for result in done if result.exception() is None]
        for compacted in made + self._compacted:
            if compacted.parts:
                remove(compacted.file.hidden_path)

    # --- checkpoints ---

    def prepare(self) -> list[CompactedFile]:
        """Returns the compacted files, which are pending for the checkpoint that is taken now."""
        self._take_results(wait=False)
        self.checkpoints += 1
        made, self._compacted = self._compacted, []
        return made

    @property
    def wants_checkpoints(self) -> bool:
        """Returns whether files wait until enough checkpoints were taken."""
        return self._counts_checkpoints and bool(self._waiting)

    def waiting(self) -> list[PendingFile]:
        """Returns the files to compact."""
        return [file for files in self._waiting.values() for file in files]

    def running(self) -> list[list[PendingFile]]:
        """Returns the files of running compactions."""
        return [each.parts for each in self._running]

    # --- helpers ---

    @property
    def _most_checkpoints(self) -> int:
        return -1 if self.strategy is None else self.strategy.num_checkpoints_before_compaction

    @property
    def _counts_checkpoints(self) -> bool:
        return self._most_checkpoints > 0

    def _is_enough(self, files: list[PendingFile]) -> bool:
        if self.strategy is None:
            return True
        return 0 < self.strategy.size_threshold <= sum(file.size for file in files)

    def _compact_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for files in waiting.values():
            self.compact(files)

    def _take_results(self, wait: bool) -> None:
        for each in list(self._running):
            if wait or each.result.done():
                self._compacted.append(each.result.result())
                self._running.remove(each)

    def _made_of(self, parts: list[PendingFile]) -> CompactedFile:
        sources = [part.hidden_path for part in parts]
        for source in sources:
            if not exists(source):
                raise FileNotFoundError(
                    f"{source}: the file to compact does not exist. Either it was removed, or the job was "
                    "restored from an old checkpoint, and the file was compacted after it"
                )
        path = _compacted_path(parts[0].path)
        hidden = hidden_path(path)
        try:
            with open_for_writing(hidden) as file:
                self.compactor.compact(sources, file, self.write_records)
                file.flush()
                if is_local(hidden):
                    os.fsync(file.fileno())
                size = file.tell()
        except BaseException:
            remove(hidden)
            raise
        return CompactedFile(PendingFile(hidden, path, size), tuple(sources))


def directory_of(file: PendingFile) -> str:
    """Returns the directory of a file, which is its bucket."""
    return file.path.rpartition("/")[0]


def _renamed(file: PendingFile) -> CompactedFile:
    return CompactedFile(file._replace(path=_compacted_path(file.path)))


def _compacted_path(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return join(directory, f"compacted-{name}")
