"""A Kafka broker for tests and demonstrations: one process, which is its own controller, on this machine only."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintstream.testing.jars import class_path, jars_of, java
from flintstream.testing.servers import Server, free_port

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

__all__ = ["KafkaBroker"]

PLAINTEXT = "PLAINTEXT"
JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SECONDS = 60.0


class KafkaBroker(Server):
    """A broker with a temporary directory on a free port; it ends with `close`, or with this process.

    Example::

        with KafkaBroker() as broker:
            broker.create_topic(partitions=2, name="orders")
            source = KafkaSource.builder().set_bootstrap_servers(broker.bootstrap())...

    Kafka itself (44 MB) is downloaded once, and kept in the user's cache directory. It takes some seconds to start.
    """

    package = "Kafka"
    listeners: tuple[str, ...] = (PLAINTEXT,)
    """The names of its listeners, each of which is a security protocol."""
    admin: AdminClient
    """A client that manages the broker, as long as it is not restarted."""

    def bootstrap(self, listener: str = PLAINTEXT) -> str:
        """The address of a listener, for `bootstrap.servers`."""
        return f"127.0.0.1:{self._ports[listener]}"

    def create_topic(
        self, partitions: int = 1, name: str | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Creates a topic, of a new name unless one is given; returns its name."""
        from confluent_kafka.admin import NewTopic

        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([topic], operation_timeout=_SECONDS)[name].result(_SECONDS)
        # The controller has it; the broker, which clients ask, hears of it a moment later.
        deadline = time.monotonic() + _SECONDS
        while name not in self.admin.list_topics(timeout=_SECONDS).topics:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the topic '{name}' was created, and is not there after {_SECONDS:g} s")
            time.sleep(0.01)
        return name

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records."""
        self.admin.delete_topics([name], operation_timeout=_SECONDS)[name].result(_SECONDS)

    # --- its files and its process ---

    def _find_programs(self, cache: Path) -> None:
        self._ports = dict(zip(self.listeners, [self.port, *(free_port() for _ in self.listeners[1:])]))
        self._controller = free_port()
        self._java = [java(), *_JVM, "-cp", class_path(jars_of("kafka", JARS, cache))]

    def _create(self) -> None:
        self._configure({})
        options = ["--standalone", "--cluster-id", "flintstreamflintstream", *self._format_options()]
        self._run(*self._java, "kafka.tools.StorageTool", "format", "--config", self._properties, *options)

    def _format_options(self) -> list[str]:
        """More options for the making of the data directory."""
        return []

    def _command(self, settings: dict[str, str]) -> list[Any]:
        """Starts the broker; a setting's dots are written as underscores."""
        self._configure({key.replace("_", "."): value for key, value in settings.items()})
        return [*self._java, "kafka.Kafka", self._properties]

    def _probe(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        socket.create_connection(("127.0.0.1", self.port), 1).close()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap(), "log_level": 0})
        if not self.admin.list_topics(timeout=5).brokers:
            raise KafkaException("no broker")

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    def _configure(self, settings: Mapping[str, str]) -> None:
        given = {**self._settings(), **settings}
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()))

    def _settings(self) -> dict[str, Any]:
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()]
        protocols = [f"{name}:{name}" for name in self._ports]
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "log.dirs": self._data,
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{self._controller}"]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller}",
            "inter.broker.listener.name": PLAINTEXT,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            "auto.create.topics.enable": "false",
            "log.retention.ms": -1,  # Records of tests have timestamps of any year.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 2,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
            # One that was killed is registered again when its last session is over.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            # A test of a time-out waits for the broker's next look.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        }
