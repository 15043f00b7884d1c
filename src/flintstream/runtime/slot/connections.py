"""Connections between driver, slots and Spark tasks: kept alive, ended when the other side falls silent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

Address = tuple[str, int] | str
"""Of a slot or of the driver: host and port, or the path of a Unix socket."""

_SILENCE_MILLISECONDS = 60_000


class JobConnection(Connection):
    """A connection of a job, over a Unix or TCP socket."""

    @property
    def buffered(self) -> bool:
        """Whether bytes have been received that nobody has read: waiting for the descriptor would not find them."""
        return False


def received(connection: Connection) -> Iterator[Any]:
    """The next message, and those behind it that have come with it, which waiting for the descriptor would not find."""
    yield connection.recv()
    while connection.poll(0):
        yield connection.recv()


def hang_up(connection: Connection) -> None:
    """Closes a connection so that the peer notices at once, although another thread may be waiting on it."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
        connection.close()
    except OSError:
        pass  # Hung up already.


def keep_alive(peer: socket.socket) -> None:
    """Lets a socket notice within 70 s that the machine on the other side has gone, although nobody has hung up.

    Not sooner: a network may be cut for a minute, or a machine be moved, and the job goes on.
    """
    if peer.family != socket.AF_UNIX:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 5)):
            if hasattr(socket, option):
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def notice_silence(connection: Connection) -> None:
    """Ends a connection when what was sent is not even received by the machine on the other side for a minute.

    While something is on its way, keep-alive asks nothing. Only for connections whose other end always reads: one that is
    held back, as blocks are by a slow operator, would be ended too.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        if duplicate.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):
            duplicate.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MILLISECONDS)


def connection_over(peer: socket.socket) -> JobConnection:
    """A connection over a socket, which may be closed then, and is kept alive."""
    keep_alive(peer)
    return JobConnection(os.dup(peer.fileno()))
