"""Reads the lines of a file, or of a split of it, in blocks and from exact positions.

As in Java, lines end with `\\n`, `\\r\\n` or `\\r`. A split has the lines that start in it, so that the splits of a file
yield each line exactly once.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

from flintstream.connectors.files.paths import open_for_reading
from flintstream.runtime.source import SourceError

__all__ = ["FileSplit", "Lines", "has_ascii_line_ends", "lines_of"]

_READ_BYTES = 1 << 18
_READ_LINES = 4096


@dataclass(frozen=True)
class FileSplit:
    """A range of a file: the records that start at `start` or later, and before `end`."""

    path: str
    start: int = 0
    end: int | None = None
    """None for the end of the file at the time it is read."""


def has_ascii_line_ends(charset: str) -> bool:
    """Returns whether line ends can be found in the bytes themselves, as in UTF-8 and Latin-1 but not in UTF-16."""
    return "a\r\n".encode(charset) == b"a\r\n"


def lines_of(split: FileSplit, charset: str, position: int | None) -> Lines:
    """Returns the lines of a split, from a position on."""
    if has_ascii_line_ends(charset):
        return _ByteLines(split, charset, position)
    return _TextLines(split, charset, position)


class Lines(ABC):
    """Lines with lookahead: `peek` returns lines, `advance` moves the position past them."""

    finished = False
    """Set once all lines have been consumed."""

    def __init__(self, split: FileSplit, charset: str, position: int | None) -> None:
        self.path = split.path
        self.position = position
        """The position of the next line; None before the first read."""
        self._split = split
        self._charset = charset
        self._file: Any = None
        self._ahead: list[Any] = []
        self._next = 0
        """The number of consumed lines in `_ahead`."""
        self._at_end = False

    def peek(self, count: int, keep_ends: bool = False, skip: int = 0) -> list[str]:
        """Returns at most `count` lines after the next `skip` ones; empty only at the end."""
        with self._named():
            if self._file is None:
                self._open()
            while len(self._ahead) - self._next <= skip and not self._at_end:
                self._fill()
        first = self._next + skip
        return self._texts(self._ahead[first : first + count], keep_ends)

    def advance(self, count: int) -> None:
        """Consumes the next `count` lines."""
        passed = self._ahead[self._next : self._next + count]
        self.position = self._start_of(len(passed))
        self._next += len(passed)
        if self._next >= len(self._ahead) and not self._at_end:
            with self._named():
                self._fill()
        self.finished = self._at_end and self._next >= len(self._ahead)

    @abstractmethod
    def place(self, index: int) -> str:
        """Describes the position of the line after the next `index` ones, for error messages."""

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Adds the file's name to errors of Python's decompressors."""
        try:
            yield
        except EOFError as error:
            raise SourceError(
                f"{self.path} is truncated: {error}. Was it still being written, or copied in part?"
            ) from error
        except (gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise SourceError(f"{self.path} is damaged, or not compressed as its name says: {error}") from error
        except OSError as error:
            if error.errno is not None or self.path in str(error):
                raise
            raise SourceError(f"{self.path} cannot be read: {error}") from error

    def _append(self, lines: list[Any]) -> None:
        self._ahead = self._ahead[self._next :] + lines
        self._next = 0

    @abstractmethod
    def _start_of(self, index: int) -> int:
        """Returns the position of the line after the next `index` ones."""

    @abstractmethod
    def _open(self) -> None:
        """Opens the file and seeks to the position."""

    @abstractmethod
    def _fill(self) -> None:
        """Appends lines, or sets `_at_end`."""

    @abstractmethod
    def _texts(self, lines: list[Any], keep_ends: bool) -> list[str]:
        """Returns the lines as strings."""


class _ByteLines(Lines):
    """Lines found in the bytes; a position is a byte offset in the (decompressed) file."""

    _file: IO[bytes] | None
    _ahead: list[bytes]

    def place(self, index: int) -> str:
        return f"byte {self._start_of(index)}"

    def _start_of(self, index: int) -> int:
        return (self.position or 0) + sum(map(len, self._ahead[self._next : self._next + index]))

    def _open(self) -> None:
        self._file = open_for_reading(self.path)
        self._rest = b""
        start = self._split.start
        if self.position is not None or start == 0:
            self._read_to = self.position = self.position or 0
            self._file.seek(self.position)
            return
        # A line that continues at the start, or ends right before it, belongs to the previous split.
        self._file.seek(start - 1)
        first, *others = self._next_lines() or [b""]
        self._read_to = self.position = start - 1 + len(first)
        self._take_in(others)

    def _fill(self) -> None:
        lines = self._next_lines()
        if not lines:
            self._at_end = True
        self._take_in(lines)

    def _take_in(self, lines: list[bytes]) -> None:
        end = self._split.end
        behind = self._read_to + sum(map(len, lines))
        if end is not None and behind >= end:
            self._at_end = True
            kept, start = 0, self._read_to
            while kept < len(lines) and start < end:
                start += len(lines[kept])
                kept += 1
            lines = lines[:kept]
        self._read_to = behind
        self._append(lines)

    def _next_lines(self) -> list[bytes]:
        """Returns the next complete lines, with their ends; empty at the end of the file."""
        assert self._file is not None
        size = _READ_BYTES
        while True:
            data = self._file.read(size)
            if not data:
                lines, self._rest = self._rest.splitlines(keepends=True), b""
                return lines
            lines = (self._rest + data).splitlines(keepends=True)
            # After a carriage return at the end of the data, a line feed may follow.
            self._rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
            if lines:
                return lines
            size *= 2

    def _texts(self, lines: list[bytes], keep_ends: bool) -> list[str]:
        charset = self._charset
        try:
            if not keep_ends:
                text = b"".join(lines).decode(charset)
                if "\r" in text:
                    text = text.replace("\r\n", "\n").replace("\r", "\n")
                texts = text.split("\n")
                if not texts[-1]:
                    texts.pop()
                if len(texts) == len(lines):
                    return texts
            whole = [line.decode(charset) for line in lines]
        except UnicodeDecodeError as error:
            raise self._undecodable(lines) from error
        return whole if keep_ends else [text.rstrip("\r\n") for text in whole]

    def _undecodable(self, lines: list[bytes]) -> SourceError:
        offset = self.position or 0
        for line in lines:
            try:
                line.decode(self._charset)
            except UnicodeDecodeError as error:
                offset += error.start
                break
            offset += len(line)
        return SourceError(
            f"{self.path}: invalid {self._charset} at byte {offset}; if the file has another encoding, pass its "
            "charset to the format"
        )


class _TextLines(Lines):
    """Lines of an encoding that must be decoded from the start, such as UTF-16; a position is a number of lines."""

    _file: io.TextIOWrapper | None
    _ahead: list[str]

    def place(self, index: int) -> str:
        return f"line {self._start_of(index) + 1}"

    def _start_of(self, index: int) -> int:
        return (self.position or 0) + index

    def _open(self) -> None:
        file = open_for_reading(self.path)
        raw = io.BufferedReader(file) if isinstance(file, io.RawIOBase) else file
        self._file = io.TextIOWrapper(raw, encoding=self._charset, newline="")
        skipped, self.position = self.position or 0, 0
        while self.position < skipped:
            count = len(self._read(min(_READ_LINES, skipped - self.position)))
            if not count:
                return
            self.position += count

    def _fill(self) -> None:
        lines = self._read(_READ_LINES)
        self._at_end = not lines
        self._append(lines)

    def _read(self, count: int) -> list[str]:
        assert self._file is not None
        try:
            return list(islice(self._file, count))
        except UnicodeError as error:
            raise SourceError(
                f"{self.path}: invalid {self._charset} after line {self._start_of(len(self._ahead))}; if the file "
                "has another encoding, pass its charset to the format"
            ) from error

    def _texts(self, lines: list[str], keep_ends: bool) -> list[str]:
        return lines if keep_ends else [line.rstrip("\r\n") for line in lines]
