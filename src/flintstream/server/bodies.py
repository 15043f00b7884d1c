"""The bodies of requests, bounded by what they announce and by what comes."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

__all__ = ["BodyTooLargeError", "bounded"]

_MOST_DIGITS = 18


class BodyTooLargeError(Exception):
    """The body of a request is too large."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body of the request is larger than {limit} bytes.")


def bounded(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Returns what receives a request, and raises a BodyTooLargeError once its body is larger than `limit` bytes; one that
    announces a larger body is refused at once.
    """
    announced = Headers(scope=scope).get("content-length", "0")
    if not announced.isdecimal() or len(announced) > _MOST_DIGITS or int(announced) > limit:
        raise BodyTooLargeError(limit)
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise BodyTooLargeError(limit)
        return message

    return receive_bounded
