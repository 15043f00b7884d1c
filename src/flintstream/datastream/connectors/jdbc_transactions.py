"""Transactions of PostgreSQL in two phases: a prepared one outlives its connection until it is committed or rolled back."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from flintstream.datastream.connectors.jdbc_databases import PostgreSql
from flintstream.datastream.connectors.jdbc_options import JdbcExactlyOnceOptions


class PreparedTransaction(NamedTuple):
    """A transaction that waits for its checkpoint to complete."""

    gid: str
    """The name by which the server knows it."""
    subtask: int
    """The subtask that wrote it."""
    checkpoint_id: int


class TransactionNames:
    """Makes and reads the names of transactions: job, operator, subtask, attempt and checkpoint."""

    def __init__(self, job_id: str, operator_id: str, subtask: int, attempt: str) -> None:
        self.prefix = f"flint:{job_id}:{operator_id}:"
        self._subtask = subtask
        self._attempt = attempt

    def new(self, checkpoint_id: int) -> PreparedTransaction:
        """The name of this subtask's transaction for a checkpoint."""
        gid = f"{self.prefix}{self._subtask}:{self._attempt}:{checkpoint_id}"
        return PreparedTransaction(gid, self._subtask, checkpoint_id)

    def read(self, gid: str) -> PreparedTransaction:
        """What a name with this prefix says."""
        subtask, _, checkpoint_id = gid.removeprefix(self.prefix).split(":")
        return PreparedTransaction(gid, int(subtask), int(checkpoint_id))


class PreparedTransactions:
    """Commits and rolls back prepared transactions, by a connection that has no transaction of its own."""

    def __init__(self, database: PostgreSql, options: JdbcExactlyOnceOptions) -> None:
        self._database = database
        self._options = options
        self._connection: Any = None

    def check_server(self, parallelism: int) -> None:
        """Refuses a server that allows too few prepared transactions."""
        allowed = int(self._connected().execute("SHOW max_prepared_transactions").fetchone()[0])
        if allowed < parallelism:
            raise RuntimeError(
                f"exactly_once_sink needs a prepared transaction for each of its {parallelism} subtasks, and "
                f"max_prepared_transactions of the server is {allowed}: set it to {2 * parallelism} or more in "
                "postgresql.conf, and restart the server"
            )

    def find(self, names: TransactionNames) -> list[PreparedTransaction]:
        """The prepared transactions of an operator of a job, of all its subtasks and attempts."""
        query = (
            "SELECT gid FROM pg_prepared_xacts "
            "WHERE database = current_database() AND left(gid, length(%(prefix)s)) = %(prefix)s ORDER BY gid"
        )
        found = self._connected().execute(query, {"prefix": names.prefix}).fetchall()
        return [names.read(gid) for (gid,) in found]

    def commit(self, transactions: list[PreparedTransaction], restored: bool) -> None:
        """Commits transactions in order. Restored ones that the server does not know were committed before."""
        failure: Exception | None = None
        for transaction in transactions:
            try:
                self._finish("COMMIT PREPARED {}", transaction.gid, may_be_gone=restored)
            except Exception as error:
                if not self._options.allow_out_of_order_commits:
                    raise
                failure = failure or error
        if failure is not None:
            raise failure

    def roll_back(self, transaction: PreparedTransaction) -> None:
        """Takes a transaction back for good."""
        self._finish("ROLLBACK PREPARED {}", transaction.gid, may_be_gone=True)

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def _finish(self, command: str, gid: str, may_be_gone: bool) -> None:
        from psycopg.errors import UndefinedObject
        from psycopg.sql import SQL

        for attempt in range(1, self._options.max_commit_attempts + 1):
            try:
                self._connected().execute(SQL(command).format(gid))
                return
            except UndefinedObject:
                if may_be_gone:
                    return
                raise
            except Exception as error:
                if attempt == self._options.max_commit_attempts or not self._database.is_temporary(error):
                    raise
            may_be_gone = True  # What was lost may have been the answer alone.
            self._connection.close()
            time.sleep(attempt - 1)

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect(autocommit=True)
        return self._connection
