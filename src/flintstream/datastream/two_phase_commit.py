"""TwoPhaseCommitSinkFunction: base class of transactional sinks, which deliver exactly once."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from flintstream.common.serializer import TypeSerializer
from flintstream.common.time import to_millis
from flintstream.common.type_variables import IN, T
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Function
from flintstream.datastream.io_functions import RichSinkFunction, SinkFunction
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.two_phase_commit import Transactions, TwoPhaseCommitOperator

__all__ = ["TwoPhaseCommitSinkFunction"]

if TYPE_CHECKING:

    class _RichSink(Function, Generic[IN]):
        """A sink function without its `invoke`, which takes no transaction."""
else:
    _RichSink = RichSinkFunction


class TwoPhaseCommitSinkFunction(_RichSink[IN], Generic[IN, T]):
    """A transactional sink: its records become visible when a checkpoint completes, exactly once.

    A transaction is any picklable handle by which another process can find the transaction: a file name, a database's
    transaction id. It is stored in checkpoints::

        class Files(TwoPhaseCommitSinkFunction):
            def begin_transaction(self):
                return f"/data/out/.{uuid.uuid4()}"

            def invoke(self, transaction, value, context):
                with open(transaction, "a") as file:
                    file.write(f"{value}\\n")

            def pre_commit(self, transaction):
                pass  # each line is in the file already

            def commit(self, transaction):
                if os.path.exists(transaction):  # not there: no records, or committed before
                    os.rename(transaction, transaction.replace(".", ""))

            def abort(self, transaction):
                if os.path.exists(transaction):
                    os.remove(transaction)

    At each checkpoint the open transaction is pre-committed and a new one begun; when the checkpoint completes, it is
    committed. After a failure the transactions pre-committed in the last completed checkpoint are committed, perhaps
    **again**: `commit` must be idempotent. The transaction open at that checkpoint is aborted. The end of the input
    always takes a final checkpoint, even with checkpointing disabled.

    `open` is called first, so that connections are available. (In Flink it follows recovery.)

    :param transaction_serializer: how transactions become bytes; pickle unless given.
    :param context_serializer: how the user context becomes bytes; pickle unless given.
    """

    # Class attributes, so that a subclass need not call `super().__init__()`.
    transaction_serializer: TypeSerializer[Any] | None = None
    context_serializer: TypeSerializer[Any] | None = None
    transaction_timeout: int | None = None
    ignores_failures_after_timeout = False
    timeout_warning_ratio: float | None = None
    transactions: Transactions

    def __init__(
        self,
        transaction_serializer: TypeSerializer[Any] | TypeInformation | None = None,
        context_serializer: TypeSerializer[Any] | TypeInformation | None = None,
    ) -> None:
        super().__init__()
        self.transaction_serializer = checked_serializer("transaction_serializer", transaction_serializer)
        self.context_serializer = checked_serializer("context_serializer", context_serializer)

    # --- what a sink defines ---

    @abstractmethod
    def begin_transaction(self) -> T:
        """Begins a transaction and returns its handle."""

    @abstractmethod
    def invoke(self, transaction: T, value: IN, context: SinkFunction.Context) -> None:
        """Writes a record into the transaction; the `context` parameter may be omitted."""

    @abstractmethod
    def pre_commit(self, transaction: T) -> None:
        """Called when a checkpoint is taken: flush buffers and do everything that can fail, so that only `commit`
        remains.
        """

    @abstractmethod
    def commit(self, transaction: T) -> None:
        """Called when the checkpoint is complete: make the records visible. Must be idempotent."""

    @abstractmethod
    def abort(self, transaction: T) -> None:
        """Discards the transaction and everything written into it."""

    def recover_and_commit(self, transaction: T) -> None:
        """Commits a transaction of an earlier attempt, which may be committed already. An exception fails the job."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: T) -> None:
        """Aborts a transaction of an earlier attempt, which may be aborted already."""
        self.abort(transaction)

    def initialize_user_context(self) -> Any:
        """Returns further data to store in checkpoints, such as a pool of ids; None for none. Not called if one is
        restored.
        """
        return None

    def finish_recovering_context(self, handled_transactions: list[T]) -> None:
        """Called after a restore with the transactions that were committed or aborted, if there is a user context."""

    def finish_processing(self, transaction: T) -> None:
        """Called at the end of the input: flush buffers. The final checkpoint follows."""

    # --- what it may ask ---

    def get_user_context(self) -> Any:
        """Returns the user context: from `initialize_user_context`, or restored from the last checkpoint."""
        return self.transactions.user_context

    def current_transaction(self) -> T | None:
        """Returns the open transaction; None if there is none."""
        current = self.transactions.current
        return None if current is None else current.handle

    def pending_transactions(self) -> dict[int, T]:
        """Returns the transactions that wait for their checkpoint, by checkpoint id."""
        return {checkpoint: transaction.handle for checkpoint, transaction in self.transactions.pending}

    # --- settings ---

    def set_transaction_timeout(self, transaction_timeout: Any) -> TwoPhaseCommitSinkFunction[IN, T]:
        """Sets the time (milliseconds, or a Duration) after which the external system drops a transaction; none by
        default.
        """
        millis = to_millis(transaction_timeout)
        if millis < 0:
            raise ValueError(f"set_transaction_timeout: must be 0 or more, got {transaction_timeout!r}")
        self.transaction_timeout = millis
        return self

    def ignore_failures_after_transaction_timeout(self) -> TwoPhaseCommitSinkFunction[IN, T]:
        """Logs, instead of failing the job, a commit that fails after a restore past the time-out: its records are
        lost.
        """
        self.ignores_failures_after_timeout = True
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> TwoPhaseCommitSinkFunction[IN, T]:
        """Warns when a transaction is committed after this fraction (0 to 1) of its time-out."""
        if not isinstance(warning_ratio, (int, float)) or not 0 <= warning_ratio <= 1:
            raise ValueError(f"enable_transaction_timeout_warnings: must be between 0 and 1, got {warning_ratio!r}")
        self.timeout_warning_ratio = warning_ratio
        return self

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that runs this function in a slot."""
        return TwoPhaseCommitOperator(self)


def checked_serializer(what: str, given: Any) -> TypeSerializer[Any] | None:
    """Returns a serialiser, given as one or as a type; None if none is given."""
    if given is None or isinstance(given, TypeSerializer):
        return given
    if isinstance(given, TypeInformation):
        return given.create_serializer()
    raise TypeError(f"{what} must be a TypeSerializer or one of Types, got {given!r}")
