"""FileSource: files as a source, bounded or monitored continuously."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flintstream.common.arguments import positive
from flintstream.common.time import Duration
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.files.formats import BulkFormat, FileFormat, FileSplit, StreamFormat
from flintstream.connectors.files.paths import absolute, check_exists, find_files
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.source import Split, SplitReader

__all__ = ["FileEnumeratorProvider", "FileSource", "FileSourceBuilder", "FileSplitAssignerProvider"]

SPLIT_BYTES = 64 * 1024 * 1024
"""Larger files are split into splits of this size, if their format allows that."""


class FileEnumeratorProvider:
    """Whether large files are split. In any case directories are searched recursively, and names that start with `.` or
    `_` are ignored.

    Example::

        builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    """

    def __init__(self, splitting: bool) -> None:
        self.splitting = splitting

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Splits large files, unless they are compressed or their format is not splittable. The default."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Reads each file in one subtask."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider:
    """Decides which subtask reads which file.

    Example::

        builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    """

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """The default: assigns the next file to the subtask with the fewest. (Slots have no notion of locality.)"""
        return FileSplitAssignerProvider()


class FileSource(SplitBasedSource):
    """Reads records from files.

        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build()
        env.from_source(source, WatermarkStrategy.no_watermarks(), "files")

    A path is a file, a directory (searched recursively), a pattern such as `/data/*/part-*`, or a URL that fsspec
    knows, such as `s3://bucket/in`. Each subtask reads its files one after the other, in the order of their names. Each
    path is read once: data appended later is not read.
    """

    sequential = True

    def __init__(
        self,
        file_format: FileFormat,
        paths: Sequence[str],
        discovery_interval: float | None = None,
        split_bytes: int | None = SPLIT_BYTES,
    ) -> None:
        if not paths:
            raise ValueError("FileSource: at least one path is needed")
        self._format = file_format
        self._paths = [absolute(path) for path in paths]
        self._split_bytes = split_bytes
        self.bounded = discovery_interval is None
        self.discovery_interval = discovery_interval

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Returns a builder of a source of lines, CSV or JSON: `for_record_stream_format(JsonLinesFormat(),
        "in").build()`.
        """
        if not isinstance(stream_format, StreamFormat):
            raise TypeError(f"for_record_stream_format: expected a StreamFormat, got {stream_format!r}")
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Returns a builder of a source of files such as Parquet: `for_bulk_file_format(ParquetFormat(),
        "in").build()`.
        """
        if not isinstance(bulk_format, BulkFormat):
            raise TypeError(f"for_bulk_file_format: expected a BulkFormat, got {bulk_format!r}")
        return FileSourceBuilder(bulk_format, paths)

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._format.produced_type

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        splits: dict[str, Split] = {}
        for path in self._paths:
            if self.bounded:
                check_exists(path)
            for file in find_files(path):
                # The first split of a file has the path itself as its id: if it is known, so are all splits of the
                # file.
                if file.path not in known and file.path not in splits:
                    splits.update((split.split_id, split) for split in self._ranges(file.path, file.size))
        return splits.values()

    def _ranges(self, path: str, size: int) -> Iterable[Split]:
        step = self._split_bytes
        if step is None or size <= step or not self._format.splittable(path):
            return [Split(path, FileSplit(path))]
        starts = range(0, size, step)
        return [
            Split(f"{path}#{start}" if start else path, FileSplit(path, start, end))
            for start, end in zip(starts, [*starts[1:], None], strict=True)
        ]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        return self._format.create_reader(split.content, position)


class FileSourceBuilder:
    """Settings of a `FileSource`; created by its `for_...` methods.

    Example::

        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in") \\
            .monitor_continuously(Duration.of_seconds(10)).build()
    """

    def __init__(self, file_format: FileFormat, paths: Sequence[str]) -> None:
        self._format = file_format
        self._paths = paths
        self._discovery_interval: float | None = None
        self._split_bytes: int | None = SPLIT_BYTES
        self._splitting = True

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Makes the source unbounded: it looks for new files at the given interval."""
        if not isinstance(discovery_interval, Duration):
            raise TypeError(f"monitor_continuously: expected a Duration, got {discovery_interval!r}")
        if discovery_interval.to_nanos() <= 0:
            raise ValueError(f"monitor_continuously: the interval must be greater than 0, got {discovery_interval!r}")
        self._discovery_interval = discovery_interval.to_seconds()
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Ends the source when the files that exist at the start have been read. The default."""
        self._discovery_interval = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Sets whether large files are split: see `FileEnumeratorProvider`."""
        self._splitting = file_enumerator.splitting
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepts the only split assigner there is."""
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeError(f"set_split_assigner: expected a FileSplitAssignerProvider, got {split_assigner!r}")
        return self

    def set_split_size(self, split_bytes: int) -> FileSourceBuilder:
        """Sets the size of the splits of large files: 64 MB by default."""
        self._split_bytes = positive("set_split_size: split_bytes", split_bytes)
        return self

    def build(self) -> FileSource:
        """Returns the source. A path that does not exist fails the job when it starts."""
        split_bytes = self._split_bytes if self._splitting else None
        return FileSource(self._format, self._paths, self._discovery_interval, split_bytes)
