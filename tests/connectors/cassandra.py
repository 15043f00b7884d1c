"""A Cassandra server of the tests' own: a cluster of one node, which knows passwords and TLS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flintstream.datastream.connectors.cassandra import ClusterBuilder
from flintstream.testing.jars import class_path, jars_of, java
from flintstream.testing.servers import Server, free_port

from .certificates import write_certificates

USER, PASSWORD = "cassandra", "cassandra"
"""The superuser that a new cluster has."""
JARS = ("org.apache.cassandra:cassandra-all:5.0.4",)
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.security.manager=allow")
_EXPORTS = (
    *("java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.sql/java.sql"),
    *("java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server"),
)
_OPENS = (
    *("java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.net"),
    *("java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent", "java.base/jdk.internal.loader"),
    *("java.base/java.util.concurrent.atomic", "java.base/jdk.internal.math", "java.base/jdk.internal.module"),
    *("java.base/jdk.internal.ref", "java.base/jdk.internal.reflect", "java.base/jdk.internal.util.jar"),
    *("java.base/sun.nio.ch", "jdk.management/com.sun.management.internal"),
)
_PROPERTIES = {
    "cassandra-foreground": "yes",
    "cassandra.ring_delay_ms": "1",
    "cassandra.skip_wait_for_gossip_to_settle": "0",
    "cassandra.superuser_setup_delay_ms": "0",
}
_LOGBACK = '<configuration><root level="ERROR"/></configuration>'
_SECONDS = 60.0


class CassandraServer(Server):
    """A node with a keyspace `tests`; its certificate is for localhost and 127.0.0.1."""

    package = "Cassandra"

    @property
    def builder(self) -> ClusterBuilder:
        """How a sink reaches the server."""
        builder = ClusterBuilder().add_contact_points("127.0.0.1").with_port(self.port)
        return builder.with_credentials(USER, PASSWORD).with_timeout(60_000)

    @property
    def authority(self) -> Path:
        """The certificate that signs the server's, as PEM."""
        return self._directory / "ca.pem"

    def execute(self, query: str) -> list[Any]:
        """Executes a query of the test."""
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import RoundRobinPolicy

        profile = ExecutionProfile(RoundRobinPolicy(), request_timeout=_SECONDS)
        cluster = Cluster(
            ["127.0.0.1"],
            self.port,
            auth_provider=PlainTextAuthProvider(USER, PASSWORD),
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=_SECONDS,
        )
        try:
            return list(cluster.connect().execute(query))
        finally:
            cluster.shutdown()

    def _find_programs(self, cache: Path) -> None:
        self._storage_port, self._jars = free_port(), class_path(jars_of("cassandra", JARS, cache))

    def _create(self) -> None:
        write_certificates(self.authority, self._directory / "server.pem")
        (self._directory / "logback.xml").write_text(_LOGBACK)
        # JSON is YAML.
        (self._directory / "cassandra.yaml").write_text(json.dumps(self._settings(), default=str))

    def _command(self, settings: dict[str, str]) -> list[Any]:
        properties = {
            "cassandra.config": (self._directory / "cassandra.yaml").as_uri(),
            "cassandra.storagedir": self._data,
            "logback.configurationFile": self._directory / "logback.xml",
            **_PROPERTIES,
        }
        return [
            java(),
            *_JVM,
            *(f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTS),
            *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENS),
            *(f"-D{key}={value}" for key, value in properties.items()),
            *("-cp", self._jars, "org.apache.cassandra.service.CassandraDaemon"),
        ]

    def _probe(self) -> None:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.execute(f"CREATE KEYSPACE IF NOT EXISTS tests WITH replication = {replication}")

    def _settings(self) -> dict[str, Any]:
        return {
            "cluster_name": "tests",
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "commitlog_sync": "periodic",
            "commitlog_sync_period": "100ms",
            "endpoint_snitch": "SimpleSnitch",
            "listen_address": "127.0.0.1",
            "storage_port": self._storage_port,
            "ssl_storage_port": free_port(),
            "rpc_address": "127.0.0.1",
            "native_transport_port": self.port,
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": f"127.0.0.1:{self._storage_port}"}],
                }
            ],
            "authenticator": "PasswordAuthenticator",
            "client_encryption_options": {
                "enabled": True,
                "optional": True,
                "keystore": self._directory / "server.pem",
                "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"},
            },
            "concurrent_reads": 4,
            "concurrent_writes": 4,
            "memtable_heap_space": "32MiB",
            "memtable_offheap_space": "32MiB",
            "key_cache_size": "1MiB",
            "file_cache_size": "16MiB",
            "auto_snapshot": False,
        }
