"""File formats: the base classes, and formats with one record per line."""

from __future__ import annotations

import codecs
from typing import Any

from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.connectors.files.lines import FileSplit, Lines, has_ascii_line_ends, lines_of
from flintstream.connectors.files.paths import compression_of
from flintstream.runtime.batch import Batch
from flintstream.runtime.source import SourceError, SplitReader

__all__ = ["BulkFormat", "FileFormat", "FileSplit", "LineFormat", "StreamFormat"]


class FileFormat:
    """How records are read from files."""

    def splittable(self, path: str) -> bool:
        """Returns whether this file can be split."""
        return False

    @property
    def produced_type(self) -> TypeInformation | None:
        """Returns the type of the records, if the format knows it."""
        return None

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        """Returns a reader of a split, from its beginning if `position` is None. Called in a slot."""
        raise NotImplementedError(f"{type(self).__name__} does not define create_reader(split, position)")


class StreamFormat(FileFormat):
    """A format whose records follow one another in a file: text lines, CSV, JSON lines.

    Example::

        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build()

    Files that end in `.gz`, `.gzip`, `.bz2`, `.xz`, `.zst` or `.deflate` are decompressed.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Each line as a string, without its end (`\\n`, `\\r\\n` or `\\r`)."""
        return LineFormat(charset_name)


class BulkFormat(FileFormat):
    """A format that stores many records in one structure, such as Parquet.

    Example::

        FileSource.for_bulk_file_format(ParquetFormat(), "/data/in").build()
    """


class LineFormat(StreamFormat):
    """A format with one record per line. A subclass overrides `decode`; here the line itself is the record.

    Example::

        class Numbers(LineFormat):
            def decode(self, lines):
                return [int(line) for line in lines]
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self.charset = checked_charset(charset_name)

    def splittable(self, path: str) -> bool:
        return compression_of(path) is None and has_ascii_line_ends(self.charset)

    @property
    def produced_type(self) -> TypeInformation | None:
        return Types.STRING() if type(self) is LineFormat else None

    def decode(self, lines: list[str]) -> list[Any]:
        """Returns the records of a block of lines; a line may be skipped."""
        return lines

    def create_reader(self, split: FileSplit, position: Any) -> SplitReader:
        return LineReader(self, lines_of(split, self.charset, position))


class LinesReader(SplitReader):
    """A reader on top of lines; a subclass creates the records."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @property
    def position(self) -> Any:
        return self._lines.position

    def close(self) -> None:
        self._lines.close()

    def read(self, limit: int) -> Batch:
        values: list[Any] = []
        while not values and not self.finished:
            values = self._read_records(limit)
            self.finished = self._lines.finished
        return Batch(values)

    def _read_records(self, limit: int) -> list[Any]:
        raise NotImplementedError


class LineReader(LinesReader):
    """Reads a file of a `LineFormat`."""

    def __init__(self, line_format: LineFormat, lines: Lines) -> None:
        super().__init__(lines)
        self._decode = line_format.decode

    def _read_records(self, limit: int) -> list[Any]:
        texts = self._lines.peek(limit)
        try:
            values = self._decode(texts)
        except Exception as error:
            raise self._error(texts, error) from error
        self._lines.advance(len(texts))
        return values

    def _error(self, texts: list[str], error: Exception) -> SourceError:
        for index, text in enumerate(texts):
            try:
                self._decode([text])
            except Exception as single:
                return SourceError(
                    f"{self._lines.path}, {self._lines.place(index)}: cannot read the line {text[:200]!r}: {single}"
                )
        return SourceError(f"{self._lines.path}, {self._lines.place(0)} or a later line: {error}")


def checked_charset(charset_name: str) -> str:
    """Returns the charset's Python name; refuses an unknown one."""
    try:
        return codecs.lookup(charset_name).name
    except (LookupError, TypeError):
        raise ValueError(f"unknown charset {charset_name!r}") from None
