"""QueryConnections: the driver's connections to the slots of an attempt for queries of state, apart from all others."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from multiprocessing.connection import wait as wait_to_read
from typing import Any

from flintstream.runtime.slot.connections import JobConnection, hang_up, received
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.messages import Message, Reply, Request, Result
from flintstream.runtime.slot.protocol import AskStates
from flintstream.spark.outbox import Outbox
from flintstream.spark.slots import SlotError

_LOOK_SECONDS = 1.0


class QueryConnections:
    """A connection to each slot. Any thread may send; replies are read by a thread of its own.

    A slot whose function is busy does not read for as long as that takes, so a connection on which nothing moves is kept:
    that a slot is lost is noticed elsewhere, and ends the attempt.
    """

    def __init__(self, access: SlotAccess, attempt: int) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, tuple[int, Future[Any]]] = {}
        """By number: the slot that is asked, and the future of its reply."""
        self._connections: dict[int, JobConnection] = {}
        self._outboxes: list[Outbox] = []
        self._closed = False
        try:
            for slot in range(len(access.addresses)):
                connection = self._connections[slot] = access.connect(slot)
                connection.send(AskStates(attempt))
                self._outboxes.append(Outbox(connection, f"queries to slot {slot}"))
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._listen, name="answers to queries", daemon=True).start()

    def send(self, slot: int, message: Message[Result]) -> Future[Result]:
        """Sends a message to a slot; the future fails once the slot is lost."""
        future: Future[Result] = Future()
        number = next(self._numbers)
        with self._lock:
            if slot not in self._connections:
                future.set_exception(SlotError(f"slot {slot} is not connected"))
                return future
            self._pending[number] = slot, future
        self._outboxes[slot].put(
            Request(number, message), lambda error: self._fail(number, f"cannot be reached: {error}")
        )
        return future

    def close(self) -> None:
        """Hangs up; all that is pending fails."""
        self._closed = True
        for slot in list(self._connections):
            self._lose(slot, "is not asked any more: the attempt has ended")
        for outbox in self._outboxes:
            outbox.close()

    def _listen(self) -> None:
        while connections := {connection: slot for slot, connection in list(self._connections.items())}:
            try:
                ready = wait_to_read(list(connections), _LOOK_SECONDS)
            except (OSError, ValueError):
                if self._closed:
                    return
                continue  # One of them was closed meanwhile.
            for connection in ready:
                slot = connections[connection]  # type: ignore[index]
                try:
                    for reply in received(connection):  # type: ignore[arg-type]
                        self._complete(reply)
                except (EOFError, OSError):
                    self._lose(slot, "has ended")

    def _complete(self, reply: Reply) -> None:
        with self._lock:
            _, future = self._pending.pop(reply.number, (None, None))
        if future is not None:
            future.set_result(reply.result)

    def _fail(self, number: int, why: str) -> None:
        with self._lock:
            slot, future = self._pending.pop(number, (None, None))
        if future is not None:
            future.set_exception(SlotError(f"slot {slot} {why}"))

    def _lose(self, slot: int, why: str) -> None:
        with self._lock:
            connection = self._connections.pop(slot, None)
            lost = [number for number, (asked, _) in self._pending.items() if asked == slot]
        for number in lost:
            self._fail(number, why)
        if connection is not None:
            hang_up(connection)
