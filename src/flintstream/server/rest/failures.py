"""How a failed request is described: in the body of a refusal, and as the cause in an asynchronous answer."""

from __future__ import annotations

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
    return {"class": named, "stack-trace": trace or message, "serialized-throwable": ""}
