"""JdbcSource: the rows of a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flintstream.common.arguments import positive, text
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.jdbc.databases import database_of
from flintstream.connectors.jdbc.options import JdbcConnectionOptions
from flintstream.connectors.jdbc.parameters import (
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcParameterValuesProvider,
)
from flintstream.connectors.jdbc.query import JdbcQuery
from flintstream.connectors.jdbc.reader import JdbcEnumerator, JdbcReader
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.source import SourceReader, SplitEnumerator

__all__ = [
    "JdbcGenericParameterValuesProvider",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
    "JdbcSource",
    "JdbcSourceBuilder",
]

_FETCH_SIZE = 4096
_QUERY_SECONDS = 600
_RETRY_SECONDS = 60.0


class JdbcSource(SplitBasedSource[Any]):
    """The rows of a query, executed once for each set of parameters; these executions are the splits of the source.

    Example::

        source = JdbcSource.builder() \\
            .set_db_url("jdbc:postgresql://localhost:5432/shop").set_username("flint").set_password("secret") \\
            .set_sql("SELECT id, item FROM orders WHERE id BETWEEN ? AND ? ORDER BY id") \\
            .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 1_000_000).of_batch_num(100)) \\
            .set_type_information(Types.ROW_NAMED(["id", "item"], [Types.LONG(), Types.STRING()])) \\
            .build()
        orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")

    The source is bounded. After a failure a split that was not finished is queried again, and the rows read before the
    checkpoint are skipped: the query must return the same rows in the same order.
    """

    sequential = True
    exact = True

    def __init__(self, query: JdbcQuery, provider: JdbcParameterValuesProvider | None) -> None:
        self._query = query
        self._provider = provider

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        """Returns a builder."""
        return JdbcSourceBuilder()

    @property
    def produced_type(self) -> TypeInformation:
        return self._query.type_info

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return JdbcEnumerator(self._query, self._provider)

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        return JdbcReader(self._query)


class JdbcSourceBuilder:
    """Settings of a :class:`JdbcSource`. The URL, the query and the type are required."""

    def __init__(self) -> None:
        self._connection = JdbcConnectionOptions("")
        self._sql: str | None = None
        self._type: TypeInformation | None = None
        self._provider: JdbcParameterValuesProvider | None = None
        self._fetch_size = _FETCH_SIZE
        self._auto_commit = False
        self._timeout = _QUERY_SECONDS

    def set_sql(self, sql: str) -> JdbcSourceBuilder:
        """Sets the query, with a `?` for each parameter."""
        self._sql = text("JdbcSourceBuilder.set_sql: sql", sql)
        return self

    def set_db_url(self, db_url: str) -> JdbcSourceBuilder:
        """Sets the URL: `jdbc:postgresql://host:port/database`, `jdbc:mysql://host:port/database` or `jdbc:sqlite:path`."""
        self._connection = replace(self._connection, _url=text("JdbcSourceBuilder.set_db_url: db_url", db_url))
        return self

    def set_username(self, username: str) -> JdbcSourceBuilder:
        """Sets the database user."""
        self._connection = replace(
            self._connection, _user_name=text("JdbcSourceBuilder.set_username: username", username)
        )
        return self

    def set_password(self, password: str) -> JdbcSourceBuilder:
        """Sets the user's password."""
        if not isinstance(password, str):
            raise TypeError(f"JdbcSourceBuilder.set_password: expected a string, got a {type(password).__name__}")
        self._connection = replace(self._connection, _password=password)
        return self

    def set_driver_name(self, driver_name: str) -> JdbcSourceBuilder:
        """Accepted for compatibility, without effect: the driver is a Python package, selected by the URL."""
        self._connection = replace(
            self._connection, _driver_name=text("JdbcSourceBuilder.set_driver_name: driver_name", driver_name)
        )
        return self

    def set_connection_options(self, options: JdbcConnectionOptions) -> JdbcSourceBuilder:
        """Sets URL, user and password at once, from the options that a :class:`JdbcSink` has."""
        if not isinstance(options, JdbcConnectionOptions):
            raise TypeError(
                f"JdbcSourceBuilder.set_connection_options: expected JdbcConnectionOptions, got {options!r}"
            )
        self._connection = options
        return self

    def set_type_information(self, type_information: TypeInformation) -> JdbcSourceBuilder:
        """Sets the type of the records: a row or a tuple with a field for each column, or the type of a single column."""
        if not isinstance(type_information, TypeInformation):
            raise TypeError(
                f"JdbcSourceBuilder.set_type_information: expected a TypeInformation, got {type_information!r}"
            )
        self._type = type_information
        return self

    def set_jdbc_parameter_values_provider(
        self, parameter_values_provider: JdbcParameterValuesProvider
    ) -> JdbcSourceBuilder:
        """Sets the parameters of the query. Without them, the query is executed once and read by one subtask."""
        if not isinstance(parameter_values_provider, JdbcParameterValuesProvider):
            raise TypeError(
                "JdbcSourceBuilder.set_jdbc_parameter_values_provider: expected a JdbcParameterValuesProvider, got "
                f"{parameter_values_provider!r}"
            )
        self._provider = parameter_values_provider
        return self

    def set_result_set_fetch_size(self, result_set_fetch_size: int) -> JdbcSourceBuilder:
        """Sets the number of rows fetched at once; 4096 by default. A subtask holds up to four times as many."""
        what = "JdbcSourceBuilder.set_result_set_fetch_size: result_set_fetch_size"
        self._fetch_size = positive(what, result_set_fetch_size)
        return self

    def set_auto_commit(self, auto_commit: bool) -> JdbcSourceBuilder:
        """Sets whether queries run outside a transaction; False by default.

        PostgreSQL then stores the whole result on the server before the first row is returned.
        """
        self._auto_commit = bool(auto_commit)
        return self

    def set_query_timeout(self, query_timeout: int) -> JdbcSourceBuilder:
        """Sets how long (seconds) the database may take to execute the query, and to return further rows; 600 by default."""
        self._timeout = positive("JdbcSourceBuilder.set_query_timeout: query_timeout", query_timeout)
        return self

    def build(self) -> JdbcSource:
        """Returns the source."""
        required = {
            "set_db_url": self._connection.get_db_url(),
            "set_sql": self._sql,
            "set_type_information": self._type,
        }
        for method, value in required.items():
            if not value:
                raise ValueError(f"JdbcSourceBuilder: call {method}(...) first")
        assert self._sql is not None and self._type is not None
        database = database_of(self._connection)
        statement, placeholders = database.syntax.translate(self._sql)
        if placeholders and self._provider is None:
            raise ValueError(
                f"JdbcSourceBuilder: the query {self._sql!r} has {placeholders} placeholders: call "
                "set_jdbc_parameter_values_provider(...) with their values"
            )
        query = JdbcQuery(
            sql=self._sql,
            statement=statement,
            placeholders=placeholders,
            type_info=self._type,
            database=database,
            fetch_size=self._fetch_size,
            auto_commit=self._auto_commit,
            timeout=self._timeout,
            retry_seconds=_RETRY_SECONDS,
        )
        return JdbcSource(query, self._provider)
