"""An HBase cluster of the tests' own: ZooKeeper, a master, a region server and a Thrift server in one JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import happybase
from py4j.java_gateway import JavaGateway, JavaObject

from flintstream.datastream.connectors.hbase import HBaseConnectionOptions
from flintstream.testing.servers import free_port

from .java_objects import JavaObjectsServer

_SECONDS = 60
_LOG4J = "log4j.rootLogger=ERROR,log\nlog4j.appender.log=org.apache.log4j.ConsoleAppender\nlog4j.appender.log.layout=org.apache.log4j.SimpleLayout\n"  # noqa: E501


class HBaseServer(JavaObjectsServer):
    """A cluster that is used over Thrift."""

    package = "HBase"
    jars = ("org.apache.hbase:hbase-thrift:2.6.1",)
    jvm = tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "sun.nio.ch"))

    @property
    def options(self) -> HBaseConnectionOptions:
        """How a job reaches the cluster."""
        return HBaseConnectionOptions("127.0.0.1", self.port, timeout_ms=_SECONDS * 1000)

    @contextmanager
    def connection(self) -> Iterator[happybase.Connection]:
        """A connection of the test."""
        connection = happybase.Connection("127.0.0.1", self.port, timeout=_SECONDS * 1000)
        try:
            yield connection
        finally:
            connection.close()

    def create_table(self, *families: str) -> str:
        """Creates a table of a new name; returns the name."""
        name = f"table-{uuid4().hex[:12]}"
        with self.connection() as connection:
            connection.create_table(name, {family: {} for family in families})
        return name

    def rows(self, table: str) -> dict[str, dict[str, str]]:
        """The rows of a table, with their cells."""
        with self.connection() as connection:
            return {
                key.decode(): {column.decode(): value.decode() for column, value in cells.items()}
                for key, cells in connection.table(table).scan()
            }

    def _create(self) -> None:
        self._data.mkdir()
        (self._directory / "log4j.properties").write_text(_LOG4J)
        self._zookeeper_port = free_port()

    def _assemble(self, gateway: JavaGateway) -> None:
        hadoop, java = gateway.jvm.org.apache.hadoop, gateway.jvm.java
        configuration = hadoop.hbase.HBaseConfiguration.create()
        for key, value in self._settings().items():
            configuration.set(key, str(value))
        zookeeper = hadoop.hbase.zookeeper.MiniZooKeeperCluster(configuration)
        zookeeper.setDefaultClientPort(self._zookeeper_port)
        zookeeper.startup(java.io.File(str(self._data / "zookeeper")))
        hadoop.hbase.LocalHBaseCluster(configuration, 1).startup()
        options = ["-p", str(self.port), "-b", "127.0.0.1", "--infoport", "-1", "start"]
        _start(gateway, hadoop.hbase.thrift.ThriftServer(configuration), "run", options)

    def _settings(self) -> dict[str, Any]:
        return {
            "hbase.rootdir": (self._data / "hbase").as_uri(),
            "hbase.tmp.dir": self._data / "tmp",
            "hbase.unsafe.stream.capability.enforce": "false",  # The local file system cannot sync.
            "hbase.zookeeper.quorum": "127.0.0.1",
            "hbase.zookeeper.property.clientPort": self._zookeeper_port,
            "hbase.master.hostname": "localhost",
            "hbase.regionserver.hostname": "localhost",
            "hbase.master.port": 0,
            "hbase.regionserver.port": 0,
            "hbase.master.info.port": -1,
            "hbase.regionserver.info.port": -1,
            "hbase.regionserver.handler.count": 5,
            "hbase.client.retries.number": 3,  # of the Thrift server
            "hbase.hregion.memstore.mslab.enabled": "false",
            "hfile.block.cache.size": "0.1",
            "hbase.master.start.timeout.localHBaseCluster": _SECONDS * 1000,
        }

    def _answers(self) -> None:
        with self.connection() as connection:
            connection.tables()


def _start(gateway: JavaGateway, target: JavaObject, method: str, arguments: list[str]) -> None:
    """Calls a method that does not return, in a Java thread."""
    java = gateway.jvm.java
    strings = gateway.new_array(java.lang.String, len(arguments))
    for at, argument in enumerate(arguments):
        strings[at] = argument
    all_arguments = gateway.new_array(java.lang.Object, 1)
    all_arguments[0] = strings
    statement = java.beans.Statement(target, method, all_arguments)
    runnable = java.lang.Class.forName("java.lang.Runnable")
    java.lang.Thread(java.beans.EventHandler.create(runnable, statement, "execute")).start()
