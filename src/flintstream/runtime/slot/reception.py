"""Reception: accepts connections, and limits unauthenticated peers in time and number."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

GREETING_SECONDS = 10.0
"""The time after which a peer that has not authenticated is disconnected."""
MOST_WAITING = 128
"""The maximum number of peers in the handshake; for one more, the oldest is disconnected."""
_PAUSE_SECONDS = 0.1

T = TypeVar("T")


class _Peer:
    """A peer that has connected, and has not completed the handshake."""

    def __init__(self, accepted: socket.socket, deadline: float) -> None:
        self.socket = accepted
        self.deadline = deadline
        self.refused = False

    def refuse(self) -> None:
        """Disconnects: whoever reads from the socket finds its end."""
        self.refused = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It has disconnected itself.


class Reception(Generic[T]):
    """Accepts connections on a socket. Each handshake runs on its own thread, and raises to refuse the peer; its result
    is passed to `take`, together with the socket, which `take` must close.

    Silent or slow peers cannot block others: if the limit is reached, the oldest is disconnected; a legitimate peer
    needs only some milliseconds.
    """

    def __init__(
        self,
        listening: socket.socket,
        greet: Callable[[socket.socket], T],
        take: Callable[[socket.socket, T], None],
        seconds: float = GREETING_SECONDS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._socket = listening
        self._socket.setblocking(False)
        self._greet = greet
        self._take = take
        self._seconds = seconds
        self._most = most_waiting
        self._waiting: dict[_Peer, None] = {}
        """The oldest first."""
        self._changed = threading.Condition()
        self._closed = False
        self._serving = False
        self._woken, self._waker = socket.socketpair()

    @property
    def waiting(self) -> int:
        """Returns the number of peers in the handshake."""
        return len(self._waiting)

    def serve(self) -> None:
        """Accepts connections until the reception is closed."""
        with self._changed:
            if self._closed:
                return
            self._serving = True
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._woken, selectors.EVENT_READ)
                listening = selector.register(self._socket, selectors.EVENT_READ)
                while not self._closed:
                    ready = selector.select(self._patience())
                    self._expire()
                    if not self._closed and any(key is listening for key, _ in ready):
                        self._accept()
        finally:
            self._release()

    def close(self) -> None:
        """Stops accepting; disconnects the peers in the handshake."""
        with self._changed:
            self._closed = True
            for peer in self._waiting:
                peer.refuse()
            self._waker.close()
            if not self._serving:
                self._release()

    def _release(self) -> None:
        for each in (self._socket, self._woken, self._waker):
            each.close()

    def _patience(self) -> float | None:
        """Returns how long to wait for the next peer; None if no handshake can time out."""
        with self._changed:
            deadline = min((peer.deadline for peer in self._waiting if not peer.refused), default=None)
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _expire(self) -> None:
        now = time.monotonic()
        with self._changed:
            for peer in self._waiting:
                if peer.deadline <= now:
                    peer.refuse()

    def _accept(self) -> None:
        if not self._make_room():
            return
        try:
            accepted, _ = self._socket.accept()
        except BlockingIOError:
            return  # Disconnected again.
        except OSError:
            time.sleep(_PAUSE_SECONDS)  # No descriptor is free: waiting peers return theirs in time.
            return
        accepted.setblocking(True)
        peer = _Peer(accepted, time.monotonic() + self._seconds)
        with self._changed:
            self._waiting[peer] = None
        threading.Thread(target=self._meet, args=(peer,), name="greeting", daemon=True).start()

    def _make_room(self) -> bool:
        """Returns whether there is room for one more, disconnecting the oldest if needed."""
        with self._changed:
            if len(self._waiting) < self._most:
                return True
            oldest = next((peer for peer in self._waiting if not peer.refused), None)
            if oldest is not None:
                oldest.refuse()
            return self._changed.wait_for(lambda: len(self._waiting) < self._most, _PAUSE_SECONDS)

    def _meet(self, peer: _Peer) -> None:
        greeted: list[T] = []
        try:
            greeted.append(self._greet(peer.socket))
        except Exception:
            pass  # It was refused, has disconnected, or was too slow.
        with self._changed:
            # From here on nobody else disconnects it: its descriptor may be reused.
            del self._waiting[peer]
            self._changed.notify_all()
        if greeted and not peer.refused:
            self._take(peer.socket, greeted[0])
        else:
            peer.socket.close()
