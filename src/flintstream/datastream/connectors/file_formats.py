"""How files become records: what a format is, and the reading of lines on which most formats rest."""

from __future__ import annotations

import codecs
import io
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_paths import compression_of, open_for_reading
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import SplitReader

__all__ = ["BulkFormat", "FileSplit", "LineFormat", "StreamFormat"]

_READ_BYTES = 1 << 18


@dataclass(frozen=True)
class FileSplit:
    """A part of a file: the records that start at `start` or behind it, and before `end`."""

    path: str
    start: int = 0
    end: int | None = None
    """None for the end of the file, wherever that is when it is read."""


class FileFormat:
    """How records are read from files."""

    def splittable(self, path: str) -> bool:
        """Whether parts of this file can be read by themselves. False unless a format says otherwise."""
        return False

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records, where the format knows it."""
        return None

    @abstractmethod
    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        """A reader of a split, from the beginning where `position` is None. Called in a slot."""
        raise NotImplementedError(f"{type(self).__name__} does not define create_reader(self, split, position)")


class StreamFormat(FileFormat):
    """A format whose records follow one another in a file: text lines, CSV, JSON lines.

    Example::

        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build()

    Files that end in `.gz`, `.gzip`, `.bz2` or `.xz` are decompressed.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Each line as a string, without its end (`\\n`, `\\r\\n` or `\\r`)."""
        return LineFormat(charset_name)


class BulkFormat(FileFormat):
    """A format that holds many records in one structure, such as Parquet.

    Example::

        FileSource.for_bulk_file_format(ParquetFormat(), "/data/in").build()
    """


class LineFormat(StreamFormat):
    """A record from each line. A subclass says by `decode` what a line means; here it is itself.

    Example::

        class Numbers(LineFormat):
            def decode(self, lines):
                return [int(line) for line in lines]
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            self.charset = codecs.lookup(charset_name).name
        except LookupError:
            raise ValueError(f"unknown charset {charset_name!r}") from None

    def splittable(self, path: str) -> bool:
        return compression_of(path) is None and has_ascii_line_ends(self.charset)

    @property
    def produced_type(self) -> TypeInformation | None:
        return Types.STRING() if type(self) is LineFormat else None

    def decode(self, lines: list[str]) -> list[Any]:
        """The records of a block of lines, one for each."""
        return lines

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return LineReader(self, lines_of(split, self.charset, position))


class Lines:
    """Lines of a split, in blocks; knows where in the file each block starts and ends."""

    path: str
    position: Any
    """Where to go on behind the lines taken so far."""
    finished = False

    def take(self, limit: int) -> list[str]:
        """At most `limit` lines, with their ends."""
        raise NotImplementedError

    def advance(self, count: int) -> None:
        """So many of the lines taken last are done with; the others will be taken again."""
        raise NotImplementedError

    def place(self, index: int) -> str:
        """Where the line at this index of the block taken last stands."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the file."""
        raise NotImplementedError


def lines_of(split: FileSplit, charset: str, position: Any) -> Lines:
    """The lines of a split from a position on."""
    if has_ascii_line_ends(charset):
        return ByteLines(split, charset, position)
    return DecodedLines(split, charset, position)


def has_ascii_line_ends(charset: str) -> bool:
    """Whether line ends can be found in the bytes themselves, as in UTF-8 and Latin-1 but not in UTF-16."""
    return "a\r\n".encode(charset) == b"a\r\n"


class ByteLines(Lines):
    """Lines cut from bytes; a position is the byte offset of a line in the (decompressed) file."""

    def __init__(self, split: FileSplit, charset: str, position: int | None) -> None:
        self.path = split.path
        self._charset = charset
        self._split = split
        self._file: IO[bytes] | None = None
        self.position: int | None = position
        self._ahead: list[bytes] = []
        """Whole lines not yet taken; the first one starts at `position`."""
        self._next = 0
        """How many lines at the front of `_ahead` are done with."""
        self._rest = b""
        """The start of a line whose end has not been read yet."""
        self._at_end = False
        self._taken: Sequence[bytes] = ()

    def take(self, limit: int) -> list[str]:
        if self._file is None:
            self._open()
        if self._next >= len(self._ahead) and not self._at_end:
            self._read_block()
        taken = self._taken = self._ahead[self._next : self._next + limit]
        data = b"".join(taken)
        try:
            text = data.decode(self._charset)
        except UnicodeDecodeError as error:
            self._check_each(error)
            raise
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        if len(lines) != len(taken):  # an encoding in which bytes like a line end are something else
            return [line.decode(self._charset).rstrip("\r\n") for line in taken]
        return lines

    def take_raw(self, limit: int) -> list[str]:
        """As `take`, with the line ends as they are."""
        self.take(limit)
        return [line.decode(self._charset) for line in self._taken]

    def advance(self, count: int) -> None:
        done = self._taken[:count]
        self.position = (self.position or 0) + sum(map(len, done))
        self._next += len(done)
        self._taken = ()
        if self._next >= len(self._ahead) and self._at_end:
            self.finished = True

    def more(self, lines: int) -> bool:
        """Reads on until there are more than so many lines ahead; false if there are none."""
        while len(self._ahead) - self._next <= lines and not self._at_end:
            self._read_block()
        return len(self._ahead) - self._next > lines

    def place(self, index: int) -> str:
        return f"byte {(self.position or 0) + sum(map(len, self._taken[:index]))}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        self._file = open_for_reading(self.path)
        if self.position is None:
            self.position = self._first_line()
        self._file.seek(self.position)
        self._at_end = self._split.end is not None and self.position >= self._split.end

    def _first_line(self) -> int:
        """Where the first line starts that belongs to this split: the one before it reads what starts before it."""
        start = self._split.start
        if start == 0:
            return 0
        assert self._file is not None
        self._file.seek(start - 1)
        self.position = start - 1
        self._ahead, self._next = [], 0
        self._split = FileSplit(self.path, start - 1, None)
        end, self._split = self._whole, self._split
        raise AssertionError(end)

    @property
    def _whole(self) -> FileSplit:
        return self._split

    def _read_block(self) -> None:
        raise NotImplementedError

    def _check_each(self, error: UnicodeDecodeError) -> None:
        raise NotImplementedError
