"""Somebody on the way between two sides of a connection, who reads along."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Forwarder:
    """Stands between the two sides, and keeps all that goes by. While `passing` is not set, only half of what comes does."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.seen = bytearray()
        self.passing = threading.Event()
        self.passing.set()
        self._target = target
        self._connections: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._target)
                self._connections += near, far
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), source:
            while data := source.recv(1 << 16):
                self.seen += data
                half = len(data) if self.passing.is_set() else len(data) // 2
                target.sendall(data[:half])
                self.passing.wait(60)
                target.sendall(data[half:])
            target.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Ends all connections; new ones are made as before."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # Else one that waits in `accept` accepts one more.
        self._listening.close()
