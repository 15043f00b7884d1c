"""Log files as answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from starlette.responses import StreamingResponse

from flintstream.server.rest.failures import RestError

__all__ = ["LogResponse", "log_of", "output_of", "text_of_log"]

_CHUNK = 1 << 16
_NONE = b"(log file unavailable)"


class LogResponse(StreamingResponse):
    """The text of a file, up to where it ended when the answer began: a log grows meanwhile."""

    media_type = "text/plain; charset=utf-8"


def text_of_log(paths: Mapping[str, str], name: str) -> LogResponse:
    """Returns a log file by its name; answers 404 if there is none."""
    try:
        return LogResponse(_contents(paths[name]))
    except (KeyError, OSError) as error:
        raise RestError(404, f"There is no log file {name}.") from error


def log_of(paths: Mapping[str, str]) -> LogResponse:
    """Returns the newest log file; that of standard output only if there is no other."""
    return _newest([path for name, path in paths.items() if "out" not in name] or list(paths.values()))


def output_of(paths: Mapping[str, str]) -> LogResponse:
    """Returns the newest file of standard output."""
    return _newest([path for name, path in paths.items() if "out" in name])


def _newest(paths: list[str]) -> LogResponse:
    existing = [path for path in paths if os.path.isfile(path)]
    try:
        return LogResponse(_contents(max(existing, key=os.path.getmtime)))
    except (ValueError, OSError):
        return LogResponse(iter([_NONE]))


def _contents(path: str) -> Iterator[bytes]:
    file = open(path, "rb")
    left = os.fstat(file.fileno()).st_size

    def chunks() -> Iterator[bytes]:
        nonlocal left
        with file:
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk

    return chunks()
