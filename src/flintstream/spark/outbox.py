"""Outbox: sends messages to a slot on its own thread, so that a slot that does not read blocks nobody."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

_Message = tuple[Any, Callable[[BaseException], None]]


class Sender(Protocol):
    """What sends a message, such as a connection."""

    def send(self, message: Any, /) -> None:
        """Sends a message; may block."""


class Outbox:
    """The messages for one connection, in order. Shutting the connection down also ends a hanging send."""

    def __init__(self, connection: Sender, name: str) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, message: Any, failed: Callable[[BaseException], None]) -> None:
        """Queues a message; `failed` is called with the reason if it cannot be sent."""
        self._waiting.put((message, failed))

    def close(self) -> None:
        """Ends the thread when all messages are sent."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (next_message := self._waiting.get()) is not None:
            message, failed = next_message
            try:
                self._connection.send(message)
            except Exception as error:
                failed(error)
            # The last message may be large, and the next one far off.
            del message, failed, next_message
