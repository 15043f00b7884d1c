"""The address of an HBase Thrift server, and how it is spoken to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream.common.arguments import positive

__all__ = ["HBaseConnectionOptions"]

_LAST_PORT = 65_535
_TRANSPORTS = ("buffered", "framed")
_PROTOCOLS = ("binary", "compact")


@dataclass(frozen=True)
class HBaseConnectionOptions:
    """The address of a Thrift server (`hbase thrift start`), which reaches the whole cluster.

    Example::

        HBaseConnectionOptions("hbase.example", 9090, timeout_ms=30_000)

    :param host: the server's name or address.
    :param port: the server's port.
    :param timeout_ms: how long (milliseconds) connecting may take, and an answer.
    :param transport: `buffered`, or `framed` for a server that was started with `--framed` or `--nonblocking`.
    :param protocol: `binary`, or `compact` for a server that was started with `--compact`.
    """

    host: str
    port: int = 9090
    timeout_ms: int = 10_000
    transport: str = "buffered"
    protocol: str = "binary"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.host, str) or not self.host:
            raise TypeError(f"{name}: host must be a non-empty string, got {self.host!r}")
        if positive(f"{name}: port", self.port) > _LAST_PORT:
            raise ValueError(f"{name}: port must be at most {_LAST_PORT}, got {self.port}")
        positive(f"{name}: timeout_ms", self.timeout_ms)
        _one_of(f"{name}: transport", self.transport, _TRANSPORTS)
        _one_of(f"{name}: protocol", self.protocol, _PROTOCOLS)

    def __str__(self) -> str:
        return f"HBase Thrift server {self.host}, port {self.port}"


def _one_of(what: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, got {value!r}")
