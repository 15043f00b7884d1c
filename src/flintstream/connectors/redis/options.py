"""The address and credentials of a Redis server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flintstream.common.arguments import positive, text

__all__ = ["FlinkJedisPoolConfig"]

_LAST_PORT = 65_535


@dataclass(frozen=True, repr=False)
class FlinkJedisPoolConfig:
    """The address and credentials of a Redis server, named as in Flink.

    Example::

        FlinkJedisPoolConfig.Builder().set_host("127.0.0.1").set_port(6379).set_database(1).build()
    """

    _host: str = ""
    _port: int = 6379
    _database: int = 0
    _user: str | None = None
    _password: str | None = None
    _timeout: int = 2000
    _ssl: bool = False
    _ssl_ca_file: str | None = None

    def get_host(self) -> str:
        """Returns the server's name or address."""
        return self._host

    def get_port(self) -> int:
        """Returns the server's port."""
        return self._port

    def get_database(self) -> int:
        """Returns the number of the database."""
        return self._database

    def get_user(self) -> str | None:
        """Returns the user of the server's access control list; None for the default user."""
        return self._user

    def get_password(self) -> str | None:
        """Returns the user's password."""
        return self._password

    def get_connection_timeout(self) -> int:
        """Returns the timeout (milliseconds) of connecting and of an answer."""
        return self._timeout

    def get_ssl(self) -> bool:
        """Returns whether the connection is encrypted."""
        return self._ssl

    def get_ssl_ca_file(self) -> str | None:
        """Returns the file of trusted certificates; None for those of the machine."""
        return self._ssl_ca_file

    def __str__(self) -> str:
        return f"Redis {self._host}:{self._port}, database {self._database}"

    def __repr__(self) -> str:
        return f"FlinkJedisPoolConfig({self._host!r}, {self._port}, database={self._database}, user={self._user!r})"

    class Builder:
        """Builds a `FlinkJedisPoolConfig`."""

        def __init__(self) -> None:
            self._config = FlinkJedisPoolConfig()

        def set_host(self, host: str) -> FlinkJedisPoolConfig.Builder:
            """Sets the server's name or address."""
            return self._with("set_host: host", _host=host)

        def set_port(self, port: int) -> FlinkJedisPoolConfig.Builder:
            """Sets the server's port; by default 6379."""
            if positive("set_port: port", port) > _LAST_PORT:
                raise ValueError(f"set_port: port must be at most {_LAST_PORT}, got {port}")
            self._config = replace(self._config, _port=port)
            return self

        def set_database(self, database: int) -> FlinkJedisPoolConfig.Builder:
            """Sets the number of the database; by default 0."""
            self._config = replace(self._config, _database=positive("set_database: database", database, 0))
            return self

        def set_user(self, user: str) -> FlinkJedisPoolConfig.Builder:
            """Sets a user of the server's access control list; by default the default user."""
            return self._with("set_user: user", _user=user)

        def set_password(self, password: str) -> FlinkJedisPoolConfig.Builder:
            """Sets the user's password."""
            if not isinstance(password, str):
                raise TypeError(f"set_password: password must be a string, got a {type(password).__name__}")
            return self._with("set_password: password", _password=password)

        def set_timeout(self, timeout: int) -> FlinkJedisPoolConfig.Builder:
            """Sets the timeout (milliseconds) of connecting and of an answer; by default 2000."""
            self._config = replace(self._config, _timeout=positive("set_timeout: timeout", timeout))
            return self

        def set_ssl(self, ssl: bool) -> FlinkJedisPoolConfig.Builder:
            """Sets whether the connection is encrypted and the server's certificate verified; by default not."""
            self._config = replace(self._config, _ssl=bool(ssl))
            return self

        def set_ssl_ca_file(self, path: str) -> FlinkJedisPoolConfig.Builder:
            """Sets a file of trusted certificates, on each machine with slots; by default those of the machine."""
            return self._with("set_ssl_ca_file: path", _ssl_ca_file=path)

        def set_max_total(self, max_total: int) -> FlinkJedisPoolConfig.Builder:
            """Accepted for compatibility, without effect: a subtask has one connection."""
            return self._without_effect("set_max_total: max_total", max_total)

        def set_max_idle(self, max_idle: int) -> FlinkJedisPoolConfig.Builder:
            """Accepted for compatibility, without effect: a subtask has one connection."""
            return self._without_effect("set_max_idle: max_idle", max_idle)

        def set_min_idle(self, min_idle: int) -> FlinkJedisPoolConfig.Builder:
            """Accepted for compatibility, without effect: a subtask has one connection."""
            return self._without_effect("set_min_idle: min_idle", min_idle)

        def build(self) -> FlinkJedisPoolConfig:
            """Returns the configuration."""
            if not self._config._host:
                raise ValueError("FlinkJedisPoolConfig: the host is missing: call set_host('127.0.0.1')")
            if self._config._ssl_ca_file is not None and not self._config._ssl:
                raise ValueError("FlinkJedisPoolConfig: set_ssl_ca_file has no effect without set_ssl(True)")
            return self._config

        def _with(self, what: str, **setting: Any) -> FlinkJedisPoolConfig.Builder:
            (value,) = setting.values()
            text(what, value)
            self._config = replace(self._config, **setting)
            return self

        def _without_effect(self, what: str, connections: int) -> FlinkJedisPoolConfig.Builder:
            positive(what, connections, 0)
            return self
