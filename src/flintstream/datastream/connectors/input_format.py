"""Input formats as sources: those written in Python, and those of files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from flintstream.common.io import InputFormat
from flintstream.common.type_variables import T_co
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.connectors.files.formats import BulkFormat, StreamFormat
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.datastream.connectors.file_source import FileSource
from flintstream.datastream.utils import ResultTypeQueryable
from flintstream.runtime.batch import Batch
from flintstream.runtime.detach import detached
from flintstream.runtime.source import SourceError, Split, SplitReader

_READ_RECORDS = 1024

__all__ = ["FileInputFormat", "InputFormatSource"]


class FileInputFormat(InputFormat[T_co], ResultTypeQueryable):
    """Files of any format, for `env.create_input`.

    Example::

        env.create_input(FileInputFormat("/data/in", ParquetFormat(row_type)))

    :param path: a file, a directory, a pattern or a URL.
    :param file_format: what `FileSource` reads too: a `BulkFormat` or a `StreamFormat`.
    """

    def __init__(self, path: str, file_format: BulkFormat | StreamFormat) -> None:
        if not isinstance(file_format, (BulkFormat, StreamFormat)):
            raise TypeError(f"{type(self).__name__}: expected a BulkFormat or a StreamFormat, got {file_format!r}")
        self.path = path
        self.format = file_format
        self._source = FileSource(file_format, [path])
        self._reader: SplitReader | None = None
        self._ahead: deque[T_co] = deque()

    def as_source(self) -> FileSource:
        """Returns the source that reads the files, in blocks."""
        return self._source

    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records."""
        return self.format.produced_type or Types.PICKLED_BYTE_ARRAY()

    def create_input_splits(self, min_num_splits: int) -> list[Split]:
        return list(self._source.discover(min_num_splits, frozenset()))

    def open(self, split: Split) -> None:
        self._reader = self._source.create_reader(split, None)

    def reached_end(self) -> bool:
        assert self._reader is not None
        while not self._ahead and not self._reader.finished:
            self._ahead.extend(self._reader.read(_READ_RECORDS).values)
        return not self._ahead

    def next_record(self) -> T_co | None:
        return None if self.reached_end() else self._ahead.popleft()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
            self._ahead.clear()


class InputFormatSource(SplitBasedSource[T_co]):
    """The source of an `InputFormat`: `env.create_input` creates it."""

    sequential = True  # The format has one split open at a time.

    def __init__(self, input_format: InputFormat[T_co]) -> None:
        self._format = input_format

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._format.get_produced_type() if isinstance(self._format, ResultTypeQueryable) else None

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        name = type(self._format).__name__
        try:
            splits = list(self._format.create_input_splits(parallelism))
        except Exception as error:
            raise SourceError(f"{name}.create_input_splits({parallelism}) failed: {error!r}") from error
        return [Split(str(number), split) for number, split in enumerate(splits)]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        return _FormatReader(self._format, split.content, position)


class _FormatReader(SplitReader):
    """Reads one split; a position is the number of calls of `next_record`, and the format's own position or None."""

    def __init__(self, input_format: InputFormat[Any], split: Any, position: tuple[int, Any] | None) -> None:
        self._format = input_format
        self._split = split
        self._count: int
        self._state: Any
        self._count, self._state = position or (0, None)
        self._is_open = False

    @property
    def position(self) -> tuple[int, Any]:
        return self._count, self._state

    def read(self, limit: int) -> Batch:
        values: list[Any] = []
        try:
            if not self._is_open:
                self._open()
            while len(values) < limit:
                if self._format.reached_end():
                    self.finished = True
                    break
                record = self._format.next_record()
                self._count += 1
                if record is not None:
                    values.append(detached(record))
            self._state = self._format.get_current_state()
        except Exception as error:
            raise self._error(error) from error
        return Batch(values)

    def _open(self) -> None:
        if self._state is not None:
            self._format.reopen(self._split, self._state)
            self._is_open = True
            return
        self._format.open(self._split)
        self._is_open = True
        for read in range(self._count):
            if self._format.reached_end():
                raise ValueError(f"it has {read} records, but {self._count} were read from it before the failure")
            self._format.next_record()

    def _error(self, error: Exception) -> SourceError:
        return SourceError(
            f"{type(self._format).__name__}, split {self._split!r}, after {self._count} records: {error!r}"
        )

    def close(self) -> None:
        if self._is_open:
            self._format.close()
