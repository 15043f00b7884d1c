"""A table of HBase, by a Thrift server and happybase: reads and writes that outlast a lost connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flintstream.connectors.backoff import Backoff
from flintstream.connectors.hbase.mutations import MutationBuffer
from flintstream.connectors.hbase.options import HBaseConnectionOptions

_T = TypeVar("_T")
_LASTING = ("TableNotFoundException", "NoSuchColumnFamilyException", "AccessDeniedException", "DoNotRetryIOException")
"""Java's exceptions that a retry does not help against."""


class HBaseError(Exception):
    """An HBase Thrift server could not be reached or has refused a request; the message says which."""


class HBaseTable:
    """A table, with a connection of its own. A lost connection is made anew; requests are repeated for `retry_seconds`."""

    def __init__(self, options: HBaseConnectionOptions, name: str, retry_seconds: float) -> None:
        self._options = options
        self._name = name
        self._retry_seconds = retry_seconds
        self._connection: Any = None
        self._closed = False

    def families(self) -> frozenset[bytes]:
        """Returns the names of the column families; fails at once if there is no server or no table."""
        try:
            found = self._on_table(lambda table: table.families())
        except Exception as error:
            raise self._error(error) from error
        if not found:
            raise HBaseError(f"{self}: the table does not exist, or has no column family")
        return frozenset(name.rstrip(b":") for name in found)

    def mutate(self, buffer: MutationBuffer) -> None:
        """Writes mutations; returns when the regions have confirmed them."""
        self._retried(lambda table: _send(table, buffer))

    def rows(self, keys: list[bytes], columns: list[bytes] | None) -> dict[bytes, dict[str, bytes]]:
        """Returns the rows of these keys that exist, each with its cells by `family:qualifier`."""
        found = self._retried(lambda table: table.rows(keys, columns))
        return {bytes(key): {_text(column): value for column, value in cells.items()} for key, cells in found if cells}

    def close(self) -> None:
        """Disconnects, and ends the retries of a request in another thread."""
        self._closed = True
        self._disconnect()

    def __str__(self) -> str:
        return f"{self._options}, table '{self._name}'"

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception:  # It is lost anyway.
                return

    def _retried(self, action: Callable[[Any], _T]) -> _T:
        backoff = Backoff(self._retry_seconds)
        while True:
            try:
                return self._on_table(action)
            except Exception as error:
                self._disconnect()
                if self._closed or not _is_temporary(error):
                    raise self._error(error) from error
                self._check_table()
                if not backoff.wait():
                    told = f"\nRetried for {self._retry_seconds:g} seconds (retry_timeout_ms)."
                    raise self._error(error, told) from error

    def _check_table(self) -> None:
        """Raises an error if the table is gone, which that of a write does not tell."""
        try:
            self._on_table(lambda table: table.families())
        except Exception as error:
            self._disconnect()
            if not _is_temporary(error):
                raise self._error(error) from error

    def _on_table(self, action: Callable[[Any], _T]) -> _T:
        if self._connection is None:
            options = self._options
            self._connection = driver().Connection(
                options.host,
                options.port,
                timeout=options.timeout_ms,
                transport=options.transport,
                protocol=options.protocol,
            )
        return action(self._connection.table(self._name))

    def _error(self, error: Exception, told: str = "") -> HBaseError:
        return error if isinstance(error, HBaseError) else HBaseError(f"{self}: {_reason(error)}{told}")


def driver() -> Any:
    """Returns the package happybase; the error says how to install it."""
    try:
        import happybase
    except ImportError as error:
        raise HBaseError("the package happybase is not installed: pip install 'flintstream[hbase]'") from error
    return happybase


def _send(table: Any, buffer: MutationBuffer) -> None:
    batch = table.batch()
    for row, cells in buffer.puts.items():
        batch.put(row, cells)
    for row, columns in buffer.deletes.items():
        batch.delete(row, columns)
    batch.send()


def _is_temporary(error: Exception) -> bool:
    """Returns whether the request may succeed a little later: nobody answers, or a region moves."""
    from thriftpy2.protocol.exc import TProtocolException
    from thriftpy2.transport import TTransportException

    if isinstance(error, (OSError, EOFError, TTransportException, TProtocolException)):
        return True
    return type(error).__name__ == "IOError" and not any(name in _reason(error) for name in _LASTING)


def _reason(error: Exception) -> str:
    """Returns the message of an error; of Java's, without its stack."""
    message = getattr(error, "message", None) or str(error)
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    return f"{type(error).__name__}: {' '.join(lines[:4])}"


def _text(column: bytes) -> str:
    return column.decode(errors="surrogateescape")
