"""Reception: accepts connections, and bounds those in time and number of whom nothing is known yet."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

GREETING_SECONDS = 10.0
"""A peer that has not said by then what it has to say is hung up on."""
MOST_WAITING = 128
"""How many peers may be greeted at once; for one more, the oldest is hung up on."""
_PAUSE_SECONDS = 0.1

T = TypeVar("T")


class _Peer:
    """Somebody who has connected, and has not said enough yet."""

    def __init__(self, accepted: socket.socket, deadline: float) -> None:
        self.socket = accepted
        self.deadline = deadline
        self.refused = False

    def refuse(self) -> None:
        """Hangs up: whoever reads from the socket finds its end."""
        self.refused = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It has hung up itself.


class Reception(Generic[T]):
    """Accepts connections on a socket. Each is greeted on a thread of its own, which raises if the peer is not to come in;
    what the greeting gives is handed to `take`, together with the socket, which is its own to close.

    Peers that say nothing, or too slowly, keep nobody out: if there is no room for one more, the one that has waited
    longest is hung up on; whoever belongs here needs some milliseconds.
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
        """How many peers are being greeted."""
        return len(self._waiting)

    def serve(self) -> None:
        """Accepts until the reception is closed."""
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
        """Accepts nobody any more; those who are being greeted are hung up on."""
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
        """How long to wait for the next peer; None if nobody's time runs out."""
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
            return  # Gone again.
        except OSError:
            time.sleep(_PAUSE_SECONDS)  # No descriptor is free: those that wait give theirs back in time.
            return
        accepted.setblocking(True)
        peer = _Peer(accepted, time.monotonic() + self._seconds)
        with self._changed:
            self._waiting[peer] = None
        threading.Thread(target=self._meet, args=(peer,), name="greeting", daemon=True).start()

    def _make_room(self) -> bool:
        """Whether there is room for one more, if need be after the oldest has been hung up on."""
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
            pass  # It does not belong here, or has hung up, or was too slow.
        with self._changed:
            # From here on nobody else hangs up on it: its descriptor may become another's.
            del self._waiting[peer]
            self._changed.notify_all()
        if greeted and not peer.refused:
            self._take(peer.socket, greeted[0])
        else:
            peer.socket.close()
