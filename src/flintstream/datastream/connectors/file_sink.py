"""FileSink and StreamingFileSink: write records into part files, in buckets."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TypeVar

from flintstream.common.arguments import positive
from flintstream.common.serialization import BulkWriterFactory, Encoder
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.files.compacted import directory_of
from flintstream.connectors.files.compaction import FileCompaction, FileCompactor, FileCompactStrategy
from flintstream.connectors.files.compactor import (
    CompactedFileSinkOperator,
    FileCompactorOperator,
    owner_of,
)
from flintstream.connectors.files.paths import absolute
from flintstream.connectors.files.sink import FileSinkOperator, FileSinkSettings
from flintstream.connectors.files.sink_config import (
    BucketAssigner,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flintstream.datastream.connectors.base import SecondStage, Sink, StreamTransformer, SupportsPreprocessing
from flintstream.datastream.io_functions import SinkFunction
from flintstream.graph.partitioners import CustomPartitioner
from flintstream.runtime.operators.base import Operator

__all__ = ["FileSink", "StreamingFileSink"]

_Self = TypeVar("_Self", bound="_Builder")


class _Builder:
    """The settings shared by both file sinks."""

    def __init__(self, base_path: str | os.PathLike[str], file_format: Encoder | BulkWriterFactory) -> None:
        self._settings = FileSinkSettings(
            absolute(base_path),
            file_format,
            BucketAssigner.date_time_bucket_assigner(),
            RollingPolicy.default_rolling_policy()
            if isinstance(file_format, Encoder)
            else RollingPolicy.on_checkpoint_rolling_policy(),
            OutputFileConfig.builder().build(),
            60.0,
        )

    def with_bucket_check_interval(self: _Self, interval: int) -> _Self:
        """Sets how often (milliseconds) the rolling policy is checked for age and inactivity: 60000 by default."""
        seconds = positive("with_bucket_check_interval: interval", interval) / 1000
        self._settings = replace(self._settings, check_seconds=seconds)
        return self

    def with_bucket_assigner(self: _Self, bucket_assigner: BucketAssigner) -> _Self:
        """Sets the assigner of records to directories; by default, one directory per hour."""
        if not isinstance(bucket_assigner, BucketAssigner):
            raise TypeError(f"with_bucket_assigner: expected a BucketAssigner, got {bucket_assigner!r}")
        self._settings = replace(self._settings, bucket_assigner=bucket_assigner)
        return self

    def with_output_file_config(self: _Self, output_file_config: OutputFileConfig) -> _Self:
        """Sets how files are named."""
        if not isinstance(output_file_config, OutputFileConfig):
            raise TypeError(f"with_output_file_config: expected an OutputFileConfig, got {output_file_config!r}")
        self._settings = replace(self._settings, names=output_file_config)
        return self

    def _with_rolling_policy(self: _Self, policy: RollingPolicy) -> _Self:
        if not isinstance(policy, RollingPolicy):
            raise TypeError(f"with_rolling_policy: expected a RollingPolicy, got {policy!r}")
        if self._settings.bulk is not None and not isinstance(policy, OnCheckpointRollingPolicy):
            raise ValueError(
                "with_rolling_policy: files of a bulk format must roll on each checkpoint, since an unfinished one "
                f"cannot be read: use RollingPolicy.on_checkpoint_rolling_policy(), not a {type(policy).__name__}"
            )
        self._settings = replace(self._settings, rolling_policy=policy)
        return self


class FileSink(Sink, SupportsPreprocessing):
    """Writes records into files below a path.

        sink = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()) \\
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()) \\
            .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024 ** 2)).build()
        stream.sink_to(sink)

    Below the path there is a directory for each bucket, with files `part-<uid>-<subtask>-<n>`, where the uid is random.
    A file in progress has a hidden name, `.part-….inprogress.<uuid>`, which readers ignore. The rolling policy, or the
    end of the input, closes it, and it gets its final name when the next checkpoint completes: each record is in one
    file, exactly once. Without checkpointing files get their names at the end of the input.

    With `enable_compact` small files are first merged into larger ones, named `compacted-part-…`.

    On a local disk with the default rolling policy, a file is continued across checkpoints and restarts. On other file
    systems, and with a bulk format, files roll on each checkpoint, whatever the policy.
    """

    def __init__(self, settings: FileSinkSettings, transformer: StreamTransformer | None = None) -> None:
        self._settings = settings
        self._transformer = transformer

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Returns a builder of a sink that writes record by record, encoded by an `Encoder`."""
        return FileSink.RowFormatBuilder(base_path, _checked_encoder(encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Returns a builder of a sink that writes a bulk format: `ParquetBulkWriters`, or a `BulkWriterFactory` of your
        own.
        """
        return FileSink.BulkFormatBuilder(base_path, _checked_factory(writer_factory))

    def get_transformer(self) -> StreamTransformer | None:
        return self._transformer

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        if self._settings.compaction is None:
            return FileSinkOperator(self._settings, input_type, unique_names=True)
        return CompactedFileSinkOperator(self._settings, input_type, unique_names=True)

    def create_second_stage(self) -> SecondStage | None:
        if self._settings.compaction is None:
            return None
        compactor = FileCompactorOperator(self._settings)
        return SecondStage("Compactor", compactor, CustomPartitioner(owner_of, directory_of))

    class BaseBuilder(_Builder):
        """Settings of a `FileSink`."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.BaseBuilder:
            """Sets when a file is closed."""
            return self._with_rolling_policy(rolling_policy)

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> FileSink.BaseBuilder:
            """Merges small files of a bucket, from all subtasks, before they become visible.

            Example::

                builder.enable_compact(
                    FileCompactStrategy.builder().enable_compaction_on_checkpoint(5).build(),
                    FileCompactor.concat_file_compactor(),
                )
            """
            if not isinstance(strategy, FileCompactStrategy):
                raise TypeError(f"enable_compact: strategy must be a FileCompactStrategy, got {strategy!r}")
            if not isinstance(compactor, FileCompactor):
                raise TypeError(f"enable_compact: compactor must be a FileCompactor, got {compactor!r}")
            compactor.check(self._settings.file_format)
            self._settings = replace(self._settings, compaction=FileCompaction(strategy, compactor))
            return self

        def disable_compact(self) -> FileSink.BaseBuilder:
            """Disables compaction. Required when a job is restored from a savepoint of one that compacted: the files
            that were still to be compacted are then published as they are.
            """
            self._settings = replace(self._settings, compaction=FileCompaction())
            return self

        def build(self) -> FileSink:
            """Returns the sink."""
            return FileSink(self._settings)

    class RowFormatBuilder(BaseBuilder):
        """Settings of a `FileSink` that writes record by record."""

    class BulkFormatBuilder(BaseBuilder):
        """Settings of a `FileSink` that writes a bulk format."""


class StreamingFileSink(SinkFunction):
    """The older `FileSink`, for `stream.add_sink`; its files are named `part-<subtask>-<n>`.

    Example::

        sink = StreamingFileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
        stream.add_sink(sink)
    """

    def __init__(self, settings: FileSinkSettings) -> None:
        super().__init__()
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Returns a builder of a sink that writes record by record, encoded by an `Encoder`."""
        return StreamingFileSink.DefaultRowFormatBuilder(base_path, _checked_encoder(encoder))

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Returns a builder of a sink that writes a bulk format: `ParquetBulkWriters`, or a `BulkWriterFactory` of your
        own.
        """
        return StreamingFileSink.DefaultBulkFormatBuilder(base_path, _checked_factory(writer_factory))

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes files in a slot."""
        return FileSinkOperator(self._settings, input_type, unique_names=False)

    class BaseBuilder(_Builder):
        """Settings of a `StreamingFileSink`."""

        def with_rolling_policy(self, policy: RollingPolicy) -> StreamingFileSink.BaseBuilder:
            """Sets when a file is closed."""
            return self._with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:
            """Returns the sink."""
            return StreamingFileSink(self._settings)

    class DefaultRowFormatBuilder(BaseBuilder):
        """Settings of a `StreamingFileSink` that writes record by record."""

    class DefaultBulkFormatBuilder(BaseBuilder):
        """Settings of a `StreamingFileSink` that writes a bulk format."""


def _checked_encoder(encoder: Encoder) -> Encoder:
    if not isinstance(encoder, Encoder):
        raise TypeError(f"for_row_format: expected an Encoder, got {encoder!r}")
    return encoder


def _checked_factory(factory: BulkWriterFactory) -> BulkWriterFactory:
    if not isinstance(factory, BulkWriterFactory):
        raise TypeError(f"for_bulk_format: expected a BulkWriterFactory, got {factory!r}")
    if type(factory).create is BulkWriterFactory.create:
        raise TypeError(f"for_bulk_format: {type(factory).__name__} does not define create(self, stream)")
    return factory
