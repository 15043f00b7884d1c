"""Two-phase transactions of PostgreSQL: a prepared one outlives its connection until it is committed or rolled back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from flintstream.connectors.jdbc.databases import PostgreSql
from flintstream.connectors.jdbc.options import JdbcExactlyOnceOptions
from flintstream.runtime.faults import PermanentError

_CLAIM_TRIES = 50
_CLAIM_PAUSE_SECONDS = 0.1


class LostTransactionError(PermanentError):
    """A transaction of a checkpoint was rolled back by somebody else, and its rows are lost."""


class PreparedTransaction(NamedTuple):
    """A transaction that waits for its checkpoint to complete."""

    gid: str
    """Its name on the server."""
    subtask: int
    """The subtask that wrote it."""
    checkpoint_id: int
    xid: int | None = None
    """Its number on the server, for a query of its status."""
    server: str | None = None
    """The identity of the server; None if unknown."""


class FoundTransaction(NamedTuple):
    """A prepared transaction, parsed from its name."""

    gid: str
    job_id: str
    subtask: int


class TransactionNames:
    """Formats and parses the names of transactions: origin, operator, job, subtask, attempt and checkpoint.

    The origin is the prefix that the user has set, or else the first job of a chain of restores: by it every job with this
    prefix, or of the chain, finds the transactions of earlier ones, even of a job that ended before its first checkpoint.
    """

    def __init__(self, origin: str, operator_id: str, job_id: str, subtask: int, attempt: str) -> None:
        self.origin = origin
        self.job_id = job_id
        self.prefix = f"flint:{origin}:{operator_id}:"
        self._subtask = subtask
        self._attempt = attempt

    def new(self, checkpoint_id: int) -> PreparedTransaction:
        """Returns this subtask's transaction for a checkpoint."""
        gid = f"{self.prefix}{self.job_id}:{self._subtask}:{self._attempt}:{checkpoint_id}"
        return PreparedTransaction(gid, self._subtask, checkpoint_id)

    def read(self, gid: str) -> FoundTransaction | None:
        """Parses a name with this prefix; returns None if it is not one of ours."""
        parts = gid.removeprefix(self.prefix).split(":")
        if len(parts) != 4 or not parts[1].isdecimal():
            return None
        return FoundTransaction(gid, parts[0], int(parts[1]))

    def lock_of(self, job_id: str) -> int:
        """Returns the number of the advisory lock that the subtasks of a job share while they are connected."""
        digest = hashlib.sha256(f"{self.prefix}{job_id}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)


class PreparedTransactions:
    """Commits and rolls back prepared transactions, on a connection in autocommit mode."""

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

    def find(self, names: TransactionNames) -> list[FoundTransaction]:
        """Returns the prepared transactions of an operator, of all jobs of the origin, subtasks and attempts."""
        query = (
            "SELECT gid FROM pg_prepared_xacts "
            "WHERE database = current_database() AND left(gid, length(%(prefix)s)) = %(prefix)s ORDER BY gid"
        )
        found = self._connected().execute(query, {"prefix": names.prefix}).fetchall()
        return [read for read in (names.read(gid) for (gid,) in found) if read is not None]

    @contextmanager
    def claimed(self, lock: int) -> Iterator[bool]:
        """Tries to acquire a lock exclusively, which succeeds if no subtask of its job is connected; while it is held, none
        can connect. Waits for other subtasks that claim the lock too. Yields whether it was acquired.
        """
        connection = self._connected()
        claimed = False
        for tried in range(_CLAIM_TRIES):
            claimed = connection.execute("SELECT pg_try_advisory_lock(%s)", [lock]).fetchone()[0]
            if claimed:
                break
            if tried < _CLAIM_TRIES - 1:
                time.sleep(_CLAIM_PAUSE_SECONDS)
        try:
            yield claimed
        finally:
            if claimed and not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(%s)", [lock])

    def identity(self) -> str | None:
        """Returns the identity of the server, whatever its address; None if it is not accessible."""
        from psycopg import DatabaseError

        try:
            return str(self._connected().execute("SELECT system_identifier FROM pg_control_system()").fetchone()[0])
        except DatabaseError:
            if self._connection.closed:
                raise
            return None  # This user lacks the permission.

    def holders(self, statement: str) -> list[str]:
        """Returns descriptions of the prepared transactions that lock tables of a statement."""
        query = """
            SELECT x.gid, x.prepared, array_agg(DISTINCT c.relname::text) FROM pg_prepared_xacts x
            JOIN pg_locks own ON own.locktype = 'transactionid' AND own.transactionid = x.transaction AND own.granted
                AND own.mode = 'ExclusiveLock'
            JOIN pg_locks l ON l.virtualtransaction = own.virtualtransaction AND l.pid IS NULL AND l.locktype = 'relation'
            JOIN pg_class c ON c.oid = l.relation
            WHERE x.database = current_database() GROUP BY x.gid, x.prepared ORDER BY x.prepared
        """
        found = self._connected().execute(query).fetchall()
        return [
            f"'{gid}', prepared at {prepared:%Y-%m-%d %H:%M:%S%z}"
            for gid, prepared, tables in found
            if any(table.lower() in statement.lower() for table in tables)
        ]

    def commit(self, transaction: PreparedTransaction, restored: bool) -> None:
        """Commits a transaction. A restored one may have been committed before, and is then unknown to the server."""
        if not self._finish("COMMIT PREPARED {}", transaction.gid, may_be_gone=restored):
            self._check_committed(transaction)

    def _check_committed(self, transaction: PreparedTransaction) -> None:
        """Raises if a transaction that no longer exists was rolled back; the server remembers this for a long time."""
        if transaction.xid is None or transaction.server is None or transaction.server != self.identity():
            return
        status = self._connected().execute("SELECT txid_status(%s)", [transaction.xid]).fetchone()[0]
        if status == "aborted":
            raise LostTransactionError(
                f"transaction '{transaction.gid}' of checkpoint {transaction.checkpoint_id} was rolled back, by hand or by "
                "another job that was restored from an older checkpoint of this one, and its rows are lost. Restore a "
                "checkpoint or savepoint from before it"
            )

    def roll_back(self, gid: str) -> None:
        """Rolls back a transaction."""
        self._finish("ROLLBACK PREPARED {}", gid, may_be_gone=True)

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def _finish(self, command: str, gid: str, may_be_gone: bool) -> bool:
        """Commits or rolls back; returns False if the transaction no longer exists."""
        from psycopg.errors import UndefinedObject
        from psycopg.sql import SQL

        for tries in range(1, self._options.max_commit_attempts + 1):
            try:
                self._connected().execute(SQL(command).format(gid))
                return True
            except UndefinedObject:
                if may_be_gone:
                    return False
                raise
            except Exception as error:
                if tries == self._options.max_commit_attempts or not self._database.is_temporary(error):
                    raise
            may_be_gone = True  # Perhaps only the reply was lost.
            self._connection.close()
            time.sleep(tries - 1)
        raise AssertionError("the last try returns or raises")

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = self._database.connect(autocommit=True)
        return self._connection
