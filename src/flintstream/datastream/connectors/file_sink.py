"""FileSink and StreamingFileSink: records into part files, in buckets."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from flintstream.common.printing import formatter
from flintstream.common.serialization import BulkWriterFactory, Encoder, _Lines
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.connectors.base import Sink, StreamTransformer, SupportsPreprocessing, positive
from flintstream.datastream.connectors.file_paths import absolute
from flintstream.datastream.connectors.file_sink_config import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.datastream.connectors.part_files import PartFiles
from flintstream.datastream.io_functions import RichSinkFunction
from flintstream.runtime.batch import MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault, user_fault
from flintstream.runtime.operators.base import Operator

__all__ = ["FileSink", "FileSinkOperator", "StreamingFileSink"]

_Builder = TypeVar("_Builder", bound="_RowBuilder")


@dataclass(frozen=True)
class FileSinkSettings:
    """All that a file sink has been told."""

    base_path: str
    encoder: Encoder
    bucket_assigner: BucketAssigner
    rolling_policy: RollingPolicy
    names: OutputFileConfig
    check_seconds: float

    def files(self, identity: str) -> PartFiles:
        """The part files of a subtask."""
        stem = f"{self.names.get_part_prefix()}-{identity}"
        return PartFiles(self.base_path, stem, self.names, self.rolling_policy, self.check_seconds)

    def encode(self, input_type: TypeInformation | None) -> Callable[[Any], bytes]:
        """What makes the bytes of a record. Plain text shows a record as `print` does."""
        if isinstance(self.encoder._encode, _Lines):
            show, charset = formatter(input_type), self.encoder._encode.charset
            return lambda element: f"{show(element)}\n".encode(charset)
        return self.encoder.encode


class _RowBuilder:
    """Settings that both file sinks have."""

    def __init__(self, base_path: str | os.PathLike[str], encoder: Encoder) -> None:
        if not isinstance(encoder, Encoder):
            raise TypeError(f"for_row_format: expected an Encoder, got {encoder!r}")
        self._settings = FileSinkSettings(
            absolute(base_path),
            encoder,
            BucketAssigner.date_time_bucket_assigner(),
            RollingPolicy.default_rolling_policy(),
            OutputFileConfig.builder().build(),
            60.0,
        )

    def with_bucket_check_interval(self: _Builder, interval: int) -> _Builder:
        """How often (milliseconds) it is checked which files are complete by their age: 60000 unless set."""
        seconds = positive("with_bucket_check_interval: interval", interval) / 1000
        self._settings = replace(self._settings, check_seconds=seconds)
        return self

    def with_bucket_assigner(self: _Builder, bucket_assigner: BucketAssigner) -> _Builder:
        """Into which directories records go: one for each hour unless set."""
        if not isinstance(bucket_assigner, BucketAssigner):
            raise TypeError(f"with_bucket_assigner: expected a BucketAssigner, got {bucket_assigner!r}")
        self._settings = replace(self._settings, bucket_assigner=bucket_assigner)
        return self

    def with_output_file_config(self: _Builder, output_file_config: OutputFileConfig) -> _Builder:
        """How files are named."""
        if not isinstance(output_file_config, OutputFileConfig):
            raise TypeError(f"with_output_file_config: expected an OutputFileConfig, got {output_file_config!r}")
        self._settings = replace(self._settings, names=output_file_config)
        return self

    def _with_rolling_policy(self: _Builder, policy: RollingPolicy) -> _Builder:
        if not isinstance(policy, RollingPolicy):
            raise TypeError(f"with_rolling_policy: expected a RollingPolicy, got {policy!r}")
        self._settings = replace(self._settings, rolling_policy=policy)
        return self


class FileSink(Sink, SupportsPreprocessing):
    """Writes records into files below a path.

        sink = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()) \\
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()) \\
            .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024 ** 2)).build()
        stream.sink_to(sink)

    Below the path there is a directory for each bucket, and in it files `part-<uid>-<subtask>-<n>`, where
    the uid is random. While a file is written it has a hidden name, `.part-….inprogress.<uuid>`, which
    readers pass over; it gets its name when the rolling policy says that it is complete, or at the end of
    the input. Files that a failed job has not completed stay hidden, so after a restart records may be
    written again: at least once.
    """

    def __init__(self, settings: FileSinkSettings, transformer: StreamTransformer | None = None) -> None:
        self._settings = settings
        self._transformer = transformer

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """A sink that writes one record after another; an `Encoder` makes their bytes."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Not available yet: a sink that writes Parquet and the like."""
        return FileSink.BulkFormatBuilder(base_path, writer_factory)

    def get_transformer(self) -> StreamTransformer | None:
        return self._transformer

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        return FileSinkOperator(self._settings, input_type)

    class BaseBuilder(_RowBuilder):
        """Settings of a `FileSink`."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.BaseBuilder:
            """When a file is complete."""
            return self._with_rolling_policy(rolling_policy)

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> NoReturn:
            """Not available yet: joining small files."""
            raise NotImplementedError(
                "FileSink.enable_compact is not available yet: let the rolling policy make larger files"
            )

        def disable_compact(self) -> FileSink.BaseBuilder:
            """Files are not joined. The default."""
            return self

        def build(self) -> FileSink:
            """The sink."""
            return FileSink(self._settings)

    class RowFormatBuilder(BaseBuilder):
        """Settings of a `FileSink` that writes one record after another."""

    class BulkFormatBuilder(BaseBuilder):
        """Not available yet."""

        def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
            _no_bulk_format("FileSink")


class FileSinkOperator(Operator):
    """Writes part files in a slot."""

    takes_declared_types = True

    def __init__(self, settings: FileSinkSettings, input_type: TypeInformation | None) -> None:
        self._settings = settings
        self._type = input_type

    def open(self) -> None:
        self._files = self._settings.files(self._identity())
        self._encode = self._settings.encode(self._type)
        self._bucket_context = _BucketContext()

    def _identity(self) -> str:
        return f"{uuid.uuid4()}-{self.context.subtask}"

    def process(self, batch: Batch) -> None:
        now = time.time()
        encode, records = self._encode, iter(batch.values)
        try:
            pieces = [encode(record) for record in records]
        except Exception as error:
            record = record_at_fault(batch.values, records)
            raise user_fault(error, self.context.name, self.context.subtask, record) from error
        bucket = self._settings.bucket_assigner.bucket_at(int(now * 1000))
        if bucket is not None:
            self._files.write(bucket, pieces, now)
        else:
            for each, written in self._by_bucket(batch, pieces, int(now * 1000)).items():
                self._files.write(each, written, now)

    def process_watermark(self, timestamp: int) -> None:
        self._bucket_context.watermark = timestamp

    def end_epoch(self) -> None:
        self._files.roll(time.time())

    def next_due(self) -> float | None:
        return self._files.next_due()

    def finish(self) -> None:
        self._files.complete_all()

    def close(self) -> None:
        files = getattr(self, "_files", None)
        if files is not None:
            files.close()

    def _by_bucket(self, batch: Batch, pieces: list[bytes], now: int) -> dict[str, list[bytes]]:
        context, assign = self._bucket_context, self._settings.bucket_assigner.get_bucket_id
        context.now = now
        buckets: dict[str, list[bytes]] = {}
        for index, (record, piece) in enumerate(zip(batch.values, pieces, strict=True)):
            context.record_timestamp = NO_TIMESTAMP if batch.timestamps is None else batch.timestamps[index]
            try:
                bucket = _checked_bucket(assign(record, context))
            except Exception as error:
                raise user_fault(error, self.context.name, self.context.subtask, record) from error
            buckets.setdefault(bucket, []).append(piece)
        return buckets


class _BucketContext:
    """What a bucket assigner may ask."""

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


class StreamingFileSink(RichSinkFunction):
    """The older `FileSink`, for `stream.add_sink`; its files are named `part-<subtask>-<n>`.

    sink = StreamingFileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
    stream.add_sink(sink)
    """

    def __init__(self, settings: FileSinkSettings) -> None:
        super().__init__()
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        """A sink that writes one record after another; an `Encoder` makes their bytes."""
        return StreamingFileSink.DefaultRowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Not available yet: a sink that writes Parquet and the like."""
        return StreamingFileSink.DefaultBulkFormatBuilder(base_path, writer_factory)

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """The operator that writes blocks of records; `invoke` does the same record by record."""
        return _StreamingFileSinkOperator(self._settings, input_type)

    def open(self, runtime_context: Any) -> None:
        self._files = self._settings.files(str(runtime_context.get_index_of_this_subtask()))
        self._encode = self._settings.encode(None)
        self._bucket_context = _BucketContext()

    def invoke(self, value: Any, context: Any) -> None:
        now = time.time()
        seen = self._bucket_context
        seen.now = int(now * 1000)
        bucket = self._settings.bucket_assigner.bucket_at(seen.now)
        if bucket is None:
            bucket = _checked_bucket(self._settings.bucket_assigner.get_bucket_id(value, context))
        self._files.write(bucket, [self._encode(value)], now)
        self._files.roll(now)

    def finish(self) -> None:
        self._files.complete_all()

    def close(self) -> None:
        files = getattr(self, "_files", None)
        if files is not None:
            files.close()

    class BaseBuilder(_RowBuilder):
        """Settings of a `StreamingFileSink`."""

        def with_rolling_policy(self, policy: RollingPolicy) -> StreamingFileSink.BaseBuilder:
            """When a file is complete."""
            return self._with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:
            """The sink."""
            return StreamingFileSink(self._settings)

    class DefaultRowFormatBuilder(BaseBuilder):
        """Settings of a `StreamingFileSink` that writes one record after another."""

    class DefaultBulkFormatBuilder(BaseBuilder):
        """Not available yet."""

        def __init__(self, base_path: str, writer_factory: BulkWriterFactory) -> None:
            _no_bulk_format("StreamingFileSink")


class _StreamingFileSinkOperator(FileSinkOperator):
    def _identity(self) -> str:
        return str(self.context.subtask)


def _checked_bucket(bucket: Any) -> str:
    if not isinstance(bucket, str) or bucket.startswith("/") or ".." in bucket.split("/"):
        raise ValueError(f"a bucket id must be a path below the sink's own, got {bucket!r}")
    return bucket


def _no_bulk_format(sink: str) -> NoReturn:
    raise NotImplementedError(f"{sink}.for_bulk_format is not available yet: use for_row_format, or a SparkSink")
