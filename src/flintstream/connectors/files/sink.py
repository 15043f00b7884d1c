"""The operator of file sinks: assigns records to files, and stores the files in checkpoints."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from flintstream.common.printing import line_formatter
from flintstream.common.serialization import BulkWriterFactory, Encoder, _Lines
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.files.compacted import CompactedFile, CompactedFiles
from flintstream.connectors.files.compaction import FileCompaction
from flintstream.connectors.files.part_files import (
    InProgressFile,
    PartFiles,
    PendingFile,
    RefusedRecordError,
    ReplacedFile,
)
from flintstream.connectors.files.sink_config import BucketAssigner, OutputFileConfig, RollingPolicy
from flintstream.runtime.batch import MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault, user_fault
from flintstream.runtime.operators.base import OperatorContext
from flintstream.runtime.operators.committing import CommittingOperator
from flintstream.runtime.output import Output
from flintstream.runtime.state.operator_state import ListDescriptor

__all__ = ["FileSinkOperator", "FileSinkSettings"]

_IN_PROGRESS = ListDescriptor("files-in-progress")
_NUMBERS = ListDescriptor("part-numbers")
_TO_COMPACT = ListDescriptor("files-to-compact")


@dataclass(frozen=True)
class FileSinkSettings:
    """The settings of a file sink."""

    base_path: str
    file_format: Encoder | BulkWriterFactory
    bucket_assigner: BucketAssigner
    rolling_policy: RollingPolicy
    names: OutputFileConfig
    check_seconds: float
    compaction: FileCompaction | None = None
    """None if it was neither enabled nor disabled."""

    @property
    def bulk(self) -> BulkWriterFactory | None:
        """Returns the writer factory of a bulk format; None for others."""
        return self.file_format if isinstance(self.file_format, BulkWriterFactory) else None

    def files(self, identity: str) -> PartFiles:
        """Returns the part files of a subtask."""
        stem = f"{self.names.get_part_prefix()}-{identity}"
        return PartFiles(self.base_path, stem, self.names, self.rolling_policy, self.check_seconds, self.bulk)

    def encode(self, input_type: TypeInformation | None) -> Callable[[Any], bytes] | None:
        """Returns a function that encodes a record; None for a bulk format. Plain text is formatted as in Java."""
        if not isinstance(self.file_format, Encoder):
            return None
        if isinstance(self.file_format._encode, _Lines):
            show, charset = line_formatter(input_type), self.file_format._encode.charset
            return lambda element: f"{show(element)}\n".encode(charset)
        return self.file_format.encode

    def write_records(self, records: Iterable[Any], record_type: TypeInformation | None, stream: IO[bytes]) -> None:
        """Writes a whole file."""
        encode = self.encode(record_type)
        if encode is not None:
            stream.writelines(map(encode, records))
            return
        assert self.bulk is not None
        writer = self.bulk.create(stream)
        for record in records:
            writer.add_element(record)
        writer.flush()
        writer.finish()


CommittableFile = TypeVar("CommittableFile", bound=PendingFile | ReplacedFile | CompactedFile)


class FilesOperator(CommittingOperator[CommittableFile]):
    """Base of the operators of a file sink: a commit gives a file its name. Uncommitted files stay hidden."""

    _files: PartFiles | CompactedFiles

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings

    def commit(self, committable: CommittableFile) -> None:
        self._guarded(committable.commit)

    def abort(self) -> None:
        self._files.close()

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function that accesses files; its exceptions are reported with the operator's name."""
        try:
            return call(*arguments)
        except RefusedRecordError as refused:
            error = refused.__cause__ or refused
            raise user_fault(error, self.context.name, self.context.subtask, refused.record) from error
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error


class FileSinkOperator(FilesOperator[PendingFile | ReplacedFile]):
    """Writes part files in a slot.

    :param unique_names: whether names contain a unique id; otherwise numbers continue after a restore.
    """

    takes_declared_types = True
    committables = ListDescriptor("pending-files")
    _files: PartFiles

    def __init__(self, settings: FileSinkSettings, input_type: TypeInformation | None, unique_names: bool) -> None:
        super().__init__(settings)
        self._type = input_type
        self._unique_names = unique_names

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        identity = f"{uuid.uuid4()}-{context.subtask}" if self._unique_names else f"{context.subtask}"
        self._files = self._settings.files(identity)

    def connect(self) -> None:
        self._encode = self._settings.encode(self._type)
        self._bucket_context = _BucketContext()
        state = self.context.operator_state
        self._in_progress = state.get_list_state(_IN_PROGRESS)
        self._numbers = state.get_union_list_state(_NUMBERS)
        self._to_compact = state.get_list_state(_TO_COMPACT)
        self._guarded(self._check_compaction)

    def open(self) -> None:
        super().open()
        in_progress = [InProgressFile(*element) for element in self._in_progress]
        self._guarded(self._files.restore, in_progress, max(self._numbers, default=0))

    def process(self, batch: Batch) -> None:
        now = time.time()
        pieces = self._encoded(batch.values)
        bucket = self._settings.bucket_assigner.bucket_at(int(now * 1000))
        if bucket is not None:
            self._guarded(self._files.write, bucket, pieces, now)
        else:
            for each, written in self._by_bucket(batch, pieces, int(now * 1000)).items():
                self._guarded(self._files.write, each, written, now)

    def process_watermark(self, timestamp: int) -> None:
        self._bucket_context.watermark = timestamp

    def tick(self) -> None:
        self._guarded(self._files.roll, time.time())

    def next_due(self) -> float | None:
        return self._files.next_due()

    def finish(self) -> None:
        self._guarded(self._files.complete_all)

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[PendingFile | ReplacedFile]:
        files = self._files
        replaced = self._guarded(files.prepare)
        self._in_progress.update(map(tuple, files.in_progress()))
        self._numbers.update([files.next_number()])
        return [*([] if self._hands_over else files.take_completed()), *replaced]

    def stored(self) -> list[Any]:
        return [tuple(file) for _, file in self.pending if isinstance(file, PendingFile)]

    def restored(self, elements: Sequence[Any]) -> list[tuple[int, PendingFile | ReplacedFile]]:
        return [(0, PendingFile(*element)) for element in elements]

    @property
    def _hands_over(self) -> bool:
        """Returns whether another operator commits the files."""
        return False

    def _check_compaction(self) -> None:
        if self._settings.compaction is None and any(self._to_compact):
            raise ValueError(
                "the stored state of the sink has files to compact, but compaction is not configured any more: call "
                "disable_compact(), so that they get their names"
            )

    def _encoded(self, values: list[Any]) -> list[Any]:
        encode, records = self._encode, iter(values)
        if encode is None:
            return values
        try:
            return [encode(record) for record in records]
        except Exception as error:
            record = record_at_fault(values, records)
            raise user_fault(error, self.context.name, self.context.subtask, record) from error

    def _by_bucket(self, batch: Batch, pieces: list[Any], now: int) -> dict[str, list[Any]]:
        context, assign = self._bucket_context, self._settings.bucket_assigner.get_bucket_id
        context.now = now
        buckets: dict[str, list[Any]] = {}
        for index, (record, piece) in enumerate(zip(batch.values, pieces, strict=True)):
            context.record_timestamp = NO_TIMESTAMP if batch.timestamps is None else batch.timestamps[index]
            try:
                bucket = _checked_bucket(assign(record, context))
            except Exception as error:
                raise user_fault(error, self.context.name, self.context.subtask, record) from error
            buckets.setdefault(bucket, []).append(piece)
        return buckets


class _BucketContext:
    """The context of a bucket assigner."""

    def __init__(self) -> None:
        self.record_timestamp = NO_TIMESTAMP
        self.watermark = MIN_WATERMARK
        self.now = 0

    def timestamp(self) -> int | None:
        return None if self.record_timestamp == NO_TIMESTAMP else self.record_timestamp

    def current_watermark(self) -> int:
        return self.watermark

    def current_processing_time(self) -> int:
        return self.now


def _checked_bucket(bucket: Any) -> str:
    if not isinstance(bucket, str) or bucket.startswith("/") or ".." in bucket.split("/"):
        raise ValueError(f"a bucket id must be a path below the sink's own, got {bucket!r}")
    return bucket
