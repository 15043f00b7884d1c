"""Compaction of the files of a file sink: strategies and compactors."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from flintstream.common.arguments import positive
from flintstream.common.serialization import BulkWriterFactory, Encoder
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.files.formats import FileFormat, FileSplit
from flintstream.connectors.files.paths import open_for_reading
from flintstream.connectors.files.sink_config import NoJavaObject

__all__ = [
    "ConcatFileCompactor",
    "FileCompactStrategy",
    "FileCompaction",
    "FileCompactor",
    "IdenticalFileCompactor",
    "OutputStreamBasedFileCompactor",
    "RecordWiseFileCompactor",
]

_COPIED_BYTES = 1024 * 1024
_READ_RECORDS = 8192

WriteRecords = Callable[[Iterable[Any], TypeInformation | None, IO[bytes]], None]
"""Writes records, and their type if known, to a stream in the sink's own format."""


class FileCompactStrategy(NoJavaObject):
    """When small files are compacted.

    Example::

        FileCompactStrategy.builder().set_size_threshold(1024 ** 2).enable_compaction_on_checkpoint(5).build()
    """

    def __init__(self, size_threshold: int, num_checkpoints: int, num_compact_threads: int) -> None:
        self.size_threshold = size_threshold
        self.num_checkpoints_before_compaction = num_checkpoints
        self.num_compact_threads = num_compact_threads

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Returns a builder without any condition."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a `FileCompactStrategy`."""

        def __init__(self) -> None:
            self._size_threshold = -1
            self._checkpoints = -1
            self._threads = 1

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compacts the files of a bucket as soon as their total size in bytes reaches the threshold."""
            self._size_threshold = positive("set_size_threshold: size_threshold", size_threshold)
            return self

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Compacts all files after a number of checkpoints."""
            self._checkpoints = positive("enable_compaction_on_checkpoint", num_checkpoints_before_compaction)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Sets the number of compaction threads per subtask; one by default."""
            self._threads = positive("set_num_compact_threads: num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Returns the strategy; it needs a size or a number of checkpoints."""
            if self._size_threshold < 0 and self._checkpoints < 0:
                raise ValueError("FileCompactStrategy: set a size threshold or a number of checkpoints")
            return FileCompactStrategy(self._size_threshold, self._checkpoints, self._threads)


class FileCompactor(NoJavaObject, ABC):
    """How small files are compacted."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Concatenates the files, with the delimiter between them."""
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """For single files, which are kept unchanged."""
        return IdenticalFileCompactor()

    @staticmethod
    def record_wise_file_compactor(reader: FileFormat | None = None) -> FileCompactor:
        """Reads the records and writes them again; not in PyFlink. See `RecordWiseFileCompactor`."""
        return RecordWiseFileCompactor(reader)

    keeps_single_files = False
    """Whether a single file is kept unchanged."""

    def check(self, file_format: Encoder | BulkWriterFactory) -> None:
        """Refuses a sink whose files it cannot compact."""

    @abstractmethod
    def compact(self, input_files: list[str], output_stream: IO[bytes], write_records: WriteRecords) -> None:
        """Writes the contents of the files to the stream. Called in a slot, by several threads concurrently."""


class OutputStreamBasedFileCompactor(FileCompactor):
    """A compactor of bytes. For your own, define `do_compact`.

    Example::

        class Reversed(OutputStreamBasedFileCompactor):
            def do_compact(self, input_files, output_stream):
                for path in reversed(input_files):
                    with open(path, "rb") as file:
                        output_stream.write(file.read())
    """

    @abstractmethod
    def do_compact(self, input_files: list[str], output_stream: IO[bytes]) -> None:
        """Writes the contents of the files, given by path or URL, to the stream."""

    def compact(self, input_files: list[str], output_stream: IO[bytes], write_records: WriteRecords) -> None:
        self.do_compact(input_files, output_stream)


class ConcatFileCompactor(OutputStreamBasedFileCompactor):
    """Concatenates files, with an optional delimiter between them. For row formats."""

    keeps_single_files = True

    def __init__(self, file_delimiter: bytes | None = None) -> None:
        if file_delimiter is not None and not isinstance(file_delimiter, bytes):
            raise TypeError(f"ConcatFileCompactor: file_delimiter must be bytes, got {file_delimiter!r}")
        self.file_delimiter = file_delimiter

    def check(self, file_format: Encoder | BulkWriterFactory) -> None:
        if isinstance(file_format, BulkWriterFactory):
            raise ValueError(
                f"enable_compact: files of {type(file_format).__name__} cannot be concatenated: use a "
                "RecordWiseFileCompactor, or your own OutputStreamBasedFileCompactor"
            )

    def do_compact(self, input_files: list[str], output_stream: IO[bytes]) -> None:
        for index, path in enumerate(input_files):
            if index and self.file_delimiter:
                output_stream.write(self.file_delimiter)
            _copy(path, output_stream)


class IdenticalFileCompactor(OutputStreamBasedFileCompactor):
    """For single files, which are kept unchanged; several files are refused."""

    keeps_single_files = True

    def do_compact(self, input_files: list[str], output_stream: IO[bytes]) -> None:
        if len(input_files) != 1:
            raise ValueError(
                f"IdenticalFileCompactor: expected a single file, got {len(input_files)}: {', '.join(input_files)}"
            )
        _copy(input_files[0], output_stream)


class RecordWiseFileCompactor(FileCompactor):
    """Reads the records of the files, and writes them in the sink's own format.

    Example::

        RecordWiseFileCompactor()  # for the writers of flintstream.datastream.formats.parquet
        RecordWiseFileCompactor(StreamFormat.text_line_format())

    :param reader: reads the files that the sink writes. Parquet needs none: its rows are copied by columns.
    """

    def __init__(self, reader: FileFormat | None = None) -> None:
        if reader is not None and not isinstance(reader, FileFormat):
            raise TypeError(f"RecordWiseFileCompactor: reader must be a StreamFormat or a BulkFormat, got {reader!r}")
        self._reader = reader

    def check(self, file_format: Encoder | BulkWriterFactory) -> None:
        writes_parquet = isinstance(file_format, BulkWriterFactory) and file_format.writes_parquet
        if self._reader is None and not writes_parquet:
            raise ValueError(
                "enable_compact: a RecordWiseFileCompactor reads Parquet by default, but "
                f"{type(file_format).__name__} writes another format: pass the format to read, e.g. "
                "RecordWiseFileCompactor(StreamFormat.text_line_format())"
            )

    def compact(self, input_files: list[str], output_stream: IO[bytes], write_records: WriteRecords) -> None:
        if self._reader is None:
            from flintstream.connectors.files.parquet_joining import join_parquet_files  # Most sinks write no Parquet.

            join_parquet_files(input_files, output_stream)
        else:
            write_records(self._records(self._reader, input_files), self._reader.produced_type, output_stream)

    @staticmethod
    def _records(file_format: FileFormat, input_files: list[str]) -> Iterator[Any]:
        for path in input_files:
            reader = file_format.create_reader(FileSplit(path), None)
            try:
                while not reader.finished:
                    yield from reader.read(_READ_RECORDS).values
            finally:
                reader.close()


@dataclass(frozen=True)
class FileCompaction:
    """The compaction settings of a sink. Without a strategy it is disabled: restored files are published, and nothing
    else is compacted.
    """

    strategy: FileCompactStrategy | None = None
    compactor: FileCompactor = field(default_factory=IdenticalFileCompactor)


def _copy(path: str, stream: IO[bytes]) -> None:
    with open_for_reading(path) as file:
        shutil.copyfileobj(file, stream, _COPIED_BYTES)
