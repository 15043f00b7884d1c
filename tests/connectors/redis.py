"""A Redis server of the tests' own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import redis

from flintstream.datastream.connectors.redis import FlinkJedisPoolConfig, RedisCommandDescription, RedisMapper

from .certificates import write_certificates
from .servers import DatabaseServer, free_port

_TIMEOUT = 60_000  # milliseconds: the machine may be busy, and a command that is given up is sent twice


class RedisServer(DatabaseServer):
    """Redis without a password, which has on disk what it has confirmed."""

    package = "redis-server"
    not_needed = ()
    crash_signal = signal.SIGKILL

    @property
    def config(self) -> FlinkJedisPoolConfig:
        """Where the server is."""
        return self.builder.build()

    @property
    def builder(self) -> FlinkJedisPoolConfig.Builder:
        """The same, with more to be set."""
        return FlinkJedisPoolConfig.Builder().set_host("127.0.0.1").set_port(self.port).set_timeout(_TIMEOUT)

    def connect(self) -> Any:
        client = redis.Redis(port=self.port, decode_responses=True, socket_timeout=_TIMEOUT / 1000)
        client.ping()  # It connects only now, and may have to load its data.
        return client

    def listen_encrypted(self, directory: Path) -> int:
        """Opens another port, for TLS, with a certificate by the authority whose own is now in `authority.pem`."""
        port, server = free_port(), self._directory / "server.pem"
        write_certificates(directory / "authority.pem", server)
        self._give_away(server)
        with self.connect() as client:
            client.config_set("tls-cert-file", str(server), "tls-key-file", str(server), "tls-auth-clients", "no")
            client.config_set("tls-port", port)
        return port

    def _programs(self, root: Path) -> Path | None:
        return root / "usr/bin" if (root / "usr/bin/redis-server").exists() else None

    def _create(self) -> None:
        self._data.mkdir()
        self._give_away(self._data)

    def _command(self, settings: dict[str, str]) -> list[Any]:
        given = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": self._data,
            "save": "",
            "appendonly": "yes",
            **settings,
        }
        return [self._found / "redis-server", *(part for name, value in given.items() for part in (f"--{name}", value))]


class Pairs(RedisMapper):
    """Records are pairs of a key and a value."""

    def __init__(self, *description: Any) -> None:
        self.description = RedisCommandDescription(*description)

    def get_command_description(self) -> RedisCommandDescription:
        return self.description

    def get_key_from_data(self, data: Any) -> Any:
        return data[0]

    def get_value_from_data(self, data: Any) -> Any:
        return data[1]
