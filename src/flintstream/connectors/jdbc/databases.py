"""The databases that a JDBC URL may name, each with its Python driver."""

from __future__ import annotations

import datetime
import importlib
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from flintstream.common.time import Instant
from flintstream.connectors.jdbc import sql as jdbc_sql
from flintstream.connectors.jdbc.options import JdbcConnectionOptions

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _moment(instant: Instant) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)


class Database(ABC):
    """A database at a location: connects, and classifies its errors."""

    syntax: jdbc_sql.Syntax
    has_arrays = False
    adapters: dict[type, Callable[[Any], Any]] = {Instant: _moment}
    """Converters of values that the driver does not accept directly."""

    @abstractmethod
    def check_driver(self) -> None:
        """Raises an error that says what to install if the Python driver is missing."""

    @abstractmethod
    def connect(self) -> Any:
        """Returns a new DB-API connection."""

    @abstractmethod
    def is_temporary(self, error: Exception) -> bool:
        """Returns whether a retry, perhaps with another connection, may succeed."""

    @abstractmethod
    def connect_to_read(self, auto_commit: bool, seconds: int) -> Any:
        """Returns a new connection for queries; `seconds` is how long the database may take to answer."""

    @abstractmethod
    def open_cursor(self, connection: Any) -> Any:
        """Returns a cursor that does not hold its whole result in memory."""

    @abstractmethod
    def interrupt(self, connection: Any) -> None:
        """Ends what another thread executes on a connection of `connect_to_read`, or raises if that is impossible."""

    def begin(self, connection: Any) -> None:
        """Begins a transaction, if the driver does not do that implicitly."""
        return

    def execute_all(self, cursor: Any, statement: str, rows: list[Any]) -> None:
        """Executes a statement with each of the rows."""
        cursor.executemany(statement, rows)

    def adapted(self, values: Iterable[Any]) -> list[Any]:
        """Converts values of any types for the driver."""
        adapters = self.adapters
        return [adapters[type(value)](value) if type(value) in adapters else value for value in values]


@dataclass(frozen=True)
class Sqlite(Database):
    """A file, accessed through Python's standard library."""

    path: str
    syntax = jdbc_sql.SQLITE
    adapters = {
        Decimal: str,
        Instant: lambda value: _moment(value).isoformat(" "),
        datetime.date: datetime.date.isoformat,
        datetime.time: datetime.time.isoformat,
        datetime.datetime: lambda value: value.isoformat(" "),
    }

    def __str__(self) -> str:
        return f"SQLite file {self.path}"

    def check_driver(self) -> None:
        """Does nothing: the driver is part of Python."""

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_SQLITE_WAIT_SECONDS, isolation_level=None)

    def connect_to_read(self, auto_commit: bool, seconds: int) -> sqlite3.Connection:
        # Unlike `connect`, this does not create a missing file.
        location = f"file:{quote(self.path)}?mode=rw"
        return sqlite3.connect(
            location, timeout=_SQLITE_WAIT_SECONDS, isolation_level=None, uri=True, check_same_thread=False
        )

    def open_cursor(self, connection: sqlite3.Connection) -> sqlite3.Cursor:
        return connection.cursor()

    def interrupt(self, connection: sqlite3.Connection) -> None:
        connection.interrupt()

    def begin(self, connection: sqlite3.Connection) -> None:
        # Takes the write lock first and waits for it, rather than failing when another subtask has it.
        connection.execute("BEGIN IMMEDIATE")

    def is_temporary(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


_KEEP_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""Options of libpq: the loss of a server's machine is detected within a minute."""
_SQLITE_WAIT_SECONDS = 30.0
_INTERRUPT_SECONDS = 5
_MYSQL_SENDS_SECONDS = 3600
"""How long a server waits for a reader that has no room for more rows; by default it gives up after a minute."""


@dataclass(frozen=True)
class Server:
    """The address of a server and its credentials, from the URL and the options."""

    hosts: tuple[tuple[str, int], ...]
    database: str
    user: str | None
    password: str | None = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        places = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{places}/{self.database}"


@dataclass(frozen=True)
class PostgreSql(Database):
    """PostgreSQL, through psycopg."""

    server: Server
    syntax = jdbc_sql.POSTGRESQL
    has_arrays = True

    def __str__(self) -> str:
        return f"PostgreSQL at {self.server}"

    def check_driver(self) -> None:
        _driver("psycopg", "postgresql")

    def connect(self, autocommit: bool = False) -> Any:
        server = self.server
        return _driver("psycopg", "postgresql").connect(
            host=",".join(host for host, _ in server.hosts),
            port=",".join(str(port) for _, port in server.hosts),
            dbname=server.database or None,
            user=server.user,
            password=server.password,
            autocommit=autocommit,
            **{"application_name": "flintstream", "connect_timeout": 10, **_KEEP_ALIVE, **server.parameters},
        )

    def connect_to_read(self, auto_commit: bool, seconds: int) -> Any:
        connection = self.connect(autocommit=auto_commit)
        # Else a scan of a large table may start in its middle, where another scan is, and rows change their order.
        connection.execute("SET synchronize_seqscans = off")
        return connection

    def open_cursor(self, connection: Any) -> Any:
        return connection.cursor("flint_source", withhold=connection.autocommit)

    def interrupt(self, connection: Any) -> None:
        connection.cancel_safe(timeout=_INTERRUPT_SECONDS)

    def is_temporary(self, error: Exception) -> bool:
        psycopg = _driver("psycopg", "postgresql")
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))


@dataclass(frozen=True)
class MySql(Database):
    """MySQL and MariaDB, through PyMySQL."""

    server: Server
    syntax = jdbc_sql.MYSQL

    def __str__(self) -> str:
        return f"MySQL at {self.server}"

    def check_driver(self) -> None:
        _driver("pymysql", "mysql")

    def connect(self, **options: Any) -> Any:
        server = self.server
        ((host, port),) = server.hosts
        return _driver("pymysql", "mysql").connect(
            host=host,
            port=port,
            database=server.database or None,
            user=server.user,
            password=server.password or "",
            **{"charset": "utf8mb4", **server.parameters, **options},
        )

    def connect_to_read(self, auto_commit: bool, seconds: int) -> Any:
        prepare = f"SET SESSION net_write_timeout = {_MYSQL_SENDS_SECONDS}"
        # The reader gives up first, with an error that names the query; this only ends its thread.
        return self.connect(autocommit=auto_commit, read_timeout=seconds + _INTERRUPT_SECONDS, init_command=prepare)

    def open_cursor(self, connection: Any) -> Any:
        from flintstream.connectors.jdbc.mysql_cursor import StreamingCursor

        return connection.cursor(StreamingCursor)

    def interrupt(self, connection: Any) -> None:
        options = {"connect_timeout": _INTERRUPT_SECONDS, "read_timeout": _INTERRUPT_SECONDS}
        with self.connect(**options) as other, other.cursor() as cursor:
            cursor.execute("KILL %s", [connection.thread_id()])

    def execute_all(self, cursor: Any, statement: str, rows: list[Any]) -> None:
        if "%%" not in statement:
            cursor.executemany(statement, rows)
            return
        # When executemany sends many rows as one statement, it leaves %% after VALUES unchanged.
        for row in rows:
            cursor.execute(statement, row)

    def is_temporary(self, error: Exception) -> bool:
        driver = _driver("pymysql", "mysql")
        if isinstance(error, driver.err.InterfaceError):
            return True
        return isinstance(error, driver.err.OperationalError) and error.args[0] in _MYSQL_TEMPORARY


_MYSQL_TEMPORARY = frozenset({1040, 1053, 1205, 1213, 2002, 2003, 2006, 2013})
"""Too many connections, shutting down, lock timeout, deadlock; unreachable, gone, lost."""


def database_of(options: JdbcConnectionOptions) -> Database:
    """Returns the database that a URL names."""
    url = options.get_db_url()
    scheme, _, rest = url.removeprefix("jdbc:").partition(":")
    reader = _READERS.get(scheme)
    if not url.startswith("jdbc:") or reader is None:
        known = ", ".join(f"jdbc:{name}:" for name in _READERS)
        raise ValueError(f"JDBC URL {_shown(url)!r}: expected one that starts with {known}")
    found = reader(url, rest, options)
    found.check_driver()
    return found


def _sqlite(url: str, rest: str, options: JdbcConnectionOptions) -> Database:
    path, _, parameters = rest.partition("?")
    if parameters:
        raise ValueError(f"JDBC URL {_shown(url)!r}: parameters of SQLite are not supported")
    if not path or path.startswith(":memory:"):
        raise ValueError(f"JDBC URL {url!r}: an in-memory database would be lost with its slot: name a file")
    # A slot has its own working directory.
    return Sqlite(os.path.abspath(path))


def _postgresql(url: str, rest: str, options: JdbcConnectionOptions) -> Database:
    return PostgreSql(_server(url, rest, options, 5432, _POSTGRESQL_PARAMETERS))


def _mysql(url: str, rest: str, options: JdbcConnectionOptions) -> Database:
    server = _server(url, rest, options, 3306, _MYSQL_PARAMETERS)
    if len(server.hosts) > 1:
        raise ValueError(f"JDBC URL {_shown(url)!r}: expected one host")
    return MySql(server)


_READERS = {"postgresql": _postgresql, "mysql": _mysql, "mariadb": _mysql, "sqlite": _sqlite}

_Parameters = dict[str, Callable[[str], dict[str, Any]]]


def _named(name: str, kind: Callable[[str], Any] = str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {name: kind(value)}


def _without_effect(value: str) -> dict[str, Any]:
    return {}


def _verified(value: str) -> dict[str, Any]:
    return {"sslmode": "verify-full"} if value in ("", "true") else {}


_POSTGRESQL_PARAMETERS: _Parameters = {
    "user": _named("user"),
    "password": _named("password"),
    "sslmode": _named("sslmode"),
    "ssl": _verified,
    "sslrootcert": _named("sslrootcert"),
    "sslcert": _named("sslcert"),
    "sslkey": _named("sslkey"),
    "options": _named("options"),
    "currentSchema": lambda value: {"options": f"-csearch_path={value}"},
    "connectTimeout": _named("connect_timeout", int),
    "ApplicationName": _named("application_name"),
    "reWriteBatchedInserts": _without_effect,
}
_MYSQL_PARAMETERS: _Parameters = {
    "user": _named("user"),
    "password": _named("password"),
    "connectTimeout": lambda value: {"connect_timeout": max(1, int(value) // 1000)},
    "rewriteBatchedStatements": _without_effect,
}
"""The supported parameters of the Java drivers, as arguments of the Python drivers."""


def _server(url: str, rest: str, options: JdbcConnectionOptions, default_port: int, known: _Parameters) -> Server:
    location, _, query = rest.partition("?")
    if location.startswith("//"):
        authority, _, database = location[2:].partition("/")
    else:
        authority, database = "", location.removeprefix("/")
    hosts = tuple(_host(url, host, default_port) for host in authority.split(","))
    parameters: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            names = ", ".join(sorted(known))
            raise ValueError(f"JDBC URL {_shown(url)!r}: parameter {name!r} is not supported; supported are {names}")
        try:
            parameters.update(known[name](value))
        except ValueError:
            raise ValueError(f"JDBC URL {_shown(url)!r}: parameter {name} must be a number, got {value!r}") from None
    user, password = parameters.pop("user", None), parameters.pop("password", None)
    return Server(
        hosts,
        unquote(database),
        options.get_user_name() or user,
        password if options.get_password() is None else options.get_password(),
        parameters,
    )


def _host(url: str, text: str, default_port: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):  # [::1] has colons of its own
        host, port = text, str(default_port)
    if not port.isdecimal():
        raise ValueError(f"JDBC URL {_shown(url)!r}: the port must be a number, got {port!r}")
    return host.strip("[]") or "localhost", int(port)


def _shown(url: str) -> str:
    """Returns a URL without its parameters, which may contain a password."""
    return url.partition("?")[0]


def _driver(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"a jdbc:{extra} URL needs the Python package {module}, which cannot be imported ({error}): "
            f"pip install 'flintstream[{extra}]'"
        ) from error
