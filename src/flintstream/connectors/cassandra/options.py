"""Settings of a Cassandra sink: the cluster, and what happens to a request that fails."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from flintstream.common.arguments import positive, text

__all__ = ["CassandraFailureHandler", "ClusterBuilder", "ConsistencyLevel", "RequestOptions"]

_LAST_PORT = 65_535


class ConsistencyLevel(Enum):
    """How many replicas must confirm a write."""

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


class ClusterBuilder:
    """The cluster and how it is reached; the methods have the names of the Java driver's `Cluster.Builder`.

    Example::

        ClusterBuilder().add_contact_points("10.0.0.1", "10.0.0.2").with_port(9042).with_credentials("flint", "secret")
    """

    def __init__(self) -> None:
        self.contact_points: tuple[str, ...] = ()
        self.port = 9042
        self.credentials: tuple[str, str] | None = None
        self.local_dc: str | None = None
        self.ssl = False
        self.ssl_ca_file: str | None = None
        self.consistency_level = ConsistencyLevel.LOCAL_ONE
        self.timeout = 10.0
        """Seconds to connect, and to answer a request."""

    def add_contact_points(self, *addresses: str) -> ClusterBuilder:
        """Adds nodes by which the whole cluster is found."""
        for address in addresses:
            text("add_contact_points: an address", address)
        self.contact_points += addresses
        return self

    def with_port(self, port: int) -> ClusterBuilder:
        """Sets the port of all nodes: 9042 by default."""
        if positive("with_port: port", port) > _LAST_PORT:
            raise ValueError(f"with_port: port must be at most {_LAST_PORT}, got {port}")
        self.port = port
        return self

    def with_credentials(self, username: str, password: str) -> ClusterBuilder:
        """Sets the user and the password."""
        if not isinstance(username, str) or not isinstance(password, str):
            raise TypeError("with_credentials: username and password must be strings")
        self.credentials = username, password
        return self

    def with_local_dc(self, name: str) -> ClusterBuilder:
        """Sets the data centre whose nodes are used; by default, all nodes are."""
        self.local_dc = text("with_local_dc: name", name)
        return self

    def with_ssl(self, ca_file: str | None = None) -> ClusterBuilder:
        """Encrypts connections, and checks the nodes' certificates against a file, or against the machine's own."""
        self.ssl, self.ssl_ca_file = True, ca_file
        return self

    def with_consistency_level(self, level: ConsistencyLevel) -> ClusterBuilder:
        """Sets how many replicas must confirm a write: `LOCAL_ONE` by default."""
        if not isinstance(level, ConsistencyLevel):
            raise TypeError(f"with_consistency_level: level must be a ConsistencyLevel, got {level!r}")
        self.consistency_level = level
        return self

    def with_timeout(self, timeout_ms: int) -> ClusterBuilder:
        """Sets how long (milliseconds) connecting may take, and a request: 10000 by default."""
        self.timeout = positive("with_timeout: timeout_ms", timeout_ms) / 1000
        return self

    def __str__(self) -> str:
        return f"Cassandra {', '.join(self.contact_points)}, port {self.port}"


class CassandraFailureHandler:
    """Decides what happens when the cluster refuses a record. This one fails the job.

    Example::

        class Lenient(CassandraFailureHandler):
            def on_failure(self, failure):
                if "key may not be empty" not in str(failure):
                    raise failure
    """

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Returns the default handler, which fails the job."""
        return CassandraFailureHandler()

    def on_failure(self, failure: Exception) -> Any:
        """Called with the error of a record that was refused: raises it to fail the job, returns to drop the record."""
        raise failure


@dataclass(frozen=True)
class RequestOptions:
    """How requests are sent."""

    max_concurrent: int = 128
    max_wait: float | None = None
    """Seconds to wait until fewer requests are in flight; None for as long as requests may take."""
    ignore_null_fields: bool = False
    retry_seconds: float = 30.0
