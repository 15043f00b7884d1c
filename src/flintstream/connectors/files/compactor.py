"""The operators of a file sink with compaction: one writes part files and hands them over, the other compacts them."""

from __future__ import annotations

import zlib

from flintstream.connectors.files.compacted import CompactedFile, CompactedFiles, directory_of
from flintstream.connectors.files.part_files import PendingFile
from flintstream.connectors.files.sink import FileSinkOperator, FilesOperator
from flintstream.runtime.batch import Batch
from flintstream.runtime.state.operator_state import ListDescriptor

__all__ = ["CompactedFileSinkOperator", "FileCompactorOperator", "owner_of"]

_WAITING = ListDescriptor("files-to-compact")
_RUNNING = ListDescriptor("compactions")
_PENDING = ListDescriptor("compacted-files")
_CHECKPOINTS = ListDescriptor("checkpoints-since-compaction")


def owner_of(directory: str, subtasks: int) -> int:
    """Which subtask compacts the files of a directory."""
    return zlib.crc32(directory.encode()) % subtasks


class CompactedFileSinkOperator(FileSinkOperator):
    """Writes part files in a slot, and hands those that are complete over in the next epoch.

    Until then they are its own, and part of its state. Where compaction is disabled that goes only for what was restored.
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
        kept = self._restored + self._opened.completed
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
            files += self._opened.take_completed()
        self.output.emit(Batch(files))


class FileCompactorOperator(FilesOperator[CompactedFiles]):
    """Compacts part files in a slot. A subtask has some of the buckets, and of these the files of all writers."""

    takes_results = False  # Files come in, not records.

    def open(self) -> None:
        compaction = self._settings.compaction
        assert compaction is not None
        files = self._files = CompactedFiles(
            compaction.strategy,
            compaction.compactor,
            self._settings.write_records,
            self.context.services.notify_data,
        )
        state = self.context.operator_state
        # All subtasks get all of them, and each takes those of its buckets, whatever the parallelism was.
        self._waiting = state.get_union_list_state(_WAITING)
        self._running = state.get_union_list_state(_RUNNING)
        self._pending = state.get_union_list_state(_PENDING)
        self._checkpoints = state.get_union_list_state(_CHECKPOINTS)
        files.checkpoints = max(self._checkpoints, default=0)
        self._guarded(self._restore)

    def process(self, batch: Batch) -> None:
        self._guarded(self._opened.add, batch.values)

    def process_watermark(self, timestamp: int) -> None:
        """Nothing follows that could use it."""

    def end_epoch(self) -> None:
        self._guarded(self._opened.end_epoch)

    def finish(self) -> None:
        self._guarded(self._opened.finish)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        files = self._opened
        self._guarded(files.prepare, checkpoint_id)
        self._waiting.update(map(tuple, files.waiting()))
        self._running.update([tuple(part) for part in parts] for parts in files.running())
        self._pending.update((tuple(made.file), made.parts) for made in files.pending())
        self._checkpoints.update([files.checkpoints])
        if files.wants_checkpoints:
            # An idle job takes no checkpoints, and these files wait for some.
            self.context.services.notify_data()

    def _restore(self) -> None:
        """Goes on from a complete checkpoint: commits what waited for it, and compacts what was to be compacted."""
        files = self._opened
        for made in [CompactedFile(PendingFile(*file), parts) for file, parts in self._pending]:
            if self._is_mine(made.file):
                made.commit()
        for parts in [[PendingFile(*part) for part in parts] for parts in self._running]:
            if self._is_mine(parts[0]):
                files.compact(parts)
        files.add(file for file in (PendingFile(*element) for element in self._waiting) if self._is_mine(file))

    def _is_mine(self, file: PendingFile) -> bool:
        return owner_of(directory_of(file), self.context.parallelism) == self.context.subtask
