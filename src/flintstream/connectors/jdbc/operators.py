"""The operators of JDBC sinks: the shared base class, and the at-least-once sink."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from flintstream.connectors.buffering import BufferingOperator
from flintstream.connectors.jdbc.databases import Database
from flintstream.connectors.jdbc.options import JdbcExecutionOptions
from flintstream.connectors.jdbc.rows import RowBinder
from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import UserCodeError, user_fault

Row = tuple[Any, ...]


class JdbcError(Exception):
    """A database could not be reached or refused a statement; the message says which."""


class JdbcOperator(BufferingOperator):
    """Batches rows; flushes when a batch is full, when rows have waited long enough, at checkpoints and at the end."""

    def __init__(self, binder: RowBinder, database: Database, execution: JdbcExecutionOptions) -> None:
        self._binder = binder
        self._database = database
        self._execution = execution

    def open(self) -> None:
        super().open()
        self._waiting: list[Row] = []

    def process(self, batch: Batch) -> None:
        try:
            self._waiting += self._binder.bind(batch.values)
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error
        self._flush_if_due()

    def _flush_if_due(self) -> None:
        """Flushes full batches, and everything when the oldest row has waited long enough."""
        size = self._execution.get_batch_size()
        if size and len(self._waiting) >= size:
            self._flush(size)
        interval = self._execution.get_batch_interval_ms()
        if interval and self._waiting and self._has_waited(interval):
            self._flush()

    def _flush(self, least: int = 1) -> None:
        """Flushes rows, a batch at a time; leaves fewer rows than `least`."""
        waiting, done = self._waiting, 0
        size = self._execution.get_batch_size() or len(waiting)
        try:
            while len(waiting) - done >= least:
                self._write(waiting[done : done + size])
                done += size
        finally:
            del waiting[:done]
        self._due = None

    @abstractmethod
    def _write(self, rows: list[Row]) -> None:
        """Writes the rows of a batch."""

    def _execute(self, cursor: Any, rows: list[Row], undo: Callable[[], None]) -> None:
        """Executes the statement with all rows. If one is refused, `undo` rolls back the others, and the error names
        it.
        """
        statement = self._binder.statement
        try:
            self._database.execute_all(cursor, statement, rows)
            return
        except Exception as error:
            if self._database.is_temporary(error):
                raise
        undo()
        # Row by row, to find the one at fault, or to find that none is any longer.
        for row in rows:
            try:
                cursor.execute(statement, row)
            except Exception as error:
                if self._database.is_temporary(error):
                    raise
                raise self._fault(error, row) from error

    def _fault(self, error: Exception, *row: Row) -> UserCodeError:
        """Returns the error that names the operator, the database, the statement and, if one is at fault, the row."""
        told = f"{self._database}: {type(error).__name__}: {str(error).strip()}\nStatement: {self._binder.sql}"
        return user_fault(JdbcError(told), self.context.name, self.context.subtask, *row)


class JdbcSinkOperator(JdbcOperator):
    """Writes each batch in its own transaction, and retries if needed: at least once."""

    def open(self) -> None:
        super().open()
        self._connection: Any = None
        try:
            self._connection = self._database.connect()
        except Exception as error:
            raise self._fault(error) from error

    def close(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._connection.close()

    def _write(self, rows: list[Row]) -> None:
        retries = self._execution.get_max_retries()
        for tried in range(retries + 1):
            try:
                self._write_once(rows)
                return
            except UserCodeError:
                raise
            except Exception as error:
                self._disconnect()
                if tried == retries or not self._database.is_temporary(error):
                    raise self._fault(error) from error
            time.sleep(tried)

    def _write_once(self, rows: list[Row]) -> None:
        if self._connection is None:
            self._connection = self._database.connect()
        connection, begin = self._connection, self._database.begin

        def undo() -> None:
            connection.rollback()
            begin(connection)

        begin(connection)
        self._execute(connection.cursor(), rows, undo)
        connection.commit()

    def _disconnect(self) -> None:
        """Drops a connection that may be lost; uncommitted changes are rolled back."""
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
        except Exception:  # The connection is lost.
            return
