"""An HDFS cluster of the tests' own: a name node and a data node in one JVM."""

from __future__ import annotations

import getpass
from typing import Any
from uuid import uuid4

import requests
from py4j.java_gateway import JavaGateway

from flintstream.testing.servers import free_port

from .java_objects import JavaObjectsServer

_VERSION = "3.4.1"
_SECONDS = 60.0


class HdfsServer(JavaObjectsServer):
    """A cluster that is used over HTTP, by the user who runs it."""

    package = "HDFS"
    jars = tuple(f"org.apache.hadoop:hadoop-{part}:{_VERSION}" for part in ("common", "hdfs", "hdfs-client"))

    jvm = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)

    def new_directory(self) -> str:
        """Returns the URL of a directory that is not there yet."""
        return f"webhdfs://{getpass.getuser()}@127.0.0.1:{self.port}/tests/{uuid4().hex}"

    def _create(self) -> None:
        self._data.mkdir()
        for application in ("hdfs", "datanode"):  # The pages of the nodes, which are not in the jars.
            (self._directory / "webapps" / application).mkdir(parents=True)
        self._name_port = free_port()

    def _assemble(self, gateway: JavaGateway) -> None:
        hadoop = gateway.jvm.org.apache.hadoop
        configuration = hadoop.conf.Configuration()
        for key, value in self._settings().items():
            configuration.set(key, value)
        hadoop.metrics2.lib.DefaultMetricsSystem.setMiniClusterMode(True)  # Several nodes share the JVM.
        nodes = hadoop.hdfs.server
        if not (self._data / "name").exists():
            nodes.namenode.NameNode.format(configuration)
        none = gateway.new_array(gateway.jvm.java.lang.String, 0)
        nodes.namenode.NameNode.createNameNode(none, configuration)
        nodes.datanode.DataNode.createDataNode(none, configuration)

    def _settings(self) -> dict[str, Any]:
        return {
            "fs.defaultFS": f"hdfs://127.0.0.1:{self._name_port}",
            "hadoop.tmp.dir": str(self._data),
            "dfs.namenode.name.dir": (self._data / "name").as_uri(),
            "dfs.datanode.data.dir": (self._data / "data").as_uri(),
            "dfs.namenode.http-address": f"127.0.0.1:{self.port}",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.du.reserved": "0",
        }

    def _answers(self) -> None:
        """Writes a file: so the name node has left its safe mode, and the data node is there."""
        probe = f"http://127.0.0.1:{self.port}/webhdfs/v1/probe"
        parameters = {"op": "CREATE", "overwrite": "true", "user.name": getpass.getuser()}
        requests.put(probe, params=parameters, data=b"here", timeout=_SECONDS).raise_for_status()
