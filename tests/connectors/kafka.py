"""A Kafka broker of the tests' own: one process, which is its own controller."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from .certificates import write_certificates
from .jars import class_path, jars_of, java
from .servers import Server, free_port

LISTENERS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL) = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "flint", "it's a secret"
"""Whom the listeners with SASL know."""
_JARS = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SECONDS = 60.0
_MODULES = "org.apache.kafka.common.security"


class KafkaServer(Server):
    """A broker with listeners for each security protocol; its certificate is for localhost and 127.0.0.1."""

    package = "Kafka"
    admin: AdminClient
    """A client that manages the broker, as long as it is not restarted."""

    def bootstrap(self, listener: str = PLAINTEXT) -> str:
        """The address of a listener."""
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def authority(self) -> Path:
        """The certificate that signs the broker's, as PEM."""
        return self._directory / "ca.pem"

    def create_topic(
        self, partitions: int = 1, name: str | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Creates a topic, of a new name unless one is given; gives its name."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([topic], operation_timeout=_SECONDS)[name].result(_SECONDS)
        # The controller has it; the broker, which clients ask, hears of it a moment later.
        wait_until(lambda: name in self.admin.list_topics(timeout=_SECONDS).topics, what=f"the topic {name}")
        return name

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records."""
        self.admin.delete_topics([name], operation_timeout=_SECONDS)[name].result(_SECONDS)

    # --- its files and its process ---

    def _find_programs(self, cache: Path) -> None:
        self._ports = {PLAINTEXT: self.port, **{name: free_port() for name in LISTENERS[1:]}}
        self._controller = free_port()
        self._java = [java(), *_JVM, "-cp", class_path(jars_of("kafka", _JARS, cache))]

    def _create(self) -> None:
        write_certificates(self.authority, self._directory / "broker.pem")
        self._configure({})
        scram = f'SCRAM-SHA-256=[name={USER},password="{PASSWORD}"]'
        options = ["--standalone", "--cluster-id", "flintstreamflintstream", "--add-scram", scram]
        self._run(*self._java, "kafka.tools.StorageTool", "format", "--config", self._properties, *options)

    def _command(self, settings: dict[str, str]) -> list[Any]:
        """Starts the broker; a setting's dots are written as underscores."""
        self._configure({key.replace("_", "."): value for key, value in settings.items()})
        return [*self._java, "kafka.Kafka", self._properties]

    def _probe(self) -> None:
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
        plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        sasl = {}
        for name in (SASL_PLAINTEXT, SASL_SSL):
            prefix = f"listener.name.{name.lower()}"
            sasl[f"{prefix}.plain.sasl.jaas.config"] = plain
            sasl[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{_MODULES}.scram.ScramLoginModule required;"
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
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._directory / "broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "listener.name.ssl.ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            **sasl,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            "auto.create.topics.enable": "false",
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
