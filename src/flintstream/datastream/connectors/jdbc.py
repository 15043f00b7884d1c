"""JdbcSink writes records to a database with an SQL statement; JdbcSource, defined beside it, reads the rows of a query."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.jdbc.databases import PostgreSql, database_of
from flintstream.connectors.jdbc.exactly_once import ExactlyOnceJdbcOperator
from flintstream.connectors.jdbc.operators import JdbcError, JdbcOperator, JdbcSinkOperator
from flintstream.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from flintstream.connectors.jdbc.rows import RowBinder
from flintstream.datastream.connectors.jdbc_source import (
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcParameterValuesProvider,
    JdbcSource,
    JdbcSourceBuilder,
)
from flintstream.datastream.io_functions import SinkFunction
from flintstream.runtime.operators.base import Operator

__all__ = [
    "JdbcConnectionOptions",
    "JdbcError",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcGenericParameterValuesProvider",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]

_T = TypeVar("_T")


class JdbcSink(SinkFunction):
    """Executes an SQL statement with each record; for `stream.add_sink`.

    Example::

        options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder() \\
            .with_url("jdbc:postgresql://localhost:5432/shop").with_user_name("flint").with_password("secret").build()
        sql = "INSERT INTO counts (word, n) VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET n = excluded.n"
        counts.add_sink(JdbcSink.sink(sql, Types.ROW([Types.STRING(), Types.INT()]), options))
    """

    def __init__(self, create: Callable[[], JdbcOperator]) -> None:
        super().__init__()
        self._create = create

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Returns a sink that writes each row at least once; with an idempotent statement, effectively exactly once.

        :param sql: the statement, with a `?` placeholder per value.
        :param type_info: the type of the records: a row or a tuple with a field for each `?`, or the type of a
            single value.
        :param jdbc_connection_options: the connection to the database.
        :param jdbc_execution_options: how rows are batched; `JdbcExecutionOptions.defaults()` by default.
        """
        database = database_of(_checked("jdbc_connection_options", jdbc_connection_options, JdbcConnectionOptions))
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        _checked("jdbc_execution_options", execution, JdbcExecutionOptions)
        binder = RowBinder(_checked("sql", sql, str), _checked("type_info", type_info, TypeInformation), database)
        return JdbcSink(partial(JdbcSinkOperator, binder, database, execution))

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        """Returns a sink that writes each row exactly once, with any statement, by two-phase commit.

        It needs PostgreSQL with `max_prepared_transactions`, and checkpointing. Rows become visible when the next
        checkpoint completes.

        :param jdbc_execution_options: how rows are batched; must have 0 retries, since a lost transaction is written
        again after a restore from the last checkpoint.
        :param jdbc_exactly_once_options: how transactions are committed; `JdbcExactlyOnceOptions.defaults()` by
        default.
        """
        database = database_of(_checked("jdbc_connection_options", jdbc_connection_options, JdbcConnectionOptions))
        if not isinstance(database, PostgreSql):
            raise NotImplementedError(f"exactly_once_sink supports PostgreSQL only, not {database}")
        execution = jdbc_execution_options or JdbcExecutionOptions.builder().with_max_retries(0).build()
        _checked("jdbc_execution_options", execution, JdbcExecutionOptions)
        if execution.get_max_retries():
            raise ValueError(
                f"exactly_once_sink: max_retries must be 0, got {execution.get_max_retries()}: a lost transaction is "
                "written again after a restore; call with_max_retries(0)"
            )
        exactly_once = jdbc_exactly_once_options or JdbcExactlyOnceOptions.defaults()
        _checked("jdbc_exactly_once_options", exactly_once, JdbcExactlyOnceOptions)
        binder = RowBinder(_checked("sql", sql, str), _checked("type_info", type_info, TypeInformation), database)
        return JdbcSink(partial(ExactlyOnceJdbcOperator, binder, database, execution, exactly_once))

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes rows in a slot."""
        return self._create()


def _checked(what: str, value: _T, kind: type) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"JdbcSink: {what} must be a {kind.__name__}, got {value!r}")
    return value
