"""Settings of an Elasticsearch sink: the servers, the size of bulk requests, and what is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

__all__ = ["BulkOptions", "FlushBackoffType", "Host", "NetworkOptions"]

_MB = 1 << 20
LARGEST_BULK = 95 * _MB
"""The size of a bulk request without a limit of its own; servers accept 100 MB by default."""
LONGEST_DELAY = 60.0
_LAST_PORT = 65_535


class FlushBackoffType(Enum):
    """The delays between retries of a bulk request."""

    CONSTANT = 0
    """The same delay before each retry."""
    EXPONENTIAL = 1
    """A delay that doubles with each retry, up to a minute."""
    NONE = 2
    """No retries."""


@dataclass(frozen=True)
class Host:
    """The address of a server."""

    scheme: str
    name: str
    port: int

    @staticmethod
    def parse(address: str) -> Host:
        """Parses `host`, `host:port` or a URL; http and port 9200 by default."""
        if not isinstance(address, str) or not address.strip():
            raise TypeError(f"set_hosts: a host must be a string such as 'localhost:9200', got {address!r}")
        parts = urlsplit(address if "://" in address else f"http://{address}")
        try:
            port = parts.port or 9200
        except ValueError:
            raise ValueError(f"set_hosts: the port of {address!r} must be a number up to {_LAST_PORT}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"set_hosts: {address!r} is not a host such as 'localhost:9200' or 'https://es.example:9200'"
            )
        if parts.path.strip("/") or parts.query:
            raise ValueError(f"set_hosts: {address!r} has a path: call set_connection_path_prefix")
        if parts.username or parts.password:
            raise ValueError(
                f"set_hosts: the address of {parts.hostname!r} contains credentials: call set_connection_username and "
                "set_connection_password"
            )
        return Host(parts.scheme, parts.hostname, port)

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.name}]' if ':' in self.name else self.name}:{self.port}"


@dataclass(frozen=True)
class NetworkOptions:
    """The servers and how they are reached."""

    hosts: tuple[Host, ...] = ()
    username: str | None = None
    password: str | None = None
    path_prefix: str = ""
    ssl_ca_file: str | None = None
    connection_timeout: float = 5.0
    """Seconds to establish a connection."""
    socket_timeout: float = 30.0
    """Seconds without a byte of the response."""


@dataclass(frozen=True)
class BulkOptions:
    """The limits of a bulk request, and its retries."""

    max_actions: int | None = 1000
    max_bytes: int = 5 * _MB
    interval_ms: int | None = None
    backoff: FlushBackoffType = FlushBackoffType.NONE
    max_retries: int = 0
    delay_ms: int = 0

    def delays(self) -> Iterator[float]:
        """Yields the seconds to wait before each retry."""
        delay = self.delay_ms / 1000
        for _ in range(self.max_retries):
            yield min(delay, LONGEST_DELAY)
            if self.backoff is FlushBackoffType.EXPONENTIAL:
                delay *= 2
