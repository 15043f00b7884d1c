"""A RabbitMQ server of the tests' own: Debian's, run by Erlang's own launcher from wherever it was unpacked."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any

import pika

from flintstream.datastream.connectors.rabbitmq import RMQConnectionConfig

from .servers import DatabaseServer, free_port

_SECONDS = 60.0
_NODE = "flint@localhost"
_MEMORY = "400MB"


class RabbitMqServer(DatabaseServer):
    """RabbitMQ with its user guest, who has the password guest.

    It runs without the daemon that tells Erlang nodes of each other, which would outlive it: the node knows its own port.
    """

    package = "rabbitmq-server"
    not_needed = ("socat", "logrotate", "libpopt", "libwrap", "erlang-snmp", "erlang-ftp", "erlang-tftp")
    crash_signal = signal.SIGKILL

    @property
    def config(self) -> RMQConnectionConfig:
        """Where the server is."""
        return self.builder.build()

    @property
    def builder(self) -> RMQConnectionConfig.Builder:
        """The same, with more to be set."""
        builder = RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(self.port).set_virtual_host("/")
        return builder.set_user_name("guest").set_password("guest").set_connection_timeout(int(_SECONDS * 1000))

    def connect(self) -> Any:
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.port, socket_timeout=_SECONDS, stack_timeout=_SECONDS, heartbeat=0
        )
        return pika.BlockingConnection(parameters)

    def _probe(self) -> None:
        socket.create_connection(("127.0.0.1", self.port), _SECONDS).close()  # pika would log each attempt.
        super()._probe()

    def _programs(self, root: Path) -> Path | None:
        has_both = list(root.glob("usr/lib/erlang/erts-*/bin/erlexec")) and list(root.glob("usr/lib/rabbitmq/lib/*"))
        return root / "usr/lib" if has_both else None

    def _create(self) -> None:
        self._data.mkdir()
        self._give_away(self._data)
        self._node_port = free_port()
        (launcher,) = self._found.glob("erlang/erts-*/bin/erlexec")
        (home,) = self._found.glob("rabbitmq/lib/rabbitmq_server-*")
        self._launcher = launcher
        self._environment |= {
            "ROOTDIR": str(self._found / "erlang"),
            "BINDIR": str(launcher.parent),
            "EMU": "beam",
            "PROGNAME": "erl",
            "HOME": str(self._directory),
            "ERL_LIBS": str(home / "plugins"),
            "ERL_CRASH_DUMP_BYTES": "0",
            "RABBITMQ_HOME": str(home),
            "RABBITMQ_NODENAME": _NODE,
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_PLUGINS_DIR": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._data),
            "RABBITMQ_LOG_BASE": str(self._data / "log"),
            "RABBITMQ_CONFIG_FILE": str(self._data / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._data / "enabled_plugins"),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(self._data / "feature_flags"),
            "RABBITMQ_CONF_ENV_FILE": str(self._data / "none.conf"),
        }

    def _command(self, settings: dict[str, str]) -> list[Any]:
        given = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "log.console": "true",
            "log.console.level": "warning",
            "log.file": "false",
            "vm_memory_high_watermark.absolute": _MEMORY,
            "disk_free_limit.absolute": "1MB",
            **settings,
        }
        lines = [f"{name} = {value}\n" for name, value in given.items()]
        (self._data / "rabbitmq.conf").write_text("".join(lines))
        boot = ["-noinput", "-s", "rabbit", "boot", "-boot", "start_sasl", "+W", "w", "+B", "i"]
        small = ["+S", "1:1", "+sbwt", "none"]
        alone = ["-sname", _NODE, "-start_epmd", "false", "-erl_epmd_port", self._node_port]
        kernel = ["-kernel", "inet_dist_use_interface", "{127,0,0,1}", "prevent_overlapping_partitions", "false"]
        quiet = ["-syslog", "logger", "[]", "syslog_error_logger", "false"]
        return [self._launcher, *boot, *small, *alone, *kernel, *quiet]
