"""The address of a RabbitMQ server, credentials, and settings of connections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from flintstream.common.arguments import positive, text

__all__ = ["RMQConnectionConfig"]

_LAST_PORT = 65_535
_TIMEOUT = 60_000
_SCHEMES = ("amqp", "amqps")
_NEEDED = {
    "_host": "set_host",
    "_port": "set_port",
    "_virtual_host": "set_virtual_host",
    "_user_name": "set_user_name",
    "_password": "set_password",
}


@dataclass(frozen=True, repr=False)
class RMQConnectionConfig:
    """The address of a RabbitMQ server, credentials, and settings of connections.

    Example::

        RMQConnectionConfig.Builder() \\
            .set_host("localhost").set_port(5672).set_virtual_host("/") \\
            .set_user_name("guest").set_password("guest").build()
    """

    _host: str | None = None
    _port: int | None = None
    _virtual_host: str | None = None
    _user_name: str | None = None
    _password: str | None = None
    _uri: str | None = None
    _network_recovery_interval: int | None = None
    _automatic_recovery: bool | None = None
    _topology_recovery: bool | None = None
    _connection_timeout: int | None = None
    _requested_channel_max: int | None = None
    _requested_frame_max: int | None = None
    _requested_heartbeat: int | None = None
    _prefetch_count: int | None = None

    def get_host(self) -> str | None:
        """Returns the server's name or address."""
        return self._host

    def get_port(self) -> int | None:
        """Returns the server's port."""
        return self._port

    def get_virtual_host(self) -> str | None:
        """Returns the virtual host."""
        return self._virtual_host

    def get_user_name(self) -> str | None:
        """Returns the user's name."""
        return self._user_name

    def get_password(self) -> str | None:
        """Returns the user's password."""
        return self._password

    def get_uri(self) -> str | None:
        """Returns the URI, in the place of host, port, virtual host, user and password."""
        return self._uri

    def get_network_recovery_interval(self) -> int | None:
        """Returns how long (milliseconds) to wait before each reconnection; None for growing intervals."""
        return self._network_recovery_interval

    def is_automatic_recovery(self) -> bool | None:
        """Returns whether to reconnect after the loss of a connection, rather than fail the job; None for yes."""
        return self._automatic_recovery

    def is_topology_recovery(self) -> bool | None:
        """Returns what :meth:`Builder.set_topology_recovery_enabled` was given."""
        return self._topology_recovery

    def get_connection_timeout(self) -> int | None:
        """Returns the timeout (milliseconds) of connecting and of an answer; None for a minute."""
        return self._connection_timeout

    def get_requested_channel_max(self) -> int | None:
        """Returns how many channels a connection may have."""
        return self._requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        """Returns the size (bytes) of the largest frame."""
        return self._requested_frame_max

    def get_requested_heartbeat(self) -> int | None:
        """Returns the heartbeat timeout in seconds; 0 for none, None for the server's own."""
        return self._requested_heartbeat

    def get_prefetch_count(self) -> int | None:
        """Returns the most unacknowledged messages of a source; None for no limit."""
        return self._prefetch_count

    @property
    def timeout_seconds(self) -> float:
        """Returns the timeout (seconds) of connecting and of an answer."""
        return (self._connection_timeout or _TIMEOUT) / 1000

    def __str__(self) -> str:
        if self._uri is not None:
            parts = urlsplit(self._uri)
            return f"RabbitMQ {parts.hostname}:{parts.port or 5672}{parts.path}"
        return f"RabbitMQ {self._host}:{self._port}, virtual host {self._virtual_host}"

    def __repr__(self) -> str:
        return f"RMQConnectionConfig({self})"

    class Builder:
        """Settings of `RMQConnectionConfig`."""

        def __init__(self) -> None:
            self._config = RMQConnectionConfig()

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            """Sets the server's port; RabbitMQ's own is 5672."""
            return self._with(_port=_between("set_port: port", port, 1, _LAST_PORT))

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            """Sets the server's name or address."""
            return self._with(_host=text("set_host: host", host))

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            """Sets the virtual host; that of a new server is `/`."""
            return self._with(_virtual_host=text("set_virtual_host: vhost", vhost))

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            """Sets the user's name."""
            return self._with(_user_name=text("set_user_name: user_name", user_name))

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            """Sets the user's password."""
            if not isinstance(password, str):
                raise TypeError(f"set_password: password must be a string, got a {type(password).__name__}")
            return self._with(_password=password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """Sets all of these by `amqp://user:password@host:port/vhost`; `amqps://…` for TLS."""
            try:
                scheme = urlsplit(text("set_uri: uri", uri)).scheme
            except ValueError as error:
                raise ValueError(f"set_uri: uri is no URI: {error}") from None
            if scheme not in _SCHEMES:
                raise ValueError(f"set_uri: uri must start with amqp:// or amqps://, got the scheme {scheme!r}")
            return self._with(_uri=uri)

        def set_topology_recovery_enabled(self, topology_recovery_enabled: bool) -> RMQConnectionConfig.Builder:
            """Accepted for compatibility, without effect: with each connection the queue is declared."""
            return self._with(_topology_recovery=bool(topology_recovery_enabled))

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Sets the heartbeat timeout in seconds: by default the server's own; 0 for none."""
            what = "set_requested_heartbeat: requested_heartbeat"
            return self._with(_requested_heartbeat=positive(what, requested_heartbeat, 0))

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            """Sets the size of the largest frame: 4096 to 131,072 bytes, the default."""
            what = "set_requested_frame_max: requested_frame_max"
            return self._with(_requested_frame_max=_between(what, requested_frame_max, 4096, 131_072))

        def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfig.Builder:
            """Sets how many channels a connection may have: it has one."""
            what = "set_requested_channel_max: requested_channel_max"
            return self._with(_requested_channel_max=_between(what, requested_channel_max, 1, _LAST_PORT))

        def set_network_recovery_interval(self, network_recovery_interval: int) -> RMQConnectionConfig.Builder:
            """Sets how long (milliseconds) to wait before each reconnection: by default from 50 to 2000, doubling."""
            what = "set_network_recovery_interval: network_recovery_interval"
            return self._with(_network_recovery_interval=positive(what, network_recovery_interval))

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """Sets the timeout (milliseconds) of connecting and of an answer: 60,000 by default."""
            what = "set_connection_timeout: connection_timeout"
            return self._with(_connection_timeout=positive(what, connection_timeout))

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Sets whether to reconnect after the loss of a connection, rather than fail the job: yes by default."""
            return self._with(_automatic_recovery=bool(automatic_recovery))

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """Sets the most unacknowledged messages of a source: by default no limit."""
            what = "set_prefetch_count: prefetch_count"
            return self._with(_prefetch_count=_between(what, prefetch_count, 1, 65_535))

        def build(self) -> RMQConnectionConfig:
            """Returns the configuration."""
            config = self._config
            if config._uri is None:
                missing = [setter for name, setter in _NEEDED.items() if getattr(config, name) is None]
                if missing:
                    raise ValueError(f"RMQConnectionConfig: call {', '.join(missing)}, or set_uri('amqp://...')")
            return config

        def _with(self, **setting: Any) -> RMQConnectionConfig.Builder:
            self._config = replace(self._config, **setting)
            return self


def _between(what: str, value: Any, least: int, most: int) -> int:
    if positive(what, value, least) > most:
        raise ValueError(f"{what} must be at most {most}, got {value}")
    return int(value)
