"""The database of a server, as a test sees it."""

from __future__ import annotations

import time
from typing import Any

from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions

from .mariadb import MariaDbServer
from .postgres import PASSWORD, USER, PostgresServer

_CLIENTS = "FROM pg_stat_activity WHERE application_name = 'flintstream'"


class Database:
    """Runs statements beside the sink. Each test finds it empty."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._connection = server.connect()
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(server.url)
        self.options = builder.with_user_name(USER).with_password(PASSWORD).build()
        self.run("CREATE SCHEMA IF NOT EXISTS public")

    def clear(self) -> None:
        """Takes away all that a test has left."""
        self.disconnect_clients()
        for gid in self.prepared:
            self.run(f"ROLLBACK PREPARED '{gid}'")
        self.run("DROP SCHEMA public CASCADE")
        self._connection.close()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        if self._connection.closed:
            self._connection = self._server.connect()
        cursor = self._connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def reconnect(self) -> None:
        """To be called after the server was started again."""
        self._connection.close()

    @property
    def prepared(self) -> list[str]:
        """The names of prepared transactions."""
        return [gid for (gid,) in self.run("SELECT gid FROM pg_prepared_xacts ORDER BY gid")]

    def disconnect_clients(self) -> int:
        """Ends all connections but the test's own; returns how many there were."""
        ended = len(self.run(f"SELECT pg_terminate_backend(pid) {_CLIENTS}"))
        while self.run(f"SELECT 1 {_CLIENTS}"):
            time.sleep(0.01)
        return ended


class Shop:
    """The database shop of a MariaDB server."""

    def __init__(self, server: MariaDbServer) -> None:
        self._connection = server.connect()
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(server.url)
        self.options = builder.with_user_name("root").build()
        self.run("CREATE DATABASE shop")
        self.run("USE shop")

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def disconnect_clients(self) -> int:
        """Breaks the connections of others; returns how many."""
        others = self.run("SELECT id FROM information_schema.processlist WHERE user = 'root' AND id != CONNECTION_ID()")
        for (number,) in others:
            self.run(f"KILL {number}")
        return len(others)
