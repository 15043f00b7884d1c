"""The operator of `JdbcSink.exactly_once_sink`: a transaction per checkpoint, committed when that is complete."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from flintstream.connectors.jdbc.databases import PostgreSql
from flintstream.connectors.jdbc.operators import JdbcOperator, Row
from flintstream.connectors.jdbc.options import JdbcExactlyOnceOptions, JdbcExecutionOptions
from flintstream.connectors.jdbc.rows import RowBinder
from flintstream.connectors.jdbc.transactions import (
    FoundTransaction,
    LostTransactionError,
    PreparedTransaction,
    PreparedTransactions,
    TransactionNames,
)
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.committing import CommittingOperator
from flintstream.runtime.state.operator_state import ListDescriptor

_ORIGIN = ListDescriptor("jdbc-transaction-origin")
"""The origins of all transactions that this job, and those from which it was restored, have named."""
_HELD_ROWS = 100_000
_log = logging.getLogger(__name__)
_LIMIT_WAITS = "SELECT set_config('lock_timeout', '60s', false) WHERE current_setting('lock_timeout') = '0'"
# The server notices within half a minute that this machine is down, and ends the session with its lock.
_KEEP_ALIVE = """
    SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '4', false)
"""


class ExactlyOnceJdbcOperator(CommittingOperator[PreparedTransaction], JdbcOperator):
    """Writes into a transaction of PostgreSQL, and prepares it at the checkpoint; the committable is its name.

    After a restore every subtask has the names of all pending transactions, so that each can identify the ones to sweep, at
    any parallelism. Those of the jobs from which this one was restored, under other ids, or which have the same transaction
    id prefix, are rolled back too, if these jobs are over: while a subtask is connected, it shares a lock of its job, which
    ends with the connection in any case.

    A prepared transaction keeps its locks. A statement that writes one of its rows again would wait for the commit, which
    happens only between two epochs: a deadlock. Therefore rows are buffered while a transaction is prepared, up to a limit;
    and a wait for a lock times out with an error, after which the job is restored from its last checkpoint.
    """

    committables = ListDescriptor("jdbc-prepared-transactions")
    shared = True

    def __init__(
        self,
        binder: RowBinder,
        database: PostgreSql,
        execution: JdbcExecutionOptions,
        exactly_once: JdbcExactlyOnceOptions,
    ) -> None:
        super().__init__(binder, database, execution)
        self._postgresql = database
        self._exactly_once = exactly_once
        self.goes_on_after_failure = exactly_once.allow_out_of_order_commits

    def open(self) -> None:
        try:
            super().open()
        except Exception as error:
            fault = self._fault(error)
            self.close()
            raise fault from error

    def connect(self) -> None:
        context = self.context
        job_id, attempt = context.runtime_context.get_job_id(), uuid.uuid4().hex[:12]
        self._origins = context.operator_state.get_union_list_state(_ORIGIN)
        origin = self._exactly_once.transaction_id_prefix or min(self._origins, default=job_id)

        def names_of(origin: str) -> TransactionNames:
            return TransactionNames(origin, context.operator_id, job_id, context.subtask, attempt)

        self._names = names_of(origin)
        self._all_names = [names_of(each) for each in sorted({origin, *self._origins})]
        self._in_transaction = False
        self._lost = False
        self._connection: Any = None
        self._prepared = PreparedTransactions(self._postgresql, self._exactly_once)
        self._prepared.check_server(context.parallelism)
        self._server = self._prepared.identity()
        self._connection = self._postgresql.connect(autocommit=True)
        self._connection.execute(_LIMIT_WAITS)
        self._connection.execute(_KEEP_ALIVE)
        # Before anything else: from now on no other job considers this one over and rolls back its transactions.
        self._connection.execute("SELECT pg_advisory_lock_shared(%s)", [self._names.lock_of(job_id)])

    def next_due(self) -> float | None:
        return None if self.pending else super().next_due()

    def finish(self) -> None:
        """Does nothing: the final checkpoint, which follows, writes the buffered rows."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self._flush_if_due()

    # --- committing ---

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[PreparedTransaction]:
        self._origins.update([names.origin for names in self._all_names])
        if not (self._in_transaction or self._lost):
            return []
        transaction = self._guarded(self._prepare, self._names.new(checkpoint_id))
        self._in_transaction = False
        return [transaction]

    def commit(self, committable: PreparedTransaction) -> None:
        try:
            self._prepared.commit(committable, restored=False)
        except Exception as error:
            raise self._fault(error) from error

    def recover(self, committable: PreparedTransaction) -> None:
        self._prepared.commit(committable, restored=True)

    def restored(self, elements: Sequence[PreparedTransaction]) -> list[tuple[int, PreparedTransaction]]:
        return [(transaction.checkpoint_id, transaction) for transaction in elements]

    def is_mine(self, committable: PreparedTransaction | FoundTransaction) -> bool:
        """Returns whether this subtask wrote it; those of subtasks that no longer exist are distributed."""
        return committable.subtask % self.context.parallelism == self.context.subtask

    def sweep(self, known: Sequence[PreparedTransaction]) -> None:
        """Rolls back the transactions of checkpoints that never completed."""
        if not self._exactly_once.recovered_and_rollback:
            return
        gids = {transaction.gid for transaction in known}
        for names in self._all_names:

            def unknown(names: TransactionNames = names) -> list[FoundTransaction]:
                found = self._prepared.find(names)
                return [each for each in found if each.gid not in gids and self.is_mine(each)]

            for job_id in sorted({transaction.job_id for transaction in unknown()}):
                self._roll_back(job_id, names.lock_of(job_id), unknown)

    def abort(self) -> None:
        """Closes the connections: what is not prepared is rolled back, what is prepared stays for the next attempt."""
        for connection in (getattr(self, "_connection", None), getattr(self, "_prepared", None)):
            if connection is not None:
                connection.close()

    def _roll_back(self, job_id: str, lock: int, unknown: Callable[[], list[FoundTransaction]]) -> None:
        """Rolls back the unknown transactions of a job, unless it is another job that is not over: it has the lock."""
        if job_id == self._names.job_id:
            claim: AbstractContextManager[bool] = nullcontext(True)
        else:
            claim = self._prepared.claimed(lock)
        with claim as claimed:
            # Listed again: the job may have committed some in the meantime, and prepared others.
            for transaction in unknown():
                if transaction.job_id == job_id and claimed:
                    self._prepared.roll_back(transaction.gid)
                elif transaction.job_id == job_id:
                    _log.warning(
                        "operator '%s': job %s, from which this one was restored or which has the same transaction id "
                        "prefix, is still connected to %s: its prepared transaction '%s' is left alone, and keeps its locks",
                        *(self.context.name, job_id, self._database, transaction.gid),
                    )

    def _flush_if_due(self) -> None:
        if not self.pending or len(self._waiting) >= _HELD_ROWS:
            super()._flush_if_due()

    def _write(self, rows: list[Row]) -> None:
        self._guarded(self._write_into_transaction, rows)

    def _write_into_transaction(self, rows: list[Row]) -> None:
        connection = self._connection
        if not self._in_transaction:
            connection.execute("BEGIN")
            self._in_transaction = True
        connection.execute("SAVEPOINT flint_batch")
        self._execute(connection.cursor(), rows, lambda: connection.execute("ROLLBACK TO SAVEPOINT flint_batch"))
        connection.execute("RELEASE SAVEPOINT flint_batch")

    def _prepare(self, transaction: PreparedTransaction) -> PreparedTransaction:
        from psycopg.sql import SQL

        (xid,) = self._connection.execute("SELECT txid_current()").fetchone()
        self._connection.execute(SQL("PREPARE TRANSACTION {}").format(transaction.gid))
        return transaction._replace(xid=xid, server=self._server)

    def _fault(self, error: Exception, *row: Row) -> UserCodeError:
        """Adds the holders to the error of a lock timeout. A lost transaction ends the job, since no restart would help."""
        from psycopg.errors import LockNotAvailable

        if isinstance(error, LostTransactionError):
            return user_fault(error, self.context.name, self.context.subtask)
        if not isinstance(error, LockNotAvailable):
            return super()._fault(error, *row)
        told = f"{str(error).strip()}\n{self._told_holders()}"
        return super()._fault(type(error)(told), *row)

    def _told_holders(self) -> str:
        try:
            holders = self._prepared.holders(self._binder.sql)
        except Exception as error:
            return f"The holder of the lock could not be determined: {error}"
        if not holders:
            return "No prepared transaction locks a table of the statement: another session holds the lock."
        advice = (
            "A transaction of this job waits for its checkpoint to complete: a row of the table must be written by one "
            "subtask only, so key_by its key before the sink."
            if any(holder.startswith(f"'{self._names.prefix}{self._names.job_id}:") for holder in holders)
            else "If the job that has prepared it is over, run ROLLBACK PREPARED with its name."
        )
        return f"Prepared transactions hold locks of the table: {'; '.join(holders)}. {advice}"

    def _guarded(self, call: Any, argument: Any) -> Any:
        """Calls a function that uses the transaction. After a failure it is lost, and only a restore recovers its rows."""
        if self._lost:
            raise self._fault(
                RuntimeError("the transaction was lost, and its rows with it: restore the last checkpoint")
            )
        self._lost = True
        try:
            result = call(argument)
        except UserCodeError:
            raise
        except Exception as error:
            raise self._fault(error) from error
        self._lost = False
        return result
