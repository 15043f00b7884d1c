"""The handshake of connections: authentication, its time limit, and encryption.

Both sides prove that they know the job's key before any of their data is unpickled. Between machines a connection uses TLS
if the job's credentials have a certificate; a Unix socket never leaves its machine, and needs none.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import answer_challenge, deliver_challenge

from flintstream.runtime.slot.connections import Address, JobConnection, connection_over, limit
from flintstream.runtime.slot.reception import GREETING_SECONDS, MOST_WAITING, Reception

CONNECT_SECONDS = 30.0
_BACKLOG = 128
_TRIES = 5
_PAUSE_SECONDS = 0.1
_BOTH_WAYS = (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO)


@dataclass(frozen=True)
class Credentials:
    """The credentials for connecting to the slots and the driver of a job."""

    authkey: bytes
    certificate: str | None = None
    """The certificate of all listeners, as PEM; None for unencrypted connections."""
    private_key: str | None = None
    """Known to listeners only."""

    def __repr__(self) -> str:
        return f"Credentials(encrypted={self.certificate is not None})"

    @property
    def for_tasks(self) -> Credentials:
        """Returns the credentials of a Spark task, which does not listen."""
        return replace(self, private_key=None)


def connect(address: Address, credentials: Credentials, seconds: float = CONNECT_SECONDS) -> JobConnection:
    """Connects and authenticates. Waits at most `seconds` for each answer of the peer.

    Raises AuthenticationError, or another OSError.
    """
    for left in reversed(range(_TRIES)):
        try:
            return _connect_once(address, credentials, seconds)
        except BlockingIOError as error:
            raise TimeoutError(f"{_named(address)} did not answer within {seconds:g} s") from error
        except (EOFError, ConnectionResetError, BrokenPipeError) as error:
            # Disconnected in the handshake: perhaps too many others were connecting.
            if not left:
                raise ConnectionError(f"{_named(address)} hung up in the handshake, {_TRIES} times") from error
            time.sleep(_PAUSE_SECONDS * (1 + random.random()))
    raise AssertionError("the last try returns or raises")


def _connect_once(address: Address, credentials: Credentials, seconds: float) -> JobConnection:
    with socket.socket(_family(address), socket.SOCK_STREAM) as peer:
        peer.settimeout(None)  # Regardless of socket.setdefaulttimeout().
        limit(peer, seconds, *_BOTH_WAYS)
        peer.connect(address)
        connection = connection_over(peer)
        try:
            if credentials.certificate is not None and not isinstance(address, str):
                from flintstream.runtime.slot.tls import client_tls  # Only when needed: most jobs use no TLS.

                connection = client_tls(connection, credentials.certificate)
            answer_challenge(connection, credentials.authkey)
            deliver_challenge(connection, credentials.authkey)
            limit(peer, 0.0, *_BOTH_WAYS)
        except BaseException:
            connection.close()
            raise
    return connection


@dataclass(frozen=True)
class SlotAccess:
    """The addresses and credentials with which a Spark task connects to the slots of an attempt."""

    addresses: tuple[Address, ...]
    """By slot."""
    credentials: Credentials
    connect_seconds: float
    """The timeout of an answer: long, since a slot may be suspended for a while."""

    def connect(self, slot: int) -> JobConnection:
        """Connects to a slot."""
        return connect(self.addresses[slot], self.credentials, self.connect_seconds)


class ConnectionListener:
    """Accepts the connections of peers that know the key."""

    def __init__(
        self,
        address: Address,
        credentials: Credentials,
        take: Callable[[JobConnection], None],
        handshake_seconds: float = GREETING_SECONDS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._credentials = credentials
        self._take = take
        listening = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        self.address: Address = listening.getsockname()
        self._reception = Reception(listening, self._greet, self._let_in, handshake_seconds, most_waiting)

    def serve(self) -> None:
        """Passes each connection to `take`, on a separate thread, until the listener is closed."""
        self._reception.serve()

    def close(self) -> None:
        """Stops accepting connections."""
        self._reception.close()

    def _greet(self, peer: socket.socket) -> JobConnection:
        credentials = self._credentials
        connection = connection_over(peer)
        try:
            if credentials.certificate is not None and peer.family != socket.AF_UNIX:
                from flintstream.runtime.slot.tls import server_tls

                assert credentials.private_key is not None
                connection = server_tls(connection, credentials.certificate, credentials.private_key)
            deliver_challenge(connection, credentials.authkey)
            answer_challenge(connection, credentials.authkey)
        except BaseException:
            connection.close()
            raise
        return connection

    def _let_in(self, peer: socket.socket, connection: JobConnection) -> None:
        peer.close()
        self._take(connection)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_UNIX if isinstance(address, str) else socket.AF_INET


def _named(address: Address) -> str:
    return address if isinstance(address, str) else f"{address[0]}:{address[1]}"
