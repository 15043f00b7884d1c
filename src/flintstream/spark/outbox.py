"""Outbox: sends messages to a slot on a thread of its own, so that nobody waits for a slot that does not read."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_Message = tuple[Any, Callable[[BaseException], None]]


class Outbox:
    """What is to be sent over one connection, in order. Whoever shuts the connection down also ends a send that hangs."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, message: Any, failed: Callable[[BaseException], None]) -> None:
        """Sends a message when those before it are sent; `failed` is told why it could not be."""
        self._waiting.put((message, failed))

    def close(self) -> None:
        """Ends the thread when all is sent."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (next_message := self._waiting.get()) is not None:
            message, failed = next_message
            try:
                self._connection.send(message)
            except Exception as error:
                failed(error)
            del message, failed, next_message  # The last one may be large, and the next one far off.
