"""TextFileSink: writes records as lines of plain files, one file per subtask."""

from __future__ import annotations

import os

from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.files.paths import absolute, exists, is_directory
from flintstream.connectors.files.text_sink import TextFileSinkOperator, WriteMode, already_exists
from flintstream.datastream.connectors.base import Sink
from flintstream.runtime.operators.base import Operator

__all__ = ["TextFileSink", "WriteMode"]


class TextFileSink(Sink):
    """Writes each record, as `print` shows it, on its own line: for small results and debugging.

        stream.sink_to(TextFileSink("/tmp/result.txt")).set_parallelism(1)

    With one subtask the path is the file; with several it is a directory with the files 1, 2, and so on. Nothing is
    rolled back after a failure: use a `FileSink` where results must be exact.
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
        "".encode(charset)  # raises for an unknown charset

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        if self._mode is WriteMode.NO_OVERWRITE and exists(self._path) and not is_directory(self._path):
            raise already_exists(self._path)
        return TextFileSinkOperator(self._path, self._mode, self._charset, input_type)
