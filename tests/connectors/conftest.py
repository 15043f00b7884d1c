"""Servers that the tests of connectors talk to: the machine's own programs, those of Debian's packages, or jars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.examples.conftest import beside_the_examples, run  # noqa: F401 - fixtures

from flintstream.testing.servers import NotAvailable

from .cassandra import CassandraServer
from .databases import Database, Shop
from .hbase import HBaseServer
from .hdfs import HdfsServer
from .kafka import KafkaServer
from .mariadb import MariaDbServer
from .postgres import PostgresServer
from .rabbitmq import RabbitMqServer
from .redis import RedisServer
from .search_servers import ElasticsearchServer, OpenSearchServer
from .servers import Server

_Server = TypeVar("_Server", bound=Server)


def running(kind: type[_Server], config: pytest.Config) -> Iterator[_Server]:
    """A server that runs while the tests do; without one they are skipped."""
    assert config.cache is not None
    try:
        server = kind(Path(config.cache.mkdir("servers")))
    except NotAvailable as reason:
        pytest.skip(f"no {kind.package}: {reason}")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    yield from running(PostgresServer, pytestconfig)


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> Iterator[MariaDbServer]:
    """A MariaDB server."""
    yield from running(MariaDbServer, pytestconfig)


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[KafkaServer]:
    """A Kafka broker."""
    yield from running(KafkaServer, pytestconfig)


@pytest.fixture(scope="session")
def redis_server(pytestconfig: pytest.Config) -> Iterator[RedisServer]:
    """A Redis server."""
    yield from running(RedisServer, pytestconfig)


@pytest.fixture(scope="session")
def rabbitmq(pytestconfig: pytest.Config) -> Iterator[RabbitMqServer]:
    """A RabbitMQ server."""
    yield from running(RabbitMqServer, pytestconfig)


@pytest.fixture(scope="session")
def elasticsearch(pytestconfig: pytest.Config) -> Iterator[ElasticsearchServer]:
    """An Elasticsearch server."""
    yield from running(ElasticsearchServer, pytestconfig)


@pytest.fixture(scope="session")
def cassandra(pytestconfig: pytest.Config) -> Iterator[CassandraServer]:
    """A Cassandra server."""
    pytest.importorskip("cassandra.cluster")
    yield from running(CassandraServer, pytestconfig)


@pytest.fixture(scope="session")
def hbase(pytestconfig: pytest.Config) -> Iterator[HBaseServer]:
    """An HBase cluster."""
    yield from running(HBaseServer, pytestconfig)


@pytest.fixture(scope="session")
def hdfs(pytestconfig: pytest.Config) -> Iterator[HdfsServer]:
    """An HDFS cluster."""
    yield from running(HdfsServer, pytestconfig)


@pytest.fixture(scope="session")
def opensearch(pytestconfig: pytest.Config) -> Iterator[OpenSearchServer]:
    """An OpenSearch server."""
    yield from running(OpenSearchServer, pytestconfig)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """The database of the server, empty."""
    database = Database(postgres)
    yield database
    database.clear()


@pytest.fixture
def shop(mariadb: MariaDbServer) -> Iterator[Shop]:
    """The database of the MariaDB server, empty."""
    shop = Shop(mariadb)
    yield shop
    shop.run("DROP DATABASE shop")
