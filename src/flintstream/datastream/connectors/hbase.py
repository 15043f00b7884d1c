"""HBaseSinkFunction and HBaseLookupFunction: records as mutations of an HBase table, and its rows looked up for records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flintstream.common.arguments import positive
from flintstream.common.type_variables import IN, OUT
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.hbase.connection import HBaseError, HBaseTable
from flintstream.connectors.hbase.lookup import RowCache, RowLookup
from flintstream.connectors.hbase.mutations import Delete, HBaseMutationConverter, Mutation, Put
from flintstream.connectors.hbase.options import HBaseConnectionOptions
from flintstream.connectors.hbase.sink import BufferOptions, HBaseSinkOperator
from flintstream.datastream.async_functions import AsyncFunction
from flintstream.datastream.io_functions import SinkFunction
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.operators.base import Operator

__all__ = [
    "Delete",
    "HBaseConnectionOptions",
    "HBaseError",
    "HBaseLookupFunction",
    "HBaseMutationConverter",
    "HBaseSinkFunction",
    "Mutation",
    "Put",
]


class HBaseSinkFunction(SinkFunction[IN]):
    """Writes a mutation of a table for each record; for `stream.add_sink`.

    Each record is written at least once; exactly once in effect, because a cell that is put again has the same value.

    Example::

        connection = HBaseConnectionOptions("127.0.0.1", 9090)
        counts.add_sink(HBaseSinkFunction("counts", connection, Counts()))

    :param table_name: the table, which must exist; `namespace:table` in a namespace.
    :param connection: where the Thrift server is.
    :param mutation_converter: which mutation a record becomes.
    :param buffer_flush_max_size_in_bytes: the size at which the buffer is flushed.
    :param buffer_flush_max_mutations: the number of mutations at which the buffer is flushed.
    :param buffer_flush_interval_millis: how long (milliseconds) a record waits at most; 0 for until a checkpoint.
    :param retry_timeout_ms: for how long (milliseconds) a flush is retried while the server is away; then the job fails,
        and its restart strategy decides.
    """

    def __init__(
        self,
        table_name: str,
        connection: HBaseConnectionOptions,
        mutation_converter: HBaseMutationConverter[IN],
        buffer_flush_max_size_in_bytes: int = 2 << 20,
        buffer_flush_max_mutations: int = 1000,
        buffer_flush_interval_millis: int = 1000,
        retry_timeout_ms: int = 30_000,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(mutation_converter, HBaseMutationConverter):
            raise TypeError(f"{name}: mutation_converter must be an HBaseMutationConverter, got {mutation_converter!r}")
        buffer = BufferOptions(
            positive(f"{name}: buffer_flush_max_size_in_bytes", buffer_flush_max_size_in_bytes),
            positive(f"{name}: buffer_flush_max_mutations", buffer_flush_max_mutations),
            positive(f"{name}: buffer_flush_interval_millis", buffer_flush_interval_millis, 0),
        )
        table = _table(name, table_name, connection, retry_timeout_ms)
        self._create = partial(HBaseSinkOperator, table, mutation_converter, buffer)

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes mutations in a slot."""
        return self._create()


class HBaseLookupFunction(AsyncFunction[IN, OUT]):
    """Looks a row of a table up for each record; for `AsyncDataStream`.

    Example::

        names = HBaseLookupFunction(
            "users",
            HBaseConnectionOptions("127.0.0.1", 9090),
            row_key=lambda order: order.user,
            join=lambda order, row: [(order, row["info:name"].decode())] if row else [],
        )
        AsyncDataStream.ordered_wait(orders, names, Time.seconds(60), 1000, output_type)

    Rows for which records wait at the same time are looked up by one request, so that a larger `capacity` of the
    `AsyncDataStream` makes fewer of them.

    :param table_name: the table; `namespace:table` in a namespace.
    :param connection: where the Thrift server is.
    :param row_key: returns the key of a record's row: bytes, or a string.
    :param join: returns the results for a record and its row, a dict from `family:qualifier` to bytes, which is empty if
        the row does not exist.
    :param columns: the columns to read, as `family:qualifier`, or `family` for all of a family; all unless given.
    :param cache_max_rows: how many rows a subtask remembers; none unless given.
    :param cache_ttl_ms: for how long (milliseconds) it remembers them.
    :param retry_timeout_ms: for how long (milliseconds) a request is retried while the server is away.
    """

    def __init__(
        self,
        table_name: str,
        connection: HBaseConnectionOptions,
        row_key: Callable[[IN], str | bytes],
        join: Callable[[IN, dict[str, bytes]], list[OUT]],
        columns: Iterable[str] | None = None,
        cache_max_rows: int = 0,
        cache_ttl_ms: int = 60_000,
        retry_timeout_ms: int = 30_000,
    ) -> None:
        name = type(self).__name__
        for option, function in (("row_key", row_key), ("join", join)):
            if not callable(function):
                raise TypeError(f"{name}: {option} must be a function, got {function!r}")
        if isinstance(columns, str):
            raise TypeError(f"{name}: columns must be a list of strings, got {columns!r}")
        self._columns = None if columns is None else [column.encode() for column in columns]
        self._row_key = row_key
        self._join = join
        self._cache = (
            positive(f"{name}: cache_max_rows", cache_max_rows, 0),
            positive(f"{name}: cache_ttl_ms", cache_ttl_ms),
        )
        self._table = _table(name, table_name, connection, retry_timeout_ms)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connects, and checks that the table exists."""
        self._table.families()
        fetch = partial(self._table.rows, columns=self._columns)
        self._lookup = RowLookup(fetch, RowCache(*self._cache))

    async def async_invoke(self, value: IN) -> list[OUT]:
        """Returns the results for a record."""
        key: Any = self._row_key(value)
        if isinstance(key, str):
            key = key.encode()
        if not isinstance(key, bytes) or not key:
            raise TypeError(f"{type(self).__name__}: row_key must return bytes or a string, not empty, got {key!r}")
        return self._join(value, await self._lookup.get(key))

    def close(self) -> None:
        """Disconnects."""
        lookup = getattr(self, "_lookup", None)
        if lookup is not None:
            lookup.close()
        self._table.close()


def _table(owner: str, name: str, connection: HBaseConnectionOptions, retry_timeout_ms: int) -> HBaseTable:
    if not isinstance(name, str) or not name:
        raise TypeError(f"{owner}: table_name must be a non-empty string, got {name!r}")
    if not isinstance(connection, HBaseConnectionOptions):
        raise TypeError(f"{owner}: connection must be an HBaseConnectionOptions, got {connection!r}")
    return HBaseTable(connection, name, positive(f"{owner}: retry_timeout_ms", retry_timeout_ms, 0) / 1000)
