"""How a failed request is described: in the body of a refusal, and as the cause in an asynchronous answer."""

from __future__ import annotations

import base64
import re

from flintstream.server.rest.java_serialization import serialized_throwable
from flintstream.server.rest.shapes import FailureCause

__all__ = ["RestError", "exception_class", "failure_cause"]

_NAMED = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?::|$)")
"""A line that begins with the name of a class."""


class RestError(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def exception_class(message: str, trace: str | None = None) -> str | None:
    """Returns the class of an exception by the last line of its traceback that names one, or by its message."""
    for line in (*reversed((trace or "").splitlines()), message):
        named = _NAMED.match(line)
        if named is not None:
            return named[1]
    return None


def failure_cause(message: str, trace: str | None = None) -> FailureCause:
    """Returns the cause of a failure as Flink describes an exception of Java."""
    named = exception_class(message, trace) or "RuntimeError"
    trace = trace or message
    serialized = base64.b64encode(serialized_throwable(named, message, trace)).decode("ascii")
    return {"class": named, "stack-trace": trace, "serialized-throwable": serialized}
