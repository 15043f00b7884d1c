"""TextFileSink: records as lines of plain files, one for each subtask."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum

from flintstream.common.printing import line_formatter
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.connectors.base import Sink
from flintstream.datastream.connectors.file_paths import (
    absolute,
    exists,
    find_files,
    is_directory,
    join,
    make_directory,
    open_for_writing,
    remove,
)
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import Operator

__all__ = ["TextFileSink", "WriteMode"]


class WriteMode(Enum):
    """What happens to a file that is there already."""

    NO_OVERWRITE = 0
    """The job fails."""
    OVERWRITE = 1
    """It is replaced."""


class TextFileSink(Sink):
    """Writes each record, as `print` shows it, on a line of its own: for small results and debugging.

        stream.sink_to(TextFileSink("/tmp/result.txt")).set_parallelism(1)

    With one subtask the path is the file; with several it is a directory with the files 1, 2, and so on.
    Nothing is taken back after a failure: use a `FileSink` for results that count.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        write_mode: WriteMode = WriteMode.NO_OVERWRITE,
        charset: str = "UTF-8",
    ) -> None:
        if not isinstance(write_mode, WriteMode):
            raise TypeError(f"TextFileSink: write_mode must be a WriteMode, got {write_mode!r}")
        self._path = absolute(path)
        self._mode = write_mode
        self._charset = charset
        "".encode(charset)  # refuses an unknown one

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        if self._mode is WriteMode.NO_OVERWRITE and exists(self._path) and not is_directory(self._path):
            raise _exists(self._path)
        return TextFileSinkOperator(self._path, self._mode, self._charset, input_type)


class TextFileSinkOperator(Operator):
    """Writes the file of a subtask."""

    takes_declared_types = True

    def __init__(self, path: str, mode: WriteMode, charset: str, input_type: TypeInformation | None) -> None:
        self._path = path
        self._mode = mode
        self._charset = charset
        self._type = input_type

    def open(self) -> None:
        self._show = line_formatter(self._type)
        path = self._path
        if self.context.parallelism > 1:
            self._make_directory()
            path = join(path, str(self.context.subtask + 1))
        elif self._mode is WriteMode.OVERWRITE and is_directory(path):
            remove(path)
        else:
            make_directory(path.rpartition("/")[0])
        try:
            self._file = open_for_writing(path, exclusive=self._mode is WriteMode.NO_OVERWRITE)
        except (FileExistsError, IsADirectoryError):
            raise _exists(path) from None

    def _make_directory(self) -> None:
        path = self._path
        if exists(path) and not is_directory(path):
            if self._mode is WriteMode.NO_OVERWRITE:
                raise _exists(path)
            with suppress(OSError):  # another subtask has put the directory in its place
                remove(path)
        make_directory(path)
        if self._mode is WriteMode.OVERWRITE and self.context.subtask == 0:
            for file in find_files(path):
                # What an earlier run with more subtasks has left would look like a result of this one.
                number = file.path.rpartition("/")[2]
                if number.isdecimal() and int(number) > self.context.parallelism:
                    remove(file.path)

    def process(self, batch: Batch) -> None:
        show = self._show
        self._file.write("".join([f"{show(value)}\n" for value in batch.values]).encode(self._charset))

    def process_watermark(self, timestamp: int) -> None:
        """Time means nothing here."""

    def end_epoch(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        self._file.flush()

    def close(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()


def _exists(path: str) -> FileExistsError:
    return FileExistsError(
        f"{path} exists already and is not overwritten; remove it, or pass write_mode=WriteMode.OVERWRITE"
    )
