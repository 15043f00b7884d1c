"""The operators of a file sink with compaction: one writes part files, the other compacts them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from flintstream.connectors.files.compacted import CompactedFile, CompactedFiles, directory_of
from flintstream.connectors.files.part_files import PendingFile
from flintstream.connectors.files.sink import FileSinkOperator, FilesOperator
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import OperatorContext
from flintstream.runtime.output import Output
from flintstream.runtime.state.operator_state import ListDescriptor

__all__ = ["CompactedFileSinkOperator", "FileCompactorOperator", "owner_of"]

_WAITING = ListDescriptor("files-to-compact")
_RUNNING = ListDescriptor("compactions")
_CHECKPOINTS = ListDescriptor("checkpoints-since-compaction")


def owner_of(directory: str, subtasks: int) -> int:
    """Returns the subtask that compacts the files of a directory."""
    return zlib.crc32(directory.encode()) % subtasks


class CompactedFileSinkOperator(FileSinkOperator):
    """Writes part files, and passes finished ones to the compactor in the next epoch.

    Until then they belong to its state. If compaction is disabled, it passes on restored files only.
    """

    takes_results = True

    def open(self) -> None:
        super().open()
        self._restored = [PendingFile(*element) for element in self._to_compact]

    def end_epoch(self) -> None:
        super().end_epoch()
        self._hand_over()

    def finish(self) -> None:
        super().finish()
        self._hand_over()
        self.output.finish()

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        kept = self._restored + self._files.completed
        self._to_compact.update(map(tuple, kept))
        if kept:
            self.context.services.notify_data()

    @property
    def _hands_over(self) -> bool:
        compaction = self._settings.compaction
        return compaction is not None and compaction.strategy is not None

    def _hand_over(self) -> None:
        files, self._restored = self._restored, []
        if self._hands_over:
            files += self._files.take_completed()
        self.output.emit(Batch(files))


class FileCompactorOperator(FilesOperator[CompactedFile]):
    """Compacts part files. A subtask owns some of the buckets, with the files of all writers."""

    takes_results = False  # It receives files, not records.
    committables = ListDescriptor("compacted-files")
    # All subtasks restore all files, and each keeps those of its buckets, at any parallelism.
    shared = True
    _files: CompactedFiles

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        compaction = self._settings.compaction
        assert compaction is not None
        self._files = CompactedFiles(
            compaction.strategy,
            compaction.compactor,
            self._settings.write_records,
            lambda: self.context.services.notify_data(),
        )

    def open(self) -> None:
        super().open()
        state = self.context.operator_state
        self._waiting = state.get_union_list_state(_WAITING)
        self._running = state.get_union_list_state(_RUNNING)
        self._checkpoints = state.get_union_list_state(_CHECKPOINTS)
        self._files.checkpoints = max(self._checkpoints, default=0)
        self._guarded(self._resume)

    def process(self, batch: Batch) -> None:
        self._guarded(self._files.add, batch.values)

    def process_watermark(self, timestamp: int) -> None:
        """Does nothing: there is no output."""

    def end_epoch(self) -> None:
        self._guarded(self._files.end_epoch)

    def finish(self) -> None:
        self._guarded(self._files.finish)

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[CompactedFile]:
        files = self._files
        made: list[CompactedFile] = self._guarded(files.prepare)
        self._waiting.update(map(tuple, files.waiting()))
        self._running.update([tuple(part) for part in parts] for parts in files.running())
        self._checkpoints.update([files.checkpoints])
        if files.wants_checkpoints:
            # An idle job takes no checkpoints, but these files wait for some.
            self.context.services.notify_data()
        return made

    def stored(self) -> list[Any]:
        return [(tuple(made.file), made.parts) for _, made in self.pending]

    def restored(self, elements: Sequence[Any]) -> list[tuple[int, CompactedFile]]:
        return [(0, CompactedFile(PendingFile(*file), parts)) for file, parts in elements]

    def is_mine(self, committable: CompactedFile) -> bool:
        return self._owns(committable.file)

    def _resume(self) -> None:
        """Compacts the files that were to be compacted at the restored checkpoint."""
        for parts in [[PendingFile(*part) for part in parts] for parts in self._running]:
            if self._owns(parts[0]):
                self._files.compact(parts)
        self._files.add(file for file in (PendingFile(*element) for element in self._waiting) if self._owns(file))

    def _owns(self, file: PendingFile) -> bool:
        return owner_of(directory_of(file), self.context.parallelism) == self.context.subtask
