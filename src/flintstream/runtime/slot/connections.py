"""Connections between driver, slots and Spark tasks: keep-alive, deadlines, and reads that do not block."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

Address = tuple[str, int] | str
"""The address of a slot or the driver: host and port, or the path of a Unix socket."""

_SILENCE_MILLISECONDS = 60_000
_TIMEVAL = struct.Struct("ll")
# `send_bytes` writes the size of a frame before it; from 2 GB on, -1 and then the size.
_SIZE, _LARGE_SIZE = struct.Struct("!i"), struct.Struct("!Q")


class JobConnection(Connection):
    """A connection of a job, over a Unix or TCP socket."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        self._socket: socket.socket | None = None
        self._buffer = bytearray(_SIZE.size)
        """The bytes being received: the size of a frame, then the frame itself."""
        self._filled = 0
        self._sized = False
        """Whether `_buffer` is the frame itself."""

    @property
    def buffered(self) -> bool:
        """Returns whether received bytes have not been read yet: polling the socket would not find them."""
        return False

    @property
    def in_mid_frame(self) -> bool:
        """Returns whether `next_frame` has received a part of a frame only."""
        return self._sized or self._filled > 0 or len(self._buffer) == _LARGE_SIZE.size

    def next_frame(self) -> bytearray | None:
        """Returns the next frame, or None as long as it is incomplete; never blocks.

        Raises EOFError at the end of the connection, OSError if the end is within a frame, as `recv_bytes` does.
        """
        while True:
            while self._filled < len(self._buffer):
                count = self._take_into(memoryview(self._buffer)[self._filled :])
                if count is None:
                    return None
                if not count:
                    raise OSError("got end of file during message") if self.in_mid_frame else EOFError
                self._filled += count
            full, self._filled = self._buffer, 0
            if self._sized:
                self._buffer, self._sized = bytearray(_SIZE.size), False
                return full
            [size] = (_SIZE if len(full) == _SIZE.size else _LARGE_SIZE).unpack(full)
            self._sized = size >= 0
            self._buffer = bytearray(size if self._sized else _LARGE_SIZE.size)

    def _take_into(self, buffer: memoryview) -> int | None:
        """Fills the buffer as far as bytes are available. Returns their number: None if there are none, 0 at the end."""
        try:
            return self._receiving.recv_into(buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None

    @property
    def _receiving(self) -> socket.socket:
        """Returns the socket, for non-blocking reads; those of the descriptor block."""
        if self._socket is None:
            self._socket = _socket_of(self)
        return self._socket

    def close(self) -> None:
        """Closes both descriptors."""
        if self._socket is not None:
            self._socket.close()
        super().close()


def received(connection: Connection) -> Iterator[Any]:
    """Yields the next message, and those that were received with it, which polling the socket would not find."""
    yield connection.recv()
    while connection.poll(0):
        yield connection.recv()


def _socket_of(peer: socket.socket | Connection) -> socket.socket:
    """Returns the socket of a connection, on a duplicate of its descriptor."""
    duplicate = socket.socket(fileno=os.dup(peer.fileno()))
    # If the program has called socket.setdefaulttimeout(), Python has just made both descriptors non-blocking.
    duplicate.settimeout(None)
    return duplicate


def hang_up(connection: Connection) -> None:
    """Closes a connection so that the peer notices at once, even if another thread is waiting on it."""
    try:
        with _socket_of(connection) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
        connection.close()
    except OSError:
        pass  # Hung up already.


def shut_down(connection: Connection) -> None:
    """Ends a connection without closing it: the peer and all threads that wait on it notice at once."""
    try:
        with _socket_of(connection) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # It has ended already.


def keep_alive(peer: socket.socket) -> None:
    """Enables keep-alive: a socket notices within 70 s that the peer's machine is down.

    Not sooner: a network may be interrupted for a minute, or a machine migrated, and the job continues.
    """
    if peer.family != socket.AF_UNIX:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 5)):
            if hasattr(socket, option):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def notice_silence(connection: Connection) -> None:
    """Ends a connection if sent bytes are not acknowledged by the peer's machine for a minute.

    While bytes are unacknowledged, keep-alive does not probe. Only for connections whose peer always reads: one with
    back-pressure, such as that of blocks for a slow operator, would be ended too.
    """
    with _socket_of(connection) as duplicate:
        if duplicate.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
            duplicate.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MILLISECONDS)


def limit(peer: socket.socket | Connection, seconds: float, *options: int) -> None:
    """Sets a deadline for each call that sends or connects (SO_SNDTIMEO) or receives (SO_RCVTIMEO); 0 for none. A call
    that transfers nothing by then raises BlockingIOError.

    Not a timeout of Python's, which would make the descriptor non-blocking.
    """
    value = _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1_000_000))
    with _socket_of(peer) as duplicate:
        for option in options:
            duplicate.setsockopt(socket.SOL_SOCKET, option, value)


def connection_over(peer: socket.socket) -> JobConnection:
    """Returns a connection over a socket, with keep-alive; the socket may be closed afterwards."""
    keep_alive(peer)
    return JobConnection(os.dup(peer.fileno()))
