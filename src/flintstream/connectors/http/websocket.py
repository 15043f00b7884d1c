"""WebSocket: a connection to a WebSocket server, by the Python package websockets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

_LOOK_SECONDS = 0.1


class ConnectionRefused(Exception):
    """The server does not accept this client; the message says why."""


class ConnectionLost(Exception):
    """The server cannot be reached, or the connection has ended; the message says which server, and why."""


class ConnectionEnded(ConnectionLost):
    """The server has closed the connection as the protocol says."""


def check_package(owner: str) -> None:
    """Raises an error that says what to install if the package is missing."""
    try:
        import websockets.sync.client  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{owner} needs the Python package websockets, which cannot be imported ({error}): "
            "pip install 'flintstream[websocket]'"
        ) from error


class WebSocket:
    """Connects when it is first used, and again after `close`. A server that is gone is noticed by its missing pongs."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        self._url = url
        self._headers = dict(headers)
        self._timeout = timeout
        """Seconds to connect, and for an answer to a ping."""
        self._opened: ExitStack | None = None
        self._connection: Any = None

    def __str__(self) -> str:
        return self._url.partition("?")[0]

    def connect(self) -> None:
        """Connects, unless connected."""
        from websockets.exceptions import InvalidStatus, WebSocketException
        from websockets.sync.client import connect

        if self._opened is not None:
            return
        opened = ExitStack()
        try:
            self._connection = opened.enter_context(
                connect(
                    self._url,
                    additional_headers=self._headers,
                    open_timeout=self._timeout,
                    ping_timeout=self._timeout,
                    close_timeout=min(self._timeout, 2.0),
                    max_size=None,
                )
            )
        except InvalidStatus as error:
            told = f"{self}: {error}"
            raise (ConnectionRefused if 400 <= error.response.status_code < 429 else ConnectionLost)(told) from error
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"{self}: {type(error).__name__}: {error}") from error
        self._opened = opened

    def receive(self, seconds: float) -> str | bytes | None:
        """Returns the next message; None if there is none within some seconds."""
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        try:
            message: str | bytes = self._connection.recv(timeout=seconds)
            return message
        except TimeoutError:
            return None
        except ConnectionClosedOK as error:
            raise ConnectionEnded(f"{self}: {error}") from error
        except (ConnectionClosed, OSError) as error:
            raise ConnectionLost(f"{self}: {type(error).__name__}: {error}") from error

    def send(self, messages: Sequence[str | bytes]) -> None:
        """Connects, unless connected, and sends messages."""
        from websockets.exceptions import WebSocketException

        self.connect()
        try:
            for message in messages:
                self._connection.send(message)
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"{self}: {type(error).__name__}: {error}") from error

    def await_receipt(self) -> None:
        """Waits until the server has answered a ping: it has then received what was sent before."""
        from websockets.exceptions import WebSocketException

        try:
            pong = self._connection.ping()
            deadline = time.monotonic() + self._timeout
            while not pong.wait(_LOOK_SECONDS):
                if self._connection.close_code is not None:
                    raise ConnectionLost(f"{self}: the connection was closed before the server had answered a ping")
                if time.monotonic() > deadline:
                    raise ConnectionLost(f"{self}: no answer to a ping within {self._timeout:g} s (timeout)")
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"{self}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Disconnects."""
        opened, self._opened, self._connection = self._opened, None, None
        if opened is not None:
            try:
                opened.close()
            except Exception:  # It is lost anyway.
                return
