"""Servers without a program of their own: their Java objects are made from here, by the Py4J that Spark brings along."""

from __future__ import annotations

import socket
from abc import abstractmethod
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from flintstream.testing.jars import class_path, jars_of, java
from flintstream.testing.servers import Server, free_port

_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SECONDS = 120


class JavaObjectsServer(Server):
    """A JVM that makes and starts the server's objects when it is told to."""

    jars: tuple[str, ...]
    """The coordinates of the server's jars."""

    jvm: tuple[str, ...] = ()
    """What Java is told besides."""

    def stop(self, crash: bool = False) -> None:
        super().stop(crash)
        self._assembled = False

    @abstractmethod
    def _assemble(self, gateway: JavaGateway) -> None:
        """Makes the objects, and starts them."""

    @abstractmethod
    def _answers(self) -> None:
        """Raises an error while the server does not answer yet."""

    def _find_programs(self, cache: Path) -> None:
        self._assembled = False
        (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        jars = jars_of(type(self).__name__, self.jars, cache)
        self._java = [java(), *_JVM, *self.jvm, "-cp", f"{self._directory}:{class_path(jars)}:{py4j}"]

    def _command(self, settings: dict[str, str]) -> list[Any]:
        self._gateway_port = free_port()
        return [*self._java, "py4j.GatewayServer", self._gateway_port]

    def _probe(self) -> None:
        if not self._assembled:
            socket.create_connection(("127.0.0.1", self._gateway_port), 1).close()
            self._make_objects()
            self._assembled = True
        self._answers()

    def _make_objects(self) -> None:
        # They live as long as the JVM, and nothing of them is kept here.
        parameters = GatewayParameters(port=self._gateway_port, read_timeout=_SECONDS, enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            self._assemble(gateway)
        except BaseException:
            assert self._process is not None
            self._process.kill()  # Another attempt would not help.
            self._process.wait(_SECONDS)
            raise
        gateway.close()
