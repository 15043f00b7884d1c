"""Elasticsearch and OpenSearch servers of the tests' own: a node in a JVM, without plugins."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from py4j.java_gateway import JavaGateway

from .java_objects import JavaObjectsServer

_SECONDS = 60


class ElasticsearchServer(JavaObjectsServer):
    """A cluster of one node."""

    package = "Elasticsearch"
    jars = (
        "org.elasticsearch:elasticsearch:7.17.28",
        "org.elasticsearch.plugin:transport-netty4-client:7.17.28",
    )
    project = "elasticsearch"

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request of the test; returns the answer."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:
            return json.loads(answer.read() or "null")

    def documents(self, index: str) -> list[dict[str, Any]]:
        """Returns the documents of an index, with their ids as `_id`."""
        self.request("POST", f"{index}/_refresh")
        found = self.request("POST", f"{index}/_search", {"size": 10_000, "query": {"match_all": {}}})
        return [{"_id": hit["_id"], **hit["_source"]} for hit in found["hits"]["hits"]]

    def written(self) -> int:
        """Returns how many documents were written since the server started."""
        (node,) = self.request("GET", "_nodes/stats/indices/indexing")["nodes"].values()
        return int(node["indices"]["indexing"]["index_total"])

    def _create(self) -> None:
        self._data.mkdir()

    def _assemble(self, gateway: JavaGateway) -> None:
        java, project = gateway.jvm.java, getattr(gateway.jvm.org, self.project)
        settings = project.common.settings.Settings.builder()
        for key, value in self._settings().items():
            settings.put(key, value)
        preparer = project.node.InternalSettingsPreparer
        environment = preparer.prepareEnvironment(settings.build(), java.util.HashMap(), None, None)
        plugins = java.util.ArrayList()
        plugins.add(java.lang.Class.forName(f"org.{self.project}.transport.Netty4Plugin"))
        node = java.lang.Class.forName(f"org.{self.project}.node.Node")
        (constructor,) = (found for found in node.getDeclaredConstructors() if found.getParameterCount() == 3)
        constructor.setAccessible(True)  # The one that takes plugins is protected.
        arguments = gateway.new_array(java.lang.Object, 3)
        arguments[0], arguments[1], arguments[2] = environment, plugins, True
        constructor.newInstance(arguments).start()

    def _settings(self) -> dict[str, str]:
        return {
            "path.home": str(self._directory),
            "path.data": str(self._data),
            "cluster.name": "tests",
            "node.name": "node",
            "discovery.type": "single-node",
            "http.type": "netty4",
            "http.host": "127.0.0.1",
            "http.port": str(self.port),
            "transport.type": "netty4",
            "transport.host": "127.0.0.1",
            "transport.port": "0",
            "node.processors": "2",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }

    def _answers(self) -> None:
        health = self.request("GET", "_cluster/health?wait_for_status=yellow&timeout=5s")
        if health["timed_out"]:
            raise ConnectionError(f"the cluster is not ready: {health}")


class OpenSearchServer(ElasticsearchServer):
    """OpenSearch, which has the same objects in other packages."""

    package = "OpenSearch"
    jars = (
        "org.opensearch:opensearch:2.19.1",
        "org.opensearch.plugin:transport-netty4-client:2.19.1",
        "org.apache.logging.log4j:log4j-core:2.21.0",
    )
    project = "opensearch"
