"""The operator of `TextFileSink`: records as lines of a plain file."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum

from flintstream.common.printing import line_formatter
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.files.paths import (
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


class WriteMode(Enum):
    """What to do with an existing file."""

    NO_OVERWRITE = 0
    """The job fails."""
    OVERWRITE = 1
    """The file is replaced."""


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
            raise already_exists(path) from None

    def _make_directory(self) -> None:
        path = self._path
        if exists(path) and not is_directory(path):
            if self._mode is WriteMode.NO_OVERWRITE:
                raise already_exists(path)
            with suppress(OSError):  # another subtask has replaced it by the directory
                remove(path)
        make_directory(path)
        if self._mode is WriteMode.OVERWRITE and self.context.subtask == 0:
            for file in find_files(path):
                # Files left by an earlier run with more subtasks would look like results of this one.
                number = file.path.rpartition("/")[2]
                if number.isdecimal() and int(number) > self.context.parallelism:
                    remove(file.path)

    def process(self, batch: Batch) -> None:
        show = self._show
        self._file.write("".join([f"{show(value)}\n" for value in batch.values]).encode(self._charset))

    def process_watermark(self, timestamp: int) -> None:
        """Does nothing: time has no effect here."""

    def tick(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        self._file.flush()

    def close(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()


def already_exists(path: str) -> FileExistsError:
    """Returns the error for a file that is not overwritten."""
    return FileExistsError(
        f"{path} exists already and is not overwritten; remove it, or pass write_mode=WriteMode.OVERWRITE"
    )
