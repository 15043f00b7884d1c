"""QueryConnections: the driver's connections to the slots of an attempt for queries of state, apart from all others.

A job answers many requests a second, each on a machine whose processors do other work: what costs is every thread that is
woken and every module that is touched, more than the bytes. So whoever asks sends by itself where that cannot block.
"""

from __future__ import annotations

import itertools
import pickle
import selectors
import threading
from concurrent.futures import Future
from typing import Any

from flintstream.runtime.slot.connections import JobConnection, shut_down
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.messages import Message, Reply, Request, Result
from flintstream.runtime.slot.protocol import AskStates
from flintstream.spark.outbox import Outbox
from flintstream.spark.slots import SlotError

_LOOK_SECONDS = 1.0
_SMALL = 4096
"""A frame of at most these bytes fits into the buffers of a connection that are empty."""


class _Peer:
    """A slot that is asked."""

    def __init__(self, slot: int, connection: JobConnection) -> None:
        self.slot = slot
        self.connection = connection
        self.pending: dict[int, Future[Any]] = {}
        """By number: the requests that have no reply yet."""
        self.lost: str | None = None
        """Why it is not asked any more."""
        self._sending = threading.Lock()
        self.outbox = Outbox(self, f"queries to slot {slot}")

    def send(self, frame: bytes) -> None:
        """Sends a whole frame; may block for as long as the slot does not read."""
        with self._sending:
            self.connection.send_bytes(frame)

    def close(self, lock: threading.Lock) -> None:
        """Closes the connection, which has ended; not while others use its descriptor, which is reused."""
        with self._sending, lock:
            self.connection.close()


class QueryConnections:
    """A connection to each slot. Any thread may send; replies are read by a thread of its own.

    A slot whose function is busy does not read for as long as that takes, so a connection on which nothing moves is kept:
    that a slot is lost is noticed elsewhere, and ends the attempt.
    """

    def __init__(self, access: SlotAccess, attempt: int) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._peers: list[_Peer] = []
        self._selector = selectors.DefaultSelector()
        try:
            for slot in range(len(access.addresses)):
                connection = access.connect(slot)
                try:
                    connection.send(AskStates(attempt))
                    peer = _Peer(slot, connection)
                except BaseException:
                    connection.close()
                    raise
                self._peers.append(peer)
                self._selector.register(connection, selectors.EVENT_READ, peer)
        except BaseException:
            self.close()
            self._release()
            raise
        threading.Thread(target=self._listen, name="answers to queries", daemon=True).start()

    def send(self, slot: int, message: Message[Result]) -> Future[Result]:
        """Sends a message to a slot; the future fails once the slot is lost."""
        future: Future[Result] = Future()
        number = next(self._numbers)
        peer = self._peers[slot]
        try:
            frame = pickle.dumps(Request(number, message), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            future.set_exception(SlotError(f"slot {slot} cannot be reached: {error}"))
            return future
        with self._lock:
            if peer.lost is not None:
                future.set_exception(SlotError(f"slot {slot} {peer.lost}"))
                return future
            # It has replied to all that was sent, and so has read it: the buffers between are empty.
            at_once = not peer.pending and len(frame) <= _SMALL
            peer.pending[number] = future
        if at_once:
            try:
                peer.send(frame)
            except Exception as error:
                self._unsent(peer, number, error)
        else:
            peer.outbox.put(frame, lambda error: self._unsent(peer, number, error))
        return future

    def close(self) -> None:
        """Hangs up; all that is pending fails."""
        for peer in self._peers:
            self._lose(peer, "is not asked any more: the attempt has ended")
            peer.outbox.close()

    def _listen(self) -> None:
        try:
            while self._selector.get_map():
                for key, _ in self._selector.select(_LOOK_SECONDS):
                    self._receive(key.data)
        finally:
            self._release()

    def _receive(self, peer: _Peer) -> None:
        try:
            while (frame := peer.connection.next_frame()) is not None:
                self._complete(peer, pickle.loads(frame))
        except Exception as error:
            gone = isinstance(error, EOFError | OSError)
            self._lose(peer, "has ended" if gone else f"has sent what cannot be read: {error!r}")
            self._selector.unregister(peer.connection)
            peer.close(self._lock)

    def _complete(self, peer: _Peer, reply: Reply) -> None:
        with self._lock:
            future = peer.pending.pop(reply.number, None)
        if future is not None:
            future.set_result(reply.result)

    def _unsent(self, peer: _Peer, number: int, error: BaseException) -> None:
        with self._lock:
            future = peer.pending.pop(number, None)
        if future is not None:
            future.set_exception(SlotError(f"slot {peer.slot} cannot be reached: {error}"))

    def _lose(self, peer: _Peer, why: str) -> None:
        """Fails what is pending; the thread that reads, which finds the end of the connection, closes it."""
        with self._lock:
            peer.lost = peer.lost or why
            pending, peer.pending = peer.pending, {}
            shut_down(peer.connection)
        for future in pending.values():
            future.set_exception(SlotError(f"slot {peer.slot} {why}"))

    def _release(self) -> None:
        """Closes the connections; nobody reads them any more."""
        for peer in self._peers:
            self._lose(peer, "is not asked any more")
            peer.close(self._lock)
        self._selector.close()
