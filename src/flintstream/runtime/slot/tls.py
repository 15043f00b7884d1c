"""TLS for the connections of a job: both sides have its certificate, and trust no other."""

from __future__ import annotations

import io
import os
import socket
import ssl
import tempfile
import threading
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

from flintstream.runtime.slot.connections import JobConnection

_CHUNK = 1 << 18


class TlsConnection(JobConnection):
    """Wraps a connection and encrypts its traffic. One thread may send while another receives.

    An OpenSSL session is not thread-safe. It works on memory buffers only, under a lock, and waiting for the socket
    happens outside: a thread that waits for bytes does not prevent another from sending.
    """

    def __init__(self, connection: Connection, context: ssl.SSLContext, server_side: bool) -> None:
        super().__init__(connection.fileno())
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._received, self._to_send, server_side)
        self._session_lock = threading.Lock()
        self._sending = threading.Lock()
        self._in_mid_record = False
        """Whether the last bytes received are an incomplete record, which cannot be decrypted yet."""
        try:
            self._shake_hands()
        except BaseException:
            self._handle = None  # The caller keeps ownership.
            raise
        connection._handle = None  # type: ignore[attr-defined]

    @property
    def buffered(self) -> bool:
        """Returns whether received bytes have not been read yet: polling the socket would not find them."""
        with self._session_lock:
            return self._session.pending() > 0 or self._received.pending > 0

    @property
    def in_mid_frame(self) -> bool:
        """Returns whether `next_frame` has received a part of a frame, or of its first record, only."""
        return super().in_mid_frame or self._in_mid_record

    def _poll(self, timeout: float | None) -> bool:
        return self.buffered or super()._poll(timeout)  # type: ignore[misc]

    def _shake_hands(self) -> None:
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                if not self._receive():
                    raise EOFError("hung up in the handshake") from None
            except ssl.SSLError:
                self._flush()  # The peer is told the reason.
                raise
            else:
                self._flush()
                self._in_mid_record = self._received.pending > 0
                return

    def _flush(self) -> None:
        if self._to_send.pending:
            super()._send(self._to_send.read())  # type: ignore[misc]

    def _receive(self) -> bool:
        """Waits for bytes of the other side; returns False at the end."""
        return self._feed(os.read(self.fileno(), _CHUNK))

    def _feed(self, data: bytes) -> bool:
        with self._session_lock:
            self._received.write(data)
            self._in_mid_record |= bool(data)
        return bool(data)

    def _decrypted(self, *size_and_buffer: Any) -> Any:
        """Returns what the session reads; raises SSLWantReadError as long as a record is incomplete."""
        with self._session_lock:
            read = self._session.read(*size_and_buffer)
            self._in_mid_record = self._received.pending > 0
        return read

    def _send(self, buf: Any, write: Any = None) -> None:
        data = memoryview(buf)
        with self._sending:
            for start in range(0, len(data), _CHUNK):
                with self._session_lock:
                    self._session.write(data[start : start + _CHUNK])
                    encrypted = self._to_send.read()
                super()._send(encrypted)  # type: ignore[misc]

    def _recv(self, size: int, read: Any = None) -> io.BytesIO:
        gathered = io.BytesIO()
        missing = size
        while missing:
            data = self._read(missing)
            if not data:
                if missing == size:
                    raise EOFError
                raise OSError("got end of file during message")
            gathered.write(data)
            missing -= len(data)
        return gathered

    def _read(self, size: int) -> bytes:
        """Returns some bytes; empty at the end."""
        while True:
            try:
                return bytes(self._decrypted(size))
            except ssl.SSLWantReadError:
                if not self._receive():
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    def _take_into(self, buffer: memoryview) -> int | None:
        while True:
            try:
                return int(self._decrypted(len(buffer), buffer))
            except ssl.SSLWantReadError:
                try:
                    if not self._feed(self._receiving.recv(_CHUNK, socket.MSG_DONTWAIT)):
                        return 0
                except BlockingIOError:
                    return None
            except ssl.SSLZeroReturnError:
                return 0


def server_tls(connection: Connection, certificate: str, private_key: str) -> TlsConnection:
    """The side with the private key."""
    return TlsConnection(connection, _server_context(certificate, private_key), server_side=True)


def client_tls(connection: Connection, certificate: str) -> TlsConnection:
    """The side that requires this very certificate."""
    return TlsConnection(connection, _client_context(certificate), server_side=False)


@lru_cache(maxsize=8)
def _server_context(certificate: str, private_key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    # Python loads a key only from a file; nobody else may read this one, and it is removed at once.
    with tempfile.NamedTemporaryFile("w", prefix="flint-") as file:
        file.write(private_key + certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


@lru_cache(maxsize=8)
def _client_context(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate is the job's own, whatever the host.
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context
