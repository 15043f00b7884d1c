"""How a failed request is described: in the body of a refusal, and as the cause in an asynchronous answer."""

from __future__ import annotations

import base64

from flintstream.server.rest.java_serialization import serialized_throwable
from flintstream.server.rest.shapes import FailureCause

__all__ = ["RestError", "failure_cause"]


class RestError(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def failure_cause(message: str, trace: str | None = None) -> FailureCause:
    """Returns the cause of a failure as Flink describes an exception of Java."""
    kind = message.partition(":")[0]
    named = kind if kind.replace(".", "").replace("_", "").isidentifier() else "RuntimeError"
    trace = trace or message
    serialized = base64.b64encode(serialized_throwable(named, message, trace)).decode("ascii")
    return {"class": named, "stack-trace": trace, "serialized-throwable": serialized}
